"""Arguments that are checked by their annotations."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from typing import Annotated, Any, Self

import pytest

import api
from api import _arguments
from api._arguments import MadeBy, Millis, Password, SuchAs, Whole, checked, checked_later, checks_of
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.types import TypeInformation


class Kind(Enum):
    ONE = 1


class Later:
    pass


@checked
class Builder:
    def __init__(self, name: str = "", made: Annotated[Later, MadeBy("Builder.new()")] | None = None) -> None:
        self.name = name
        self.given: list[Any] = []

    def take(
        self,
        count: Annotated[int, Whole(1, 9)] = 0,
        pause: Annotated[int, Whole(5, unit="ms")] = 0,
        flag: bool | None = None,
        kind: Kind | None = None,
        either: Later | Kind | None = None,
        example: Annotated[Later | None, SuchAs("Later()")] = None,
        typed: TypeInformation | None = None,
        password: Password = "",
        left: Annotated[str, checked_later] = "",
        anything: Any = None,
        several: list[int] | str = "",
    ) -> Self:
        return self

    @staticmethod
    def of(wait_ms: Millis, *names: str) -> tuple[int, tuple[str, ...]]:
        return wait_ms, names

    class Inner:
        pass


@checked
class Other(Builder):
    pass


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("count", 10, "count must be between 1 and 9, got 10"),
        ("count", True, "count must be a whole number, got True"),
        ("pause", 4, "pause in ms must be at least 5, got 4"),
        ("flag", 1, "flag must be True or False, got 1"),
        ("kind", 1, "kind must be one of Kind.ONE, got 1"),
        ("either", 1, "either must be a Later or a Kind, got 1"),
        ("typed", TypeInformation, "typed must be a TypeInformation"),
        ("password", 5, "password must be a str"),
    ],
)
def test_what_annotations_refuse(argument: str, value: Any, message: str) -> None:
    for builder in (Builder(), Other("a name")):
        with pytest.raises(ConfigurationError) as caught:
            builder.take(**{argument: value})
        assert str(caught.value).startswith(f"{type(builder).__name__}.take: {message}")


def test_what_they_take() -> None:
    builder = Builder("a", None)
    assert builder.take(1, 5, True, Kind.ONE, Later(), None, None, "", " ", 3, 3) is builder
    assert builder.take(flag=None, kind=None, either=Kind.ONE, several=[]) is builder
    assert builder.take(0) is builder, "a default"
    assert Builder.of(3, "", "b") == (3, ("", "b"))


def test_constructors_and_static_methods_have_their_names() -> None:
    with pytest.raises(ArgumentTypeError, match=r"^Builder: name must be a non-empty str, got 1$"):
        Builder(1)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^Builder\.of: wait_ms must be at least 0, got -1$"):
        Builder.of(-1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'wait_ms'"):
        Builder.of()  # type: ignore[call-arg]


def methods() -> Iterator[Any]:
    """Each method of the API that checks its arguments."""
    for _, name, _ in pkgutil.walk_packages(api.__path__, "api."):
        classes = [each for each in vars(import_module(name)).values() if inspect.isclass(each)]
        for cls in {
            *classes,
            *(inner for each in classes for inner in vars(each).values() if inspect.isclass(inner)),
        }:
            for member in vars(cls).values():
                function = getattr(member, "__func__", member)
                if inspect.isfunction(function) and function.__code__.co_filename == _arguments.__file__:
                    yield inspect.unwrap(function)


def test_every_annotation_can_be_read() -> None:
    found = {function.__qualname__: checks_of(function) for function in methods()}
    assert {"vhost"} == found["RMQConnectionConfig.Builder.set_virtual_host"].keys()
    assert len(found) > 100
