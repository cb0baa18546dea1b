"""The console command ``changelog-engine``."""

from changelog_engine.cli.program import main

__all__ = ["main"]
