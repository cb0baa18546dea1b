"""The page: addresses to answers.

Invariants:
    * It only shows: answers come from ``changelog_engine.inspection``, and nothing is unpickled. The one address that is not
      a GET asks ``ui.explaining``, and is there only when whoever started the page named a program.
    * Everything out of a log goes through Jinja's escaping, see ``rendering``.
    * Blocking work (folds, reading files) runs in threads, never in the event loop.
    * An error of the engine is a message in the part of the page that asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from changelog_engine.clock import wall_ms
from changelog_engine.errors import ChangelogEngineError, RestoreError
from changelog_engine.inspection.differences import differences
from changelog_engine.inspection.jobs import JobSummary, job_status, list_jobs
from changelog_engine.inspection.key_history import KeyChange, key_history
from changelog_engine.inspection.states import StateSummary, states_at
from changelog_engine.ledger.job_folder import CHANGELOG
from changelog_engine.ledger.job_path import open_job
from changelog_engine.ledger.read_again import read_again
from changelog_engine.readable import iso
from changelog_engine.state.backend import TIMER_STATES
from changelog_engine.storage.opening import open_storage
from changelog_engine.ui.commands import commands_at, explain_command
from changelog_engine.ui.drawing import draw_life, timeline_values
from changelog_engine.ui.explaining import AskedChange, CannotExplainError, Explainer, Program
from changelog_engine.ui.now import now_of
from changelog_engine.ui.opened_job import OpenedJob, States
from changelog_engine.ui.overview import by_urgency, count_by_state
from changelog_engine.ui.rendering import HERE, shown, templates

_PAGE = 25  # keys of the state table
_DIFFERENCES = 200
_MOST_FORM_BYTES = 100_000  # what the system takes as one argument of a command is a little more
_CHANGES = 500  # of a key, the newest
_FAILURES = 5  # of a job that has no checkpoint, the newest
_TITLES = {
    "timeline": "Timeline", "state": "State", "compare": "Compare", "key": "A key's life", "now": "Now",
    "commands": "From here",
}  # fmt: skip
_CHOSEN = {"compare": "against", "key": "key"}  # what a reader wrote, who must be able to take it back
_WIDTHS = (320, 2400)
_DEFAULT_WIDTH = 1160


class _Made(NamedTuple):
    """An answer, and the checkpoints whose rows could not be read while it was made."""

    answer: Response
    faults: set[int]


class Page:
    """The page over a base path, or over one job.

    Args:
        path: the base path, or a job's folder.
        program: the script that explains changes; None: nothing is run.
    """

    def __init__(self, path: str, program: Program | None = None) -> None:
        self._path = path
        self._explainer = None if program is None else Explainer(program)
        self._jobs: dict[str, OpenedJob] = {}
        self._states = States()
        self._templates = templates()

    def app(self) -> Starlette:
        """The ASGI application, without its guard."""
        parts = {
            "timeline": self._timeline,
            "state": self._state,
            "compare": self._compare,
            "key": self._key,
            "now": self._now,
            "commands": self._commands,
        }
        routes: list[Any] = [Route("/", self._index), Route("/job/{job}", self._job)]
        routes += [
            Route(f"/job/{{job}}/{name}", self._part(name, function)) for name, function in parts.items()
        ]
        if self._explainer is not None:
            routes.append(Route("/job/{job}/explain", self._explain, methods=["POST"]))
        return Starlette(routes=[*routes, Mount("/static", StaticFiles(directory=HERE / "static"))])

    # Whole pages

    async def _index(self, request: Request) -> Response:
        try:
            jobs = await run_in_threadpool(self._listed)
        except ChangelogEngineError as error:
            return self._html("jobs.html", code=500, jobs=[], base=self._path, error=str(error))
        if len(jobs) == 1 and jobs[0].fault is None:
            return RedirectResponse(f"/job/{quote(_folder(jobs[0].path), safe='')}", 303)
        root = open_storage(self._path).root
        return self._html(
            "jobs.html",
            jobs=by_urgency(jobs),
            states=count_by_state(jobs),
            base=self._path,
            root=root,
            error=None,
        )

    async def _job(self, request: Request) -> Response:
        try:
            return await run_in_threadpool(self._made, request, self._job_page)
        except ChangelogEngineError as error:
            return self._html("jobs.html", code=404, jobs=[], base=self._path, error=str(error))

    def _job_page(self, job: OpenedJob, request: Request) -> Response:
        asked = request.query_params
        if not job.rows:
            status = job_status(job.root, job.notes)
            failures = status.failures[-_FAILURES:]
            return self._html(
                "empty.html",
                job=job.name,
                root=job.root,
                failures=failures,
                status=status,
                several=self._of_several(job),
            )
        at = self._moment(job, asked.get("at"))
        names = job.states(job.tree.nearest(at))
        chosen = (asked.get("operator", ""), asked.get("state", ""))
        if not all(chosen):
            chosen = names[0] if names else ("", "")
        return self._html(
            "job.html",
            **{
                **self._timeline(job, request),
                "job": job.name,
                "folder": _folder(job.root),
                "root": job.root,
                "several": self._of_several(job),
                "at": at,
                "against": asked.get("against", ""),
                "operator": chosen[0],
                "state": chosen[1],
                "search": asked.get("search", ""),
                "key": asked.get("key", ""),
                "commands": commands_at(job.root, job.name, at),
            },
        )

    def _of_several(self, job: OpenedJob) -> bool:
        """Whether the page is of a base path, and not of this job alone."""
        return open_storage(self._path).root not in (job.root, f"{job.root}/{CHANGELOG}")

    # Parts of it

    def _part(self, name: str, function: Callable[[OpenedJob, Request], dict[str, Any]]) -> Any:
        async def answer(request: Request) -> Response:
            def made(job: OpenedJob, request: Request) -> Response:
                if not job.rows:
                    raise RestoreError("there is no checkpoint yet")
                return self._html(f"{name}.html", job=job.name, root=job.root, **function(job, request))

            try:
                return await run_in_threadpool(self._made, request, made)
            except ChangelogEngineError as error:
                return self._html(
                    "error.html", title=_TITLES[name], chosen=_CHOSEN.get(name, ""), error=str(error)
                )

        return answer

    def _timeline(self, job: OpenedJob, request: Request) -> dict[str, Any]:
        asked, tree = request.query_params, job.tree
        count = len(job.rows)
        first, last = 0, count - 1
        if asked.get("from"):
            first = tree.nearest(_number(asked["from"]))
        if asked.get("to"):
            last = tree.nearest(_number(asked["to"]))
        first, last = max(0, min(first, last)), min(count - 1, max(first, last))
        width = _width(asked)
        return timeline_values(job, self._moment(job, asked.get("at")), first, last, width)

    def _state(self, job: OpenedJob, request: Request) -> dict[str, Any]:
        asked = request.query_params
        checkpoint = job.checkpoint(self._moment(job, asked.get("at")))
        summaries = states_at(job.root, checkpoint.id, counts=False).states
        operators = dict.fromkeys(each.operator for each in summaries)
        timers = [
            StateSummary(uid, name, "timer", None, summary.key_type)
            for uid in operators
            for summary in [next(each for each in summaries if each.operator == uid)]
            for name in TIMER_STATES.values()
        ]
        known = {(each.operator, each.state): each for each in (*summaries, *timers)}
        found: dict[str, Any] = {
            "checkpoint": checkpoint,
            "states": sorted(known.values(), key=lambda each: list(operators).index(each.operator)),
            "chosen": None,
            "page": None,
            "search": asked.get("search", ""),
            "number": 0,
            "pages": 0,
            "size": _PAGE,
        }
        name = (asked.get("operator", ""), asked.get("state", ""))
        if not known:
            return found
        if name not in known:
            name = next(iter(known))
        over_time = self._states.get(job, checkpoint, *name)
        number = max(0, _number(asked.get("page", ""), 0))
        page = over_time.page(checkpoint, number * _PAGE, _PAGE, found["search"])
        found.update(chosen=known[name], page=page, number=number, pages=-(-page.total // _PAGE))
        return found

    def _compare(self, job: OpenedJob, request: Request) -> dict[str, Any]:
        asked = request.query_params
        at = self._moment(job, asked.get("at"))
        if not asked.get("against"):
            return {"at": at, "against": None, "found": None}
        against = self._moment(job, asked.get("against"))
        before, after = sorted((at, against))
        found = differences(job.root, str(before), str(after), limit=_DIFFERENCES)
        return {"at": at, "against": against, "found": found, "limit": _DIFFERENCES}

    def _key(self, job: OpenedJob, request: Request) -> dict[str, Any]:
        asked = request.query_params
        key = asked.get("key", "")
        if not key:
            return {"key": "", "history": None}
        tip = job.tip(job.checkpoint(self._moment(job, asked.get("at"))))
        history = key_history(job.root, key, at=tip.id)
        script = "SCRIPT" if self._explainer is None else self._explainer.program.script
        changes = history.changes[-_CHANGES:]
        width = _width(asked)

        def say(change: KeyChange) -> str:
            which = "" if change.map_key is None else f" [{shown(change.map_key, 60)}]"
            return (
                f"{change.operator} · {change.state}{which}\n{shown(change.before, 120)} → {shown(change.after, 120)}\n"
                f"checkpoint {change.checkpoint}, {iso(change.time_ms or 0)} UTC"
            )

        return {
            "key": key,
            "history": history,
            "changes": list(reversed(changes)),
            "total": len(history.changes),
            "life": draw_life(changes, say, width),
            "script": None if self._explainer is None else self._explainer.program.script,
            "explain": lambda c: explain_command(job.root, c.operator, c.state, key, c.checkpoint, script),
        }

    def _now(self, job: OpenedJob, request: Request) -> dict[str, Any]:
        status = job_status(job.root, job.notes)
        stopped = status.stopped_upkeep(wall_ms())
        return {
            "status": status,
            "now": now_of(job, status),
            "count": len(job.rows),
            "stopped_upkeep": stopped,
            "attempts": len(job.timeline.attempts),
        }

    def _commands(self, job: OpenedJob, request: Request) -> dict[str, Any]:
        at = self._moment(job, request.query_params.get("at"))
        return {"at": at, "commands": commands_at(job.root, job.name, at)}

    # What runs the program

    async def _explain(self, request: Request) -> Response:
        explainer = self._explainer
        assert explainer is not None
        try:
            asked = await _form(request)
            job = await run_in_threadpool(self._view, request)
            checkpoint = job.checkpoint(asked.get("checkpoint", "")).id
            change = AskedChange(
                job.name,
                job.root,
                asked.get("operator", ""),
                asked.get("state", ""),
                asked.get("key", ""),
                checkpoint,
            )
            found = await explainer.explain(change, partial(_gone, request))
        except CannotExplainError as error:
            return self._html("explained.html", found=None, refused=str(error), said=error.said)
        except ChangelogEngineError as error:
            return self._html("explained.html", found=None, refused=str(error), said="")
        return self._html("explained.html", found=found, refused=None, said="")

    # What they share

    def _made(self, request: Request, make: Callable[[OpenedJob, Request], Response]) -> Response:
        """An answer about a job."""

        def read(_: str) -> _Made:
            job = self._view(request)
            known = set(job.timeline.lost)
            return _Made(make(job, request), job.timeline.lost.keys() - known)

        return read_again(read)(self._opened(request).root).answer

    def _html(self, template: str, code: int = 200, **values: Any) -> HTMLResponse:
        text = self._templates.get_template(template).render(**values)
        # Half a surrogate pair in a name of the job's has no bytes of its own.
        return HTMLResponse(text.encode("utf-8", "backslashreplace"), code)

    def _listed(self) -> list[JobSummary]:
        try:
            return list_jobs(self._path)
        except ChangelogEngineError:
            folder = open_job(self._path)  # one job's own folder
            return [job_status(folder.storage.root).summary]

    def _view(self, request: Request) -> OpenedJob:
        """The job that is named, as it is now."""
        job = self._opened(request)
        job.refresh()
        return job

    def _opened(self, request: Request) -> OpenedJob:
        """The job that is named, which must be one of those that are listed."""
        name = request.path_params["job"]
        if name not in self._jobs:
            paths = {_folder(job.path): job.path for job in self._listed()}
            if name not in paths:
                raise RestoreError(f"there is no job {name!r} in {open_storage(self._path).root}")
            self._jobs[name] = OpenedJob(paths[name])
        return self._jobs[name]

    def _moment(self, job: OpenedJob, at: str | None) -> int:
        """The checkpoint that is asked for, whether its row can be read or not; the newest when none is."""
        if not at:
            return job.rows[-1].id
        number = _number(at)
        return number if job.tree.place(number) is not None else job.checkpoint(at).id


async def _form(request: Request) -> dict[str, str]:
    """The fields that the page's script sends."""
    data = b""
    async for piece in request.stream():
        data += piece
        if len(data) > _MOST_FORM_BYTES:
            raise CannotExplainError(
                f"a key of over {_MOST_FORM_BYTES:,} bytes is not explained here: use the command"
            )
    try:
        found = parse_qsl(data.decode("utf-8", errors="replace"), keep_blank_values=True, max_num_fields=20)
    except ValueError as error:
        raise CannotExplainError(f"this is not what the page asks: {error}") from error
    if any("\0" in value for _, value in found):
        raise CannotExplainError("a key with a NUL character cannot be given to a command")
    return dict(found)


async def _gone(request: Request) -> None:
    """Over when the browser has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _folder(path: str) -> str:
    """The last part of a path: what a job is called in addresses. Its name may have a slash."""
    return path.rstrip("/").rpartition("/")[2]


def _width(asked: Mapping[str, str]) -> int:
    """Pixels that a drawing may take, as the browser says."""
    return min(max(_number(asked.get("width", ""), _DEFAULT_WIDTH), _WIDTHS[0]), _WIDTHS[1])


def _number(text: str, otherwise: int = 0) -> int:
    return int(text) if text.isdecimal() and len(text) < 18 else otherwise
