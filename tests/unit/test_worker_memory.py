"""What workers and fold processes free they keep."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from materializer.processes import FoldProcesses

pytestmark = pytest.mark.skipif(
    "CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", ()), reason="it is about glibc"
)
# How many pages the kernel clears while 8 MiB are taken and freed twenty times.
PROGRAM = """
import os, resource
from changelog_engine.memory import keep_memory

keep_memory(os.environ)
bytearray(8 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    bytearray(8 << 20)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize() >> 20)
"""
OPTIONS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        {"MALLOC_MMAP_THRESHOLD_": "131072"},
        {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"},
    ],
    ids=lambda asked: next(iter(asked), "nothing"),
)
def test_memory_is_kept_unless_glibc_is_asked_for_something_else(asked: dict[str, str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in OPTIONS} | asked
    cleared = int(subprocess.check_output([sys.executable, "-c", PROGRAM], env=environment, text=True))
    assert (cleared < 40) == (not asked)


def test_arrow_in_a_fold_process_takes_its_memory_from_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    run = FoldProcesses(1)
    asked = "__import__('pyarrow').default_memory_pool().backend_name"
    assert run.map(eval, [asked]) == ["system"]
    run.stop()
