"""The page runs the job's program to say which record made a change: a hostile job, a changed and an endless one."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from changelog_engine import explain
from changelog_engine.api.common import Configuration, Types, WatermarkStrategy
from changelog_engine.api.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from changelog_engine.api.datastream.state import ValueStateDescriptor
from changelog_engine.cli.ui import page_server
from changelog_engine.clock import monotonic_s
from changelog_engine.testing import At, Checkpoint, ScriptedSource, Watermark, without_spark
from changelog_engine.ui.explaining import AskedChange, CannotExplainError, Explainer, Program, _answer_in

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCRIPT = "<script>alert(1)</script>"
PROGRAM = """
import pathlib, subprocess, sys, time
from changelog_engine.api.common import Types
from changelog_engine.api.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from changelog_engine.api.datastream.state import ValueStateDescriptor

here = pathlib.Path(__file__).parent
print("<b>noise</b>", sys.argv[1:])
if (here / "endless").exists():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with (here / "children").open("a") as file:
        file.write(f"{child.pid}\\n")
    time.sleep(600)


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, word, ctx):
        number = (self.count.value() or 0) + 1
        self.count.update(number + (here / "changed").exists())  # <script>alert(2)</script>
        ctx.timer_service().register_processing_time_timer(4_102_444_800_000 + number)
        yield word


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.enable_checkpointing(1000).enable_changelog_state_backend(True)
words = env.from_collection(["to", "be", "<script>alert(1)</script>", "to"], Types.STRING())
words.key_by(lambda word: word, Types.STRING()).process(Count(), Types.STRING()).uid("<i>count").print()
env.execute(sys.argv[1])
"""

KILLED = """
import asyncio, sys
from changelog_engine.ui.explaining import AskedChange, Explainer, Program
path = sys.argv[1].rpartition("/")[0] + "/changelog-data/words"
change = AskedChange("words", path, "<i>count", "count", "to", 1)
asyncio.run(Explainer(Program(sys.argv[1], ("words",))).explain(change, asyncio.Event().wait))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A program whose job, called as its argument says, has run."""
    found = tmp_path / "words.py"
    found.write_text(PROGRAM)
    command = [sys.executable, "-m", "changelog_engine", "run", "-q", "--without-spark", str(found), "words"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120, capture_output=True)
    return found


def change(script: Path, **more: Any) -> AskedChange:
    asked = {
        "job": "words",
        "path": str(script.parent / "changelog-data" / "words"),
        "operator": "<i>count",
        "state": "count",
        "key": "to",
        "checkpoint": 1,
    }
    return AskedChange(**{**asked, **more})


def children(script: Path) -> list[int]:
    """What endless programs started."""
    noted = script.parent / "children"
    return [int(line) for line in noted.read_text().split()] if noted.exists() else []


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def run_on(script: Path) -> list[int]:
    """Those that still run, once the kernel has had time to end them."""
    until = monotonic_s() + 30
    while (left := [pid for pid in children(script) if runs(pid)]) and monotonic_s() < until:
        time.sleep(0.01)
    return left


async def never() -> None:
    await asyncio.Event().wait()


@pytest.mark.slow
def test_a_replay_is_bounded_and_nothing_of_it_stays(script: Path):
    async def asked() -> None:
        explainer = Explainer(Program(str(script), ("words",)), timeout_s=60)
        found = await explainer.explain(change(script), never)
        assert [each["value"] for each in found["mutations"]] == [1, 2]
        timers = await explainer.explain(change(script, state="(processing time timers)"), never)
        assert [each["operation"] for each in timers["mutations"]] == ["register_timer"] * 2
        with pytest.raises(CannotExplainError, match="ended with status 2 without an answer") as refused:
            await explainer.explain(change(script, job="another"), never)
        assert "the program executes no job 'another'" in refused.value.said
        assert "<b>noise</b>" in refused.value.said
        strange = await explainer.explain(change(script, key="--help"), never)
        assert strange["mutations"] == []

        (script.parent / "endless").touch()
        slow = Explainer(Program(str(script), ("words",)), timeout_s=2)
        with pytest.raises(CannotExplainError, match="took over 2 s"):
            await slow.explain(change(script), never)
        assert run_on(script) == []

        before = len(children(script))
        first = asyncio.ensure_future(explainer.explain(change(script), never))
        await asyncio.sleep(0)
        with pytest.raises(CannotExplainError, match="another change is being explained"):
            await explainer.explain(change(script), never)
        until = monotonic_s() + 120
        while len(children(script)) == before and monotonic_s() < until:
            await asyncio.sleep(0.05)
        first.cancel()  # as when the server ends
        await asyncio.wait([first])
        assert len(children(script)) == before + 1
        assert run_on(script) == []

        asker = subprocess.Popen([sys.executable, "-c", KILLED, str(script)])
        while len(children(script)) == before + 1 and monotonic_s() < until:
            await asyncio.sleep(0.05)
        asker.kill()
        asker.wait()
        assert len(children(script)) == before + 2
        assert run_on(script) == [], "a page that is killed leaves nothing"
        (script.parent / "endless").unlink()
        assert (await explainer.explain(change(script), never))["equal"]

    asyncio.run(asked())


def test_half_an_answer_is_none(tmp_path: Path):
    """As where the disk was full."""
    answer = tmp_path / "answer.json"
    for half in ('{"equal": tr', "", "[1]", "[" * 100_000):
        answer.write_text(half)
        with pytest.raises(CannotExplainError, match="only a part of its answer"):
            _answer_in(answer, 1, "")


@pytest.fixture
def page(script: Path) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    server = page_server(str(script.parent / "changelog-data"), script=str(script), arguments=("words",))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page()
        opened.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        opened.goto(server.address.url)
        yield opened
        browser.close()
    server.stop()
    thread.join(30)
    assert wrong == []


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_the_button_says_which_record(page: Any, script: Path):
    address = page.url.split("?")[0]
    page.goto(f"{address}?key=to")
    buttons = page.locator("button[data-explain][data-state=count]")
    buttons.last.click()
    page.wait_for_selector(".answer .cause.record", timeout=60_000)
    answer = page.locator(".answer").inner_text()
    assert "record 'to' at 0 of split 'collection'" in answer
    assert "record 'to' at 3 of split 'collection'" in answer
    assert "words.py:22 process_element()" in answer
    assert "# <script>alert(2)</script>" in answer
    assert "it had read" in answer
    assert "changelog-engine explain" in page.locator("tr.explained .command code").inner_text()

    page.goto(f"{address}?key={SCRIPT}")
    buttons.last.click()
    page.wait_for_selector(".answer .cause.record", timeout=60_000)
    assert f"record {SCRIPT!r} at 2" in page.locator(".answer").inner_text()
    assert page.locator("main script, main b b, main i").count() == 0

    (script.parent / "changed").touch()
    buttons.last.click()  # folds it
    buttons.last.click()
    page.wait_for_selector(".answer .note:has-text('Not explained')", timeout=60_000)
    assert page.locator(".answer .cause").count() == 0

    (script.parent / "endless").touch()
    buttons.last.click()
    buttons.last.click()
    page.wait_for_selector("tr.explained button:has-text('Cancel')").click()
    page.wait_for_selector("tr.explained :text('Cancelled.')")
    (script.parent / "endless").unlink()
    (script.parent / "changed").unlink()
    page.goto(f"{address}?key=be")
    buttons.last.click()
    page.wait_for_selector(".answer .cause.record", timeout=60_000)
    assert run_on(script) == []

    asked = urllib.request.Request(f"{address}/explain", data=b"key=to", method="POST")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(asked, timeout=20)
    own = {"Origin": address.split("/job/")[0], "X-Changelog-Engine": "explain"}
    for body in (b"key=%00&checkpoint=1", b"x" * 200_000, b"checkpoint=%3Cscript%3E"):
        asked = urllib.request.Request(f"{address}/explain", data=body, method="POST", headers=own)
        with urllib.request.urlopen(asked, timeout=20) as answered:
            assert b'class="error"' in (told := answered.read())
            assert b"<script" not in told


class Reminds(KeyedProcessFunction):
    """Counts, and counts on when its timer fires."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: Any) -> Any:
        self.count.update(1)
        ctx.timer_service().register_event_time_timer(5)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield ctx.get_current_key()


def test_other_keys_timers_stay_out_of_an_explanation(tmp_path: Path) -> None:
    """Those of its key group that a checkpoint had fired, without their states."""

    def program() -> None:
        configuration = Configuration()
        configuration.set_string("state.changelog.dstl.dfs.base-path", str(tmp_path))
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(1).set_max_parallelism(1)
        env.enable_checkpointing(10).enable_changelog_state_backend(True)
        script = ScriptedSource([At("b", 0), At("a", 0), Checkpoint(), Watermark(9)])
        source = env.from_source(script, WatermarkStrategy.no_watermarks(), "source").uid("source")
        source.key_by(lambda name: name, Types.STRING()).process(Reminds()).uid("reminds").print()
        env.execute("reminds")

    with without_spark():
        program()
    found = explain(program, "a", operator="reminds")
    assert [mutation.value for mutation in found.mutations if mutation.state == "count"] == [2]
    timers = explain(program, "a", state="(event time timers)")
    assert [mutation.operation for mutation in timers.mutations] == ["delete_timer"]
