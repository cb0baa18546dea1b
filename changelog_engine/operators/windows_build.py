"""From a window node to its operator."""

from __future__ import annotations

from changelog_engine.clock import WallClock
from changelog_engine.operators.context import KeyedTimerService
from changelog_engine.operators.keyed import KeyedParts
from changelog_engine.operators.store import KeyedStore
from changelog_engine.operators.windows import WindowOperator
from changelog_engine.operators.windows_aligned import AlignedWindowOperator, is_aligned
from changelog_engine.operators.windows_sessions import SessionWindowOperator, is_session
from changelog_engine.state.backend import EVENT_TIMERS, PROCESSING_TIMERS
from changelog_engine.state.cursor import Cursor, NamespaceScope
from changelog_engine.windowing.namespaces import window_codec
from changelog_engine.windowing.spec import WindowSpec


def build_window_operator(
    parts: KeyedParts, spec: WindowSpec, store: KeyedStore, uid: str, clock: WallClock
) -> WindowOperator:
    """The operator of a window node.

    Args:
        spec: this process's own copy of what it does.
        clock: wall clock in ms.
    """
    codec = window_codec(spec.assigner.get_window_serializer())
    scope = NamespaceScope(Cursor(), codec)
    operator = WindowOperator
    if is_aligned(spec):
        operator = AlignedWindowOperator
    elif is_session(spec):
        operator = SessionWindowOperator
    event, processing = [
        store.timers(uid, domain, scope, operator.net) for domain in (EVENT_TIMERS, PROCESSING_TIMERS)
    ]
    return operator(parts, KeyedTimerService(event, processing, clock), spec, codec, scope)
