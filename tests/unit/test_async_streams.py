"""AsyncDataStream as programs use it: order, watermarks, retries, timeouts, failures; asking a real HTTP server."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.http_service import UNDER_WAY, Ask, AskOrGiveUp, HttpService

from api.common import Duration, Row, Time, Types, WatermarkStrategy
from api.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    async_retry_predicates,
    async_retry_strategies,
)
from api.datastream.state import ValueStateDescriptor
from changelog_engine.errors import ConfigurationError, InvalidJobError, JobExecutionError, UserFunctionError
from changelog_engine.operators import async_calls, async_io
from changelog_engine.testing import At, OperatorHarness, ScriptedSource, Watermark, without_spark

LONG = Time.minutes(5)
WAITS = {"ordered": AsyncDataStream.ordered_wait, "unordered": AsyncDataStream.unordered_wait}
RETRYING = {
    "ordered": AsyncDataStream.ordered_wait_with_retry,
    "unordered": AsyncDataStream.unordered_wait_with_retry,
}
any_order = pytest.mark.parametrize("order", WAITS)


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(60)  # it has done its work, and may not have ended yet
    assert set(threading.enumerate()) <= before


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    made = StreamExecutionEnvironment.get_execution_environment()
    made.set_parallelism(1)
    return made


def results(stream: Any) -> list[Any]:
    with without_spark(), stream.execute_and_collect("job") as found:
        return list(found)


def failure(stream: Any) -> str:
    with pytest.raises(JobExecutionError) as failed:
        results(stream)
    assert isinstance(failed.value.__cause__, UserFunctionError), failed.value.__cause__
    return str(failed.value.__cause__)


class InTurn(AsyncFunction):
    """Answers elements in the order of their numbers, whatever order they come in; (number, how many) pairs."""

    def __init__(self, last: int) -> None:
        self.last = last

    def open(self, runtime_context: Any) -> None:
        self.ended = {number: asyncio.Event() for number in range(self.last + 1)}
        self.ended[0].set()

    async def async_invoke(self, value: int) -> list[Any]:
        await self.ended[value - 1].wait()
        self.ended[value].set()
        return [value, -value]


class Call(AsyncFunction):
    """Does what a coroutine function does."""

    def __init__(self, invoke: Any, timeout: Any = None) -> None:
        self.invoke = invoke
        self.late = timeout

    async def async_invoke(self, value: Any) -> Any:
        return await self.invoke(value)

    def timeout(self, value: Any) -> Any:
        return super().timeout(value) if self.late is None else self.late(value)


async def never(value: Any) -> list[Any]:
    await asyncio.Event().wait()
    return []


# --- order, watermarks, capacity ---------------------------------------------------------------------------------------


def test_ordered_results_have_the_order_of_the_elements(env: StreamExecutionEnvironment) -> None:
    stream = AsyncDataStream.ordered_wait(env.from_collection([3, 1, 4, 2]), InTurn(4), LONG)
    assert results(stream) == [3, -3, 1, -1, 4, -4, 2, -2]


def test_unordered_results_come_as_they_are_there(env: StreamExecutionEnvironment) -> None:
    stream = AsyncDataStream.unordered_wait(env.from_collection([3, 1, 4, 2]), InTurn(4), LONG)
    assert results(stream) == [1, -1, 2, -2, 3, -3, 4, -4]


class Later(AsyncFunction):
    """The elements before the watermark, 1 and 2, take longer than those behind it."""

    def open(self, runtime_context: Any) -> None:
        self.second = asyncio.Event()

    async def async_invoke(self, value: int) -> list[int]:
        if value < 3:
            await self.second.wait()
        if value == 4:
            self.second.set()
        return [value]


@any_order
def test_no_result_passes_a_watermark_and_each_has_its_elements_time(
    env: StreamExecutionEnvironment, order: str
) -> None:
    stream = WAITS[order](env.from_collection([0]), Later(), LONG).uid("later")
    with OperatorHarness(_graph(env, stream), "later") as harness:
        operator, collected = harness._runtime.operators[harness._node], harness._output
        marks: list[Any] = []
        collected.watermark = lambda mark: marks.append((mark, len(collected.elements)))  # type: ignore[method-assign]
        operator.process([1, 2], [10, 20])  # as in one epoch of a job: the harness would end one after each
        operator.watermark(25)
        operator.process([3, 4], [30, 40])
        operator.end_epoch(0)
        operator.watermark(50)
        found = harness.output_with_timestamps
    assert sorted(found[:2]) == [(1, 10), (2, 20)]
    assert sorted(found[2:]) == [(3, 30), (4, 40)]
    assert marks == [(25, 2), (50, 4)]


class Seen(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


def test_timestamps_and_watermarks_in_a_job(env: StreamExecutionEnvironment) -> None:
    script = [At(1, 10), At(2, 20), Watermark(25), At(3, 30), At(4, 40)]
    source = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "source")
    found = results(AsyncDataStream.ordered_wait(source, Call(twice), LONG).process(Seen()))
    least = -(2**63)
    assert found == [(2, 10, least), (4, 20, least), (6, 30, 25), (8, 40, 25)]


def _graph(env: StreamExecutionEnvironment, stream: Any) -> Any:
    stream.print()
    return env.generate_stream_graph()


@any_order
@pytest.mark.parametrize("capacity", [1, 7, 100])
def test_never_more_than_capacity_is_under_way(
    env: StreamExecutionEnvironment, order: str, capacity: int
) -> None:
    COUNTED[:] = [0, 0]
    stream = WAITS[order](env.from_collection(list(range(300))), Call(counted_call), LONG, capacity)
    found = results(stream)
    assert (found if order == "ordered" else sorted(found)) == list(range(300))
    assert tuple(COUNTED) == (0, capacity)


COUNTED = [0, 0]  # now, and most


async def counted_call(value: int) -> list[int]:
    COUNTED[0] += 1
    COUNTED[1] = max(COUNTED)
    await asyncio.sleep(0.001)
    COUNTED[0] -= 1
    return [value]


def test_a_slow_first_element_bounds_what_waits_behind_it(env: StreamExecutionEnvironment) -> None:
    """As in Flink, results that wait for their turn hold their places."""

    class First(AsyncFunction):
        def open(self, runtime_context: Any) -> None:
            self.begun: list[int] = []

        async def async_invoke(self, value: int) -> list[int]:
            self.begun.append(value)
            if value == 0:
                await asyncio.sleep(0.05)
                return [len(self.begun)]
            return []

    stream = AsyncDataStream.ordered_wait(env.from_collection(list(range(50))), First(), LONG, 5)
    assert results(stream) == [5]


# --- a real server -------------------------------------------------------------------------------------------------------


@any_order
def test_a_thousand_requests_with_a_hundred_at_a_time(env: StreamExecutionEnvironment, order: str) -> None:
    with HttpService(delay_ms=50) as service:
        paths = [f"/ok/{number}" for number in range(1000)]
        stream = WAITS[order](env.from_collection(paths), Ask(service.port), LONG, 100)
        found = results(stream)
        assert UNDER_WAY == [100]  # all places were used, and no more
        assert service.most_open <= 100
        assert service.asked == dict.fromkeys(paths, 1)
    assert (found if order == "ordered" else sorted(found, key=lambda pair: int(pair[1]))) == [
        (path, path[4:]) for path in paths
    ]


@any_order
def test_errors_drops_and_hangs_of_a_server(env: StreamExecutionEnvironment, order: str) -> None:
    paths = ["/ok/1", "/flaky/2", "/hang/3", "/ok/4", "/slow/30"]
    with HttpService() as service:
        strategy = AsyncRetryStrategy.fixed_delay(
            5,
            1,
            None,
            functools.partial(async_retry_predicates.exception_type_predicate, expected_error_type=OSError),
        )
        stream = RETRYING[order](
            env.from_collection(paths), AskOrGiveUp(service.port), Time.milliseconds(1500), strategy
        )
        found = results(stream)
        assert service.asked["/flaky/2"] == 3
        assert service.asked["/hang/3"] == 1
    expected = [(path, None if "hang" in path else path.split("/")[2]) for path in paths]
    assert (found if order == "ordered" else sorted(found)) == (
        expected if order == "ordered" else sorted(expected)
    )


@pytest.mark.parametrize(
    ("path", "said"), [("/error/7", "OSError: /error/7: status 500"), ("/drop/8", "ConnectionResetError")]
)
def test_a_server_that_fails_fails_the_job(env: StreamExecutionEnvironment, path: str, said: str) -> None:
    with HttpService() as service:
        stream = AsyncDataStream.unordered_wait(
            env.from_collection(["/ok/1", path, "/hang/2"]), Ask(service.port), LONG
        ).name("ask")
        text = failure(stream)
    assert f"async_invoke of operator 'ask', element '{path}' raised" in text
    assert said in text
    assert "http_service.py" in text  # the user's traceback


# --- retries ---------------------------------------------------------------------------------------------------------------


class Fails(AsyncFunction):
    """Fails for the first attempts; then says how many there were."""

    def __init__(self, failures: int, empty: bool = False) -> None:
        self.failures, self.empty = failures, empty

    def open(self, runtime_context: Any) -> None:
        self.attempts: dict[Any, int] = {}

    async def async_invoke(self, value: Any) -> list[Any]:
        attempt = self.attempts[value] = self.attempts.get(value, 0) + 1
        if attempt <= self.failures:
            if self.empty:
                return []
            raise ValueError(f"attempt {attempt}")
        return [(value, attempt)]


def test_retries_after_exceptions_and_empty_results(env: StreamExecutionEnvironment) -> None:
    source = env.from_collection([1, 2])
    predicates = {
        False: (None, async_retry_predicates.has_exception_predicate),
        True: (async_retry_predicates.empty_result_predicate, None),
    }
    for empty, pair in predicates.items():
        for strategy in (
            AsyncRetryStrategy.fixed_delay(2, 1, *pair),
            AsyncRetryStrategy.exponential_backoff(2, 1, 3, 2.0, *pair),
        ):
            stream = AsyncDataStream.ordered_wait_with_retry(source, Fails(2, empty), LONG, strategy)
            assert results(stream) == [(1, 3), (2, 3)]
    strategy = AsyncRetryStrategy.fixed_delay(2, 1, *predicates[True])
    assert results(AsyncDataStream.ordered_wait_with_retry(source, Fails(9, True), LONG, strategy)) == []


def test_when_there_are_no_more_retries_the_last_error_counts(env: StreamExecutionEnvironment) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 1, None, async_retry_predicates.has_exception_predicate)
    stream = AsyncDataStream.ordered_wait_with_retry(env.from_collection([1]), Fails(9), LONG, strategy)
    assert (
        "async_invoke (attempt 3) of operator 'async wait operator', element 1 raised ValueError: attempt 3"
        in (failure(stream))
    )
    picky = AsyncRetryStrategy.fixed_delay(2, 1, None, lambda error: isinstance(error, OSError))
    stream = AsyncDataStream.ordered_wait_with_retry(env.from_collection([1]), Fails(9), LONG, picky)
    assert "async_invoke of operator 'async wait operator', element 1 raised ValueError: attempt 1" in (
        failure(stream)
    )


def test_a_predicate_that_fails_and_a_strategy_of_ones_own(env: StreamExecutionEnvironment) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 1, lambda found: found[0] > 1, None)
    stream = AsyncDataStream.ordered_wait_with_retry(env.from_collection([1]), Fails(9, True), LONG, strategy)
    assert "the retry strategy of operator 'async wait operator', element 1 raised IndexError" in failure(
        stream
    )

    class Own(AsyncRetryStrategy[Any]):
        def can_retry(self, current_attempts: int) -> bool:
            return current_attempts < 4

        def get_backoff_time_millis(self, current_attempts: int) -> int:
            return 0

        def get_retry_predicate(self) -> AsyncRetryPredicate[Any]:
            return async_retry_strategies.RetryPredicate(None, lambda error: True)

    stream = AsyncDataStream.ordered_wait_with_retry(env.from_collection([1]), Fails(3), LONG, Own())
    assert results(stream) == [(1, 4)]


def test_the_timeout_covers_all_attempts(env: StreamExecutionEnvironment) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(
        1000, 600_000, None, async_retry_predicates.has_exception_predicate
    )

    class Late(Fails):
        def timeout(self, value: Any) -> list[Any]:
            return [(value, self.attempts[value])]

    stream = AsyncDataStream.unordered_wait_with_retry(
        env.from_collection([1, 2]), Late(9), Time.milliseconds(50), strategy
    )
    assert results(stream) == [(1, 1), (2, 1)]


# --- timeouts --------------------------------------------------------------------------------------------------------------


@any_order
def test_one_that_never_answers_ends_in_the_users_timeout(
    env: StreamExecutionEnvironment, order: str
) -> None:
    async def some(value: int) -> list[str]:
        if value % 2:
            await never(value)
        return [f"{value}"]

    stream = WAITS[order](
        env.from_collection([1, 2, 3, 4]),
        Call(some, lambda value: [f"{value} is late"]),
        Duration.of_millis(40),
    )
    found = results(stream)
    expected = ["1 is late", "2", "3 is late", "4"]
    assert (found if order == "ordered" else sorted(found)) == expected


def test_by_default_a_timeout_is_an_error(env: StreamExecutionEnvironment) -> None:
    stream = AsyncDataStream.ordered_wait(env.from_collection([5]), Call(never), Time.milliseconds(20))
    text = failure(stream.name("ask").uid("ask"))
    assert (
        "timeout of operator 'ask', element 5 raised TimeoutError: Async function call has timed out for input: 5"
        in text
    )


def test_a_timeout_of_zero_is_none(env: StreamExecutionEnvironment) -> None:
    async def slow(value: int) -> list[int]:
        await asyncio.sleep(0.02)
        return [value]

    for nothing in (Time.milliseconds(0), Time.milliseconds(-5)):
        assert results(AsyncDataStream.ordered_wait(env.from_collection([5]), Call(slow), nothing)) == [5]


def test_places_are_free_again_after_a_timeout(env: StreamExecutionEnvironment) -> None:
    stream = AsyncDataStream.unordered_wait(
        env.from_collection(list(range(10))), Call(never, lambda value: []), Time.milliseconds(10), 2
    )
    assert results(stream) == []


def test_a_call_that_ignores_its_cancellation_is_an_error(
    env: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_calls, "GRACE_S", 0.05)

    async def stubborn(value: int) -> list[int]:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return [value]

    stream = AsyncDataStream.unordered_wait(
        env.from_collection([1]), Call(stubborn, lambda value: []), Time.milliseconds(10)
    )
    text = failure(stream)
    assert "element 1: the call goes on" in text
    assert "Let asyncio.CancelledError pass" in text


def test_a_call_that_blocks_the_loop_is_named(
    env: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_calls, "GRACE_S", 0.05)
    monkeypatch.setattr(async_io, "_WATCH_S", 0.02)

    async def blocking(value: int) -> list[int]:
        time.sleep(1)  # the mistake
        return [value]

    stream = AsyncDataStream.unordered_wait(env.from_collection([1]), Call(blocking), Time.milliseconds(10))
    text = failure(stream)
    assert "keeps the event loop from turning" in text
    assert "time.sleep(1)  # the mistake" in text
    time.sleep(1.2)  # the thread ends with the call


# --- failures --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        StopIteration(3),
        StopAsyncIteration(),
        asyncio.CancelledError("mine"),
        GeneratorExit(),
        KeyboardInterrupt(),
        SystemExit(3),
        TimeoutError("mine"),
        BaseException("base"),
    ],
    ids=lambda error: type(error).__name__,
)
@any_order
def test_whatever_is_raised_fails_the_job(
    env: StreamExecutionEnvironment, error: BaseException, order: str
) -> None:
    async def wrong(value: int) -> list[int]:
        if value == 3:
            raise error
        await asyncio.sleep(0)
        return [value]

    stream = WAITS[order](env.from_collection(list(range(9))), Call(wrong), LONG).name("ask")
    text = failure(stream)
    assert "async_invoke of operator 'ask', element 3 raised" in text
    assert type(error).__name__ in text
    assert "raise error" in text

    def late(value: int) -> list[int]:
        raise error

    stream = WAITS[order](env.from_collection([4]), Call(never, late), Time.milliseconds(10)).name("ask")
    text = failure(stream)
    assert f"timeout of operator 'ask', element 4 raised {type(error).__name__}" in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "returned None"),
        (7, "returned 7, which is not iterable"),
        ("text", "returned 'text', which is one value"),
        (b"text", "which is one value"),
        ({"a": 1}, "which is one value"),
        (Row(1, 2), "which is one value"),
    ],
)
def test_what_is_returned_must_be_a_list_of_results(
    env: StreamExecutionEnvironment, given: Any, said: str
) -> None:
    async def give(value: int) -> Any:
        return given

    for stream in (
        AsyncDataStream.ordered_wait(env.from_collection([1]), Call(give), LONG),
        AsyncDataStream.ordered_wait_with_retry(
            env.from_collection([1]),
            Call(give),
            LONG,
            AsyncRetryStrategy.fixed_delay(1, 1, async_retry_predicates.empty_result_predicate, None),
        ),
        AsyncDataStream.ordered_wait(
            env.from_collection([1]), Call(never, lambda value: given), Time.milliseconds(10)
        ),
    ):
        text = failure(stream)
        assert said in text
        assert "must return a list of results, [] for none" in text


def test_other_collections_are_results_too(env: StreamExecutionEnvironment) -> None:
    async def give(value: int) -> Any:
        return [(1, 2), {3}, iter([4]), (5 for _ in range(2)), range(0)][value]

    stream = AsyncDataStream.ordered_wait(env.from_collection(list(range(5))), Call(give), LONG)
    assert results(stream) == [1, 2, 3, 4, 5, 5]


class Reused(AsyncFunction):
    """Fills the same list again for each element; at its timeout too."""

    def open(self, runtime_context: Any) -> None:
        self.kept: list[Any] = [[]]

    async def async_invoke(self, value: int) -> list[Any]:
        if value > 2:
            await never(value)
        return self.timeout(value)

    def timeout(self, value: int) -> list[Any]:
        self.kept[0].append(value)
        return self.kept


class NoCopy:
    def __deepcopy__(self, memo: Any) -> Any:
        raise SystemExit("not me")


def test_results_stay_as_they_were_given(env: StreamExecutionEnvironment) -> None:
    stream = AsyncDataStream.ordered_wait(env.from_collection([1, 2, 3, 4]), Reused(), Time.milliseconds(20))
    assert results(stream) == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]

    async def give(value: int) -> Any:
        return [NoCopy()]

    stream = AsyncDataStream.ordered_wait(env.from_collection([1]), Call(give), LONG)
    assert "element 1 raised SystemExit: not me" in failure(stream)


def test_results_are_checked_against_the_declared_type(env: StreamExecutionEnvironment) -> None:
    async def give(value: int) -> Any:
        return ["text"]

    stream = AsyncDataStream.ordered_wait(env.from_collection([1]), Call(give), LONG, 10, Types.LONG())
    with pytest.raises(JobExecutionError, match=r"async wait operator.*LONG"):
        results(stream)


def test_what_a_users_task_does_does_not_end_the_loop(env: StreamExecutionEnvironment) -> None:
    class Careless(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            loop = asyncio.get_running_loop()
            if value == 1:
                loop.stop()
            if value == 2:
                loop.call_soon(self.exit)
            if value == 3:
                self.left = asyncio.create_task(never(value))
            await asyncio.sleep(0.01)
            return [value]

        def exit(self) -> None:
            raise SystemExit(1)

    stream = AsyncDataStream.ordered_wait(env.from_collection([0, 1, 2, 3, 4]), Careless(), LONG)
    assert results(stream) == [0, 1, 2, 3, 4]


def test_when_another_operator_fails_calls_are_cancelled(env: StreamExecutionEnvironment) -> None:
    ENDED.clear()
    slow = AsyncDataStream.unordered_wait(env.from_collection([1, 2]), Call(never_ending), LONG)
    with OperatorHarness(_graph(env, slow.uid("slow")), "slow") as harness:
        runtime, operator = harness._runtime, harness._runtime.operators[harness._node]

        def breaks(now_ms: int) -> None:
            while len(BEGUN) < 2:
                time.sleep(0.001)
            raise ValueError("another operator")

        BEGUN.clear()
        operator.end_epoch = breaks  # type: ignore[method-assign]
        harness._exchanges[0].process([1, 2], None)
        with pytest.raises(ValueError, match="another operator"):
            harness._run(harness._exchanges)
        assert sorted(ENDED) == [1, 2]
        assert runtime.done is None


BEGUN: list[int] = []
ENDED: list[int] = []


async def never_ending(value: int) -> list[int]:
    BEGUN.append(value)
    try:
        return await never(value)
    finally:
        await asyncio.sleep(0)
        ENDED.append(value)


# --- life cycle ------------------------------------------------------------------------------------------------------------


class Life(AsyncFunction):
    """Notes what is called, and in which thread."""

    async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
        self.loop = asyncio.get_running_loop()
        LIFE.append(("open", runtime_context.get_index_of_this_subtask()))

    async def async_invoke(self, value: int) -> list[int]:
        assert asyncio.get_running_loop() is self.loop
        return [value]

    async def close(self) -> None:  # type: ignore[override]
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        LIFE.append(("close", 0))


LIFE: list[tuple[str, int]] = []


def test_open_and_close_may_be_coroutines(env: StreamExecutionEnvironment) -> None:
    LIFE.clear()
    assert results(AsyncDataStream.ordered_wait(env.from_collection([1]), Life(), LONG)) == [1]
    assert LIFE == [("open", 0), ("close", 0)]


@pytest.mark.parametrize("coroutine", [False, True])
def test_open_and_close_that_fail(env: StreamExecutionEnvironment, coroutine: bool) -> None:
    class Broken(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            return [value]

    def fails(self: Any, *arguments: Any) -> None:
        raise OSError("no connection")

    async def fails_later(self: Any, *arguments: Any) -> None:
        raise SystemExit("no connection")

    for method in ("open", "close"):
        function = type("Broken", (Broken,), {method: fails_later if coroutine else fails})()
        stream = AsyncDataStream.ordered_wait(env.from_collection([1]), function, LONG).name("ask")
        assert f"{method} of operator 'ask' raised" in failure(stream)


def test_there_is_no_keyed_state(env: StreamExecutionEnvironment) -> None:
    class Stateful(AsyncFunction):
        def open(self, runtime_context: Any) -> None:
            runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        async def async_invoke(self, value: int) -> list[int]:
            return [value]

    stream = AsyncDataStream.ordered_wait(
        env.from_collection([1]).key_by(lambda value: value), Stateful(), LONG
    )
    with pytest.raises(
        JobExecutionError, match="asks for keyed state 'count', but an async function has none"
    ):
        results(stream)


# --- in programs -----------------------------------------------------------------------------------------------------------


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


async def twice(value: int) -> list[int]:
    await asyncio.sleep(0)
    return [2 * value]


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
@any_order
def test_between_other_operators_on_any_stream(
    env: StreamExecutionEnvironment, mode: RuntimeExecutionMode, order: str
) -> None:
    env.set_runtime_mode(mode)
    env.set_parallelism(2)
    wait = functools.partial(WAITS[order], async_function=Call(twice), timeout=LONG, capacity=3)
    numbers = env.from_collection(list(range(20)), Types.LONG())
    chained = wait(wait(numbers.map(lambda n: n + 1)).filter(lambda n: n % 4 == 0)).map(
        lambda n: ("chained", n)
    )
    keyed = wait(numbers.key_by(lambda n: n % 3)).map(lambda n: ("keyed", n))
    spread = wait(numbers.rebalance()).map(lambda n: ("spread", n))

    class Odd(ProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Any:
            yield (ODD, value) if value % 2 else value

    aside = wait(numbers.process(Odd()).get_side_output(ODD)).map(lambda n: ("aside", n))
    counted = wait(numbers).key_by(lambda n: n % 4).process(Count()).map(lambda pair: ("counted", pair))
    found = results(chained.union(keyed, spread, aside, counted))
    by_name: dict[str, list[Any]] = {}
    for name, value in found:
        by_name.setdefault(name, []).append(value)
    assert sorted(by_name["chained"]) == [4 * n for n in range(2, 21, 2)]
    assert sorted(by_name["keyed"]) == sorted(by_name["spread"]) == [2 * n for n in range(20)]
    assert sorted(by_name["aside"]) == [2 * n for n in range(1, 20, 2)]
    assert sorted(by_name["counted"]) == [(key, n) for key in (0, 2) for n in range(1, 11)]


ODD = OutputTag("odd", Types.LONG())


def test_a_keyed_stream_in_batch_mode_comes_key_by_key(env: StreamExecutionEnvironment) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_collection([1, 2, 3, 4, 5], Types.LONG()).key_by(lambda n: n % 2, Types.LONG())
    found = results(AsyncDataStream.ordered_wait(numbers, Call(twice), LONG))
    assert found == [4, 8, 2, 6, 10]


def test_in_a_harness_and_after_a_failure(env: StreamExecutionEnvironment) -> None:
    async def some(value: int) -> list[int]:
        if value == 2:
            raise ValueError("two")
        return await twice(value)

    stream = AsyncDataStream.unordered_wait(env.from_collection([0]), Call(some), LONG).uid("ask")
    with OperatorHarness(_graph(env, stream), "ask") as harness:
        harness.process_element(1, 10)
        with pytest.raises(UserFunctionError, match="element 2 raised ValueError: two"):
            harness.process_element(2, 20)
        harness.process_element(3, 30)
        harness.process_watermark(30)
        assert harness.output_with_timestamps == [(2, 10), (6, 30)]
        snapshot = harness.snapshot()
        harness.restore(snapshot)
        harness.process_element(4, 40)
        assert harness.output[-1] == 8


def test_waiting_for_the_last_answers_is_no_work_to_the_epochs_size(env: StreamExecutionEnvironment) -> None:
    async def slow(value: int) -> list[int]:
        await asyncio.sleep(0.3)
        return [value]

    stream = AsyncDataStream.unordered_wait(env.from_collection([0]), Call(slow), LONG).uid("ask")
    with OperatorHarness(_graph(env, stream), "ask") as harness:
        harness._exchanges[0].process([1, 2, 3], None)
        blocks = [block for _, block in harness._exchanges[0].blocks()]
        began = time.monotonic()
        _, report = harness._runtime.run(harness._order(), blocks)
        assert report.work_ms < (time.monotonic() - began) * 1000 - 100


# --- arguments -------------------------------------------------------------------------------------------------------------


class Plain(AsyncFunction):
    def async_invoke(self, value: Any) -> Any:  # type: ignore[override]
        return [value]


class Yielding(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        yield value


class LateLater(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        return [value]

    async def timeout(self, value: Any) -> Any:  # type: ignore[override]
        return []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"data_stream": [1]}, "must be a DataStream"),
        ({"async_function": len}, "needs an AsyncFunction, got"),
        ({"async_function": Call}, "needs an object, got the class Call"),
        ({"async_function": Plain()}, "async_invoke of Plain must be declared as 'async def'"),
        ({"async_function": Yielding()}, "async_invoke of Yielding yields"),
        ({"async_function": LateLater()}, "timeout of LateLater must be declared as 'def'"),
        ({"timeout": 5}, "timeout must be a Time"),
        ({"capacity": 0}, "capacity must be at least 1"),
        ({"capacity": 2.5}, "capacity must be a whole number"),
        ({"output_type": Types.LONG}, "output_type must be a TypeInformation"),
        ({"async_retry_strategy": None}, "must be an AsyncRetryStrategy"),
        ({"timeout": Time.seconds(0)}, "with retries the timeout must be more than 0"),
    ],
)
def test_arguments_that_cannot_be_used(
    env: StreamExecutionEnvironment, changed: dict[str, Any], said: str
) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(1, 1, None, None)
    given = {
        "data_stream": env.from_collection([1]),
        "async_function": Call(twice),
        "timeout": LONG,
        "async_retry_strategy": strategy,
    }
    with pytest.raises(ConfigurationError, match=said):
        AsyncDataStream.ordered_wait_with_retry(**{**given, **changed})


def test_side_outputs_are_not_to_be_had(env: StreamExecutionEnvironment) -> None:
    stream = AsyncDataStream.ordered_wait(env.from_collection([1]), Call(twice), LONG)
    with pytest.raises(InvalidJobError, match="no side outputs"):
        stream.get_side_output(ODD)


def test_pauses_of_strategies() -> None:
    growing = AsyncRetryStrategy.exponential_backoff(4, 100, 1000, 3, None, None)
    assert [growing.get_backoff_time_millis(n) for n in (1, 2, 3, 4, 10**9)] == [100, 300, 900, 1000, 1000]
    assert growing.get_backoff_time_millis(1) == 100
    assert [growing.can_retry(n) for n in (1, 4, 5)] == [True, True, False]
    none = AsyncRetryStrategy.no_restart()
    assert none is async_retry_strategies.NO_RETRY_STRATEGY
    assert not none.can_retry(1)
    for wrong in (0, -1, "1", True):
        with pytest.raises(ConfigurationError, match="max_attempts"):
            AsyncRetryStrategy.fixed_delay(wrong, 1, None, None)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="above 0"):
            AsyncRetryStrategy.fixed_delay(1, wrong, None, None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="result_predicate must be a function"):
        AsyncRetryStrategy.fixed_delay(1, 1, 5, None)  # type: ignore[arg-type]


def test_duck_typed_functions_run(env: StreamExecutionEnvironment) -> None:
    class Duck:
        async def async_invoke(self, value: int) -> list[int]:
            return [value]

        def timeout(self, value: int) -> list[int]:
            return []

    assert results(AsyncDataStream.ordered_wait(env.from_collection([1]), Duck(), LONG)) == [1]  # type: ignore[arg-type]
