"""The process that a command runs in: how it computes, and which it is of several."""

import ctypes
import io
import os
import shutil
import sys
import time
from pathlib import Path
from shlex import quote
from typing import NoReturn

# From malloc.h of glibc.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP = 2**30
_TIME_TO_PRINT = 20.0  # seconds; a process may be as much later than another on a slow machine
# What Open MPI sets: how many processes there are, and how many on this machine.
_PROCESSES = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
# By which torchrun and the kinds of MPI number processes.
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")
_WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")


def tune_process() -> None:
    """Set what libraries look at when they start. Idle threads sleep, and memory is kept.

    Idle OpenMP threads that spin make torch ten times slower when another program holds a core.
    And a training step frees and asks for the same large blocks over and over: by default glibc
    gives each back to the system, which then clears it page by page.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: it may know no dashes
    if not sys.stderr.isatty():  # as our own bars
        for library in ("HF_HUB", "HF_DATASETS"):
            os.environ.setdefault(f"{library}_DISABLE_PROGRESS_BARS", "1")
    processes, here = (os.environ.get(name) for name in _PROCESSES)
    if processes is not None and processes == here:
        # torchrun and Accelerate set where processes meet, a bare mpirun does not.
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # another C library, with its own ways
    mallopt(_M_MMAP_THRESHOLD, _KEEP)
    mallopt(_M_TRIM_THRESHOLD, _KEEP)


def is_main_process() -> bool:
    """Whether this process is the first of those that were started together, or alone."""
    ranks = [os.environ[name] for name in _RANK if name in os.environ]
    return not ranks or ranks[0] == "0"


def this_program() -> str:
    """The shell words that start this program in the same way; `abstain` may not be on the path.

    Several processes on one machine that torchrun started are started by it again.
    """
    processes, here = (os.environ.get(name, "1") for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if "TORCHELASTIC_RUN_ID" in os.environ and processes == here != "1":
        torchrun = _command("torchrun") or f"{quote(sys.executable)} -m torch.distributed.run"
        return f"{torchrun} --nproc-per-node {here} -m abstain"
    return _command("abstain") or f"{quote(sys.executable)} -m abstain"


def _command(name: str) -> str | None:
    """A command, where the shell would find that of this very Python."""
    found = shutil.which(name)
    return name if found and Path(found).parent == Path(sys.executable).parent else None


def wait_for_main_process() -> None:
    """Wait until the launcher ends this process, as it does when the main one has ended.

    A launcher ends all as soon as one has ended: the main process, which alone prints why, would
    have no time to do so.
    """
    time.sleep(_TIME_TO_PRINT)


def stdout_fails() -> bool:
    """Whether nothing can be printed: the disk is full, or nobody reads the pipe."""
    try:
        sys.stdout.write("\n")  # the error itself does not name its file
        sys.stdout.flush()
    except OSError:
        return True
    return False


def leave_stdout() -> None:
    """Let what could not be written go, or Python would try again at its end, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def end(code: int) -> NoReturn:
    """End the process.

    One of several leaves at once: threads of torch that still wait for the others could abort it
    while it is being taken down, and with it the others.
    """
    if any(int(os.environ.get(name, 1)) > 1 for name in _WORLD):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def leave_others() -> None:
    """Take leave of the processes that train together with this one, or gloo aborts at the end."""
    distributed = sys.modules.get("torch.distributed")  # not imported: nothing was begun
    if distributed and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
