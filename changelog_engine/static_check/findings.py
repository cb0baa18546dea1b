"""What a check says: findings by file and line, and what was looked at.

Invariants:
    * An error is something that fails when its line runs; a warning differs from Flink; a note is for knowing.
    * What is not known is not claimed. It is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Level(Enum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One thing to know of one line."""

    level: Level
    file: str  # as the script was named, or relative to its folder
    line: int  # from 1
    message: str


@dataclass
class Report:
    """Everything that a check found."""

    files: list[str] = field(default_factory=list)  # the script, then the modules beside it that it imports
    findings: list[Finding] = field(default_factory=list)
    imports: set[tuple[str, int, str]] = field(default_factory=set)
    uses: set[tuple[str, int, int, str]] = field(default_factory=set)
    unknown: set[tuple[str, int, int]] = field(default_factory=set)

    def add(self, finding: Finding) -> None:
        """Note a finding, once."""
        if finding not in self.findings:
            self.findings.append(finding)

    def count(self, level: Level) -> int:
        """How many findings have a level."""
        return sum(finding.level is level for finding in self.findings)

    def in_order(self) -> list[Finding]:
        """The findings by file and line, of one line the worst first."""
        places = {name: index for index, name in enumerate(self.files)}
        levels = list(Level)
        return sorted(
            self.findings,
            key=lambda each: (places.get(each.file, len(places)), each.line, levels.index(each.level)),
        )
