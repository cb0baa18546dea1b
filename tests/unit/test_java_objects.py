"""The few Java objects behind PyFlink's that programs set options by, as PyFlink 1.20.1 has them."""

from __future__ import annotations

from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any

import pytest

from api.common import Configuration
from api.datastream import DataStream, StreamExecutionEnvironment
from api.java_gateway import get_gateway
from api.util.java_utils import get_j_env_configuration
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, NotSupportedError


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def live(env: StreamExecutionEnvironment) -> Configuration:
    return Configuration(j_configuration=get_j_env_configuration(env._j_stream_execution_environment))


class TestTheConfigurationOfAnEnvironment:
    def test_what_is_set_holds_for_the_environment(
        self, env: StreamExecutionEnvironment, live: Configuration
    ) -> None:
        live.set_integer("parallelism.default", 3).set_string("execution.checkpointing.interval", "5 s")
        assert env.get_parallelism() == 3
        assert env.get_checkpoint_interval() == 5000
        live.add_all(Configuration({"parallelism.default": 4}))
        assert env.get_parallelism() == 4
        assert live.remove_config("execution.checkpointing.interval")
        assert env.get_checkpoint_interval() == -1

    def test_what_the_environment_is_told_shows_in_it(
        self, env: StreamExecutionEnvironment, live: Configuration
    ) -> None:
        env.set_parallelism(5)
        env.configure(Configuration({"pipeline.name": "told"}))
        assert live.get_integer("parallelism.default", 1) == 5
        assert live.to_dict()["pipeline.name"] == "told"

    def test_it_is_one_for_all_who_ask(self, env: StreamExecutionEnvironment, live: Configuration) -> None:
        env._j_stream_execution_environment.getConfiguration().setString("pipeline.name", "told")
        assert live.get_string("pipeline.name", "") == "told"
        assert Configuration(live) == live
        Configuration(live).set_string("pipeline.name", "copied")
        assert live.get_string("pipeline.name", "") == "told"

    def test_a_key_or_value_that_cannot_be_used_is_refused_at_once(
        self, env: StreamExecutionEnvironment, live: Configuration
    ) -> None:
        java = env._j_stream_execution_environment.getConfiguration()
        with pytest.raises(ConfigurationError, match="parallelism"):
            java.setString("parallelism.default", "many")
        with pytest.raises(ConfigurationError, match=r"changelog\.restore"):
            live.set_string("changelog.restroe", "none")
        assert "parallelism.default" not in live.to_dict()

    def test_an_entry_of_the_file_is_not_removed_in_silence(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
    ) -> None:
        (tmp_path / "conf.yaml").write_text("parallelism.default: 2\n")
        monkeypatch.setenv("CHANGELOG_ENGINE_CONF", str(tmp_path / "conf.yaml"))
        env = StreamExecutionEnvironment.get_execution_environment()
        java = env._j_stream_execution_environment.getConfiguration()
        java.setInteger("parallelism.default", 3)
        with pytest.raises(ConfigurationError, match="cannot be removed by the program"):
            java.removeKey("parallelism.default")

    def test_only_the_java_object_of_a_configuration_will_do(self) -> None:
        with pytest.raises(ArgumentTypeError, match="needs the Java object of a Configuration"):
            Configuration(j_configuration={"a": "b"})  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match=r"needs env\._j_stream_execution_environment"):
            get_j_env_configuration(Configuration())  # type: ignore[arg-type]


class TestJavasConfiguration:
    def test_values_by_their_types(self) -> None:
        conf = Configuration()
        java = conf._j_configuration
        java.setString("s", "text")
        java.setInteger("i", 5)
        java.setLong("l", 1 << 40)
        java.setBoolean("b", True)
        java.setDouble("d", 1.5)
        assert conf.to_dict() == {"s": "text", "i": "5", "l": str(1 << 40), "b": "true", "d": "1.5"}
        assert java.toMap() == conf.to_dict()
        assert (java.getString("s", None), java.getString("x", None), java.getInteger("i", 1)) == (
            "text",
            None,
            5,
        )
        assert (java.getLong("l", 0), java.getBoolean("b", False), java.getDouble("d", 0.0)) == (
            1 << 40,
            True,
            1.5,
        )
        assert java.containsKey("s")
        assert java.removeKey("s")
        assert java.keySet() == {"i", "l", "b", "d"}
        other = Configuration()
        other._j_configuration.addAll(java)
        assert str(other._j_configuration) == str(conf)

    @pytest.mark.parametrize(
        "call",
        [
            lambda java: java.setString("x", 5),
            lambda java: java.setInteger("x", "5"),
            lambda java: java.addAll(Configuration()),
        ],
    )
    def test_a_value_of_another_type_is_refused(self, call: Callable[[Any], None]) -> None:
        with pytest.raises(ArgumentTypeError):
            call(Configuration()._j_configuration)

    @pytest.mark.parametrize("name", ["getOptional", "getValue", "set", "setClass"])
    def test_what_is_not_here_says_what_to_use(self, name: str) -> None:
        with pytest.raises(
            NotSupportedError, match=rf"Configuration\.{name} is a method of a Java object.*: use"
        ):
            getattr(Configuration()._j_configuration, name)


class TestTheEnvironment:
    def test_methods_that_the_python_object_has_too(self, env: StreamExecutionEnvironment) -> None:
        java = env._j_stream_execution_environment
        assert java.setParallelism(4).getParallelism() == 4
        java.enableCheckpointing(5000)
        java.getConfig().enableObjectReuse()
        java.getCheckpointConfig().setMinPauseBetweenCheckpoints(700)
        assert env.get_parallelism() == 4
        assert env.get_checkpoint_interval() == 5000
        assert env.get_config().is_object_reuse_enabled()
        assert env.get_checkpoint_config().get_min_pause_between_checkpoints() == 700

    def test_every_method_that_is_passed_on_exists(self, env: StreamExecutionEnvironment) -> None:
        java = env._j_stream_execution_environment
        for each in (java, java.getConfig(), java.getCheckpointConfig()):
            assert each.same
            assert all(callable(getattr(each, name)) for name in each.same)
            assert each.same <= set(dir(each))

    @pytest.mark.parametrize(
        ("name", "instead"),
        [
            ("readTextFile", r"StreamExecutionEnvironment\.read_text_file\(\) of Python"),
            ("getStreamGraph", "the methods of StreamExecutionEnvironment of Python"),
        ],
    )
    def test_other_methods_say_what_to_use(
        self, env: StreamExecutionEnvironment, name: str, instead: str
    ) -> None:
        with pytest.raises(NotSupportedError, match=instead):
            getattr(env._j_stream_execution_environment, name)

    def test_no_java_object_is_taken(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(ArgumentTypeError, match="takes str, bool, int and float here"):
            env._j_stream_execution_environment.setParallelism(Configuration())

    def test_another_handle_on_it_is_the_same_environment(self, env: StreamExecutionEnvironment) -> None:
        again = StreamExecutionEnvironment(env._j_stream_execution_environment)
        again.set_parallelism(7)
        again.from_collection([1]).print()
        assert env.get_parallelism() == 7
        assert "Collection Source" in env.get_execution_plan()

    def test_a_stream_has_no_java_object_and_cannot_be_made_of_anything(
        self, env: StreamExecutionEnvironment
    ) -> None:
        assert not hasattr(env.from_collection([1]), "_j_data_stream")
        with pytest.raises(ArgumentTypeError, match="streams are made by the environment's methods"):
            DataStream(object())  # type: ignore[arg-type]
        java = env._j_stream_execution_environment.socketTextStream("localhost", 1)
        with pytest.raises(NotSupportedError, match=r"DataStream\.map is a method of a Java object"):
            _ = java.map


class TestTheGateway:
    def test_it_makes_environments(self) -> None:
        jvm = get_gateway().jvm
        java = jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
        two = Configuration({"parallelism.default": 2})._j_configuration
        options = jvm.org.apache.flink.configuration.Configuration()
        options.setInteger("parallelism.default", 6)
        made = [
            java.getExecutionEnvironment(two),
            java.createLocalEnvironment(3),
            java.createLocalEnvironment(two),
            java.createLocalEnvironment(4, two),
            java.getExecutionEnvironment(options),
            java.getExecutionEnvironment(jvm.org.apache.flink.configuration.Configuration(options)),
        ]
        assert [StreamExecutionEnvironment(each).get_parallelism() for each in made] == [2, 3, 2, 4, 6, 6]

    @pytest.mark.parametrize(
        ("reach", "says"),
        [
            (lambda jvm: jvm.org.apache.flink.streaming.api.windowing.time.Time, "import Time"),
            (lambda jvm: jvm.java.lang.System, r"java\.lang\.System is a Java class"),
            (lambda jvm: jvm.System, "System is a Java class"),
            (
                lambda jvm: (
                    jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment.createRemoteEnvironment
                ),
                "get_execution_environment",
            ),
        ],
    )
    def test_other_classes_say_what_to_use(self, reach: Callable[[Any], Any], says: str) -> None:
        with pytest.raises(NotSupportedError, match=says):
            reach(get_gateway().jvm)

    def test_other_members_of_the_gateway_say_so(self) -> None:
        with pytest.raises(NotSupportedError, match=r"JavaGateway\.new_array"):
            _ = get_gateway().new_array


def test_a_program_may_derive_abstract_classes_as_in_pyflink() -> None:
    class Job(StreamExecutionEnvironment, metaclass=ABCMeta):
        @abstractmethod
        def process(self) -> None: ...

    class Mine(Job):
        def process(self) -> None:
            self.from_collection([1]).print()

    class Options(Configuration, ABC):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Job()  # type: ignore[abstract]
    java = get_gateway().jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
    mine = Mine(java.getExecutionEnvironment())
    mine.process()
    assert "Collection Source" in mine.get_execution_plan()
    assert Options().set_string("a", "b").to_dict() == {"a": "b"}
