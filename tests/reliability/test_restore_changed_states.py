"""Reliability case 26: state descriptors changed between two runs of a job."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.functions import Last
from support.programs import KEYS, Program, Versions
from support.script import Failure, Fault

from api.common import Row, Time
from api.common.typeinfo import Types
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from changelog_engine.graph.descriptions import DescribedState
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.replay.job import replay_graph
from changelog_engine.savepoints.writer import create_savepoint
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

CHANGELOG = pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
SETTINGS = [
    pytest.param({"changelog": True}, id="changelog"),
    pytest.param({"changelog": False}, id="snapshots"),
    pytest.param({"changelog": True, "state_backend": "rocksdb"}, id="rocksdb"),
]
AT_ONCE = Retention(history_ms=0, grace_ms=0)


def values(*names: str, value_type: Any = None) -> Any:
    """Descriptors of value states."""
    kept = value_type or Types.LONG()
    return lambda: [ValueStateDescriptor(name, kept) for name in names]


def compact(base: Path) -> None:
    """A snapshot of the newest checkpoint; the log before it goes."""
    folder = find_job_folder(str(base), "job")
    assert materialize(folder) is not None
    truncate(folder, AT_ONCE)


def described(base: Path, name: str, checkpoint: int | None = None) -> DescribedState:
    """A state as a checkpoint (None: the newest) describes it."""
    lineage = Lineage(find_job_folder(str(base), "job").open_changelog())
    row = lineage.newest_checkpoint() if checkpoint is None else lineage.checkpoint(checkpoint)
    assert row is not None
    return next(state for operator in row.operators for state in operator.states if state.name == name)


@CHANGELOG
@pytest.mark.parametrize("parallelism", [1, 2])
def test_case_26_a_new_state_starts_empty(tmp_path: Path, changelog: bool, parallelism: int) -> None:
    versions = Versions(tmp_path, changelog=changelog)
    versions.run(Program(values("old"), int))
    first = versions.run(Program(values("old", "new"), int), parallelism)
    assert first == {key: {"old": 10 + key, "new": None} for key in range(KEYS)}
    first = versions.run(Program(values("new", "old"), int))
    assert first == {key: {"old": 25 + key, "new": 25 + key} for key in range(KEYS)}


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (("total",), ("sum",), r"begin empty: sum\. .* are there: total\. .* changelog\.restore=\d"),
        (("a", "b", "c"), ("b", "d", "e"), r"begin empty: d, e\. .* are there: a, c\."),
        (("a",), ("a", "b"), None),  # a new one
        (("a", "b"), ("a",), None),  # one that is no longer asked for
        (("a", "b"), ("b", "a"), None),
    ],
)
def test_case_26_a_state_that_may_be_a_renamed_one_is_told(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    parallelism: int,
    before: tuple[str, ...],
    after: tuple[str, ...],
    told: str | None,
) -> None:
    versions = Versions(tmp_path)
    versions.run(Program(values(*before), int))
    assert not caplog.records
    for turn in range(2):  # then the new states are in the checkpoint
        versions.run(Program(values(*after), int), parallelism)
        warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
        assert len(warnings) == (told is not None)
        assert told is None or re.search(told, warnings[0]), turn


@pytest.mark.parametrize(
    ("changelog", "compacts"),
    [(True, False), (True, True), (False, False)],
    ids=["changelog", "compacted changelog", "snapshots"],
)
@pytest.mark.parametrize("copied", [False, True])
def test_case_26_a_removed_state_is_kept(
    tmp_path: Path, changelog: bool, compacts: bool, copied: bool
) -> None:
    """Two versions of the program don't know it, snapshots and a savepoint are made meanwhile, the next declares it."""
    versions = Versions(tmp_path / "job", changelog=changelog)
    versions.run(Program(values("stays", "goes"), int))
    versions.run(Program(values("stays"), int), 2)
    if compacts:
        compact(tmp_path / "job")
    versions.run(Program(values("stays"), int), 1)
    restore = "auto"
    if copied:
        folder = find_job_folder(str(tmp_path / "job"), "job")
        newest = Lineage(folder.open_changelog()).newest_checkpoint()
        assert newest is not None
        restore = create_savepoint(folder, newest, str(tmp_path / "savepoints")).path
        shutil.rmtree(tmp_path / "job")
    first = versions.run(Program(values("stays", "goes"), int), 2, restore=restore)
    assert first == {key: {"stays": 40 + key, "goes": 10 + key} for key in range(KEYS)}


@CHANGELOG
@pytest.mark.parametrize("parallelism", [1, 2])
def test_case_26_a_removed_state_is_dropped_when_asked(
    tmp_path: Path, changelog: bool, parallelism: int
) -> None:
    def kept() -> list[Any]:
        return [
            ValueStateDescriptor("value", Types.LONG()),
            ListStateDescriptor("list", Types.LONG()),
            MapStateDescriptor("map", Types.LONG(), Types.LONG()),
            ValueStateDescriptor("stays", Types.LONG()),
        ]

    versions = Versions(tmp_path, changelog=changelog)
    versions.run(Program(kept, int))
    removed = {"changelog": changelog, "drop_removed_state": True}
    versions.run(Program(values("stays"), int), parallelism, epochs=1, **removed)
    folded = state_at(versions.job.table())
    assert list(folded.states) == [("process", "stays")]
    if changelog:  # the mutations are in the log, and so is what was there before
        compact(tmp_path)
        assert state_at(versions.job.table()).states["process", "stays"] != {}
    first = versions.run(Program(kept, int))
    empty = {"value": None, "list": [], "map": {}}
    assert first == {key: {**empty, "stays": 15 + key} for key in range(KEYS)}


def test_case_26_dropping_leaves_older_checkpoints_alone(tmp_path: Path) -> None:
    """The checkpoint before has the state still, and can be restored."""
    versions = Versions(tmp_path)
    versions.run(Program(values("stays", "goes"), int))
    versions.run(Program(values("stays"), int), drop_removed_state=True)
    first = versions.run(Program(values("stays", "goes"), int), restore="3")
    assert first == {key: {"stays": 10 + key, "goes": 10 + key} for key in range(KEYS)}


def test_case_26_a_dropped_state_may_come_back_with_another_type(tmp_path: Path) -> None:
    """In the same run, declared by an element: no subtask compares it with what was dropped, rows or no rows."""
    versions = Versions(tmp_path)
    versions.run(Program(values("goes"), int))
    late = Program(values("goes", value_type=Types.STRING()), str, frozenset(range(KEYS)))
    first = versions.run(late, 16, drop_removed_state=True)
    assert first == {key: {"goes": None} for key in range(KEYS)}
    first = versions.run(Program(values("goes", value_type=Types.STRING()), str))
    assert first == {key: {"goes": str(25 + key)} for key in range(KEYS)}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("lost", [False, True])
def test_case_26_a_state_begins_anew_in_any_form(
    tmp_path: Path, settings: dict[str, Any], lost: bool
) -> None:
    """A later run declares one with the name of a dropped one, of another type or kind: the log has the rows of both."""
    pairs = Types.TUPLE([Types.STRING(), Types.LONG()])

    def before() -> list[Any]:
        one = ValueStateDescriptor("one", Types.DOUBLE())
        return [one, MapStateDescriptor("two", Types.LONG(), Types.LONG())]

    def after() -> list[Any]:
        return [ValueStateDescriptor("one", pairs), ListStateDescriptor("two", pairs)]

    def pair(number: int) -> tuple[str, int]:
        return "n", number

    versions = Versions(tmp_path)
    versions.run(Program(before, {"one": float, "two": int}), **settings)
    versions.run(Program(list), drop_removed_state=True, epochs=1, **settings)
    if lost:  # in the middle of the run, so that what it wrote itself is restored
        assert versions.job.progress is not None
        versions.job.progress.waiting.append(Failure(versions.job.progress.epoch + 1, Fault.GONE))
    first = versions.run(Program(after, pair), **settings)
    assert first == {key: {"one": None, "two": []} for key in range(KEYS)}
    first = versions.run(Program(after, pair), 2, **settings)
    numbers = {key: [20 + key, 25 + key, 30 + key] for key in range(KEYS)}
    assert first == {
        key: {"one": ("n", written[-1]), "two": [("n", number) for number in written]}
        for key, written in numbers.items()
    }
    if settings["changelog"]:
        folded = state_at(versions.job.table(), 7)
        assert folded.states["process", "one"] == {key: ("n", at[-1]) for key, at in numbers.items()}


def all_kinds(kept: Any, migration: Any = None, ttl: bool = False, map_key: Any = None) -> Any:
    """Descriptors of the five kinds, of one type."""

    def make() -> list[Any]:
        found = [
            ValueStateDescriptor("value", kept),
            ListStateDescriptor("list", kept),
            MapStateDescriptor("map", map_key or Types.INT(), kept),
            ReducingStateDescriptor("reducing", lambda before, value: value, kept),
            AggregatingStateDescriptor("aggregating", Last(), kept),
        ]
        for descriptor in found:
            if migration is not None:
                descriptor.set_migration(migration)
            if ttl:
                descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        return found

    return make


def expected(numbers: list[int], value: Any) -> dict[str, Any]:
    """What the five hold after the numbers of a key; ``value`` makes the value of a number."""
    last = value(numbers[-1])
    entries = {number % 3: value(number) for number in numbers}
    listed = [value(number) for number in numbers]
    return {"value": last, "list": listed, "map": entries, "reducing": last, "aggregating": last}


def numbers_of(key: int, epochs: int) -> list[int]:
    """The numbers of a key's elements in the first epochs."""
    return [key + KEYS * epoch for epoch in range(epochs)]


NAMED = Types.ROW_NAMED(["a"], [Types.INT()])
WIDENINGS = {
    "int to long": (Types.INT(), Types.LONG(), int, int),
    "byte to big int": (Types.BYTE(), Types.BIG_INT(), int, int),
    "int to double": (Types.INT(), Types.DOUBLE(), int, float),
    "float to double": (Types.FLOAT(), Types.DOUBLE(), float, float),
    "tuple to any object": (
        Types.TUPLE([Types.INT(), Types.STRING()]),
        Types.PICKLED_BYTE_ARRAY(),
        lambda n: (n, "x"),
        lambda n: (n, "x"),
    ),
    "row with a new field": (
        NAMED,
        Types.ROW_NAMED(["a", "b"], [Types.DOUBLE(), Types.STRING()]),
        lambda n: Row(a=n),
        lambda n: Row(a=float(n), b=None),
    ),
    "tuple with a new field": (
        Types.TUPLE([Types.INT()]),
        Types.TUPLE([Types.INT(), Types.LIST(Types.INT())]),
        lambda n: (n,),
        lambda n: (n, None),
    ),
    "elements": (
        Types.LIST(Types.INT()),
        Types.LIST(Types.DOUBLE()),
        lambda n: [n, None],
        lambda n: [float(n), None],
    ),
    "map values": (
        Types.MAP(Types.INT(), Types.FLOAT()),
        Types.MAP(Types.LONG(), Types.DOUBLE()),
        lambda n: {n: 0.5},
        lambda n: {n: 0.5},
    ),
}


def of_all_types(position: int, ttl: bool) -> Any:
    """Descriptors of the five kinds, of the old (0) or the new (1) type of each widening."""

    def make() -> list[Any]:
        found = []
        for how, types in WIDENINGS.items():
            for descriptor in all_kinds(types[position], None, ttl, (Types.INT(), Types.LONG())[position])():
                descriptor.name = f"{how}: {descriptor.name}"
                found.append(descriptor)
        return found

    return make


def written(position: int) -> dict[str, Any]:
    """What makes the values, by the state's name."""
    kinds = expected([0], lambda number: number)
    return {f"{how}: {kind}": types[2 + position] for how, types in WIDENINGS.items() for kind in kinds}


@pytest.mark.parametrize("ttl", [False, True])
@pytest.mark.parametrize("settings", SETTINGS)
def test_case_26_a_type_grows(tmp_path: Path, ttl: bool, settings: dict[str, Any]) -> None:
    """Values come back converted, from the log of both types, from a snapshot, and in the next run again."""

    def wanted(epochs: int) -> str:
        """By key, in the order of the descriptors."""
        found: dict[int, dict[str, Any]] = {key: {} for key in range(KEYS)}
        for key, states in found.items():
            for how, types in WIDENINGS.items():
                for kind, value in expected(numbers_of(key, epochs), types[3]).items():
                    states[f"{how}: {kind}"] = value
        return repr(found)

    versions = Versions(tmp_path, **settings)
    versions.run(Program(of_all_types(0, ttl), written(0)))
    grown = Program(of_all_types(1, ttl), written(1))
    assert repr(versions.run(grown, 2, epochs=1)) == wanted(3)
    assert repr(versions.run(grown, epochs=1)) == wanted(4)
    if settings["changelog"]:
        compact(tmp_path)
    assert repr(versions.run(grown, epochs=1)) == wanted(5)


def test_case_26_types_by_checkpoint(tmp_path: Path) -> None:
    """Each checkpoint tells the type that its state has; the log has the converted values as mutations of the first."""
    versions = Versions(tmp_path)
    versions.run(Program(values("kept", value_type=Types.INT()), int))
    versions.run(Program(values("kept", value_type=Types.DOUBLE()), None))
    assert described(tmp_path, "kept", 3).value_type == Types.INT().spec()
    now = described(tmp_path, "kept")
    assert now.value_type == Types.DOUBLE().spec()
    assert now.since == 4
    assert not now.earlier
    assert [commit.rows for commit in versions.job.commits] == [5, 5, 5, 5, 0, 0]
    assert repr(dict(state_at(versions.job.table(), 3).states["process", "kept"])) == repr(
        {key: 10 + key for key in range(KEYS)}
    )
    assert repr(dict(state_at(versions.job.table()).states["process", "kept"])) == repr(
        {key: 10.0 + key for key in range(KEYS)}
    )


def test_case_26_text_that_stays_is_not_written_again(tmp_path: Path) -> None:
    versions = Versions(tmp_path)
    versions.run(Program(values("kept", value_type=Types.INT()), int))
    versions.run(Program(values("kept"), None), epochs=1)
    assert [commit.rows for commit in versions.job.commits[3:]] == [0]


REFUSED = {
    "narrower": (Types.LONG(), Types.INT(), int),
    "inexact": (Types.LONG(), Types.DOUBLE(), int),
    "another": (Types.STRING(), Types.LONG(), str),
    "undeclared": (Types.PICKLED_BYTE_ARRAY(), Types.LONG(), int),
    "a field less": (Types.TUPLE([Types.INT(), Types.INT()]), Types.TUPLE([Types.INT()]), lambda n: (n, n)),
    "a field renamed": (
        NAMED,
        Types.ROW_NAMED(["b"], [Types.INT()]),
        lambda n: Row(a=n),
    ),
    "elements": (Types.LIST(Types.LONG()), Types.LIST(Types.INT()), lambda n: [n]),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PRIMITIVE_ARRAY(Types.INT()), lambda n: b"x"),
}


@CHANGELOG
@pytest.mark.parametrize("how", REFUSED)
def test_case_26_an_incompatible_type_is_refused_by_name(tmp_path: Path, how: str, changelog: bool) -> None:
    old, new, before = REFUSED[how]
    versions = Versions(tmp_path, changelog=changelog)
    versions.run(Program(values("kept", value_type=old), before))
    words = str(versions.refused(Program(values("kept", value_type=new)), 2))
    assert words.startswith(
        f"state 'kept' of operator 'process' was written with value type {old.name} and is declared with value type "
        f"{new.name}: "
    )
    assert "set_migration(function)" in words
    assert "changelog.restore=none" in words
    first = versions.run(Program(values("kept", value_type=old), before))
    assert first == {key: {"kept": before(10 + key)} for key in range(KEYS)}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: [ListStateDescriptor("map", Types.LONG())], "with kind map.* declared with kind list"),
        (
            lambda: [MapStateDescriptor("map", Types.STRING(), Types.LONG())],
            "with map key type INT and is declared with map key type STRING",
        ),
        (
            lambda: [ValueStateDescriptor("map", Types.LONG()).set_migration(int)],
            "with kind map.* declared with kind value",
        ),
    ],
    ids=["kind", "map key", "a migration changes no kind"],
)
def test_case_26_another_kind_is_refused(tmp_path: Path, make: Any, words: str) -> None:
    versions = Versions(tmp_path)
    versions.run(Program(lambda: [MapStateDescriptor("map", Types.INT(), Types.LONG())], int))
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(str(versions.refused(Program(make))))


def test_case_26_the_type_of_keys_is_refused_by_the_driver(tmp_path: Path) -> None:
    """Before an attempt begins; the message names operator and both types."""
    versions = Versions(tmp_path)
    versions.run(Program(values("kept"), int))
    attempts = Lineage(find_job_folder(str(tmp_path), "job").open_changelog()).newest_attempt_id
    for key_type, name in ((Types.INT(), "INT"), (None, r"PICKLED_BYTE_ARRAY \(undeclared\)")):
        words = str(versions.refused(Program(values("kept")), more={"key_type": key_type}))
        assert words.startswith("operator 'process' (uid 'process') has keys of type ")
        with pytest.raises(AssertionError, match=f"type {name}, but in checkpoint 3 they are LONG"):
            raise AssertionError(words)
    assert Lineage(find_job_folder(str(tmp_path), "job").open_changelog()).newest_attempt_id == attempts


@pytest.mark.parametrize(
    ("ttl", "new_type"),
    [(False, Types.STRING()), (True, Types.LIST(Types.STRING()))],
    ids=["text", "list with a time to live"],
)
@pytest.mark.parametrize("settings", SETTINGS)
def test_case_26_a_migration_converts_each_value(
    tmp_path: Path, ttl: bool, settings: dict[str, Any], new_type: Any
) -> None:
    def after(number: int) -> Any:
        return f"n{number}" if new_type == Types.STRING() else [f"n{number}"]

    versions = Versions(tmp_path, **settings)
    versions.run(Program(all_kinds(Types.LONG(), ttl=ttl), int))
    changed = all_kinds(new_type, after, ttl)
    wanted = {key: expected(numbers_of(key, 3), after) for key in range(KEYS)}
    assert versions.run(Program(changed, after), 3, epochs=1) == wanted
    wanted = {key: expected(numbers_of(key, 4), after) for key in range(KEYS)}
    assert versions.run(Program(changed, after), 2, epochs=1) == wanted
    if settings["changelog"]:
        compact(tmp_path)
    wanted = {key: expected(numbers_of(key, 5), after) for key in range(KEYS)}
    assert versions.run(Program(all_kinds(new_type, ttl=ttl), after), epochs=1) == wanted


def test_case_26_an_older_checkpoint_has_the_older_type(tmp_path: Path) -> None:
    versions = Versions(tmp_path)
    versions.run(Program(all_kinds(Types.LONG()), int))
    versions.run(Program(all_kinds(Types.STRING(), str), str))
    first = versions.run(Program(all_kinds(Types.LONG()), int), restore="2")
    assert first == {key: expected(numbers_of(key, 2), int) for key in range(KEYS)}
    first = versions.run(Program(all_kinds(Types.STRING(), str), str), restore="5")
    assert first == {key: expected(numbers_of(key, 5), str) for key in range(KEYS)}


@CHANGELOG
def test_case_26_a_migration_drops_what_it_returns_none_for(tmp_path: Path, changelog: bool) -> None:
    def even(number: int) -> str | None:
        return None if number % 2 else str(number)

    versions = Versions(tmp_path, changelog=changelog)
    versions.run(Program(all_kinds(Types.LONG()), int))
    changed = all_kinds(Types.STRING(), even)
    wanted = {}
    for key in range(KEYS):
        numbers = numbers_of(key, 3)
        kept = [str(number) for number in numbers if not number % 2]
        last = even(numbers[-1])
        entries = {number % 3: str(number) for number in numbers if not number % 2}
        wanted[key] = {"value": last, "list": kept, "map": entries, "reducing": last, "aggregating": last}
    assert versions.run(Program(changed), epochs=1) == wanted
    assert versions.run(Program(changed), 2, epochs=1) == wanted
    if changelog:
        compact(tmp_path)
        assert versions.run(Program(changed), epochs=1) == wanted


def test_case_26_a_migration_that_fails_names_operator_state_and_key(tmp_path: Path) -> None:
    def fails(number: int) -> str:
        raise ValueError(f"no {number}")

    versions = Versions(tmp_path)
    versions.run(Program(all_kinds(Types.LONG()), int))

    def changed() -> list[Any]:
        return [MapStateDescriptor("map", Types.INT(), Types.STRING()).set_migration(fails)]

    words = str(versions.refused(Program(changed)))
    assert words.startswith(
        "state 'map' of operator 'process', key 0, map key 0: its value can't be brought from LONG to STRING: "
        "ValueError: no 0"
    )
    wrong = all_kinds(Types.STRING(), lambda number: number)
    words = str(versions.refused(Program(wrong)))
    assert "what it returned is declared STRING but got 10 of type int" in words
    first = versions.run(Program(all_kinds(Types.LONG())))
    assert first == {key: expected(numbers_of(key, 3), int) for key in range(KEYS)}


@CHANGELOG
def test_case_26_a_state_that_only_some_subtasks_declare(tmp_path: Path, changelog: bool) -> None:
    """The other key groups stay in the earlier type, over checkpoints, other parallelisms and snapshots."""
    versions = Versions(tmp_path, changelog=changelog)
    versions.run(Program(all_kinds(Types.LONG()), int))
    texts = all_kinds(Types.STRING(), str)
    versions.run(Program(texts, None, frozenset([0])), 3)
    entry = described(tmp_path, "list")
    assert entry.value_type == Types.STRING().spec()
    assert [version.value_type for version in entry.earlier] == [Types.LONG().spec()]
    assert entry.since == 4
    listed = state_at(versions.job.table()).states["process", "list"]
    kinds = {type(value) for values in dict(listed).values() for value in values}
    assert kinds == {str, int}
    versions.run(Program(values("other")), 2)
    if changelog:
        compact(tmp_path)
    versions.run(Program(texts, None, frozenset([1])), 5)
    marked = all_kinds(Types.LIST(Types.STRING()), lambda found: [f"<{found}>"])
    first = versions.run(Program(marked), 4)
    assert first == {key: expected(numbers_of(key, 3), lambda n: [f"<{n}>"]) for key in range(KEYS)}
    assert not described(tmp_path, "list").earlier


def test_case_26_a_replay_across_a_migration(tmp_path: Path) -> None:
    """From before the change: the same mutations with the changed program, and a readable difference earlier on."""
    versions = Versions(tmp_path)
    versions.run(Program(all_kinds(Types.LONG()), int))
    changed = Program(all_kinds(Types.STRING(), str), str)
    versions.run(changed, 2)
    graph = versions.graph(changed, 2)
    report = replay_graph(graph, versions.job.settings, 3, 6)
    assert report.equal, str(report)
    assert report.recorded == report.replayed > 0
    report = replay_graph(graph, versions.job.settings, 2, 4)
    assert not report.equal
    assert "put" in str(report)


def test_case_26_rows_of_both_types_are_in_the_log(tmp_path: Path) -> None:
    """Text that is no number is still in the log when the state has become a number; nothing was compacted."""
    versions = Versions(tmp_path)
    versions.run(Program(all_kinds(Types.STRING()), lambda number: f"n{number}"))
    numbers = all_kinds(Types.DOUBLE(), lambda text: float(text[1:]))
    versions.run(Program(numbers, float), 2, epochs=1)
    for epochs, parallelism in ((4, 3), (5, 1)):
        first = versions.run(Program(numbers, float), parallelism, epochs=1)
        assert first == {key: expected(numbers_of(key, epochs), float) for key in range(KEYS)}
    folded = state_at(versions.job.table())
    assert folded.states["process", "list"][1] == numbers_of(1, 6)
