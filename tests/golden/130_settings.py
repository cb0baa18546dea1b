# ordered
# topic: changelog and checkpoint configuration
# checks: what CheckpointConfig, ExecutionConfig and the environment's getters give before and after setting.
from pyflink.common import Configuration, RestartStrategies
from pyflink.datastream import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointCleanup,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    StreamExecutionEnvironment,
)

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(3)
c = env.get_checkpoint_config()


def show(*names):
    for name in names:
        print(name, getattr(c, name)())


GETTERS = [
    "is_checkpointing_enabled", "get_checkpointing_mode", "get_checkpoint_interval", "get_checkpoint_timeout",
    "get_min_pause_between_checkpoints", "get_max_concurrent_checkpoints", "is_fail_on_checkpointing_errors",
    "get_tolerable_checkpoint_failure_number", "is_externalized_checkpoints_enabled",
    "get_externalized_checkpoint_cleanup", "is_unaligned_checkpoints_enabled",
    "get_checkpoint_storage", "is_force_unaligned_checkpoints",
]  # fmt: skip
for name in GETTERS:
    if hasattr(c, name):
        try:
            print("before", name, getattr(c, name)())
        except Exception as e:
            print("before", name, type(e).__name__)
print("chained", env.enable_checkpointing(1500, CheckpointingMode.AT_LEAST_ONCE) is env)
print(env.get_checkpoint_interval(), env.get_checkpointing_mode())
c.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE).set_checkpoint_timeout(2000)
c.set_min_pause_between_checkpoints(30).set_max_concurrent_checkpoints(2)
c.set_tolerable_checkpoint_failure_number(4)
c.set_externalized_checkpoint_cleanup(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
show(
    "is_checkpointing_enabled", "get_checkpointing_mode", "get_checkpoint_interval", "get_checkpoint_timeout",
    "get_min_pause_between_checkpoints", "get_max_concurrent_checkpoints", "get_tolerable_checkpoint_failure_number",
    "is_externalized_checkpoints_enabled", "get_externalized_checkpoint_cleanup",
)  # fmt: skip
c.set_max_concurrent_checkpoints(1)
c.enable_unaligned_checkpoints()
print("unaligned", c.is_unaligned_checkpoints_enabled())
c.disable_unaligned_checkpoints()
print("unaligned", c.is_unaligned_checkpoints_enabled())
for bad in [lambda: c.set_checkpoint_interval(5), lambda: c.set_checkpoint_timeout(5),
            lambda: c.set_max_concurrent_checkpoints(0), lambda: c.set_min_pause_between_checkpoints(-1),
            lambda: c.set_tolerable_checkpoint_failure_number(-1), lambda: env.set_parallelism(0),
            lambda: env.set_max_parallelism(0), lambda: env.set_buffer_timeout(-2),
            lambda: env.enable_checkpointing(5)]:  # fmt: skip
    try:
        bad()
        print("no error")
    except Exception:
        print("error")
env.set_state_backend(HashMapStateBackend())
print(type(env.get_state_backend()).__name__)
env.set_state_backend(EmbeddedRocksDBStateBackend())
print(type(env.get_state_backend()).__name__)
c.set_checkpoint_storage(JobManagerCheckpointStorage())
print(type(c.get_checkpoint_storage()).__name__)
c.set_checkpoint_storage(FileSystemCheckpointStorage("file:///tmp/cp"))
print(type(c.get_checkpoint_storage()).__name__, c.get_checkpoint_storage().get_checkpoint_path())
c.set_checkpoint_storage_dir("file:///tmp/other")
print(c.get_checkpoint_storage().get_checkpoint_path())
print(env.get_buffer_timeout(), env.set_buffer_timeout(77) is env, env.get_buffer_timeout())
print(env.is_chaining_enabled(), env.disable_operator_chaining() is env, env.is_chaining_enabled())
print(env.get_default_local_parallelism() > 0, env.set_default_local_parallelism(4))
print(env.get_stream_time_characteristic())
ec = env.get_config()
print(
    ec.get_auto_watermark_interval(),
    ec.set_auto_watermark_interval(123) is ec,
    ec.get_auto_watermark_interval(),
)
print(ec.is_object_reuse_enabled(), ec.enable_object_reuse().is_object_reuse_enabled())
print(ec.get_parallelism(), ec.get_max_parallelism())
env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 10))
print(env.add_default_kryo_serializer.__name__, env.get_default_savepoint_directory())
configuration = Configuration()
configuration.set_integer("parallelism.default", 5)
configuration.set_string("pipeline.name", "named")
env.configure(configuration)
print(env.get_parallelism())
