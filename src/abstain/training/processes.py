"""Where a training runs: on which device, and as which of several processes."""

import os

import torch
from accelerate import Accelerator, PartialState
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
    """What each process has, stacked."""
    gathered = accelerator.gather(tensor.unsqueeze(0).to(accelerator.device))
    assert isinstance(gathered, Tensor)
    return gathered


def _processes_here() -> int:
    return next((int(os.environ[name]) for name in _HERE if name in os.environ), 1)


def _wants_cpu() -> bool:
    """What `accelerate launch --cpu` sets for its processes, and Accelerate reads too late."""
    return os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes", "y", "on")
