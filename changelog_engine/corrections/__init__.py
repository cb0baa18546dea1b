"""Corrections: entries of state that a person changed, in a fork whose log says who did and why. Re-exports only."""

from changelog_engine.corrections.fixes import DELETE, UNCHANGED, Correction, FixedEntry
from changelog_engine.corrections.repair import Repaired, repair

__all__ = ["Correction", "DELETE", "FixedEntry", "Repaired", "UNCHANGED", "repair"]
