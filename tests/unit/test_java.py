"""Which Java Spark will be started with, by its own word or by that of the file beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from changelog_engine.errors import EnvironmentNotReadyError
from changelog_engine.java import check_java


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that says that it is version 21, and notes that it was asked."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"""#!/bin/sh
touch {tmp_path}/asked
echo 'openjdk version "21.0.1"' >&2
""")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    return java


@pytest.mark.parametrize("written", ['JAVA_VERSION="17.0.15"', 'IMPLEMENTOR="x"\nJAVA_VERSION="25"\n'])
def test_the_file_beside_java_is_believed(java: Path, tmp_path: Path, written: str) -> None:
    (java.parents[1] / "release").write_text(written)
    assert check_java(runs=False) == int(written.partition('VERSION="')[2][:2])
    assert not (tmp_path / "asked").exists()
    assert check_java() == 21
    assert (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    "written", [None, b"", b"JAVA_VERSION=17", b'JAVA_VERSION="x"', b"\xff\xfe", b'JAVA_VERSION="11.0.2"']
)
def test_java_is_asked_where_that_file_does_not_say_that_it_will_do(
    java: Path, tmp_path: Path, written: bytes | None
) -> None:
    if written is not None:
        (java.parents[1] / "release").write_bytes(written)
    assert check_java(runs=False) == 21
    assert (tmp_path / "asked").exists()


def test_an_old_java_is_refused(java: Path) -> None:
    (java.parents[1] / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    java.write_text(java.read_text().replace("21.0.1", "1.8.0_402"))
    for runs in (False, True):
        with pytest.raises(EnvironmentNotReadyError, match="is Java 8"):
            check_java(runs)


def test_what_java_says_on_standard_output_is_told(java: Path) -> None:
    """As where the working directory was removed."""
    java.write_text("#!/bin/sh\necho Could not determine current working directory; exit 1\n")
    with pytest.raises(EnvironmentNotReadyError, match="gave no version: Could not determine current"):
        check_java()


@pytest.mark.parametrize("runs", [False, True])
def test_a_user_without_a_name_is_told_before_a_jvm_starts(
    java: Path, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    """Spark says "basedir must be absolute: ?/.ivy2.5.2/local", or "Invalid UID, could not determine effective user"."""
    (java.parents[1] / "release").write_text('JAVA_VERSION="17.0.15"')
    monkeypatch.setattr(os, "geteuid", lambda: 2_000_000_123)
    with pytest.raises(
        EnvironmentNotReadyError, match=r"user id 2000000123.*echo spark:x:2000000123:0"
    ) as told:
        check_java(runs)
    assert "--without-spark" in told.value.remedy
