"""One reading of a program: its modules, what they are bound to, and where findings go."""

from __future__ import annotations

import ast
import functools
import os
from dataclasses import dataclass, field

from changelog_engine.errors import ChangelogEngineError
from changelog_engine.static_check.bound_names import bound_nowhere
from changelog_engine.static_check.findings import Finding, Level, Report
from changelog_engine.static_check.knowledge import Knowledge
from changelog_engine.static_check.modules import ModulePath
from changelog_engine.static_check.values import Missing, ProgramFunction, ProgramModule, Scope


@dataclass(frozen=True)
class SourceFile:
    """A file of the program."""

    name: str  # full name of the module; ``__main__`` of the script
    path: str
    tree: ast.Module
    folder: str | None = None

    @functools.cached_property
    def bound_nowhere(self) -> frozenset[str]:
        """See there."""
        return bound_nowhere(self.tree)

    def package(self) -> list[str]:
        """The parts of the name of the package that relative imports begin from."""
        parts = [] if self.name == "__main__" else self.name.split(".")
        return parts if self.folder is not None else parts[:-1]


class NotReadableError(ChangelogEngineError):
    """A file of the program that cannot be read, or is not Python."""


class Sources:
    """The files of a program, each read once."""

    def __init__(self, script: str) -> None:
        self.path = ModulePath(os.path.dirname(os.path.realpath(script)))
        self._shown = os.path.dirname(script)
        self._folder = os.path.dirname(os.path.realpath(script))
        self._read: dict[str, SourceFile] = {}
        self.main = SourceFile("__main__", script, parsed(script, script))

    def beside(self, name: str) -> SourceFile | None:
        """A module beside the script; None when there is none."""
        if name not in self._read:
            found = self.path.beside(name)
            if found is None:
                return None
            file, folder = found
            shown = os.path.join(self._shown, os.path.relpath(file or folder or "", self._folder))
            tree = parsed(file, shown) if file else ast.Module([], [])
            self._read[name] = SourceFile(name, shown, tree, folder)
        return self._read[name]


def parsed(file: str, shown: str) -> ast.Module:
    """The code of a file.

    Raises:
        NotReadableError: the file cannot be read, or is not Python.
    """
    try:
        with open(file, "rb") as opened:
            return ast.parse(opened.read(), filename=file)
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""
        raise NotReadableError(f"{shown}{line}: not Python: {error.msg}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise NotReadableError(f"{shown}: cannot be read: {error}") from None


@dataclass
class Reading:
    """What all walks of one reading share."""

    sources: Sources
    before: Knowledge
    learnt: Knowledge = field(default_factory=Knowledge)
    report: Report = field(default_factory=Report)
    modules: dict[str, ProgramModule] = field(default_factory=dict)
    waiting: list[tuple[ProgramFunction, SourceFile, bool]] = field(default_factory=list)
    missing_at: dict[tuple[str, str], Finding] = field(default_factory=dict)
    missing_in: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    path_changes: bool = False  # the program changes its own import path
    brings_files: bool = False  # the job brings modules of its own to the workers

    def add(self, level: Level, source: SourceFile, line: int, message: str) -> Finding:
        """Note a finding."""
        finding = Finding(level, source.path, line, " ".join(message.split()))
        self.report.add(finding)
        return finding

    def missing(self, name: str, finding: Finding | None) -> Missing:
        """What stands for a name that is not here, and the finding that was said of it, if any was."""
        if finding is not None:
            self.missing_at.setdefault((finding.file, name), finding)
        return Missing(name)

    def scope_of(self, source: SourceFile) -> Scope:
        """A new scope for a module."""
        if source.path not in self.report.files:
            self.report.files.append(source.path)
        return Scope()
