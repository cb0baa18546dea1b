"""Stateful stream processing whose state is event-sourced: the engine under ``api``.

Data flows through the packages in this order: ``graph`` plans stages, ``spark`` runs an epoch, ``connectors`` read
ranges, ``operators`` process them on ``state``, ``changelog`` logs every mutation, ``driver`` and ``ledger`` make it durable
through ``storage``.
"""

import typing

import changelog_engine.api_names  # noqa: F401  # lets changelog_engine.api be found, and pyflink where it was asked for
from changelog_engine.exported import exported as __getattr__  # noqa: F401  # Python asks it for the names below

if typing.TYPE_CHECKING:
    from changelog_engine.corrections.repair import repair
    from changelog_engine.provenance.explain import explain
    from changelog_engine.savepoints.bootstrap import bootstrap

__all__ = ["bootstrap", "explain", "repair"]
