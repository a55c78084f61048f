"""Settings of the process that make training faster; only for a process that is ours."""

import ctypes
import os
import sys

# From malloc.h of glibc.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP = 2**30


def tune_process() -> None:
    """Set what has to be set before torch starts. Idle threads sleep, and memory is kept.

    Idle OpenMP threads that spin make torch ten times slower when another program holds a core.
    And a training step frees and asks for the same large blocks over and over: by default glibc
    gives each back to the system, which then clears it page by page.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # another C library, with habits of its own
    mallopt(_M_MMAP_THRESHOLD, _KEEP)
    mallopt(_M_TRIM_THRESHOLD, _KEEP)
