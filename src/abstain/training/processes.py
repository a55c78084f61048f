"""The processes that train together: devices, agreement between them, and Ctrl-C."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor

from abstain.errors import AbstainError

# Variables in which torchrun and the kinds of MPI give the processes started on this machine.
_HERE = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "MV2_COMM_WORLD_LOCAL_SIZE",
)


def join_processes() -> PartialState:
    """This process among those that train together, on a GPU where there are any.

    Raises:
        AbstainError: There are fewer GPUs here than processes, before any of them is touched.
    """
    on_cpu = _wants_cpu() or not torch.cuda.is_available()
    if not on_cpu:
        check_gpus(_processes_here(), torch.cuda.device_count())
    return PartialState(cpu=on_cpu)


def check_gpus(processes: int, gpus: int) -> None:
    """Raise if processes of one machine would have to share a GPU, which they cannot.

    >>> check_gpus(2, gpus=4)
    >>> check_gpus(2, gpus=1)
    Traceback (most recent call last):
    abstain.errors.AbstainError: processes must be at most 1, one for each GPU of this machine, \
got 2: start fewer, or set CUDA_VISIBLE_DEVICES= (to nothing) to train on the CPU
    """
    if processes > gpus:
        raise AbstainError(
            f"processes must be at most {gpus}, one for each GPU of this machine, got "
            f"{processes}: start fewer, or set CUDA_VISIBLE_DEVICES= (to nothing) to train on the "
            "CPU"
        )


def used_devices(device: torch.device) -> list[torch.device]:
    """The devices other than the CPU whose random state a training on `device` changes."""
    return [] if device.type == "cpu" else [device]


def add_up(accelerator: Accelerator, tensor: Tensor) -> Tensor:
    """The sum of what each process has; the same on all."""
    total = accelerator.reduce(tensor, "sum")
    assert isinstance(total, Tensor)
    return total


def gather(accelerator: Accelerator, tensor: Tensor) -> Tensor:
    """Stack the tensors of all processes."""
    gathered = accelerator.gather(tensor.unsqueeze(0).to(accelerator.device))
    assert isinstance(gathered, Tensor)
    return gathered


def _processes_here() -> int:
    return next((int(os.environ[name]) for name in _HERE if name in os.environ), 1)


def _wants_cpu() -> bool:
    """Read what `accelerate launch --cpu` sets for its processes; Accelerate reads it too late."""
    return os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes", "y", "on")


_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


def agreed(find: Callable[[], _Result], state: PartialState) -> _Result:
    """Give all processes the main one's result: measurements and the time of day differ."""
    found: list[Any] = [find() if state.is_main_process else None]
    if state.num_processes > 1:
        broadcast_object_list(found)
    result: _Result = found[0]
    return result


def by_all(work: Callable[[], _Result], state: PartialState) -> _Result:
    """Do some work in all processes; an error of one is raised by all, or they would wait for it.

    The main process goes first: the others then find the decoded data in the cache.
    """
    for is_next in (state.is_main_process, not state.is_main_process):
        failures: list[AbstainError] = []
        if is_next:
            try:
                result = work()
            except AbstainError as error:
                failures.append(error)
        for failure in gather_object(failures):
            raise failure
    return result


# A launcher passes on to its processes the Ctrl-C that they have had from the terminal.
_AS_ONE = 1.0  # seconds


class Interrupted(Exception):  # noqa: N818
    """Training was interrupted and saved; not an error, and nothing is lost."""


class InterruptFlag:
    """While in its context, the first SIGINT or SIGTERM only raises a flag; a later one kills.

    What follows within a second counts as the first.

    >>> with InterruptFlag() as interrupted:
    ...     bool(interrupted)
    False
    """

    def __init__(self) -> None:
        self._raised_at: float | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __bool__(self) -> bool:
        return self._raised_at is not None

    def __enter__(self) -> "InterruptFlag":
        # Only the main thread may set handlers; elsewhere the flag is simply never raised.
        if threading.current_thread() is threading.main_thread():
            for kind in (signal.SIGINT, signal.SIGTERM):
                self._previous[kind] = signal.signal(kind, self._raise)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _raise(self, kind: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._raised_at is None:
            self._raised_at = now
        elif now - self._raised_at > _AS_ONE:
            self._restore()
            signal.raise_signal(kind)

    def _restore(self) -> None:
        for kind, handler in self._previous.items():
            signal.signal(kind, handler)
        self._previous = {}
