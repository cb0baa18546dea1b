"""What of a program will work here and what not, said without running it."""

from changelog_engine.static_check.findings import Finding, Level, Report
from changelog_engine.static_check.program import NotReadableError, check_program

__all__ = ["Finding", "Level", "NotReadableError", "Report", "check_program"]
