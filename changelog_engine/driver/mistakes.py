"""Which failures a restart can mend: the environment's go away, mistakes in the program come again.

Three kinds:
    * Final at once is what cannot succeed in any attempt: a module that is not there, a function that cannot be loaded, a
      configuration, a declaration.
    * A mistake is what the program's own code does wrong, what another system refuses for good (a row, a login: connectors
      raise a RefusedForGoodError), an input file that is damaged, or somebody who removes parts before their commit. It may
      depend on the moment, so it is tried again; the same one several times, with no checkpoint in between, is final.
    * Everything else is the environment: a worker, an executor, a broker, a disk. The restart strategy alone decides,
      however often it comes.

Invariants:
    * What the environment does never becomes final here.
    * Two failures are the same when class, innermost line of the user's code, and message agree; numbers, addresses and
      quoted values in a message don't count, because the next attempt may fail at another element.
"""

from __future__ import annotations

import re
import traceback

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.config.names import names_of
from changelog_engine.errors import (
    ChangelogEngineError,
    ConfigurationError,
    CorruptChangelogError,
    DamagedInputError,
    EnvironmentNotReadyError,
    EpochFailedError,
    FencedError,
    ForbiddenError,
    ForeignPathError,
    FormatVersionError,
    InvalidJobError,
    NotLoadableError,
    NotSerializableError,
    NotSupportedError,
    Origin,
    RefusedForGoodError,
    RestoreError,
    SparkEndedError,
    StateTooLargeError,
    TypeMismatchError,
    UncommittedPartError,
    UserFunctionError,
)
from changelog_engine.operators.failures import errors_within
from changelog_engine.whose_code import is_users

# What no restart can mend.
FATAL = (
    FencedError,
    ForeignPathError,
    FormatVersionError,
    CorruptChangelogError,
    RestoreError,
    InvalidJobError,
    NotSerializableError,
    NotLoadableError,
    NotSupportedError,
    ConfigurationError,
    EnvironmentNotReadyError,
    StateTooLargeError,
    SparkEndedError,
)
_MISTAKES = (UserFunctionError, TypeMismatchError, RefusedForGoodError)
# Of a user's function: what an attempt later gives again.
_NEVER = {"ImportError", "SyntaxError", "UnpicklingError"}
# A missing or forbidden file is not an outage; other errors of the operating system may be.
_NO_OUTAGE = names_of(
    "FileNotFoundError IsADirectoryError NotADirectoryError PermissionError FileExistsError"
)
# With what PEP 249 has every database driver call what is not under the programmer's control, and errors of clients that are
# not OSError.
_OUTAGES = names_of(
    "OSError OperationalError InterfaceError "
    "RpcError KafkaException KafkaError TransportError HTTPError BotoCoreError ClientError RedisError"
)
_SQLITE_ERROR = 1  # a missing table, wrong SQL: an OperationalError of this driver too
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}\b|\d+(?:\.\d+)?")
_LONGEST = 500


def origin_of(failure: BaseException) -> Origin:
    """What raised a failure first: what came with it from a worker, else its cause here, else itself."""
    if isinstance(failure, ChangelogEngineError) and failure.origin is not None:
        return failure.origin
    first = failure.__cause__ if isinstance(failure, UserFunctionError | EpochFailedError) else None
    return _described(first or failure)


def is_final(failure: ChangelogEngineError) -> bool:
    """Whether no attempt can succeed, whatever the strategy says."""
    if isinstance(failure, FATAL):
        return not isinstance(failure, UncommittedPartError)
    return isinstance(failure, UserFunctionError) and not _NEVER.isdisjoint(origin_of(failure).classes)


def is_mistake(failure: ChangelogEngineError) -> bool:
    """Whether the program's own code did it, or somebody else's refusal that lasts, and not an outage."""
    if isinstance(failure, UncommittedPartError | ForbiddenError | DamagedInputError):
        return True
    if isinstance(failure, _MISTAKES):
        return not origin_of(failure).outage
    # The engine's own code fell over in a task; outages, lost workers and cancelled epochs have no such origin.
    return type(failure) is EpochFailedError and failure.in_engine and not origin_of(failure).outage


def ended_from_outside(failure: ChangelogEngineError) -> bool:
    """Whether Spark's processes ended, and no work of theirs failed."""
    if isinstance(failure, EpochFailedError):
        return failure.ended_from_outside
    return isinstance(failure, SparkEndedError)


def in_engine(error: BaseException, text: str) -> EpochFailedError:
    """What to raise when the engine's own code raised in a task.

    Args:
        text: how it is told; with the traceback, where it leaves its process.
    """
    failure = EpochFailedError(f"a task failed in the engine: {text}")
    failure.origin, failure.in_engine = _described(error), True
    return failure


class Repetitions:
    """Counts how often the same mistake came in a row, with no checkpoint in between.

    Args:
        limit: how often in a row is final; 0 for never.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.seen = 0
        self._last: tuple[str, str, str] | None = None
        self._checkpoint: int | None = None

    def reached(self, failure: ChangelogEngineError, last: Checkpoint | None) -> bool:
        """Take note of what ended the attempt; whether it was one too many. The environment's failures change nothing."""
        if not is_mistake(failure):
            return False
        origin = origin_of(failure)
        same = (origin.classes[0], _normalized(origin.message), origin.frame)
        checkpoint = None if last is None else last.id
        repeated = same == self._last and checkpoint == self._checkpoint
        self.seen = self.seen + 1 if repeated else 1
        self._last, self._checkpoint = same, checkpoint
        return bool(self.limit) and self.seen >= self.limit


def _normalized(message: str) -> str:
    return _VARYING.sub("#", _QUOTED.sub("'#'", message))


def _described(error: BaseException) -> Origin:
    classes = tuple(
        kind.__name__ for kind in type(error).__mro__ if kind not in (object, BaseException, Exception)
    )
    message = _message(error)
    if isinstance(error, RefusedForGoodError) and error.reason:
        message = error.reason
    if isinstance(error, BaseExceptionGroup):  # its own message tells how many there are
        message += "".join(f"; {type(each).__name__}: {_message(each)}" for each in errors_within(error))
    return Origin(
        classes or (type(error).__name__,), message[:_LONGEST], _innermost(error), _is_outage(error)
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST]
    except BaseException:  # a user's __str__ may raise anything
        return ""


def _innermost(error: BaseException) -> str:
    """The innermost line of the user's own code, or of any where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_users(frame.filename)]
    found = (own or frames)[-1:]
    return "".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in found)


def _is_outage(error: BaseException) -> bool:
    """Whether an error, what it was raised from, or one of a group is one of the system around the program."""
    if isinstance(error, RefusedForGoodError):
        # Of a schema's error it is raised from that; while its client's is handled, it says more than the client.
        if error.__cause__ is None:
            return False
        error = error.__cause__
    for each in errors_within(error):
        # Not by getattr(): a user's __getattr__ may raise anything.
        if vars(each).get("sqlite_errorcode") == _SQLITE_ERROR:
            continue
        names = {kind.__name__ for kind in type(each).__mro__}
        if not _OUTAGES.isdisjoint(names) and _NO_OUTAGE.isdisjoint(names):
            return True
    return False
