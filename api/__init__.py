"""The PyFlink-compatible API: what users write.

``api.datastream`` and ``api.common`` mirror ``pyflink.datastream`` and ``pyflink.common``; a job moves by
replacing the word ``pyflink`` with ``api`` in its imports. Importing and building run nothing; ``execute()``
loads the engine.
"""

__all__: list[str] = []
