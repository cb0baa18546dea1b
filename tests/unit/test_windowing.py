"""Windows, assigners and triggers, without a job."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from api.common import Duration, Time
from api.common.serializer import TypeSerializer
from api.datastream import window as windows
from api.datastream.window import (
    ContinuousEventTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    CountWindowSerializer,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    GlobalWindowSerializer,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TimeWindowSerializer,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from changelog_engine.errors import ConfigurationError, InvalidJobError, TypeMismatchError
from changelog_engine.windowing.namespaces import window_codec

MAX = 2**63 - 1


class Groups:
    def __init__(self) -> None:
        self.merged: list[tuple[list[TimeWindow], TimeWindow]] = []

    def merge(self, to_be_merged: Any, merge_result: TimeWindow) -> None:
        self.merged.append((list(to_be_merged), merge_result))


class Named:
    """A window of a program's own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class NamedSerializer(TypeSerializer):
    def serialize(self, element: Named, stream: BytesIO) -> None:
        stream.write(element.name.encode())

    def deserialize(self, stream: BytesIO) -> Named:
        return Named(stream.read().decode())


def test_time_windows_compare_by_start_and_end() -> None:
    window = TimeWindow(0, 10)
    assert window == TimeWindow(0, 10)
    assert window != TimeWindow(0, 11)
    assert hash(window) == hash(TimeWindow(0, 10))
    assert sorted([TimeWindow(5, 6), TimeWindow(0, 10), TimeWindow(0, 9)])[0] == TimeWindow(0, 9)
    assert window.max_timestamp() == 9
    assert window.intersects(TimeWindow(10, 12))  # they touch
    assert not window.intersects(TimeWindow(11, 12))
    assert CountWindow(3) == CountWindow(3)
    assert CountWindow(3) != CountWindow(4)
    assert GlobalWindow.get() == GlobalWindow()
    assert CountWindow(0).max_timestamp() == GlobalWindow().max_timestamp() == MAX
    assert [repr(window), repr(CountWindow(1)), repr(GlobalWindow())] == [
        "TimeWindow(start=0, end=10)",
        "CountWindow(id=1)",
        "GlobalWindow",
    ]


def test_merging_groups_windows_that_overlap_or_touch() -> None:
    groups = Groups()
    spans = [TimeWindow(20, 30), TimeWindow(0, 5), TimeWindow(5, 9), TimeWindow(3, 4), TimeWindow(40, 50)]
    TimeWindow.merge_windows([*spans, TimeWindow(40, 50)], groups)
    assert groups.merged == [([TimeWindow(0, 5), TimeWindow(3, 4), TimeWindow(5, 9)], TimeWindow(0, 9))]


@pytest.mark.parametrize(
    ("serializer", "window", "data"),
    [
        (TimeWindowSerializer(), TimeWindow(-1, 2**40), b"\xff" * 8 + (2**40).to_bytes(8, "big")),
        (CountWindowSerializer(), CountWindow(7), (7).to_bytes(8, "big")),
        (GlobalWindowSerializer(), GlobalWindow(), b"\0"),
    ],
)
def test_windows_are_serialized_as_in_flink(serializer: Any, window: Any, data: bytes) -> None:
    stream = BytesIO()
    serializer.serialize(window, stream)
    assert stream.getvalue() == data
    assert serializer.deserialize(BytesIO(data)) == window


@pytest.mark.parametrize(
    ("serializer", "window", "identity", "text"),
    [
        (TimeWindowSerializer(), TimeWindow(-5, 10), (-5, 10), "[-5,10]"),
        (CountWindowSerializer(), CountWindow(7), 7, "7"),
        (GlobalWindowSerializer(), GlobalWindow(), "global", '"global"'),
        (NamedSerializer(), Named("a"), b"a", '"YQ=="'),
        (None, ("a", 1), None, None),
    ],
)
def test_windows_in_the_log(serializer: Any, window: Any, identity: Any, text: str | None) -> None:
    codec = window_codec(serializer)
    if text is not None:
        assert codec.identity(window) == identity
        assert codec.text(identity) == text
    identity = codec.identity(window)
    assert codec.window(identity) == window
    texts = codec.texts([identity, identity])
    assert codec.from_texts(texts) == [identity, identity]
    assert len(texts.dictionary) == 1


def test_windows_that_do_not_fit_their_serializer() -> None:
    with pytest.raises(
        TypeMismatchError, match="returned 'x', and its serializer writes windows that are a Time"
    ):
        window_codec(TimeWindowSerializer()).identity("x")
    with pytest.raises(TypeMismatchError, match="whole numbers of ms"):
        window_codec(TimeWindowSerializer()).identity(TimeWindow(0.5, 1))  # type: ignore[arg-type]
    with pytest.raises(
        ConfigurationError, match=r"get_window_serializer\(\) of the window assigner returned 3"
    ):
        window_codec(3)


def test_windows_of_a_time_are_flinks() -> None:
    assert TumblingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(200)).windows_at(100) == [
        TimeWindow(-800, 200)
    ]
    assert SlidingEventTimeWindows.of(Time.milliseconds(700), Time.milliseconds(300)).windows_at(-1) == [
        TimeWindow(-300, 400),
        TimeWindow(-600, 100),
    ]
    assert SlidingEventTimeWindows(50, 100).windows_at(70) == []  # between two windows
    assert repr(SlidingProcessingTimeWindows.of(Duration.of_seconds(2), Time.seconds(1))) == (
        "SlidingProcessingTimeWindows(2000, 1000, 0)"
    )
    assert TumblingProcessingTimeWindows(5).is_event_time() is False


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TumblingEventTimeWindows.of(5), "TumblingEventTimeWindows.of: size must be a Time"),
        (lambda: TumblingEventTimeWindows(0), "the size in ms must be at least 1"),
        (
            lambda: TumblingEventTimeWindows(10, -10),
            "the offset must be smaller than the size, 10 ms; got -10 ms",
        ),
        (
            lambda: SlidingEventTimeWindows(10, 5, 5),
            "the offset must be smaller than the slide, 5 ms; got 5 ms",
        ),
        (lambda: SlidingEventTimeWindows(10, 0), "the slide in ms must be at least 1"),
        (lambda: EventTimeSessionWindows.with_gap(Time.seconds(0)), "the gap in ms must be at least 1"),
        (lambda: EventTimeSessionWindows.with_dynamic_gap(5), "the extractor must be a Session"),
        (lambda: CountTumblingWindowAssigner(True), "the size must be a whole number, got True"),
        (lambda: CountSlidingWindowAssigner(3, 0), "the slide must be at least 1"),
        (lambda: CountTrigger.of(0), "the number of elements must be at least 1"),
        (lambda: PurgingTrigger.of(CountTrigger), "nested_trigger must be a Trigger"),
        (lambda: ProcessingTimeoutTrigger(NeverTrigger(), 0), "the interval in ms must be at least 1"),
        (lambda: ContinuousEventTimeTrigger.of(10), "interval must be a Time"),
    ],
)
def test_assigners_and_triggers_refuse_bad_arguments_by_name(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        make()


@pytest.mark.parametrize(
    ("timestamp", "said"),
    [(-(2**63), "an element has none"), (2**63 - 1, "Results of the input's end have it")],
)
def test_elements_without_timestamps_or_of_the_end_are_refused(timestamp: int, said: str) -> None:
    for assigner in (TumblingEventTimeWindows(1), SlidingEventTimeWindows(2, 1), EventTimeSessionWindows(1)):
        with pytest.raises(InvalidJobError, match=rf"{said}.*assign_timestamps_and_watermarks\(\)"):
            assigner.assign_windows("x", timestamp, None)


def test_gaps_that_are_none() -> None:
    class Zero(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> Any:
            return element

    sessions = EventTimeSessionWindows.with_dynamic_gap(Zero())
    assert type(sessions) is DynamicEventTimeSessionWindows
    assert sessions.assign_windows(5, 10, None) == [TimeWindow(10, 15)]
    for gap in (0, -1, 1.5, None):
        with pytest.raises(InvalidJobError, match="extract of Zero returned"):
            sessions.assign_windows(gap, 10, None)
    assert type(ProcessingTimeSessionWindows.with_dynamic_gap(Zero())).__name__ == (
        "DynamicProcessingTimeSessionWindows"
    )


def test_each_assigner_has_flinks_default_trigger() -> None:
    found = {
        type(assigner).__name__: type(assigner.get_default_trigger(None)).__name__
        for assigner in (
            TumblingEventTimeWindows(1),
            SlidingProcessingTimeWindows(1, 1),
            EventTimeSessionWindows(1),
            ProcessingTimeSessionWindows(1),
            GlobalWindows.create(),
        )
    }
    assert found == {
        "TumblingEventTimeWindows": "EventTimeTrigger",
        "SlidingProcessingTimeWindows": "ProcessingTimeTrigger",
        "EventTimeSessionWindows": "EventTimeTrigger",
        "ProcessingTimeSessionWindows": "ProcessingTimeTrigger",
        "GlobalWindows": "NeverTrigger",
    }
    counting = CountTumblingWindowAssigner.of(3).get_default_trigger(None)
    assert type(counting.nested_trigger) is CountTrigger
    assert counting.can_merge()


def test_a_result_says_whether_it_fires_and_purges() -> None:
    assert {result.name: (result.is_fire(), result.is_purge()) for result in TriggerResult} == {
        "CONTINUE": (False, False),
        "FIRE": (True, False),
        "PURGE": (False, True),
        "FIRE_AND_PURGE": (True, True),
    }
    assert not NeverTrigger().can_merge()
    with pytest.raises(TypeError, match="abstract"):
        Trigger()  # type: ignore[abstract]
    assert issubclass(Trigger[tuple, TimeWindow].__origin__, Trigger)


def test_all_names_of_the_module() -> None:
    assert windows.__all__ == sorted(windows.__all__)
    assert all(hasattr(windows, name) for name in windows.__all__)
