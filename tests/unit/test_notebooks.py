"""Answers in notebooks and on terminals: of a job with hostile names, in a real kernel, and by IPython's formatter."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import DriverKilled, Fault, Script

from api.common import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import MapStateDescriptor, ValueStateDescriptor
from changelog_engine.display import MOST_ROWS, Displayed, Document, Grid, Literal
from changelog_engine.provenance.explain import Replays
from changelog_engine.replay.job import replay_graph

SCRIPT = "<script>alert('key')</script>\x1b[2J"
UID = 'op "><img src=x onerror=alert(1)>'
ELEMENTS = [("ann", 1), (SCRIPT, 2), ("bob", 3), ("ann", 4), ("bob", 5), (SCRIPT, 6)] * 4
ALLOWED = {"div", "b", "br", "small", "p", "table", "thead", "tbody", "tr", "th", "td", "pre"}


class Totals(KeyedProcessFunction):
    """A sum, and the last number of each text."""

    factor = 1

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor(f"total {SCRIPT}", Types.LONG()))
        self.last = runtime_context.get_map_state(MapStateDescriptor("last", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1] * self.factor)
        self.last.put(value[0], value[1])
        yield value


class Doubled(Totals):
    factor = 2


def graph(function: KeyedProcessFunction) -> Any:
    return keyed_job(ELEMENTS, function, key_type=Types.STRING(), uid=UID)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> TestJob:
    """A job that was killed once."""

    class Killed(TestJob):
        kills = True

        def on_commit(self, checkpoint: Any) -> None:
            if checkpoint.id == 4 and self.kills:
                self.kills = False
                raise DriverKilled(Fault.PARTS)

    job = Killed(tmp_path_factory.mktemp("notebook"), Script((2,)))
    with pytest.raises(DriverKilled):
        job.run_driver(graph(Totals()))
    job.run_driver(graph(Totals()))
    return job


class Shown(HTMLParser):
    """The tags and the text of a piece of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.rows = 0
        self.feed(text)
        self.close()
        assert set(self.tags) <= ALLOWED

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"style"}
        # Colours are the notebook's: what it writes in, on what it writes on.
        assert all("color:" not in (value or "") for _, value in attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def shown(found: Any) -> Shown:
    """What IPython shows of an object in a notebook."""
    data, _ = DisplayFormatter().format(found)
    assert "\x1b" not in data["text/plain"] + data["text/html"]
    return Shown(data["text/html"])


def test_replays_and_explanations(job: TestJob):
    equal = replay_graph(graph(Totals()), job.settings, None)
    assert "equal" in shown(equal).text
    different = replay_graph(graph(Doubled()), job.settings, None)
    page = shown(different)
    assert "DIFFERENT" in page.text
    assert "put 1" in page.text
    assert "put 2" in page.text
    assert f"the first {MOST_ROWS} of" in page.text
    assert repr(different).startswith(different.text(0).partition("\n")[0])
    found = Replays(graph(Totals()), job.settings, at=1).key(SCRIPT)
    page = shown(found)
    assert "alert('key')" in page.text
    assert "record" in page.text
    assert "process_element" in page.text
    refused = Replays(graph(Doubled()), job.settings, at=1).key("ann")
    assert "NOT EXPLAINED" in shown(refused).text


def test_rows_and_lines_are_bounded():
    class Many(Displayed):
        def display(self) -> Document:
            rows = [(Literal("x" * 10_000), number) for number in range(1_000)]
            return Document("many", (), [Grid(("key", "number"), rows, newest=True)], "line\n" * 1_000)

    page, text = shown(Many()), repr(Many())
    assert page.tags.count("tr") == MOST_ROWS + 1
    assert f"the newest {MOST_ROWS} of 1,000" in page.text
    assert "and 800 more lines" in page.text
    assert "999" in text
    assert "979" not in text
    assert len(text) < 20_000


CELLS = """
from changelog_engine.inspection.differences import differences
from changelog_engine.inspection.key_history import key_history
from changelog_engine.inspection.points import open_point
from changelog_engine.inspection.states import entries_at, states_at
from changelog_engine.inspection.timeline import Timeline
---
open_point(PATH)
---
open_point(PATH).checkpoint
---
states_at(PATH)
---
entries_at(PATH)
---
key_history(PATH, "ann")
---
differences(PATH, 1, 2)
---
Timeline(PATH)
"""


@pytest.mark.slow
def test_a_notebook_shows_answers_as_tables(job: TestJob, monkeypatch: pytest.MonkeyPatch):
    """A notebook that is run by a kernel, as people run one."""
    import nbformat
    from nbclient import NotebookClient

    [folder] = [path for path in Path(job.settings.base_path).iterdir() if path.is_dir()]
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    monkeypatch.setenv("IPYTHONDIR", str(folder.parent / "ipython"))
    cells = CELLS.replace("PATH", repr(str(folder))).split("---")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in cells])
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [cell.outputs[0]["data"] for cell in notebook.cells[1:]]
    assert all("\x1b" not in data["text/plain"] for data in outputs)
    pages = [Shown(data["text/html"]) for data in outputs]
    point, checkpoint, states, entries, history, difference, timeline = pages
    newest = job.commits[-1].id
    assert f"checkpoint {newest}, attempt 2" in point.text
    assert str(folder) in point.text
    assert UID in checkpoint.texts
    assert "last" in states.texts
    assert "STRING" in " ".join(states.texts)
    assert "'ann'" in entries.texts
    assert "20" in entries.texts
    assert "changes of key 'ann'" in history.text
    assert f"the newest {MOST_ROWS} of" not in history.text
    assert "added" in difference.texts
    assert "killed" in timeline.texts
