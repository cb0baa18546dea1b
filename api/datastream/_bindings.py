"""Which classes of the engine stand behind the abstract classes of the API.

``isinstance`` then tells the truth.

The engine never imports the API; importing ``api.datastream`` registers its classes here.
"""

from __future__ import annotations

from abc import ABCMeta

from changelog_engine.operators.broadcast import (
    BroadcastContext,
    BroadcastMap,
    KeyedReadOnlyContext,
    ReadOnlyBroadcastMap,
)
from changelog_engine.operators.context import (
    ElementContext,
    KeyedElementContext,
    KeyedTimerService,
    TaskContext,
)
from changelog_engine.operators.metrics import TaskCounter, TaskDistribution, TaskMeter, TaskMetricGroup
from changelog_engine.operators.windows_context import FunctionContext, NoWindowStates, WindowStates
from changelog_engine.state.handles import (
    AggregatingHandle,
    CellHandle,
    ListHandle,
    MapHandle,
    ReducingHandle,
)
from changelog_engine.state.ttl import TtlCell, TtlList, TtlMap
from changelog_engine.windowing.serializers import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindowSerializer,
)

from ..common.serializer import TypeSerializer
from ..metrics.metricbase import Counter, Distribution, Meter, MetricGroup
from .functions import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeContext,
)
from .runtime_context import KeyedStateStore
from .state import (
    AggregatingState,
    BroadcastState,
    ListState,
    MapState,
    ReadOnlyBroadcastState,
    ReducingState,
    ValueState,
)
from .timerservice import TimerService
from .window_functions import ProcessAllWindowFunction, ProcessWindowFunction

ENGINE_CLASSES: list[tuple[ABCMeta, type]] = [
    (RuntimeContext, TaskContext),
    (ProcessFunction.Context, ElementContext),
    (KeyedProcessFunction.Context, KeyedElementContext),
    (KeyedProcessFunction.OnTimerContext, KeyedElementContext),
    (CoProcessFunction.Context, ElementContext),
    (CoProcessFunction.Context, KeyedElementContext),
    (KeyedCoProcessFunction.Context, KeyedElementContext),
    (KeyedCoProcessFunction.OnTimerContext, KeyedElementContext),
    (BroadcastProcessFunction.Context, BroadcastContext),
    (BroadcastProcessFunction.ReadOnlyContext, BroadcastContext),
    (KeyedBroadcastProcessFunction.Context, BroadcastContext),
    (KeyedBroadcastProcessFunction.ReadOnlyContext, KeyedReadOnlyContext),
    (KeyedBroadcastProcessFunction.OnTimerContext, KeyedReadOnlyContext),
    (TimerService, ElementContext),
    (TimerService, KeyedTimerService),
    (ValueState, CellHandle),
    (ListState, ListHandle),
    (MapState, MapHandle),
    (ValueState, TtlCell),
    (ListState, TtlList),
    (MapState, TtlMap),
    (ReducingState, ReducingHandle),
    (ReadOnlyBroadcastState, ReadOnlyBroadcastMap),
    (BroadcastState, BroadcastMap),
    (AggregatingState, AggregatingHandle),
    (TypeSerializer, TimeWindowSerializer),
    (TypeSerializer, CountWindowSerializer),
    (TypeSerializer, GlobalWindowSerializer),
    (KeyedStateStore, WindowStates),
    (KeyedStateStore, NoWindowStates),
    (ProcessWindowFunction.Context, FunctionContext),
    (ProcessAllWindowFunction.Context, FunctionContext),
    (MetricGroup, TaskMetricGroup),
    (Counter, TaskCounter),
    (Distribution, TaskDistribution),
    (Meter, TaskMeter),
]


def register() -> None:
    """Make each class of the engine a virtual subclass of its abstract class."""
    for abstract, engine_class in ENGINE_CLASSES:
        abstract.register(engine_class)
