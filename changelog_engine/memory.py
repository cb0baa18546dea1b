"""Where workers and fold processes take memory from: glibc, which keeps what an epoch frees for the next one.

Arrow's own allocator gives memory back that is not used for ten milliseconds; glibc what is free at its heap's end, and what
is large. Epochs come once a second, so the kernel cleared the same pages again in each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from contextlib import suppress

_ARROWS_POOL = "ARROW_DEFAULT_MEMORY_POOL"
_OF_THE_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # as <malloc.h> has them
_KEPT = 128 << 20
_NOT_KEPT = 32 << 20  # the largest that glibc takes


def keep_memory(environment: MutableMapping[str, str]) -> None:
    """Have this process, and its forks, take memory so; to be called before Arrow is imported.

    Without glibc all stays as it is, and so does what the environment asks for.
    """
    if sys.platform == "win32" or "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return
    environment.setdefault(_ARROWS_POOL, "system")
    if not any(name in environment for name in _OF_THE_USER):
        import ctypes

        with suppress(OSError, AttributeError):  # Python without shared libraries
            libc = ctypes.CDLL(None)
            libc.mallopt(_M_TRIM_THRESHOLD, _KEPT)
            libc.mallopt(_M_MMAP_THRESHOLD, _NOT_KEPT)
