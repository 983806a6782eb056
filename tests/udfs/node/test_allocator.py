"""Whether the C library maps a large block anew for each allocation: the kernel counts the pages it has to zero."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource
from udfs.node import freed_memory_kept, keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        block = bytearray(64 << 20)
        del block
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

outside = faults()
with freed_memory_kept():
    faults()
    inside = faults()
after = faults()
keep_freed_memory()
faults()
print(outside, inside, after, faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_freed_memory_is_kept_within_the_block_and_not_after_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    outside, inside, after, for_good = map(int, done.stdout.split())
    assert inside < outside / 10
    assert after > outside / 2
    assert for_good < outside / 10
