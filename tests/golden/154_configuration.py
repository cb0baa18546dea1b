# ordered
# topic: changelog and checkpoint configuration
# checks: Configuration: typed setters and getters with defaults, strings converted, contains_key, key_set, to_dict,
#         remove_config, add_all with prefix, equality; what an environment made with it takes over.
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment

c = Configuration()
print(c.set_string("a.text", "x") is c, c.get_string("a.text", "default"), c.get_string("none", "default"))
c.set_integer("a.int", 5).set_boolean("a.bool", True).set_float("a.float", 1.5)
print(c.get_integer("a.int", 0), c.get_boolean("a.bool", False), c.get_float("a.float", 0.0))
print(c.get_string("a.int", ""), c.get_string("a.bool", ""))
c.set_string("b", "17")
print(c.get_integer("b", 0) + 1, c.get_integer("missing", 3), c.get_boolean("missing", True))
print(c.contains_key("b"), c.contains_key("missing"), sorted(c.key_set()))
print(sorted(c.to_dict().items()))
print(c.remove_config("b"), c.contains_key("b"), c.remove_config("b"))
other = Configuration().set_string("q", "1")
c.add_all(other)
c.add_all(other, "pre.")
print(c.get_string("q", ""), c.get_string("pre.q", ""))
copy = Configuration(c)
print(copy == c, copy.set_string("q", "2") == c, c.get_string("q", ""))
copy.add_all_to_dict(d := {})
print(sorted(d))

c = Configuration()
c.set_integer("parallelism.default", 3)
c.set_integer("pipeline.max-parallelism", 64)
c.set_string("execution.checkpointing.interval", "3 s")
c.set_string("execution.runtime-mode", "BATCH")
c.set_string("pipeline.auto-watermark-interval", "70 ms")
c.set_string("execution.buffer-timeout", "9 ms")
env = StreamExecutionEnvironment.get_execution_environment(c)
print(env.get_parallelism(), env.get_max_parallelism(), env.get_checkpoint_interval())
print(env.get_config().get_auto_watermark_interval(), env.get_buffer_timeout())
print(env.is_changelog_state_backend_enabled())
