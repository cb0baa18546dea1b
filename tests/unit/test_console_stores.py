"""Commands reach an object store by what the file of options says, as the job does that has its tables there."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from servers.s3 import S3Server
from support.functions import Count, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Script

from api.common.typeinfo import Types
from changelog_engine.cli import main
from changelog_engine.config.file import CONF_VARIABLE
from changelog_engine.storage.file_systems import options_in_use, use_options


def test_the_file_of_options_has_the_stores_keys(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = options_in_use()
    options = {"s3.endpoint": s3.endpoint, "s3.access-key": s3.access_key, "s3.secret-key": s3.secret_key}
    use_options(options)
    base = f"s3://{s3.create_bucket()}/jobs"
    graph = keyed_job(rounds(3, 9), Count(), key_type=Types.LONG(), name="job")
    TestJob(base, Script(sizes=(3,)), file_systems=options).run(graph)
    use_options({})
    file = tmp_path / "conf.yaml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in options.items()))
    monkeypatch.setenv(CONF_VARIABLE, str(file))
    shown = CliRunner().invoke(main, ["status", f"{base}/job"])
    assert shown.exit_code == 0, shown.output
    assert [line.split() for line in shown.output.splitlines() if " state " in line] == [
        ["state", "finished"]
    ]
    file.unlink()
    assert f"cannot read the file {file}" in CliRunner().invoke(main, ["status", f"{base}/job"]).output
    use_options(before)
