"""Stateful stream processing whose state is event-sourced: the engine under ``api``.

Data flows through the packages in this order: ``graph`` plans stages, ``spark`` runs an epoch, ``connectors`` read
ranges, ``operators`` process them on ``state``, ``changelog`` logs every mutation, ``driver`` and ``ledger`` make it durable
through ``storage``.
"""

import changelog_engine.api_names  # noqa: F401  # lets changelog_engine.api be found, and pyflink where it was asked for
