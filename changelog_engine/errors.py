"""The one tree of exceptions.

A message says what happened, to which file, key, state or operator, and what to do next.

Invariants:
    * Where PyFlink raises one of Python's or Py4J's exceptions, the one here is an instance of it too, so that the
      ``except`` of a program that was written for PyFlink still catches it (docs/errors.md has the table).
"""

from __future__ import annotations

import signal
import traceback
from pickle import PicklingError
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError

HOW_TO_SHIP = (
    "Install what is missing in the Python of the workers, or ship it with the job: env.add_python_file(path) for modules "
    "and packages of your own, env.set_python_requirements(path) for others"
)


MAKES_NO_CHECKPOINTS = (
    "this job makes none: call env.enable_checkpointing(interval); BATCH mode never makes any"
)


class Origin(NamedTuple):
    """What raised first, as it travels from a worker to the driver.

    Args:
        classes: names of its class and of those it derives from, its own first.
        message: what it said, cut to a length.
        frame: the innermost line of the user's code, as ``file:line function``.
        outage: something around the program failed, not the program: a connection, a disk, a database.
    """

    classes: tuple[str, ...]
    message: str
    frame: str
    outage: bool


class ChangelogEngineError(Exception):
    """Base of every error this engine raises on purpose.

    Attributes:
        origin: what raised it in another process; None where ``__cause__`` has it.
        place_told: the message says which call of which operator it came from.
    """

    origin: Origin | None = None
    place_told: bool = False


class RefusedByFlink(Py4JJavaError):
    """What Flink refuses in Java, and PyFlink therefore raises as a Py4JJavaError.

    There is no Java behind these errors: ``str(error)`` is all of the message.
    """

    def __init__(self, *args: Any) -> None:
        Exception.__init__(self, *args)  # Py4J's wants a Java exception

    def __str__(self) -> str:
        """The message."""
        return Exception.__str__(self)

    @property
    def java_exception(self) -> JavaException:
        """What error handlers of PyFlink programs ask of the Java exception, answered from this error."""
        return JavaException(self)


class JavaException:
    """Stands for the Java exception behind PyFlink's errors; has what programs call of one, by Java's names.

    Args:
        error: what it answers from.
    """

    def __init__(self, error: RefusedByFlink) -> None:
        self._error = error

    def getMessage(self) -> str:
        """The error's message, which is all of it."""
        return str(self._error)

    getLocalizedMessage = getMessage

    def getCause(self) -> None:
        """None: the message tells of causes, and ``__cause__`` of the error is Python's."""

    def toString(self) -> str:
        """The error's class and message."""
        return f"{type(self._error).__name__}: {self._error}"

    __str__ = toString

    def printStackTrace(self) -> None:
        """Prints the error with its traceback to standard error."""
        traceback.print_exception(self._error)


class ConfigurationError(ChangelogEngineError, ValueError, RefusedByFlink):
    """An option, a name or an argument that cannot be used."""


class ArgumentTypeError(ConfigurationError, TypeError, AttributeError):
    """An argument of a class that cannot be used there.

    PyFlink raises a TypeError where it looks, an AttributeError where it does not, and Py4J's error where Java looks.
    """


class InvalidJobError(ChangelogEngineError, ValueError, RefusedByFlink):
    """A job graph that cannot run: duplicate uid, keyed state without a key, nothing to execute."""


class NoCurrentKeyError(InvalidJobError):
    """Keyed state, timers or the current key were touched where there is no key.

    Args:
        operator: name of the operator; None while it is not known.
        call: which of the user's functions did so; None in a thread of its own.
        line: the line of it, with its file; None where it is not known.
    """

    def __init__(self, operator: str | None = None, call: str | None = None, line: str | None = None) -> None:
        self.operator = operator
        self.call = call
        self.line = line
        where = "" if operator is None else f" in {call} of operator {operator!r}"
        super().__init__(
            f"keyed state, timers or the current key were touched{where} where there is no current key. There is one only "
            "while an element of a keyed stream or a timer is processed: in open() get the state, and read and write it in "
            "process_element() or on_timer(), in the thread that calls them; what all keys share belongs into broadcast "
            "state, or into fields that open() fills" + ("" if line is None else f"\n  in {line}")
        )

    def __reduce__(self) -> tuple[type[NoCurrentKeyError], tuple[str | None, str | None, str | None]]:
        return type(self), (self.operator, self.call, self.line)


class NotKeyedError(InvalidJobError, AttributeError):
    """A function asked for keyed state, a timer or the current key, and its stream is not keyed.

    In PyFlink the context of such a stream has no ``get_current_key``; the rest it refuses with a plain Exception.

    Attributes:
        operator: the operator's name.
    """

    operator: str | None = None


class TypeMismatchError(ChangelogEngineError, TypeError, ValueError, AttributeError, RefusedByFlink):
    """A value that does not fit its declared type.

    PyFlink raises a ValueError where a tuple or row does not have these fields, an AttributeError where a date is
    something else, and Py4J's error where Java looks.
    """


class UnknownFieldError(ChangelogEngineError, KeyError, ValueError, AttributeError):
    """A row has no field of that name.

    PyFlink raises any of the three, by whether the row has names and how the field is asked for.
    """

    def __str__(self) -> str:
        """The message, without the quotes that KeyError puts round it."""
        return Exception.__str__(self)


class NotSerializableError(ChangelogEngineError, TypeError, AttributeError, PicklingError):
    """A function or value that cannot be shipped to the workers.

    PyFlink raises what pickling raised: a TypeError for a lock, an AttributeError for a local object, or a PicklingError.
    """


class NotLoadableError(ChangelogEngineError, ImportError):
    """A worker cannot load a function of the job: a module is missing there, or its pickled form does not fit."""


class NotSupportedError(ChangelogEngineError, AttributeError):
    """Something that PyFlink has and this version does not; the message says what to use instead."""


class StrangersApiError(ChangelogEngineError, ModuleNotFoundError):
    """``api`` is somebody else's package here, and a module of the engine's API was asked for under this name.

    Args:
        wanted: the name of the module, such as ``api.common``.
        found: the file or folder that ``api`` is.

    Attributes:
        path: the file or folder that ``api`` is.
        write: the name that always works, such as ``changelog_engine.api.common``.
    """

    def __init__(self, wanted: str, found: str) -> None:
        self.write = f"changelog_engine.{wanted}"
        super().__init__(
            f"{wanted!r} is not changelog-engine's here, because 'api' is {found}; write {self.write!r} instead of "
            f"{wanted!r}",
            name=wanted,
            path=found,
        )

    def __reduce__(self) -> tuple[type[StrangersApiError], tuple[str | None, str | None]]:
        return type(self), (self.name, self.path)


class EnvironmentNotReadyError(ChangelogEngineError, RuntimeError):
    """Java or another part of the machine is missing or too old.

    Args:
        fault: what is wrong.
        remedy: what to do, as a sentence without its period; "" for nothing in particular.

    Attributes:
        fault, remedy: as given. The message is both.
    """

    def __init__(self, fault: str = "", remedy: str = "") -> None:
        super().__init__(f"{fault}. {remedy}" if remedy else fault)
        self.fault = fault
        self.remedy = remedy


class StorageError(ChangelogEngineError, OSError):
    """Reading or writing the job's folder failed after bounded retries.

    Attributes:
        path: the file or folder; "" where it is not about one.
    """

    def __init__(self, message: str = "", path: str = "") -> None:
        super().__init__(message)
        self.path = path


class DiskFullError(StorageError):
    """A local disk has no room for the state that a worker process keeps there.

    Attributes:
        path: the folder.
        needed_bytes: size of what could not be written; 0 where that is not known.
        free_bytes: what the disk had left; None where it does not say.
        held_bytes: size of what the folder holds.
    """

    def __init__(
        self,
        message: str,
        path: str = "",
        needed_bytes: int = 0,
        free_bytes: int | None = None,
        held_bytes: int = 0,
    ) -> None:
        super().__init__(message, path)
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes
        self.held_bytes = held_bytes

    def __reduce__(self) -> tuple[type[DiskFullError], tuple[str, str, int, int | None, int]]:
        return type(self), (str(self), self.path, self.needed_bytes, self.free_bytes, self.held_bytes)


class ConnectorError(ChangelogEngineError, RuntimeError):
    """A system that a source or a sink works with refused, lost or never had what it needs."""


class RefusedForGoodError(ConnectorError):
    """A system that a source or a sink works with refused or lost something, and the same would come again.

    A table that is missing, a row that does not fit, a right that nobody gave, a record that cannot be read: somebody must
    mend it. Whatever may pass by itself is a plain ConnectorError.

    Attributes:
        reason: what is the same whichever row or record is met first; "" where it is the message.
    """

    def __init__(self, message: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ForbiddenError(StorageError):
    """The rights of a file or folder, or a disk that is read-only, do not let the job do what it must."""


class DamagedInputError(StorageError):
    """An input file cannot be read as it is: damaged, cut, replaced. Somebody must mend it, else the same comes again."""


class ForeignPathError(StorageError):
    """The base path holds something that this engine did not write; it is left alone."""


class FormatVersionError(StorageError):
    """The changelog was written by a newer format version than this engine reads."""


class CorruptChangelogError(StorageError):
    """A part or checkpoint that fails its checksum or is missing; nothing was changed.

    Args:
        fault: what is wrong, as the rest of a sentence that begins with the path; a whole one where there is no path.
        path: the file, or the table when a file is missing whose name nobody knows; "" for neither.

    Attributes:
        fault, path: as given. The message is both.
    """

    def __init__(self, fault: str = "", path: str = "") -> None:
        super().__init__(f"{path} {fault}" if path else fault, path)
        self.fault = fault


class LostCommitError(CorruptChangelogError):
    """The newest commit of a table is gone or another one: nobody could read what would be committed after it."""


class UncommittedPartError(CorruptChangelogError):
    """A part that is missing or not whole before its checkpoint was committed: the next attempt writes it again."""


class NotLoggedError(CorruptChangelogError):
    """Mutations that are not in the log any more, or never were: truncated, or made while the changelog was off."""


class FencedError(ChangelogEngineError, RuntimeError):
    """Another driver owns the job now; this one must stop."""


class RestoreError(ChangelogEngineError, RuntimeError):
    """The asked-for restore cannot work; nothing was changed."""


class RetiredError(RestoreError):
    """What a checkpoint needs was let go on purpose, or is missing from a copy; others may be there."""


class StateLostError(ChangelogEngineError, RuntimeError):
    """A worker no longer holds state that is newer than the last checkpoint; the job must rewind."""


class StateTooLargeError(ChangelogEngineError, RuntimeError):
    """A state is larger than its checkpoint storage allows."""


class EpochFailedError(ChangelogEngineError, RuntimeError):
    """An epoch did not complete for a reason outside user code (a worker, executor or commit failed).

    Attributes:
        in_engine: this engine's own code raised in a task; nothing was lost.
        ended_from_outside: a process of Spark's or a Python worker ended without an error of its own, as by SIGTERM.
        program_gone: a worker found Spark's file with the job's program removed; the next attempt has another one.
    """

    in_engine = False
    ended_from_outside = False
    program_gone = False


class SparkEndedError(ChangelogEngineError, RuntimeError):
    """The JVM of Spark that the driver works with has ended, or its SparkContext was stopped, and the job with it.

    Attributes:
        pid: its process; None where another process started it.
        status: its exit status, negative for the signal that killed it; None where that is not known.
    """

    pid: int | None = None
    status: int | None = None


class UserFunctionError(ChangelogEngineError, RuntimeError):
    """A user's function raised. The message holds operator, key, element and the user's own traceback.

    Attributes:
        operator: the operator's name.
        call: which of its functions, such as ``process_element``.
        key: the current key as a message shows it; None where there is none.
        element: what the function was called with, likewise.
        traceback: the user's own, with which the message ends; None where the error has no lines of code.
    """

    operator: str | None = None
    call: str | None = None
    key: str | None = None
    element: str | None = None
    traceback: str | None = None


class JobExecutionError(ChangelogEngineError, RuntimeError, RefusedByFlink):
    """The job failed and its restart strategy gave up; ``__cause__`` is the last failure.

    Attributes:
        seen: how often the same mistake came in a row, where that was the reason to give up; else None.
    """

    seen: int | None = None


class JobCancelledError(ChangelogEngineError, RuntimeError, RefusedByFlink):
    """The job was cancelled before it finished."""


class JobInterruptedError(JobCancelledError, SystemExit):
    """Ctrl-C or SIGTERM ended the job, and what there is to say was said.

    It is a SystemExit too, for which Python prints no traceback. A program that does not catch it ends with status 130
    or 143, as shells say of one that the signal ended.

    Args:
        number: of the signal.
    """

    code = 128 + signal.SIGINT

    def __init__(self, message: str = "", number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.code = 128 + number


def class_named(name: str) -> type[ChangelogEngineError]:
    """The class that another process named; that of a failed epoch where this engine has none of the name."""
    found = globals().get(name)
    if isinstance(found, type) and issubclass(found, ChangelogEngineError):
        return found
    return EpochFailedError
