"""Job folders: slugs that stay inside, foreign content that is left alone (reliability 41)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from hypothesis import given
from hypothesis import strategies as st

from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.errors import ConfigurationError, ForeignPathError, FormatVersionError, StorageError
from changelog_engine.ledger.job_folder import FORMAT_PROPERTY, job_slug, open_job_folder
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.delta_place import delta_place
from changelog_engine.storage.delta_tables import UserTable
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.protocol import Storage

HOSTILE = [
    "",
    ".",
    "..",
    "../../etc",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "x" * 300,
    "naïve ☕",
    "🦀" * 80,
    "it's",
    '"',
    "a b",
]
HOSTILE += [
    "-",
    "_",
    "_delta_log",
    "a%2Fb",
    "\0",
    "\n",
    "con.",
    "a" * 80,
    "~",
    "$HOME",
    "*",
    "a-0123456789",
]


@given(
    st.lists(
        st.one_of(st.text(st.characters(codec="utf-8"), max_size=350), st.sampled_from(HOSTILE)),
        unique=True,
        max_size=20,
    )
)
def test_slugs_are_distinct_and_plain(names: list[str]) -> None:
    slugs = [job_slug(name) for name in names]
    assert len(set(slugs)) == len(slugs)
    for slug in slugs:
        assert 0 < len(slug) <= 80
        assert slug[0].isalnum()
        assert set(slug) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
        assert job_slug(slug) != slug or slug in names


def test_a_name_cannot_take_the_folder_of_another() -> None:
    assert job_slug("word-count") == "word-count"
    assert job_slug(job_slug("a b")) != job_slug("a b")


@pytest.mark.parametrize("name", HOSTILE)
def test_folders_stay_below_the_base(tmp_path: Path, name: str) -> None:
    folder = open_job_folder(str(tmp_path / "base"), name)
    assert os.path.realpath(folder.storage.root).startswith(f"{tmp_path}/base/")
    assert os.listdir(tmp_path) == ["base"]
    assert open_job_folder(str(tmp_path / "base"), name).open_changelog().version == 0


def tree(path: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def refused(base: Path, error: type[StorageError], words: str) -> None:
    before = tree(base) if base.is_dir() else {}
    with pytest.raises(error, match=words):
        open_job_folder(str(base), "job")
    if base.is_dir():
        assert tree(base) == before


def test_foreign_content_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", ForeignPathError, "is a file")
    (tmp_path / "b1").mkdir()
    (tmp_path / "b1" / "job").write_text("x")
    refused(tmp_path / "b1", ForeignPathError, "job is a file")
    (tmp_path / "b2" / "job").mkdir(parents=True)
    (tmp_path / "b2" / "job" / "thesis.tex").write_text("x")
    refused(tmp_path / "b2", ForeignPathError, "thesis")
    (tmp_path / "b3" / "job" / "changelog").mkdir(parents=True)
    (tmp_path / "b3" / "job" / "changelog" / "data.csv").write_text("x")
    refused(tmp_path / "b3", ForeignPathError, "data.csv")
    DeltaTable.create(
        str(tmp_path / "b4" / "job" / "changelog"), Schema.from_arrow(pa.schema([("a", pa.int64())]))
    )
    refused(tmp_path / "b4", ForeignPathError, "is a Delta table, but no changelog")
    DeltaTable.create(str(tmp_path / "b5" / "job"), Schema.from_arrow(SCHEMA))
    refused(tmp_path / "b5", ForeignPathError, "_delta_log")
    other = open_job_folder(str(tmp_path / "b6"), "other").storage.root
    os.rename(other, tmp_path / "b6" / "job")
    refused(
        tmp_path / "b6",
        ForeignPathError,
        "belongs to the job 'other' and not to 'job'.*changelog-engine fork",
    )


def test_newer_format_is_refused_with_both_numbers(tmp_path: Path) -> None:
    DeltaTable.create(
        str(tmp_path / "job" / "changelog"),
        Schema.from_arrow(SCHEMA),
        configuration={FORMAT_PROPERTY: "7"},
        raise_if_key_not_exists=False,
    )
    refused(tmp_path, FormatVersionError, "format 7.*up to 1")


def test_unwritable_base_is_named() -> None:
    with pytest.raises(StorageError, match="/proc/nowhere"):
        open_job_folder("/proc/nowhere", "job")


def test_leftovers_of_a_crash_while_creating_are_no_obstacle(tmp_path: Path) -> None:
    log = tmp_path / "job" / "changelog" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json#1").write_text("half")
    (tmp_path / "job" / "driver.lock").write_text("{}")
    assert open_job_folder(str(tmp_path), "job").open_changelog().version == 0


@pytest.mark.parametrize("odd", ["a%20b", "a%2fb", "a\\b", "a\nb"])
def test_no_path_means_another_folder_to_the_library_that_reads_delta_tables(
    tmp_path: Path, odd: str
) -> None:
    """delta-rs would read the table of ``a b`` for that of ``a%20b``."""
    base = tmp_path / odd
    for other in ("a b", "a/b"):
        open_job_folder(str(tmp_path / other), "job")
    base.mkdir()
    (tmp_path / "link").symlink_to(base)
    for named in (base, tmp_path / "link"):
        with pytest.raises(ConfigurationError, match=r"cannot hold a Delta table: the library .* takes '.*'"):
            open_job_folder(str(named), "job")
        with pytest.raises(ConfigurationError, match="cannot hold a Delta table"):
            UserTable.exists(str(named / "table"))
    assert not any(base.iterdir())
    shutil.copytree(tmp_path / "a b" / "job" / "changelog", base, dirs_exist_ok=True)
    with pytest.raises(ConfigurationError, match="cannot hold a Delta table"):
        DeltaLog(LocalDisk(str(base))).files()


@pytest.mark.parametrize("odd", ["a%b", "%", "50%", "a b", "a#b", "a?b", "a:b", "'", "é"])
def test_other_paths_hold_a_job(tmp_path: Path, odd: str) -> None:
    folder = open_job_folder(str(tmp_path / odd), "job")
    assert folder.open_changelog().files().num_rows == 0
    assert DeltaTable(str(tmp_path / odd / "job" / "changelog")).version() == 0


def test_no_key_of_an_object_store_means_another(tmp_path: Path) -> None:
    """There ``a%20b`` in a URI is ``a b`` to all, and ``a%2520b`` is ``a%20b`` to all but delta-rs."""

    def place(uri: str) -> str:
        return delta_place(cast(Storage, SimpleNamespace(local=None, root=uri)))

    for sound in ("s3://bucket/a%20b", "s3://key:se%2520cret@bucket/a", "s3://bucket/a%b\\c"):
        assert place(sound) == sound
    with pytest.raises(ConfigurationError, match="'s3://bucket/a%20b' cannot hold a Delta table") as refused:
        place("s3://key:secret@bucket/a%2520b")
    assert "secret" not in str(refused.value)
