"""The PyFlink-compatible API: what users write.

``api.datastream`` and ``api.common`` mirror ``pyflink.datastream`` and ``pyflink.common``; a job moves by
replacing the word ``pyflink`` with ``api`` in its imports, or as it is with ``changelog-engine run``. Importing and
building run nothing; ``execute()`` loads the engine.
"""

from api._unsupported import module_getattr

__all__: list[str] = []

__getattr__ = module_getattr(__name__, {"fn_execution", "ml", "shell", "testing", "util", "version"})
