"""The page in a real browser: a job with branches, a kill, timers, and keys, names and values that are scripts.

One server and one browser serve all tests. Skipped where there is no Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.graphs import keyed_job
from support.jobs import NO_RESTART, TestJob
from support.script import DriverKilled, Fault, Script

from api.common import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from changelog_engine.cli.ui import page_beside, page_server
from changelog_engine.errors import JobExecutionError

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]

SCRIPT = "<script>alert('key')</script>"
IMAGE = "\"><img src=x onerror=alert('value')>"
JOB = "<b>job</b>&'\""
FAR_MS = 4_102_444_800_000


class Hostile(KeyedProcessFunction):
    """Counts, keeps what it saw, and sets timers that never fire."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor(f"seen {IMAGE}", Types.STRING()))
        self.pairs = runtime_context.get_map_state(
            MapStateDescriptor("pairs", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
        )

    fails = 0

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[1] == IMAGE and Hostile.fails:
            Hostile.fails -= 1
            raise ValueError(f"{SCRIPT} {IMAGE}")
        number = (self.count.value() or 0) + 1
        if value[1] == "bye":
            self.count.clear()
        else:
            self.count.update(number)
        self.seen.add(value[1])
        self.pairs.put(value[1], {number})
        ctx.timer_service().register_processing_time_timer(FAR_MS + number)
        yield value


ELEMENTS = [
    ("ann", "home"),
    (SCRIPT, IMAGE),
    ("bob", "news"),
    ("ann", "blog"),
    ("bob", "bye"),
    ("ann", "home"),
] * 4


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a job of 4 attempts: killed at checkpoint 5, rewound to 3 and killed, failed, finished."""
    base: Path = tmp_path_factory.mktemp("page")

    class Killed(TestJob):
        stop_at = 5

        def on_commit(self, checkpoint: Any) -> None:
            if checkpoint.id == self.stop_at:
                raise DriverKilled(Fault.PARTS)

    job = Killed(base, Script((2,)))
    graph = keyed_job(ELEMENTS, Hostile(), key_type=Types.STRING(), uid=f"op {IMAGE}", name=JOB)
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    job.stop_at = 8
    with pytest.raises(DriverKilled):
        job.run_driver(graph, restore="3")
    job.stop_at, Hostile.fails = 0, 1
    job.run_driver(graph)
    return base


@pytest.fixture(scope="module")
def address(base: Path) -> Iterator[str]:
    """A page over it."""
    with served(base) as found:
        yield found


@contextmanager
def served(base: Path) -> Iterator[str]:
    server = page_server(str(base))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield server.address.url
    server.stop()
    thread.join(30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The job's page. A script of the log's that ran would open a dialog; the browser may ask only this server."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "console",
        lambda said: (
            wrong.append(said.text)
            if said.type == "error" and not said.text.endswith(("(Not Found)", "net::ERR_FAILED"))
            else None
        ),
    )
    opened.on("request", lambda asked: None if asked.url.startswith(address) else wrong.append(asked.url))
    opened.goto(address)
    opened.wait_for_selector("table.state")
    yield opened
    context.close()
    assert wrong == []


def cells(page: Any, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_inner_texts()]


def state_at(page: Any, checkpoint: int) -> dict[str, str]:
    """What the state table shows at a checkpoint, once it is there."""
    page.wait_for_selector(f"[data-part=state] h2 small:has-text('checkpoint {checkpoint},')")
    return dict(zip(cells(page, "table.state td.key"), cells(page, "table.state td.value"), strict=True))


def test_the_slider_shows_what_the_state_was_then(page: Any):
    newest = int(page.locator("#at").inner_text())
    assert newest > 8
    assert state_at(page, newest)["'ann'"] == "12"
    assert page.locator("svg .dot.killed").count() == 2
    assert page.locator("svg .dot.rewound").count() == 1
    slider = page.locator("#slider")
    slider.fill("1")
    assert state_at(page, 2) == {"'ann'": "2", "'bob'": "1", repr(SCRIPT): "1"}
    slider.press("ArrowLeft")
    assert state_at(page, 1) == {"'ann'": "1", "'bob'": "not there yet", repr(SCRIPT): "1"}
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    assert state_at(page, 3)["'bob'"] == "removed"
    assert "at=3" in page.url
    page.reload()
    assert state_at(page, 3)["'bob'"] == "removed"
    said = """busy => {
        const part = document.querySelector("[data-part=state]"); part.classList.toggle("busy-part", busy);
        return getComputedStyle(part.querySelector("h2"), "::after").content;
    }"""
    assert [page.evaluate(said, busy) for busy in (False, True, False)] == ["none", '"reading…"', "none"]


def test_nothing_out_of_the_log_is_markup(page: Any):
    page.get_by_role("tab", name="seen").click()
    page.wait_for_selector(
        f"table.state td.value:has-text({SCRIPT[1:7]!r}), table.state td.value:has-text('img')"
    )
    assert page.locator("main img, main script").count() == 0
    assert f"op {IMAGE}" in cells(page, ".group")
    page.get_by_role("tab", name="pairs").click()
    page.wait_for_selector("text=loading a pickle runs what is in it")
    assert set(cells(page, "table.state td.value")) == {"<pickled>"}
    page.goto(page.url.split("?")[0] + "?at=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>alert(1)</script>" in page.locator(".error").inner_text()


def test_search_compare_and_a_keys_life(page: Any):
    page.locator("#slider").fill("1")
    state_at(page, 2)
    page.locator("#pin").click()
    page.locator("#slider").fill("2")
    page.wait_for_selector("[data-part=compare] small:has-text('2 → 3')")
    assert cells(page, "[data-part=compare] tr.removed td.key")[0] == "'bob'"
    page.locator("#search").fill("SCRIPT")
    page.wait_for_selector("text=found")
    assert cells(page, "table.state td.key") == [repr(SCRIPT)]
    page.locator("table.state td.key button").click()
    page.wait_for_selector("svg.life .mark")
    assert page.locator("svg.life .pennant").count() > 0
    assert {"added", "changed"} <= {
        row.get_attribute("class") for row in page.locator("[data-part=key] tbody tr").all()
    }
    page.locator("details.which summary").last.click()
    assert "changelog-engine explain" in page.locator("details.which .command code").last.inner_text()


def test_what_is_not_there_can_be_taken_back(page: Any):
    """An error took the place of its part's heading, and of what had been written."""
    page.get_by_label("Other checkpoint").fill("999")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-part=compare] .error:has-text('there is no checkpoint 999')")
    assert cells(page, "[data-part=compare] h2") == ["Compare"]
    page.locator("[data-part=compare] button:text-is('Close')").click()
    page.get_by_label("Other checkpoint").wait_for()
    assert "against" not in page.url


def test_attempts_that_are_left_out_are_told(page: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("changelog_engine.ui.now._ATTEMPTS", 2)
    page.wait_for_selector("[data-part=now] >> text=The newest 2 of 4 attempts.")


def test_now_and_the_commands(page: Any):
    page.wait_for_selector(".tiles")
    waits_for_storage = "they wait for the storage" in page.locator("[data-part=now]").inner_text()
    assert page.locator("svg.graph .op.slowest").count() == (0 if waits_for_storage else 1)
    operators = page.locator("svg.graph .op").count()
    assert page.locator("svg.graph .way").count() == operators - 1
    assert "hash" in page.locator("svg.graph text.exchange").all_text_contents()
    ends = cells(page, "[data-part=now] tbody tr td:nth-child(6)")
    assert [end for end in ends if end] == ["finished", "failed", "killed", "killed"]
    assert cells(page, "#how") == ["finished"]  # at the top, too
    assert any("The next run begins empty: attempt 4 finished." in fact for fact in cells(page, ".facts"))
    page.locator("details.failure summary").click()
    trace = page.locator("details.failure pre").inner_text()
    assert "raise ValueError(" in trace
    assert f"ValueError: {SCRIPT} {IMAGE}" in trace
    assert page.locator("main img, main script").count() == 0
    page.locator("#slider").fill("1")
    page.wait_for_selector(".do code:has-text('--at 2')")
    lines = cells(page, ".do code")
    assert any("changelog-engine run --restore 2 --job" in line for line in lines)
    assert all("changelog-engine" in line for line in lines)


class FailsAtOnce(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        raise ValueError("at once")


def test_a_job_that_failed_before_its_first_checkpoint(browser: Any, tmp_path: Path):
    graph = keyed_job(ELEMENTS, FailsAtOnce(), key_type=Types.STRING(), uid="op", name="early")
    for _ in range(2):
        with pytest.raises(JobExecutionError):
            TestJob(tmp_path, restart=NO_RESTART).run_driver(graph)
    with served(tmp_path) as address:
        opened = browser.new_page(viewport={"width": 390, "height": 800})
        opened.goto(address)
        assert cells(opened, ".pill") == ["failed"]
        assert "do what the error says and start it again" in opened.locator("main").inner_text()
        failures = opened.locator("details.failure")
        assert (failures.count(), opened.locator("details.failure[open]").count()) == (2, 1)
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
        opened.close()


class FailsAtIce(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[1] == "ice":
            raise ValueError("too cold " * 100)
        yield value


def test_the_error_of_a_job_that_failed_stands_first_on_a_phone(browser: Any, tmp_path: Path):
    elements = [*ELEMENTS, ("ann", "ice")]
    graph = keyed_job(elements, FailsAtIce(), key_type=Types.STRING(), uid="op", name="late")
    with pytest.raises(JobExecutionError):
        TestJob(tmp_path, Script((4,)), restart=NO_RESTART).run_driver(graph)
    with served(tmp_path) as address:
        opened = browser.new_page(viewport={"width": 390, "height": 800})
        opened.goto(address)
        opened.wait_for_selector("#why:not([hidden])")
        assert "with UserFunctionError: process_element of operator" in opened.locator("#why").inner_text()
        assert opened.locator("#why").bounding_box()["height"] < 120  # of a long message the beginning
        opened.locator(".jump a[href='#current']").click()
        opened.wait_for_function("document.querySelector('#current').getBoundingClientRect().top < 200")
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
        opened.close()


def answers(page: Any, part: str, change: Any) -> None:
    """What the server answers for a part of the page from here on."""

    def answer(route: Any) -> None:
        got = route.fetch()
        route.fulfill(response=got, body=change(got.text()))

    page.route(f"**/{part}?*", answer)


def test_what_is_new_comes_in_round_what_a_reader_has_in_hand(page: Any):
    """A click into "Now" held up the whole page until the reader clicked elsewhere; and what was marked was lost."""
    page.locator("details.failure summary").click()
    number = iter(range(1, 1000))
    answers(
        page, "now", lambda text: text.replace("<h2>Now</h2>", f"<h2>Now</h2><i>number {next(number)}</i>")
    )
    page.wait_for_selector("text=number 1")
    seen = page.locator("[data-part=now] i").inner_text()
    page.wait_for_selector(f"[data-part=now] i:not(:text-is('{seen}'))")
    assert page.evaluate("document.activeElement.localName") == "summary"
    assert page.locator("details.failure[open]").count() == 1
    page.evaluate("getSelection().selectAllChildren(document.querySelector('details.failure pre'))")
    marked, asked = page.evaluate("getSelection().toString()"), next(number)
    with page.expect_response("**/now?*"), page.expect_response("**/now?*"):
        pass
    assert next(number) > asked + 1
    assert page.evaluate("getSelection().toString()") == marked != ""
    page.locator("[data-zoom=in]").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#timeline:not([data-first='0'])")
    assert page.evaluate("document.activeElement.dataset.zoom") == "in"


def test_a_server_that_does_not_answer_is_told_at_the_top_and_what_is_there_stays(page: Any):
    assert cells(page, "#how") == ["finished"]
    page.route("**/job/**", lambda route: route.abort())
    page.wait_for_selector("#why:has-text('does not answer')")
    assert cells(page, "#how") == ["not known"]
    page.locator("[data-zoom=in]").click()
    page.wait_for_selector("[data-part=timeline] .error")
    page.locator("#slider").fill("1")
    page.wait_for_selector("[data-part=state] .error")
    assert page.locator("table.state tr").count() > 1
    page.unroute("**/job/**")
    assert state_at(page, 2)["'ann'"] == "2"
    page.wait_for_selector("#timeline:not([data-first='0'])")
    page.wait_for_selector("#why", state="hidden")
    assert cells(page, "#how") == ["finished"]
    assert page.locator("[data-part] > .error").count() == 0
    answers(page, "timeline", lambda text: '<div class="head"></div><p class="error" role="alert">lost</p>')
    page.locator("[data-zoom=all]").click()
    page.wait_for_selector("[data-part=timeline] > .error:has-text('lost')")
    page.locator("#slider").press("ArrowRight")
    state_at(page, 3)


def test_pages_without_a_checkpoint_are_renewed_round_what_a_reader_has_in_hand(browser: Any, tmp_path: Path):
    """They were loaded anew: what was unfolded closed, and after a moment in another tab they stayed as they were."""

    def fails(name: str) -> None:
        graph = keyed_job(ELEMENTS, FailsAtOnce(), key_type=Types.STRING(), uid="op", name=name)
        with pytest.raises(JobExecutionError):
            TestJob(tmp_path, restart=NO_RESTART).run_driver(graph)

    visible = (
        "state => Object.defineProperty(document, 'visibilityState', { value: state, configurable: true })"
    )
    fails("a"), fails("a"), fails("b")
    with served(tmp_path) as address:
        page = browser.new_page()
        page.clock.install()
        page.goto(f"{address}job/a")
        page.locator("summary").last.click()
        page.evaluate(visible, "hidden")
        page.clock.fast_forward(6000)
        page.evaluate(visible, "visible")
        fails("a")
        page.clock.fast_forward(6000)
        page.wait_for_selector("h3:has-text('Attempt 3')")
        assert page.locator("details.failure[open]").count() == 3
        assert page.evaluate("document.activeElement.parentElement.dataset.fold") == "failure-1"
        page.goto(address)
        page.locator("a[href='/job/b']").focus()
        page.route("**/", lambda route: route.abort())
        page.clock.fast_forward(6000)
        page.wait_for_selector(".error:has-text('does not answer')")
        page.unroute("**/")
        fails("c")
        page.clock.fast_forward(6000)
        page.wait_for_selector("a[href='/job/c']")
        assert page.evaluate("document.activeElement.getAttribute('href')") == "/job/b"
        assert page.locator(".error").count() == 0
        page.goto(f"{address}job/c")
        graph = keyed_job(ELEMENTS, Hostile(), key_type=Types.STRING(), uid="op", name="c")
        TestJob(tmp_path).run_driver(graph)
        page.clock.fast_forward(6000)
        page.wait_for_selector("table.state")
        page.close()


def test_zoom_dark_and_a_phone(page: Any):
    assert page.locator("#why").is_hidden()  # the job finished
    page.locator("[data-zoom=in]").click()
    page.wait_for_selector("#timeline:not([data-first='0'])")
    page.keyboard.press("0")
    page.wait_for_selector("#timeline[data-first='0']")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_selector("#timeline[data-width^='3']")
    page.locator("#key").fill("k" * 3000)
    page.locator("#key").press("Enter")
    page.wait_for_selector("text=Nothing has this key")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_on_paper_all_of_a_table_is_there_in_dark_ink(page: Any):
    """A long table was cut where its box scrolls, and chosen dark printed light on white."""
    page.locator("table.state td.key button").first.click()
    page.wait_for_selector("[data-part=key] .tall")
    page.locator("#theme").click()
    asks = """selector => {
        const { maxHeight, overflow, color } = getComputedStyle(document.querySelector(selector));
        return [maxHeight, overflow, color];
    }"""
    tall = page.evaluate(asks, "[data-part=key] .tall")
    assert (tall[0], tall[1]) == ("460px", "auto")
    page.emulate_media(media="print")
    tall = page.evaluate(asks, "[data-part=key] .tall")
    assert (tall[0], tall[1]) == ("none", "visible")
    assert max(int(each) for each in tall[2][4:-1].split(",")) < 80
    assert page.locator(".buttons:visible, #slider:visible").count() == 0
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"


def test_the_report_is_one_file_that_asks_nobody(browser: Any, base: Path, tmp_path: Path):
    """Opened from the disk, offline, and in a browser that may run no script but the report's own."""
    [job] = base.iterdir()
    out = tmp_path / "report.html"
    command = [sys.executable, "-m", "changelog_engine", "report", str(job), str(out)]
    said = subprocess.run(
        [*command, "--compare", "2", "3", "--entries", "2"], capture_output=True, text=True, timeout=300
    )
    assert (said.returncode, said.stderr) == (0, "")
    written = out.read_bytes()
    again = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert again.returncode == 1
    assert "is there already" in again.stderr
    assert out.read_bytes() == written
    context = browser.new_context(offline=True)
    page = context.new_page()
    wrong: list[str] = []
    page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: None if asked.url == out.as_uri() else wrong.append(asked.url))
    page.goto(out.as_uri())
    assert page.locator("main img, main script, main link").count() == 0
    assert page.locator("h2:has-text('Report')").is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.card')).borderRadius") == "10px"
    assert page.locator("[data-set], [data-zoom]").count() == 0, "the script runs"
    assert page.locator("svg .dot.killed").count() == 2
    facts = {cell[1]: cell[3:5] for cell in rows(page, "#moment table:not(.state) tbody tr")}
    assert set(facts) == {"count", f"seen {IMAGE}", "pairs", "(processing time timers)"}
    assert facts["count"][0] == "2"
    assert rows(page, "#moment table.state >> nth=0 >> tbody tr")[0] == ["'ann'", "12"]
    assert "loading a pickle runs what is in it" in page.locator("#moment").inner_text()
    assert repr(SCRIPT) in {row[0] for row in rows(page, "#moment table.state tbody tr")}
    assert [row[1] for row in rows(page, "#differences tr.removed")] == ["'bob'"]
    assert sum("killed" in row for row in rows(page, "#current tbody tr")) == 2
    assert any("fork" in line for line in cells(page, ".do code"))
    page.locator("rect.hit").first.hover()
    assert "checkpoint 1" in page.locator("#tip").inner_text()
    context.close()
    assert wrong == []


def rows(page: Any, selector: str) -> list[list[str]]:
    """The cells of table rows."""
    return [cells(row, "td") for row in page.locator(selector).all()]


def test_a_long_name_of_a_state_stays_within_the_page(page: Any):
    page.wait_for_selector(".tab")
    inside = page.evaluate("""() => {
        const tab = document.querySelector(".tab");
        tab.textContent = "x".repeat(300);
        return tab.getBoundingClientRect().right <= tab.closest(".tabs").getBoundingClientRect().right + 1;
    }""")
    assert inside


def test_another_website_gets_nothing(browser: Any, address: str):
    port = address.rstrip("/").rpartition(":")[2]
    asked = urllib.request.Request(address, headers={"Host": f"evil.example:{port}"})
    with pytest.raises(urllib.error.HTTPError, match="421"):
        urllib.request.urlopen(asked, timeout=20)
    context = browser.new_context()
    page = context.new_page()
    page.route(
        "http://evil.example/", lambda route: route.fulfill(body="<p>evil</p>", content_type="text/html")
    )
    page.goto("http://evil.example/")
    tried = f"fetch('{address}').then(() => 'read', () => 'refused')"
    assert page.evaluate(tried) == "refused"
    context.close()


def test_the_page_beside_a_run_ends_with_it(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text("print('ran')\n")
    command = [sys.executable, "-m", "changelog_engine", "run", "--ui", str(script)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    assert ended.stdout == "ran\n"
    address = ended.stderr.split(" ")[0]
    assert ended.stderr == f"{address} shows the jobs of changelog-data\n"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=20)
    with page_beside(str(tmp_path)) as address, urllib.request.urlopen(address, timeout=60) as answer:
        assert "There is no job yet" in answer.read().decode()


def test_pages_of_keys_are_turned_by_keyboard(browser: Any, tmp_path: Path) -> None:
    """The button keeps the focus, though each page has it anew; where there is no other page, the other one has it."""
    keys = [(f"k{number:02}", "x") for number in range(60)]
    TestJob(tmp_path, Script((60,))).run_driver(
        keyed_job(keys, Hostile(), key_type=Types.STRING(), uid="op", name="many")
    )
    with served(tmp_path) as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector(".pager")
        page.get_by_role("button", name="next page").focus()
        for shown, focused in (
            ("2 / 3", "next"),
            ("3 / 3", "previous"),
            ("2 / 3", "previous"),
            ("1 / 3", "next"),
        ):
            page.keyboard.press("Enter")
            page.wait_for_selector(f".pager span:text-is('{shown}')")
            assert f"{focused} page" in page.evaluate("document.activeElement.textContent")
        page.close()
