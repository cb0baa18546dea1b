"""Where state and output came from, found out by a replay; a running job does nothing for it. Re-exports only."""

from changelog_engine.provenance.explain import explain, explain_output, impact
from changelog_engine.provenance.result import (
    CodeLine,
    ExplainedMutation,
    ExplainedOutput,
    Explanation,
    FiredTimer,
    HeldEntry,
    KeyedElement,
    SourceRecord,
    UnknownCause,
)

__all__ = [
    "CodeLine",
    "ExplainedMutation",
    "ExplainedOutput",
    "Explanation",
    "FiredTimer",
    "HeldEntry",
    "KeyedElement",
    "SourceRecord",
    "UnknownCause",
    "explain",
    "explain_output",
    "impact",
]
