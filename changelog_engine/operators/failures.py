"""Failures on their way from a worker to the user: which operator, which key and element, and the user's own traceback.

Invariants:
    * Whatever a user's function raises is a failure of the job: what Python's iterators take for their end (StopIteration)
      and what ends processes (SystemExit) too. So no user's function is called by an iterator of ours (``map``, ``filter``,
      ``itertools``), which would end there without a word; a test looks for such calls in the sources.
    * A key of the keyboard is not a failure: a KeyboardInterrupt that no code raised goes on as it is.
"""

from __future__ import annotations

import dis
import textwrap
import traceback
from collections.abc import Iterable, Iterator, Sequence
from operator import length_hint
from typing import Any

from changelog_engine.errors import ChangelogEngineError, NoCurrentKeyError, UserFunctionError
from changelog_engine.state.backend import TIMER_DOMAINS
from changelog_engine.state.cursor import key_words
from changelog_engine.state.handles import Handle, MapView
from changelog_engine.types.typeinfo import shown
from changelog_engine.whose_code import is_ours, is_users
from changelog_engine.windowing.reserved import state_words

_RAISE = dis.opmap["RAISE_VARARGS"]
_MOST_OF_GROUP = 10
_MOST_OF_CHAIN = 10  # errors that came of each other: the first and the last
_OF_STATES = (
    *("value", "get", "update", "add", "add_all", "put", "put_all", "contains", "remove"),
    *("keys", "values", "items", "is_empty", "clear"),
)
NOTHING = object()  # no key, no element


class OperatorName(str):
    """An operator's name, which messages show, and where the program asked for it.

    Attributes:
        made_at: its file and line; None where they are not known.
    """

    made_at: str | None

    def __new__(cls, name: str, made_at: str | None) -> OperatorName:
        made = super().__new__(cls, name)
        made.made_at = made_at
        return made

    @property
    def place(self) -> str:
        """The same behind its name in a message."""
        return "" if self.made_at is None else f" ({self.made_at})"


class UselessResultError(TypeError):
    """A user's function returned what cannot be used. ``user_failure`` says which function it was.

    Args:
        what: begins with "returned".
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)


class NotIterableError(UselessResultError):
    """A function of several elements returned something else."""

    def __init__(self, result: Any) -> None:
        super().__init__(f"returned {shown(result)}, which is not iterable: return a list, or yield results")


def user_failure(
    error: BaseException, operator: str, call: str, key: Any = NOTHING, element: Any = NOTHING, hint: str = ""
) -> ChangelogEngineError:
    """What to raise when a user's function raised.

    Args:
        call: which function of it, such as ``process_element``.
        hint: what else is to be said, after the traceback.

    Returns:
        A UserFunctionError with the user's traceback.

    Raises:
        ChangelogEngineError: one of the engine's own goes on, with the operator, and the line of the function that it came
            from; raised from itself, it would be its own cause.
        KeyboardInterrupt: somebody pressed Ctrl-C while the function ran.
    """
    if isinstance(error, NoCurrentKeyError) and error.operator is None:
        return NoCurrentKeyError(operator, call, _line_of(error))
    where = "" if key is NOTHING else key_words(key)
    shown_key = shown(key) if where else None
    shown_element = None if element is NOTHING else shown(element)
    if shown_element is not None:
        where += f", element {shown_element}"
    if isinstance(error, ChangelogEngineError):
        _add_place(error, f"{call} of operator {operator!r}", f"{_made_at(operator, error)}{where}")
        raise error
    if is_ctrl_c(error):
        raise error
    if isinstance(error, UselessResultError):
        lines, what = "", str(error)
    else:
        lines = user_traceback(error)
        what = f"raised {type(error).__name__}: {_text(error)}\n{lines}{_what_state_has(error)}"
    failure = UserFunctionError(
        f"{call} of operator {operator!r}{_made_at(operator, error)}{where} {what}{hint}"
    )
    failure.traceback, failure.place_told = lines, True
    failure.operator, failure.call, failure.key, failure.element = (
        str(operator),
        call,
        shown_key,
        shown_element,
    )
    return failure


class UsersCode:
    """Within it, the user's code runs: what it raises becomes what ``user_failure`` makes of it.

    Args:
        call: which function of it, as of ``user_failure``.
        values, rest: what it is called with, one by one, and an iterator that stands behind the one under way; None where
            it is not called with elements.
        hint: as of ``user_failure``.
    """

    __slots__ = ("_call", "_hint", "_operator", "_rest", "_values")

    def __init__(
        self,
        operator: str,
        call: str,
        values: Sequence[Any] = (),
        rest: Iterator[Any] | None = None,
        hint: str = "",
    ) -> None:
        self._operator = operator
        self._call = call
        self._values = values
        self._rest = rest
        self._hint = hint

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            element = NOTHING if self._rest is None else element_at(self._values, self._rest)
            raise user_failure(error, self._operator, self._call, element=element, hint=self._hint) from error


def refuse_not_iterable(result: Any) -> None:
    """Tell why a loop over what a function returned ended with a TypeError, unless that came from the function.

    Args:
        result: what it returned last; the loops take None and False for no elements.

    Raises:
        NotIterableError: it is not iterable.
    """
    if result is None or result is False or isinstance(result, Iterable):
        return
    if not hasattr(type(result), "__getitem__"):
        raise NotIterableError(result) from None


def _what_state_has(error: BaseException) -> str:
    """The methods of a state whose user knew it by others, such as Spark's."""
    state = error.obj if isinstance(error, AttributeError) else None
    if not isinstance(state, Handle | MapView):
        return ""
    known = dir(type(state))
    has = ", ".join([f"{name}()" for name in _OF_STATES if name in known])
    return f"\nIt has {has}{state.more}"


def forget_our_frames(failure: UserFunctionError) -> None:
    """Leave only the user's own lines to be printed with a failure: its message has them, and this engine's say nothing."""
    failure.__traceback__ = None
    raised = failure.__cause__
    if raised is not None:
        frame = raised.__traceback__
        while frame is not None and is_ours(frame.tb_frame.f_code.co_filename):
            frame = frame.tb_next
        raised.__traceback__ = frame


def backend_failure(backend: object, method: str, error: BaseException) -> BaseException:
    """What to raise when a state backend raised, where no function of the user's was under way.

    Args:
        error: one of the engine's own says enough.
    """
    return _of_backend(backend, method, "", None, error)


def table_failure(backend: object, operator: str, state: str, error: BaseException) -> BaseException:
    """What to raise when a table of a state backend has raised, also where a function caught it.

    Args:
        operator: uid.
        error: what it raised; one of the engine's own says enough.
    """
    ours = [
        frame.f_code.co_name
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if is_ours(frame.f_code.co_filename)
    ]
    method = ours[-1] if ours else "a method"  # the last is the guard's, which has the names of the table's
    whose = f" of the table of {_state_words(state)} of operator {operator!r}"
    return _of_backend(backend, method, whose, operator, error)


def _of_backend(
    backend: object, method: str, whose: str, operator: str | None, error: BaseException
) -> BaseException:
    if isinstance(error, ChangelogEngineError | KeyboardInterrupt):
        return error
    lines = user_traceback(error)
    failure = UserFunctionError(
        f"the state backend {type(backend).__qualname__} failed in {method}(){whose}: "
        f"{type(error).__name__}: {_text(error)}\n{lines}"
    )
    failure.traceback, failure.operator, failure.call, failure.place_told = lines, operator, method, True
    failure.__cause__ = error
    return failure


def unfinished_change(operator: str, state: str, error: BaseException) -> UserFunctionError:
    """What to raise when a function caught what came in the middle of a change of its state, and went on."""
    lines = user_traceback(error)
    failure = UserFunctionError(
        f"a function of operator {operator!r} caught {type(error).__name__} in the middle of a change of "
        f"{_state_words(state)}: the log may have the change and the state not, so the epoch "
        "fails. Where a signal handler raises, as for a time limit, have it set a flag instead, or call no state in its "
        f"reach: {_text(error)}\n{lines}"
    )
    failure.traceback, failure.operator, failure.place_told = lines, operator, True
    failure.__cause__ = error
    return failure


def _state_words(state: str) -> str:
    return f"{TIMER_DOMAINS[state]} timers" if state in TIMER_DOMAINS else state_words(state)


def _add_place(error: ChangelogEngineError, call: str, where: str) -> None:
    """Say once what of which operator was under way: the line of a function of the user's, else the key and the element."""
    if error.place_told or error.args[:1] != (str(error),):
        return
    error.place_told = True
    line = _line_of(error)
    if line is not None:
        where = f", {line}"
    error.args = (f"{error}\n  in {call}{where}", *error.args[1:])


def _line_of(error: BaseException) -> str | None:
    """The last line of the user's own that an error came through: its file, number and code."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    if not frames:
        return None
    last = frames[-1]
    return f"{last.filename}, line {last.lineno}" + (f": {last.line}" if last.line else "")


def _made_at(operator: str, error: BaseException) -> str:
    """Where the program asked for an operator, where the error came through no line of the user's."""
    if not isinstance(operator, OperatorName):
        return ""
    if any(_line_of(each) is not None for each in errors_within(error)):
        return ""
    return operator.place


def element_at(values: Sequence[Any], rest: Iterator[Any]) -> Any:
    """The element that a loop failed at: the last one that was taken from an iterator over the values."""
    left = length_hint(rest, -1)
    return values[-left - 1] if 0 <= left < len(values) else NOTHING


def element_in(error: BaseException) -> Any:
    """The element that a connector of ours was at: the ``element`` or ``value`` of its frame that called the user's code."""
    found: dict[str, Any] = {}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if not is_ours(frame.f_code.co_filename):
            break
        found = frame.f_locals
    return found.get("element", found.get("value", NOTHING))


def errors_within(error: BaseException, suppressed: bool = False) -> Iterator[BaseException]:
    """An error, those that it came of, and those of groups, each once.

    Args:
        suppressed: whether those are among them that ``raise ... from None`` hides.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            waiting += reversed(each.exceptions)
        waiting += [each.__cause__, each.__context__] if suppressed else [_came_of(each)]


def user_traceback(error: BaseException) -> str:
    """The traceback without the engine's own frames, after those of the errors that it came of, before those of a group."""
    return _told_of(error, set())


def _told_of(error: BaseException, told: set[int]) -> str:
    """The traceback of an error; of one that is among those told already (their ids), the error alone.

    An error of a group that is raised again was caused by a group that contains it: without ``told`` this would not end.
    """
    chain: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and id(each) not in told:
        told.add(id(each))
        chain.insert(0, each)
        each = _came_of(each)
    if not chain:
        return _last_lines(error)
    words = [
        _alone(each, told) for each in [*chain[:_MOST_OF_CHAIN], *chain[_MOST_OF_CHAIN:][-_MOST_OF_CHAIN:]]
    ]
    if left_out := len(chain) - len(words):
        words.insert(_MOST_OF_CHAIN, f"({left_out} errors are left out here)")
    return "\n\nwhich led to:\n\n".join(words)


def _alone(error: BaseException, told: set[int]) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not is_ours(frame.filename)]
    words = "".join(["Traceback (most recent call last):\n", *traceback.format_list(own or frames)])
    words += _last_lines(error)
    if isinstance(error, BaseExceptionGroup):
        for number, each in enumerate(error.exceptions[:_MOST_OF_GROUP], 1):
            words += f"\n\nwhere {number} of {len(error.exceptions)} is:\n\n"
            words += textwrap.indent(_told_of(each, told), "  ")
    return words


def _last_lines(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception_only(error)).rstrip()
    except BaseException:  # Python asks it for notes, and a user's __getattr__ may raise anything
        return f"{type(error).__name__}: {_text(error)}"


def _came_of(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def user_call(error: BaseException) -> str | None:
    """The name of the user's function that the engine called, as far as the traceback has it."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if not is_ours(frame.f_code.co_filename):
            return frame.f_code.co_name
    return None


def engine_call(error: BaseException, name: str) -> str | None:
    """The name of a function of the engine's, where the error came out of it."""
    return (
        name
        if any(frame.f_code.co_name == name for frame, _ in traceback.walk_tb(error.__traceback__))
        else None
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # as in shown
        return "<no text>"


def is_ctrl_c(error: BaseException) -> bool:
    """Whether a signal raised it, and no code: the interpreter puts those of signals between two instructions."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is None or last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISE
