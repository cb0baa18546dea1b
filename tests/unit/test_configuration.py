"""Options: notation, levels, old names, spelling mistakes."""

from __future__ import annotations

import threading
from unittest import mock

import pytest

from changelog_engine.config import (
    OPTIONS,
    ConfigLayers,
    absolute_path,
    canonical,
    find,
    local_path,
    options,
    outer_layers,
    parse_bool,
    parse_duration_ms,
    parse_float,
    parse_int,
    parse_map,
    parse_memory_bytes,
    read_file,
    set_command_line,
)
from changelog_engine.driver.control import JobControl
from changelog_engine.errors import ConfigurationError
from materializer.schedule import Schedule


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("500 ms", 500),
        ("10 min", 600_000),
        ("10min", 600_000),
        ("1 s", 1000),
        ("7 d", 7 * 86_400_000),
        ("2 h", 7_200_000),
        ("250", 250),
        ("1500 us", 1),
        ("3 SECONDS", 3000),
        ("PT1M30S", 90_000),
        ("PT0.5S", 500),
        ("P1DT1H", 90_000_000),
        ("0", 0),
    ],
)
def test_durations_of_every_notation(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "ms", "1.5 s", "-1 s", "10 parsecs", "P", "1 s 2 ms"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    "option", [options.HISTORY_RETENTION, options.TRUNCATION_GRACE], ids=lambda each: each.key
)
def test_an_age_after_which_something_is_deleted_has_its_unit(option: options.Option) -> None:
    """A 7 that means days would delete the history that is older than 7 milliseconds."""
    assert [option.parse(text) for text in ("7 d", "0", "7 ms", "PT7S")] == [604_800_000, 0, 7, 7_000]
    with pytest.raises(
        ConfigurationError, match=f"option '{option.key}': 7 has no unit: write 7d, 7h, 7m or 7s"
    ):
        option.parse("7")


@pytest.mark.parametrize(
    ("text", "size"),
    [("64 mb", 64 << 20), ("64mb", 64 << 20), ("1g", 1 << 30), ("4096", 4096), ("2 KiB", 2048)],
)
def test_memory_sizes_of_every_notation(text: str, size: int) -> None:
    assert parse_memory_bytes(text) == size


def test_no_memory_size() -> None:
    with pytest.raises(ValueError, match="expected a memory size"):
        parse_memory_bytes("64 furlongs")


def test_flags_and_numbers_are_read_and_others_refused() -> None:
    assert parse_bool(" TRUE ") is True
    assert parse_bool("false") is False
    assert parse_int(" 7 ") == 7
    assert parse_float("1.5") == 1.5
    assert parse_float("1.0E20") == 1e20
    assert parse_float("-Infinity") == float("-inf")
    for parse in (parse_bool, parse_int, parse_float):
        for text in ("maybe", "", "1_000", "nan", "inf"):
            with pytest.raises(ValueError, match="expected"):
                parse(text)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("restart-strategy.fixed-delay.attempts", "2147483648", "must be at most 2147483647"),
        ("restart-strategy.fixed-delay.delay", "9223372036854775808", "must be at most 9223372036854775807"),
        ("restart-strategy.fixed-delay.delay", "999999999999999 d", "must be at most 9223372036854775807"),
        ("state.backend.rocksdb.thread.num", "1001", "must be at most 1000"),
        ("changelog.rocksdb.min-blob-size", "9000000000 gb", "must be at most 9223372036854775807"),
        ("restart-strategy.exponential-delay.backoff-multiplier", "NaN", "expected a finite number"),
        ("restart-strategy.exponential-delay.jitter-factor", "Infinity", "expected a finite number"),
    ],
)
def test_numbers_that_no_clock_and_no_library_takes(key: str, text: str, message: str) -> None:
    option = find(key)
    assert option is not None
    with pytest.raises(ConfigurationError, match=f"option '{key}': {message}, got '{text}'"):
        option.parse(text)


def test_the_longest_delay_can_be_waited_for() -> None:
    """The error of a wait that is too long took the place of the error for which a job restarts."""
    option = find("restart-strategy.fixed-delay.delay")
    assert option is not None
    longest_ms = option.parse("9223372036854775807")
    control = JobControl(None, mock.Mock(), mock.Mock())
    begun = threading.Timer(0.01, control.stop)
    begun.start()
    control.wait(longest_ms)
    begun.join()
    assert control.stopping


def test_a_materializer_that_waits_for_the_longest_time_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    died: list[object] = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    schedule = Schedule(mock.Mock(), 2**63 - 1, None, 0, mock.Mock(), list)
    schedule.start()
    schedule.stop()
    assert not died


def test_maps_are_read_with_quotes_and_colons() -> None:
    assert parse_map("a:1, b:2") == {"a": "1", "b": "2"}
    assert parse_map("path:'c:/x,y'") == {"path": "c:/x,y"}
    assert parse_map("url:http://x") == {"url": "http://x"}
    assert parse_map("") == {}
    with pytest.raises(ValueError, match="pairs"):
        parse_map("a")
    with pytest.raises(ValueError, match="left open"):
        parse_map("a:'b")


def test_every_option_has_a_doc_and_a_name_of_its_own() -> None:
    names = [name for option in OPTIONS for name in (option.key, *option.older)]
    assert len(names) == len(set(names))
    assert all(option.doc.endswith(".") for option in OPTIONS)
    assert all(find(name) is not None for name in names)


def test_older_names_become_the_newest() -> None:
    assert canonical({"state.backend.changelog.enabled": "true"}, "x") == {"state.changelog.enabled": "true"}
    both = {"state.checkpoints.dir": "old", "execution.checkpointing.dir": "new"}
    assert canonical(both, "x") == {"execution.checkpointing.dir": "new"}
    assert canonical(dict(reversed(both.items())), "x") == {"execution.checkpointing.dir": "new"}


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("state.changelog.enable", "state.changelog.enabled"),
        ("changelog.restor", "changelog.restore"),
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("restart-strategy.fixed-delay.attempt", "restart-strategy.fixed-delay.attempts"),
        ("state.backend.typ", "state.backend.type"),
        ("changelog.base.path", "state.changelog.dstl.dfs.base-path"),
        ("changelog.storage", "state.changelog.storage"),
        ("restart-strategy.attempts", "restart-strategy.fixed-delay.attempts"),
    ],
)
def test_a_spelling_mistake_names_the_nearest_key(key: str, near: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"unknown option '{key}' in the file f: did you mean '{near}'"
    ):
        canonical({key: "1"}, "the file f")


def test_other_keys_are_kept() -> None:
    entries = {
        "taskmanager.memory.size": "1g",
        "spark.master": "local[2]",
        "state.changelog.dstl.dfs.compression.enabled": "true",
        "state.backend.rocksdb.block.cache-size": "1 mb",
    }
    assert canonical(entries, "x") == entries


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("execution.checkpointing.interval", "soon", "expected a duration"),
        ("state.changelog.enabled", "maybe", "expected true or false"),
        ("state.backend.type", "forst", "expected one of"),
        ("parallelism.default", "0", "at least 1"),
        ("state.changelog.storage", "memory", "filesystem"),
    ],
)
def test_a_bad_value_names_its_key(key: str, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as error:
        canonical({key: text}, "x")
    assert key in str(error.value)


def test_code_over_command_line_over_file_over_default() -> None:
    option = options.CHECKPOINT_TIMEOUT
    file = {option.key: "3 s"}
    command_line = {option.key: "2 s"}
    assert ConfigLayers().get(option) == 600_000
    assert ConfigLayers(file=file).get(option) == 3000
    assert ConfigLayers(command_line=command_line, file=file).get(option) == 2000
    assert ConfigLayers({option.key: "1 s"}, command_line, file).get(option) == 1000
    assert not ConfigLayers().is_set(option)
    merged = ConfigLayers({"spark.a": "code"}, {}, {"spark.a": "file", "spark.b": "file", "c": "x"})
    assert merged.spark() == {"spark.a": "code", "spark.b": "file"}


def test_command_line_seam() -> None:
    try:
        set_command_line({"state.backend": "hashmap"})
        assert outer_layers({}).text("state.backend.type") == "hashmap"
        with pytest.raises(ConfigurationError, match="the command line"):
            set_command_line({"changelog.nonsense": "1"})
        assert outer_layers({}).text("state.backend.type") == "hashmap"
    finally:
        set_command_line({})
    assert outer_layers({}) == ConfigLayers()


def test_a_file_is_read_flat_or_nested(tmp_path) -> None:
    pytest.importorskip("yaml")
    path = tmp_path / "conf.yaml"
    path.write_text(
        "state.changelog.enabled: true\n"
        "execution:\n  checkpointing:\n    interval: 2 s\n    dir: null\n"
        "spark:\n  master: local[2]\n"
        "list: [a, 1]\n"
    )
    assert read_file(str(path)) == {
        "state.changelog.enabled": "true",
        "execution.checkpointing.interval": "2 s",
        "spark.master": "local[2]",
        "list": "a;1",
    }
    layers = outer_layers({"CHANGELOG_ENGINE_CONF": str(path)})
    assert layers.get(options.CHECKPOINT_INTERVAL) == 2000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", "'key: value' lines"),
        ("a: [", "not YAML"),
        ("a.b: 1\na:\n  b: 2\n", "twice"),
        ("a.b: 1\nc: 2\na.b: 3\n", "gives 'a.b' twice"),
        ("a:\n  b: 1\n  b: 1\n", "gives 'b' twice"),
    ],
)
def test_an_unusable_file_is_named(tmp_path, text: str, message: str) -> None:
    pytest.importorskip("yaml")
    path = tmp_path / "conf.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message) as error:
        outer_layers({"CHANGELOG_ENGINE_CONF": str(path)})
    assert str(path) in str(error.value)


def test_missing_and_empty_file(tmp_path) -> None:
    pytest.importorskip("yaml")
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_file(str(tmp_path / "none.yaml"))
    (tmp_path / "empty.yaml").write_text("")
    assert read_file(str(tmp_path / "empty.yaml")) == {}


def test_base_paths_become_absolute(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_path("./data") == str(tmp_path / "data")
    assert absolute_path("file:///a/b%20c") == "/a/b c"
    assert absolute_path("file:/a") == "/a"
    assert absolute_path("s3://bucket/x") == "s3://bucket/x"
    assert local_path("hdfs://host/x") is None
    assert local_path("name with: colon") is not None


def test_a_relative_path_where_the_working_directory_was_removed(tmp_path, monkeypatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(
        ConfigurationError, match=r"'\./data' begins at the folder .* removed: name an absolute path"
    ):
        absolute_path("./data")
    assert absolute_path("/data") == "/data"
