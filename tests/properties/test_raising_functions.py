"""Whatever a user's function raises, wherever it does: the job fails, and the error says where. Reliability 44."""

from __future__ import annotations

import random
import re

import pytest
from support.chance import chosen_seed
from support.jobs import NO_RESTART, TestJob
from support.raising import PLACES, Trap, all_exceptions, graph_of, made

from changelog_engine.errors import JobExecutionError, NotSerializableError, UserFunctionError

ELEMENTS = 30
# Nobody asks for these by name, so they are caught as what they derive from: one in three at each place.
CAUGHT_AS_THEIR_BASE = re.compile(
    r"\w*Warning|Connection\w+Error|(ChildProcess|IsADirectory|NotADirectory|Permission|Interrupted|Indentation|Tab"
    r"|UnboundLocal|Name|Reference|System|FloatingPoint|ZeroDivision)Error"
)


def failure_at(tmp_path, place, trap, parallelism=1):
    """What a job ends with whose function raises."""
    job = TestJob(tmp_path, restart=NO_RESTART, checkpoint_interval_ms=None)
    with pytest.raises(JobExecutionError) as raised:
        job.run_driver(graph_of(PLACES[place], trap, list(range(ELEMENTS)), parallelism))
    return raised.value.__cause__


@pytest.mark.parametrize("place", PLACES)
def test_case_44_every_exception_at_every_place_fails_the_job(tmp_path, place):
    seed = chosen_seed()
    choose = random.Random(seed)
    where = PLACES[place]
    for name in all_exceptions():
        if CAUGHT_AS_THEIR_BASE.fullmatch(name) and choose.randrange(3):
            continue
        at = choose.randrange(3, ELEMENTS)
        failure = failure_at(tmp_path, place, Trap(name, at), choose.choice((1, 2)))
        assert isinstance(failure, UserFunctionError), (name, failure)
        cause = failure.__cause__
        if isinstance(cause, RuntimeError) and name in ("StopIteration", "StopAsyncIteration"):
            cause = cause.__cause__ or cause  # a generator makes one of the other
        assert type(cause) is type(made(name)), (name, cause)
        assert (failure.operator, failure.call) == (where.name, where.call)
        assert failure.key is None if not where.keyed else failure.key in ("0", "1", "2")
        if where.element:
            assert int(failure.element) == at or place == "window create_accumulator"
        for words in (where.call, where.name, name, "raising.py"):
            assert words in str(failure), (name, str(failure))


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_lost_where_nothing_is_raised(tmp_path, place):
    job = TestJob(tmp_path, restart=NO_RESTART, checkpoint_interval_ms=None)
    job.run_driver(graph_of(PLACES[place], Trap("", 3), list(range(ELEMENTS))))
    assert job.lines


class Unspeakable:
    """Raises when it is shown."""

    def __repr__(self):
        raise StopIteration("no repr")


def test_elements_and_errors_that_cannot_be_shown(tmp_path):
    class Silent(Exception):
        def __str__(self):
            raise ValueError("no text")

    from api.datastream import StreamExecutionEnvironment

    def fail(value):
        raise Silent()

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).map(lambda _: Unspeakable()).map(fail).name("fails").print()
    job = TestJob(tmp_path, restart=NO_RESTART, checkpoint_interval_ms=None)
    with pytest.raises(
        JobExecutionError, match=r"map of operator 'fails', element <Unspeakable.*> raised Silent"
    ):
        job.run_driver(env.generate_stream_graph())


def test_a_truth_that_raises_is_the_filters(tmp_path):
    class Truth:
        def __bool__(self):
            raise StopIteration

    from api.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1, 2]).filter(lambda _: Truth()).name("keeps").print()
    job = TestJob(tmp_path, restart=NO_RESTART, checkpoint_interval_ms=None)
    with pytest.raises(
        JobExecutionError, match=r"filter of operator 'keeps', element 1 raised StopIteration"
    ):
        job.run_driver(env.generate_stream_graph())


def test_ctrl_c_while_a_function_runs_is_no_failure_of_the_function(tmp_path):
    import signal

    from api.datastream import StreamExecutionEnvironment

    def press(value):
        signal.raise_signal(signal.SIGINT)
        return value

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).map(press).print()
    job = TestJob(tmp_path, restart=NO_RESTART, checkpoint_interval_ms=None)
    # It is ignored where tests run in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            job.run_driver(env.generate_stream_graph())
    finally:
        signal.signal(signal.SIGINT, before)


def test_facts_of_a_failure_reach_the_driver():
    from changelog_engine.errors import NoCurrentKeyError
    from changelog_engine.operators.failures import user_failure
    from changelog_engine.spark.task import describe_failure, failure_of

    failure = failure_of(describe_failure(user_failure(StopIteration("no"), "counts", "map", "a", 17)))
    assert isinstance(failure, UserFunctionError)
    assert (failure.operator, failure.call, failure.key, failure.element) == ("counts", "map", "'a'", "17")
    keyless = failure_of(describe_failure(user_failure(NoCurrentKeyError(), "counts", "open")))
    assert isinstance(keyless, NoCurrentKeyError)
    assert (keyless.operator, keyless.call) == ("counts", "open")
    assert "open of operator 'counts'" in str(keyless)


def raising(method, name):
    """A class whose objects raise where pickle calls them."""

    def fail(self, *_):
        raise made(name)

    return type("Bad", (), {"__init__": lambda self, n: setattr(self, "n", n), method: fail})


@pytest.mark.parametrize("name", ["ValueError", "StopIteration"])
@pytest.mark.parametrize("method", ["__reduce__", "__getstate__", "__setstate__"])
def test_objects_that_cannot_be_moved_or_made_again(tmp_path, method, name):
    from api.datastream import StreamExecutionEnvironment

    bad = raising(method, name)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    made_here = env.from_collection([1]).map(lambda n: (0, bad(n))).name("makes")
    made_here.rebalance().map(lambda pair: pair[0]).name("takes").print()
    job = TestJob(tmp_path, restart=NO_RESTART, checkpoint_interval_ms=None)
    with pytest.raises(JobExecutionError) as raised:
        job.run_driver(env.generate_stream_graph())
    failure = raised.value.__cause__
    assert isinstance(failure, NotSerializableError), failure
    for words in (name, "to 'takes'"):
        assert words in str(failure)
    assert method != "__setstate__" or "in fail\n" in str(failure)


@pytest.mark.parametrize("name", ["ValueError", "SystemExit", "Own"])
def test_a_key_that_cannot_tell_what_it_is(tmp_path, name):
    from api.datastream import StreamExecutionEnvironment

    bad = raising("__reduce__", name)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).key_by(bad).map(lambda n: n).print()
    job = TestJob(tmp_path, restart=NO_RESTART, checkpoint_interval_ms=None)
    with pytest.raises(JobExecutionError, match=r"key of .* from 'Collection Source' to 'Map'.*no"):
        job.run_driver(env.generate_stream_graph())
