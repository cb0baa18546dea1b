"""Settings: what setters give back, getters say, and wrong values do. Hardly anything runs."""

from __future__ import annotations

from datetime import timedelta

from pyflink.common import (
    Configuration,
    Duration,
    ExecutionConfig,
    ExecutionMode,
    JobStatus,
    RestartStrategies,
    Row,
    RowKind,
    Time,
    Types,
    WatermarkStrategy,
)
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CheckpointingMode,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from pyflink.datastream.window import TumblingEventTimeWindows
from pyflink.java_gateway import get_gateway
from pyflink.util.java_utils import get_j_env_configuration


def _attempt(call, *arguments):
    """What a call gives, or the class of what it raises."""
    try:
        return call(*arguments)
    except Exception as error:
        return type(error).__name__


def _ok(call, *arguments):
    try:
        call(*arguments)
    except Exception:
        return "error"
    return "ok"


def configuration_strings(env):
    """get_* of what set_string set: conversions between types."""
    c = Configuration()
    c.set_string("s", "text").set_string("i", "12").set_string("b", "true").set_string("f", "1.5")
    return [
        str(each)
        for each in (
            c.get_string("s", "?"),
            c.get_integer("i", 0),
            c.get_boolean("b", False),
            c.get_float("f", 0.0),
            c.get_string("none", "default"),
            c.get_string("none", None),
            c.get_integer("none", 7),
            c.get_boolean("none", True),
            c.contains_key("s"),
            c.contains_key("none"),
            sorted(c.key_set()),
            sorted(c.to_dict().items()),
            _ok(c.get_integer, "s", 0),
            _ok(c.get_boolean, "s", False),
            _ok(c.get_float, "s", 0.0),
            c.remove_config("s"),
            c.remove_config("s"),
            sorted(c.key_set()),
        )
    ]


def configuration_order(env):
    """As text and as a dict the entries have the orders of Java's maps, which depend on how many there are."""
    keys = [
        "parallelism.default",
        "pipeline.name",
        "a.b",
        "t",
        "f",
        "i",
        "rest.port",
        "z",
        "python.files",
        "b",
        "c.d",
    ]
    keys += ["execution.checkpointing.interval", "taskmanager.numberOfTaskSlots", "state.backend.type"]
    for count in (2, 3, 4, 5, 6, 7, 12, 13, 14):
        configuration = Configuration()
        for key in keys[:count]:
            configuration.set_string(key, "1")
        yield f"{configuration} {list(configuration.to_dict())}"
    parameters = {"user": "ann", "limit": 5, "input": "/tmp/in", "a": 1, "b": 2, "mode": "x", "verbose": True}
    for count in (2, 5, 7):
        env.get_config().set_global_job_parameters(dict(list(parameters.items())[:count]))
        yield str(env.get_config().get_global_job_parameters())


def configuration_types(env):
    """get_string of what other setters set."""
    c = Configuration()
    c.set_integer("i", 12)
    c.set_boolean("b", True)
    c.set_float("f", 1.5)
    c.set_bytearray("y", bytearray(b"abc"))
    return [
        str(each)
        for each in (
            c.get_string("i", ""),
            c.get_string("b", ""),
            c.get_string("f", ""),
            c.get_bytearray("y", bytearray()),
            type(c.get_bytearray("y", bytearray())).__name__,
            c.get_integer("i", 0),
            c.get_float("i", 0.0),
            _ok(c.get_integer, "f", 0),
            sorted(k for k in c.to_dict()),
        )
    ]


def configuration_wrong(env):
    """Setters with wrong arguments."""
    c = Configuration()
    return [
        _ok(c.set_string, "s", None),
        _ok(c.set_string, None, "s"),
        _ok(c.set_integer, "i", "twelve"),
        _ok(c.set_integer, "i", 2**40),
        _ok(c.set_boolean, "b", "true"),
        _ok(c.set_string, "s", 5),
    ]


def configuration_copies(env):
    """add_all, equality, copies and str."""
    a, b = Configuration(), Configuration()
    a.set_string("k", "1").set_string("only", "a")
    b.set_string("k", "2")
    b.add_all(a, "p.")
    copied = Configuration(other=b)
    copied.set_string("new", "1")
    d = {}
    a.add_all_to_dict(d)
    e = Configuration()
    e.set_string("k", "1").set_string("only", "a")
    return [
        str(each)
        for each in (
            sorted(b.to_dict().items()),
            sorted(copied.to_dict().items()),
            sorted(d.items()),
            a == e,
            a == b,
            a != b,
            hash(a) == hash(e),
        )
    ]


def restart_strategies(env):
    """Descriptions of restart strategies."""
    return [
        str(each)
        for each in (
            RestartStrategies.no_restart().get_description(),
            RestartStrategies.fixed_delay_restart(3, 1000).get_description(),
            RestartStrategies.fixed_delay_restart(1, 0).get_description(),
            RestartStrategies.fixed_delay_restart(1, 90_061_001).get_description(),
            RestartStrategies.fixed_delay_restart(1, 1500).get_delay_between_attempts_interval(),
            RestartStrategies.failure_rate_restart(3, 60_000, 20).get_description(),
            RestartStrategies.failure_rate_restart(3, 60_000, 20).get_failure_interval(),
            RestartStrategies.fall_back_restart().get_description(),
            RestartStrategies.fixed_delay_restart(1, timedelta(seconds=2)).get_description(),
            RestartStrategies.failure_rate_restart(3, timedelta(minutes=1), 20).get_description(),
            RestartStrategies.FixedDelayRestartStrategyConfiguration(
                restart_attempts=2, delay_between_attempts_interval=timedelta(milliseconds=5)
            ).get_delay_between_attempts_interval(),
        )
    ]


def checkpoint_config_defaults(env):
    """What a fresh CheckpointConfig says."""
    c = env.get_checkpoint_config()
    return [
        f"{name} {_attempt(getattr(c, name))}"
        for name in (
            "is_checkpointing_enabled",
            "get_checkpoint_interval",
            "get_checkpointing_mode",
            "get_checkpoint_timeout",
            "get_min_pause_between_checkpoints",
            "get_max_concurrent_checkpoints",
            "get_tolerable_checkpoint_failure_number",
            "is_fail_on_checkpointing_errors",
            "is_externalized_checkpoints_enabled",
            "get_externalized_checkpoint_cleanup",
            "is_unaligned_checkpoints_enabled",
            "is_force_unaligned_checkpoints",
            "get_checkpoint_storage",
        )
        if hasattr(c, name)
    ]


def checkpoint_config_set(env):
    """What CheckpointConfig says after its setters."""
    c = env.get_checkpoint_config()
    back = [
        c.set_checkpoint_interval(1234) is c,
        c.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE) is c,
        c.set_checkpoint_timeout(5678) is c,
        c.set_min_pause_between_checkpoints(11) is c,
        c.set_max_concurrent_checkpoints(1) is c,
        c.set_tolerable_checkpoint_failure_number(4) is c,
    ]
    return [
        str(each)
        for each in (
            back,
            c.is_checkpointing_enabled(),
            c.get_checkpoint_interval(),
            c.get_checkpointing_mode(),
            c.get_checkpoint_timeout(),
            c.get_min_pause_between_checkpoints(),
            c.get_max_concurrent_checkpoints(),
            c.get_tolerable_checkpoint_failure_number(),
            env.get_checkpoint_interval(),
            env.get_checkpointing_mode(),
        )
    ]


def failures_that_are_tolerated(env):
    """Whether failed checkpoints fail the job is what their number says."""
    c = env.get_checkpoint_config()
    return [
        str((c.is_fail_on_checkpointing_errors(), c.get_tolerable_checkpoint_failure_number())),
        str(c.set_tolerable_checkpoint_failure_number(3).is_fail_on_checkpointing_errors()),
        str(c.set_fail_on_checkpointing_errors(True).is_fail_on_checkpointing_errors()),
        str(c.set_tolerable_checkpoint_failure_number(0).is_fail_on_checkpointing_errors()),
    ]


def checkpoint_config_wrong(env):
    """Values that CheckpointConfig refuses."""
    c = env.get_checkpoint_config()
    return [
        f"interval {_ok(c.set_checkpoint_interval, -1)} {_ok(c.set_checkpoint_interval, 0)}"
        f" {_ok(c.set_checkpoint_interval, 5)} {_ok(c.set_checkpoint_interval, 10)}",
        f"timeout {_ok(c.set_checkpoint_timeout, 0)} {_ok(c.set_checkpoint_timeout, 9)}"
        f" {_ok(c.set_checkpoint_timeout, 10)}",
        f"pause {_ok(c.set_min_pause_between_checkpoints, -1)} {_ok(c.set_min_pause_between_checkpoints, 0)}",
        f"concurrent {_ok(c.set_max_concurrent_checkpoints, 0)}",
        f"tolerable {_ok(c.set_tolerable_checkpoint_failure_number, -1)}"
        f" {_ok(c.set_tolerable_checkpoint_failure_number, 0)}",
        f"text {_ok(c.set_checkpoint_interval, '1000')}",
        f"enable {_ok(env.enable_checkpointing, 0)} {_ok(env.enable_checkpointing, 'x')}",
    ]


def environment_defaults(env):
    """What a fresh environment says of itself."""
    return [
        str(each)
        for each in (
            env.get_parallelism(),
            env.get_max_parallelism(),
            env.get_buffer_timeout(),
            env.is_chaining_enabled() if hasattr(env, "is_chaining_enabled") else None,
            env.get_checkpoint_interval(),
            env.get_checkpointing_mode(),
            env.is_changelog_state_backend_enabled()
            if hasattr(env, "is_changelog_state_backend_enabled")
            else 0,
            env.get_state_backend() is None if hasattr(env, "get_state_backend") else True,
            env.get_default_savepoint_directory(),
            env.get_config().get_auto_watermark_interval(),
            env.get_config().get_parallelism(),
            env.get_config().get_max_parallelism(),
            env.get_config().is_object_reuse_enabled(),
            env.get_config().get_global_job_parameters(),
            env.get_config().get_latency_tracking_interval(),
            env.get_config().get_task_cancellation_interval(),
            env.get_config().is_closure_cleaner_enabled(),
            env.get_config().has_generic_types_disabled(),
            env.get_config().has_auto_generated_uids_enabled(),
        )
    ]


def getters_by_configuration(env):
    """Getters of ExecutionConfig give what a configuration set by Flink's keys."""
    said = []
    for key, value in {
        "metrics.latency.interval": "1 s",
        "pipeline.force-kryo": "true",
        "pipeline.force-avro": "true",
        "pipeline.generic-types": "false",
        "pipeline.auto-type-registration": "false",
        "execution.checkpointing.snapshot-compression": "true",
        "task.cancellation.interval": "77",
        "task.cancellation.timeout": "5000",
        "pipeline.closure-cleaner-level": "NONE",
        "execution.buffer-timeout.enabled": "false",
    }.items():
        configuration = Configuration().set_string(key, value)
        other = StreamExecutionEnvironment.get_execution_environment(configuration)
        c = other.get_config()
        values = (
            c.get_latency_tracking_interval(),
            c.is_force_kryo_enabled(),
            c.is_force_avro_enabled(),
            c.has_generic_types_disabled(),
            c.is_auto_type_registration_disabled(),
            c.is_use_snapshot_compression(),
            c.get_task_cancellation_interval(),
            c.get_task_cancellation_timeout(),
            c.is_closure_cleaner_enabled(),
            other.get_buffer_timeout(),
        )
        c.set_latency_tracking_interval(3).enable_closure_cleaner().disable_force_kryo()
        after = (c.get_latency_tracking_interval(), c.is_closure_cleaner_enabled(), c.is_force_kryo_enabled())
        said.append(f"{key} {values} {after}")
    return said


def environment_setters(env):
    """Setters of the environment give it back, or nothing."""
    return [
        str(each)
        for each in (
            env.set_parallelism(3) is env,
            env.set_max_parallelism(64) is env,
            env.set_buffer_timeout(5) is env,
            env.enable_checkpointing(500) is env,
            env.disable_operator_chaining() is env,
            env.get_parallelism(),
            env.get_max_parallelism(),
            env.get_buffer_timeout(),
            env.get_checkpoint_interval(),
            env.get_config().get_parallelism(),
            env.get_config().set_auto_watermark_interval(77) is not None,
            env.get_config().get_auto_watermark_interval(),
            env.get_config().enable_object_reuse().is_object_reuse_enabled(),
            env.get_config().disable_object_reuse().is_object_reuse_enabled(),
            env.get_config().set_parallelism(5).get_parallelism(),
            env.get_parallelism(),
        )
    ]


def environment_wrong(env):
    """Values that the environment refuses."""
    return [
        f"parallelism {_ok(env.set_parallelism, 0)} {_ok(env.set_parallelism, -1)} {_ok(env.set_parallelism, -3)}"
        f" {_ok(env.set_parallelism, '2')} {_ok(env.set_parallelism, 2.0)} {_ok(env.set_parallelism, None)}",
        f"max {_ok(env.set_max_parallelism, 0)} {_ok(env.set_max_parallelism, 32768)}"
        f" {_ok(env.set_max_parallelism, 32769)}",
        f"buffer {_ok(env.set_buffer_timeout, -1)} {_ok(env.set_buffer_timeout, -2)} {_ok(env.set_buffer_timeout, 0)}",
        f"watermarks {_ok(env.get_config().set_auto_watermark_interval, -1)}"
        f" {_ok(env.get_config().set_auto_watermark_interval, 0)}",
    ]


def global_job_parameters(env):
    """Parameters for all functions, in the driver and in a function."""
    env.get_config().set_global_job_parameters({"a": "1", "b": "zwei", "n": 5, "t": True, "f": 1.5})

    class Reads(ProcessFunction):
        def open(self, runtime_context):
            self.seen = [
                runtime_context.get_job_parameter("a", "?"),
                runtime_context.get_job_parameter("b", None),
                runtime_context.get_job_parameter("n", "?"),
                runtime_context.get_job_parameter("t", "?"),
                runtime_context.get_job_parameter("f", "?"),
                runtime_context.get_job_parameter("c", "default"),
                runtime_context.get_job_parameter("c", None),
            ]

        def process_element(self, value, ctx):
            yield str(self.seen)

    given = env.from_collection([1], Types.INT()).process(Reads(), Types.STRING())
    return [str(sorted(env.get_config().get_global_job_parameters().items())), *given.execute_and_collect()]


def durations(env):
    """Duration and Time: what is made of them."""
    return [
        str(each)
        for each in (
            Time.seconds(2).to_milliseconds(),
            Time.days(1).to_milliseconds(),
            Time.minutes(3).to_milliseconds(),
            Time.hours(2).to_milliseconds(),
            Time.milliseconds(5).to_milliseconds(),
            Time.seconds(2) == Time.milliseconds(2000),
            Time.seconds(2) == Time.seconds(2),
            Duration.of_seconds(2) == Duration.of_millis(2000),
            str(Time.seconds(2)),
            int(Time.seconds(0.5).to_milliseconds()),
            int(Time.minutes(1.5).to_milliseconds()),
            Time.seconds(0.25).to_milliseconds() == 250,
            _ok(Time.seconds, None),
        )
    ]


def row_kinds(env):
    """RowKind: names and numbers."""
    return [f"{kind} {kind.value} {kind.name} {kind!s}" for kind in RowKind]


def job_statuses(env):
    """JobStatus: which are the end."""
    return [
        f"{status.name} {status.is_globally_terminal_state()} {status.is_terminal_state()}"
        for status in JobStatus
        if hasattr(status, "is_terminal_state")
    ]


def enumerations(env):
    """Names, values and texts of enumerations."""
    return [
        f"{each} {each.name} {each.value}"
        for kind in (RuntimeExecutionMode, CheckpointingMode, ExecutionMode, TimeCharacteristic)
        for each in kind
    ]


def stream_getters(env):
    """What streams say of themselves."""
    ds = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
    mapped = ds.map(lambda v: v)
    named = ds.map(lambda v: v[1], Types.INT()).name("my map").uid("u1").set_parallelism(2)
    keyed = ds.key_by(lambda v: v[0], Types.STRING())
    return [
        str(each)
        for each in (
            ds.get_name(),
            ds.get_type(),
            mapped.get_type(),
            mapped.get_name(),
            named.get_name(),
            named.get_type(),
            named.set_max_parallelism(4) is named,
            named.force_non_parallel() is named,
            named.set_description("text") is named,
            named.start_new_chain() is named,
            ds.get_execution_environment() is not None,
            type(keyed).__name__,
        )
    ]


def names_of_windows(env):
    """The operator of a window has its assigner's name."""
    ds = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
    keyed = ds.key_by(lambda v: v[0], Types.STRING())
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    return [
        keyed.window(windows).reduce(lambda a, b: a).get_name(),
        keyed.count_window(3).reduce(lambda a, b: a).get_name(),
        keyed.count_window(4, 2).reduce(lambda a, b: a).get_name(),
        ds.window_all(windows).reduce(lambda a, b: a).get_name(),
        env.read_text_file("/nowhere").get_name(),
    ]


def stream_wrong(env):
    """Arguments that streams refuse when they are called."""
    ds = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
    mapped = ds.map(lambda v: v)
    keyed = ds.key_by(lambda v: v[0])
    other = env.from_collection([1], Types.INT())
    return [
        f"map {_ok(ds.map, None)} {_ok(ds.map, 5)}",
        f"flat_map {_ok(ds.flat_map, 'x')}",
        f"filter {_ok(ds.filter, None)}",
        f"key_by {_ok(ds.key_by, None)} {_ok(ds.key_by, 5)} {_ok(ds.key_by, 'name')} {_ok(ds.key_by, [0])}",
        f"reduce {_ok(keyed.reduce, None)} {_ok(keyed.reduce, 5)}",
        f"sum {_ok(keyed.sum, -1)} {_ok(keyed.sum, None)} {_ok(keyed.sum, 1.5)}",
        f"union {_ok(ds.union)} {_ok(ds.union, other)} {_ok(ds.union, None)} {_ok(ds.union, ds)}",
        f"connect {_ok(ds.connect, other)}",
        f"parallelism {_ok(mapped.set_parallelism, 0)} {_ok(mapped.set_parallelism, -5)}"
        f" {_ok(mapped.set_parallelism, '3')}",
        f"max {_ok(mapped.set_max_parallelism, 0)} {_ok(mapped.set_max_parallelism, -1)}",
        f"project {_ok(ds.project, 5)} {_ok(ds.project, 0)} {_ok(ds.project)} {_ok(ds.project, 1, 0, 1)}",
        f"name {_ok(mapped.name, 5)}",
        f"watermarks {_ok(ds.assign_timestamps_and_watermarks, None)}"
        f" {_ok(ds.assign_timestamps_and_watermarks, WatermarkStrategy.no_watermarks())}",
        f"type {_ok(ds.map, lambda v: v, int)} {_ok(ds.map, lambda v: v, 'int')}"
        f" {_ok(ds.map, lambda v: v, Types.INT)}",
        f"broadcast {_ok(ds.broadcast)} {_ok(ds.broadcast, 5)}",
        f"partition {_ok(ds.partition_custom, None, None)}",
        f"side {_ok(mapped.get_side_output, None)} {_ok(mapped.get_side_output, 'tag')}",
        f"add_sink {_ok(ds.add_sink, None)}",
    ]


def type_infos_say(env):
    """str of types."""
    types = [
        Types.STRING(),
        Types.BYTE(),
        Types.SHORT(),
        Types.INT(),
        Types.LONG(),
        Types.FLOAT(),
        Types.DOUBLE(),
        Types.BOOLEAN(),
        Types.CHAR(),
        Types.BIG_INT(),
        Types.BIG_DEC(),
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
        Types.INSTANT(),
        Types.PICKLED_BYTE_ARRAY(),
        Types.PRIMITIVE_ARRAY(Types.INT()),
        Types.BASIC_ARRAY(Types.STRING()),
        Types.OBJECT_ARRAY(Types.STRING()),
        Types.LIST(Types.INT()),
        Types.MAP(Types.STRING(), Types.ROW([Types.INT()])),
        Types.TUPLE([Types.INT(), Types.STRING()]),
        Types.ROW([Types.INT(), Types.STRING()]),
        Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]),
    ]
    return [f"{each} | {each!r}" for each in types] + [
        str(Types.INT() == Types.INT()),
        str(Types.INT() == Types.LONG()),
        str(Types.LIST(Types.INT()) == Types.LIST(Types.LONG())),
        str(Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]).get_field_index("b")),
    ]


def rows_made_oddly(env):
    """Row: constructors, kinds, equality, hashes, texts, order and slices."""
    named, plain = Row(a=1, b="x"), Row(1, "x")
    other = Row(1, "x")
    other.set_row_kind(RowKind.DELETE)
    named_again = Row("a", "b")
    return [
        str(each)
        for each in (
            named,
            plain,
            repr(named),
            repr(plain),
            repr(named_again),
            named == plain,
            plain == other,
            plain == (1, "x"),
            plain == [1, "x"],
            _attempt(hash, plain) == _attempt(hash, Row(1, "x")),
            len(plain),
            list(plain),
            plain[0],
            plain[-1],
            plain[0:1],
            _attempt(lambda: plain[5]),
            _ok(lambda: plain["a"]),
            named["a"],
            named.b,
            named[1],
            _ok(lambda: named["z"]),
            _ok(lambda: named.z),
            "a" in named,
            1 in plain,
            named.as_dict(),
            _attempt(plain.as_dict),
            named.get_row_kind(),
            other.get_row_kind(),
            repr(other),
            _attempt(lambda: Row(1, a=2)),
            Row(),
            _attempt(lambda: Row(1) < Row(2)),
            _attempt(lambda: sorted([Row(2), Row(1)])),
            Row.of_kind(RowKind.UPDATE_AFTER, 1, 2),
            Row.of_kind(RowKind.UPDATE_AFTER, 1, 2).get_row_kind(),
            named.get_fields_by_names(["b", "a"]),
            _ok(named.get_fields_by_names, ["z"]),
            list(reversed(list(plain))),
            bool(Row()),
            Row(None, [1], {"k": Row(1)}),
            Row(z=1, a=2),
            Row(z=1, a=2).as_dict(),
            Row(a=Row(b=1)).as_dict(),
            Row(a=Row(b=1)).as_dict(True),
            Row(a=[Row(b=1)]).as_dict(True),
            Row(a={"k": Row(b=1)}).as_dict(True),
        )
    ]


def rows_changed(env):
    """Row: fields set by number and name, names set, kinds set wrongly."""
    plain = Row(1, 2)
    plain[0] = 10
    named = Row(a=1, b=2)
    named["b"] = 20
    renamed = Row(1, 2)
    renamed.set_field_names(["x", "y"])
    import copy
    import pickle

    kinds = Row.of_kind(RowKind.DELETE, 1)
    return [
        str(each)
        for each in (
            plain,
            named,
            renamed,
            renamed.x,
            _attempt(lambda: plain.__setitem__(5, 1)),
            _ok(lambda: named.__setitem__("z", 1)),
            _attempt(plain.set_row_kind, 5),
            plain.get_row_kind(),
            _attempt(lambda: setattr(named, "a", 3)),
            named,
            pickle.loads(pickle.dumps(named)),
            pickle.loads(pickle.dumps(kinds)).get_row_kind(),
            copy.copy(named),
            copy.deepcopy(named),
            copy.deepcopy(kinds).get_row_kind(),
            _attempt(lambda: list(Row(1, 2))),
            _attempt(lambda: Row(1, 2) + Row(3)),
            _attempt(lambda: Row(1, 2)._fields if hasattr(Row(1, 2), "_fields") else "no fields"),
            _attempt(lambda: Row(a=1)._fields),
            _attempt(lambda: Row(1, 2)._values),
            _ok(lambda: Row(1, 2).index(2)),
            _ok(lambda: Row(1, 2).count(2)),
        )
    ]


def get_execution_environment_twice(env):
    """Each call gives an environment of its own."""
    other = StreamExecutionEnvironment.get_execution_environment()
    other.set_parallelism(7)
    return [str(env.get_parallelism()), str(other.get_parallelism()), str(env is other)]


def parallelism_by_its_constants(env):
    """PARALLELISM_DEFAULT and PARALLELISM_UNKNOWN."""
    env.set_parallelism(3)
    seen = [env.set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN).get_parallelism()]
    env.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT)
    seen.append(env.get_parallelism() != 3)
    numbers = env.from_collection([1], Types.INT()).map(lambda v: v + 1, Types.INT())
    numbers.set_parallelism(2).set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT).print("value")
    env.set_parallelism(1)
    env.execute()
    return [str(each) for each in seen]


def half_second_windows(env):
    """Time.seconds(0.5) as a window's size."""

    class At(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    return (
        env.from_collection([100, 600, 700], Types.INT())
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda v: 1, Types.INT())
        .window(TumblingEventTimeWindows.of(Time.seconds(0.5)))
        .reduce(lambda a, b: a + b)
    )


def configuration_odd_texts(env):
    """get_* of texts that Python, and not Java, takes for a number, or Java alone."""
    c = Configuration()
    texts = [
        "1_000",
        "0x10",
        "1.0",
        "+7",
        "007",
        "2147483648",
        "nan",
        "NaN",
        "inf",
        "-Infinity",
        "1e3",
        "yes",
        "TRUE",
        "",
    ]
    seen = []
    for text in texts:
        c.set_string("t", text)
        getters = ((c.get_integer, 0), (c.get_float, 0.0), (c.get_boolean, False))
        seen.append(f"{text!r} {[_ok(getter, 't', default) for getter, default in getters]}")
    return seen


def configuration_floats(env):
    """set_float of whole, large and special numbers, and whole numbers as get_float's default."""
    c = Configuration()
    for name, value in {
        "w": 1,
        "l": 1e20,
        "s": 1e-7,
        "n": float("nan"),
        "i": float("-inf"),
        "z": -0.0,
    }.items():
        c.set_float(name, value)
    return [
        str(each)
        for each in (
            sorted(c.to_dict().items()),
            c.get_string("w", ""),
            [c.get_float(name, 0.0) for name in "wlsniz"],
            c.get_float("none", 3),
            _ok(c.get_integer, "w", 0),
            _ok(c.set_float, "k", None),
            _ok(c.set_float, "k", [1]),
            _ok(c.get_float, "none", None),
            _ok(c.get_float, "none", "x"),
        )
    ]


def configuration_equality(env):
    """5 and "5" are two; the order of the entries does not matter."""
    five = Configuration().set_integer("i", 5)
    return [
        str(each)
        for each in (
            five == Configuration().set_string("i", "5"),
            five == Configuration().set_integer("i", 5),
            Configuration().set_float("f", 1) == Configuration().set_float("f", 1.0),
            Configuration().set_boolean("b", True) == Configuration().set_string("b", "true"),
            Configuration().set_string("a", "1").set_string("b", "2")
            == Configuration().set_string("b", "2").set_string("a", "1"),
            Configuration() == {},
            _ok(five.get_string, "none", 5),
            _ok(five.get_string, "none", None),
            _ok(five.set_integer, "i", 2**63),
            _ok(five.add_all, None),
        )
    ]


def generated_uids_by_key(env):
    """pipeline.auto-generate-uids: false, as disable_auto_generated_uids()."""
    seen = []
    for value in ("true", "false"):
        configuration = Configuration()
        configuration.set_string("pipeline.auto-generate-uids", value)
        other = StreamExecutionEnvironment.get_execution_environment(configuration)
        seen.append(f"{value} {other.get_config().has_auto_generated_uids_enabled()}")
        other.get_config().enable_auto_generated_uids()
        seen.append(str(other.get_config().has_auto_generated_uids_enabled()))
    return seen


def a_job_without_uids_refused_by_key(env):
    """The same with a job: an operator without a uid is refused."""
    configuration = Configuration()
    configuration.set_string("pipeline.auto-generate-uids", "false")
    env.configure(configuration)
    env.from_collection([1], Types.INT()).map(lambda v: v, Types.INT()).print()
    env.execute()


def options_through_the_java_environment(env):
    """What is set in the Java configuration of an environment holds for it."""
    live = Configuration(j_configuration=get_j_env_configuration(env._j_stream_execution_environment))
    live.set_integer("parallelism.default", 3).set_string("pipeline.name", "told")
    java = env._j_stream_execution_environment.getConfiguration()
    java.setString("execution.checkpointing.interval", "5 s")
    seen = [env.get_parallelism(), env.get_checkpoint_config().get_checkpoint_interval()]
    seen += [java.getString("pipeline.name", None), java.getInteger("parallelism.default", 1)]
    env.set_parallelism(4)
    seen += [
        live.get_integer("parallelism.default", 1),
        java.removeKey("pipeline.name"),
        java.containsKey("pipeline.name"),
    ]
    copied = Configuration(live)
    copied.set_integer("parallelism.default", 5)
    return [*seen, env.get_parallelism()]


def javas_configuration(env):
    """Values that are set in the Java object of a configuration, by their types."""
    conf = Configuration()
    java = conf._j_configuration
    java.setInteger("i", 5)
    java.setLong("l", 1 << 40)
    java.setBoolean("b", True)
    java.setDouble("d", 1.5)
    java.setString("s", "text")
    seen = [
        java.getInteger("i", 0),
        java.getLong("l", 0),
        java.getBoolean("b", False),
        java.getDouble("d", 0.0),
    ]
    seen += [sorted(java.toMap().items()), sorted(java.keySet()), sorted(conf.to_dict().items())]
    return [*seen, java.getString("x", None), java.getInteger("x", 7), java.removeKey("x")]


def environments_of_the_gateway(env):
    """Environments that Java's class makes, with and without options."""
    java = get_gateway().jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
    conf = Configuration()
    conf.set_integer("parallelism.default", 3)
    made = [java.getExecutionEnvironment(conf._j_configuration), java.createLocalEnvironment(6)]
    made.append(java.createLocalEnvironment(4, conf._j_configuration))
    again = StreamExecutionEnvironment(env._j_stream_execution_environment)
    again.set_parallelism(7)
    return [*[StreamExecutionEnvironment(each).get_parallelism() for each in made], env.get_parallelism()]
