"""TimeDomain: which clock a timer follows."""

from changelog_engine.state.timers import TimeDomain

from .._unsupported import module_getattr

__all__ = ["TimeDomain"]

__getattr__ = module_getattr(__name__)
