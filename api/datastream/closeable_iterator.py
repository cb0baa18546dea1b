"""CloseableIterator: the results of a running job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from changelog_engine.errors import JobCancelledError


class CloseableIterator:
    """The elements of a stream while its job runs, from ``execute_and_collect``. Close it: that ends the job.

    Example:
        >>> from changelog_engine.api.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> with env.from_collection([1, 2]).execute_and_collect() as results:  # doctest: +SKIP
        ...     print(list(results))
        [1, 2]

    Source: pyflink.datastream.data_stream.CloseableIterator
    """

    def __init__(self, running_job: Any, results: Iterator[Any]) -> None:
        self._running = running_job
        self._results = results
        self._ended = False

    def __iter__(self) -> Iterator[Any]:
        """This object."""
        return self

    def __next__(self) -> Any:
        """The next element; waits for it.

        Raises:
            StopIteration: the job has ended.
            JobExecutionError: the job failed.
        """
        if self._ended:
            raise StopIteration
        try:
            return next(self._results)
        except StopIteration:
            # The job goes on for a moment after its last element; the next one must not run beside it.
            self._ended = True
            self._running.wait()
            raise
        except Exception:
            self._ended = True  # the job failed
            raise
        except BaseException:
            self.close()  # Ctrl-C
            raise

    def next(self) -> Any:
        """As ``next(iterator)``."""
        return self.__next__()

    def close(self) -> None:
        """Cancel the job if it still runs, and wait for its end. May be called again."""
        if self._ended:
            return
        self._ended = True
        self._running.cancel()
        with contextlib.suppress(JobCancelledError):
            self._running.wait()

    def __enter__(self) -> CloseableIterator:
        """This object."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
