"""What Spark's data sources over a job's log have in common: options, columns, and how much one task does.

Only ``registering`` imports them: code that asks without Spark has no PySpark loaded.

Invariants:
    * What a DataFrame shows is decided when it is made: its checkpoint, and with it the schema, stay as they are.
    * Rows are those of the typed views; ``StateColumns.shown`` says which columns there are.
    * Options that nobody knows are errors, and so is another schema than the state's own.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import MutableMapping, Sequence

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState
from changelog_engine.history.names import TIMERS, quoted
from changelog_engine.history.state_columns import ViewColumn
from changelog_engine.ledger.described import described_operator, described_state

_FEW_ROWS = 20_000  # that one task folds by itself
_ROWS_OF_TASK = 250_000
_MOST_TASKS = 512


def checked_options(
    what: str, options: MutableMapping[str, str], must: Sequence[str], may: Sequence[str]
) -> dict[str, str]:
    """Options by their names in lower case."""
    known = {name.lower(): name for name in (*must, *may)}
    given = {name.lower(): value for name, value in dict(options).items()}
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)[0]
            raise ConfigurationError(
                f"{what} has no option {name!r}; did you mean {known[near]!r}? It has {', '.join(known.values())}"
            )
    missing = [name for name in must if not given.get(name.lower())]
    if missing:
        raise ConfigurationError(
            f"{what} needs the option {missing[0]!r}: .option({missing[0]!r}, ...), or OPTIONS ({missing[0]} '...') in SQL"
        )
    return given


def described_view(
    checkpoint: Checkpoint, operator: str, state: str
) -> tuple[DescribedOperator, DescribedState | None]:
    """What a checkpoint says of an operator and its state; None for the operator's timers."""
    described = described_operator(checkpoint, operator)
    if state == TIMERS and all(each.name != TIMERS for each in described.states):
        return described, None
    return described_state(checkpoint, operator, state)


def key_group_ranges(operator: DescribedOperator, rows: int) -> list[tuple[int, int]]:
    """Ranges of an operator's key groups, as many as the rows are worth."""
    groups = operator.max_parallelism
    least = 1 if rows < _FEW_ROWS else operator.parallelism
    tasks = min(groups, _MOST_TASKS, max(least, rows // _ROWS_OF_TASK))
    bounds = [groups * task // tasks for task in range(tasks + 1)]
    return list(itertools.pairwise(bounds))


class ColumnsSource(DataSource):
    """A data source whose options say which columns it has.

    Attributes:
        format: its name.
        columns: set by a subclass when it is made.
    """

    format: str
    columns: Sequence[ViewColumn]

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return cls.format

    def schema(self) -> str:
        """The columns as Spark's schemas are written."""
        return ", ".join(f"{quoted(column.name)} {column.type}" for column in self.columns)

    def check_schema(self, schema: StructType) -> None:
        """A schema that the user gave must be the source's own, as far as its names go."""
        names = [column.name for column in self.columns]
        if schema.fieldNames() != names:
            raise ConfigurationError(
                f"{self.format} has the columns {', '.join(names)}, not {', '.join(schema.fieldNames())}: leave out "
                ".schema(...)"
            )
