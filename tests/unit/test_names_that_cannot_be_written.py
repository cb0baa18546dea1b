"""Lone surrogates in names and paths: refused where the name comes in, before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.functions import Count
from support.graphs import keyed_job
from support.jobs import TestJob

from api.common import Configuration, Types
from api.datastream import OutputTag, StreamExecutionEnvironment
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from changelog_engine.config.names import writable
from changelog_engine.errors import ConfigurationError
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.savepoints.folder import new_savepoint
from changelog_engine.savepoints.forks import fork_job

BAD = "half\ud83d"


def _stream() -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([1], Types.INT()).map(lambda value: value, Types.INT())


CALLS: dict[str, Callable[[str], Any]] = {
    "uid": lambda name: _stream().uid(name),
    "name": lambda name: _stream().name(name),
    "description": lambda name: _stream().set_description(name),
    "slot sharing group": lambda name: _stream().slot_sharing_group(name),
    "job name": lambda name: _stream().execute_and_collect(name),
    "job name of execute_async": lambda name: (
        stream := _stream(),
        stream.print(),
        stream._environment.execute_async(name),
    ),
    "side output": OutputTag,
    "value state": lambda name: ValueStateDescriptor(name, Types.INT()),
    "list state": lambda name: ListStateDescriptor(name, Types.INT()),
    "map state": lambda name: MapStateDescriptor(name, Types.INT(), Types.INT()),
    "field of a row": lambda name: Types.ROW_NAMED([name], [Types.INT()]),
    "option": lambda name: Configuration().set_string("pipeline.name", name),
    "key of an option": lambda name: Configuration().set_string(name, "x"),
    "text file": lambda name: StreamExecutionEnvironment.get_execution_environment().read_text_file(name),
    "checkpoint folder": lambda name: (
        StreamExecutionEnvironment.get_execution_environment()
        .get_checkpoint_config()
        .set_checkpoint_storage_dir(name)
    ),
    "savepoint folder": lambda name: (
        StreamExecutionEnvironment.get_execution_environment().set_default_savepoint_directory(name)
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_case_57_a_name_with_a_lone_surrogate_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be written as UTF-8: character 5 of 'half\\ud83d'"):
        CALLS[name](BAD)


@pytest.mark.parametrize("base", ["", BAD])
def test_case_57_a_job_leaves_no_folder_behind(tmp_path: Path, base: str) -> None:
    job = TestJob(tmp_path / base, None) if base else TestJob(tmp_path)
    graph = keyed_job([(1, 1)], Count(), key_type=Types.LONG(), name="job" if base else BAD)
    with pytest.raises(ConfigurationError, match="cannot be written as UTF-8"):
        job.run(graph)
    assert not list(tmp_path.iterdir())


def test_case_57_forks_and_savepoints(tmp_path: Path) -> None:
    job = TestJob(tmp_path)
    job.run(keyed_job([(1, 1)], Count(), key_type=Types.LONG()))
    before = sorted(tmp_path.rglob("*"))
    folder = find_job_folder(str(tmp_path), "job")
    for path, name in [
        (str(tmp_path / "fork"), BAD),
        (str(tmp_path / BAD), None),
        (str(tmp_path / BAD / "fork"), None),
    ]:
        with pytest.raises(ConfigurationError, match="cannot be written as UTF-8"):
            fork_job(folder, job.commits[-1], path, name)
    with pytest.raises(ConfigurationError, match="the path cannot be written"):
        new_savepoint(str(tmp_path / BAD), "abc", "job")
    assert sorted(tmp_path.rglob("*")) == before


def test_names_in_any_script_pass() -> None:
    for name in ("wörter", "数", "🙂", "a b/c"):
        assert writable(name, "the name") is name
