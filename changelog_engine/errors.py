"""The one tree of exceptions.

A message says what happened, to which file, key, state or operator, and what to do next.
"""

from __future__ import annotations


class ChangelogEngineError(Exception):
    """Base of every error this engine raises on purpose."""


class ConfigurationError(ChangelogEngineError, ValueError):
    """An option, a name or an argument that cannot be used."""


class InvalidJobError(ChangelogEngineError, ValueError):
    """A job graph that cannot run: duplicate uid, keyed state without a key, nothing to execute."""


class TypeMismatchError(ChangelogEngineError, TypeError):
    """A value that does not fit its declared type."""


class NotSerializableError(ChangelogEngineError, TypeError):
    """A function or value that cannot be shipped to the workers."""


class NotSupportedError(ChangelogEngineError, AttributeError):
    """Something that PyFlink has and this version does not; the message says what to use instead."""


class EnvironmentNotReadyError(ChangelogEngineError, RuntimeError):
    """Java or another part of the machine is missing or too old."""


class StorageError(ChangelogEngineError, OSError):
    """Reading or writing the job's folder failed after bounded retries."""


class ConnectorError(ChangelogEngineError, RuntimeError):
    """A system that a source or a sink works with refused, lost or never had what it needs."""


class ForeignPathError(StorageError):
    """The base path holds something that this engine did not write; it is left alone."""


class FormatVersionError(StorageError):
    """The changelog was written by a newer format version than this engine reads."""


class CorruptChangelogError(StorageError):
    """A part or checkpoint that fails its checksum or is missing; nothing was changed."""


class FencedError(ChangelogEngineError, RuntimeError):
    """Another driver owns the job now; this one must stop."""


class RestoreError(ChangelogEngineError, RuntimeError):
    """The asked-for restore cannot work; nothing was changed."""


class StateLostError(ChangelogEngineError, RuntimeError):
    """A worker no longer holds state that is newer than the last checkpoint; the job must rewind."""


class StateTooLargeError(ChangelogEngineError, RuntimeError):
    """A state is larger than its checkpoint storage allows."""


class EpochFailedError(ChangelogEngineError, RuntimeError):
    """An epoch did not complete for a reason outside user code (a worker, executor or commit failed)."""


class UserFunctionError(ChangelogEngineError, RuntimeError):
    """A user's function raised. The message holds operator, key and the user's own traceback."""


class JobExecutionError(ChangelogEngineError, RuntimeError):
    """The job failed and its restart strategy gave up; ``__cause__`` is the last failure."""


class JobCancelledError(ChangelogEngineError, RuntimeError):
    """The job was cancelled before it finished."""
