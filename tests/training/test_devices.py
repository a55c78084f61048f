"""Processes and GPUs: one for each, or an error with a remedy."""

import pytest

from abstain.errors import AbstainError
from abstain.training.devices import _processes_here, _wants_cpu, check_gpus


@pytest.mark.parametrize(("processes", "gpus"), [(1, 1), (1, 8), (2, 2), (7, 8)])
def test_a_gpu_for_each_process_is_enough(processes, gpus):
    check_gpus(processes, gpus)


@pytest.mark.parametrize(("processes", "gpus"), [(2, 1), (9, 8)])
def test_more_processes_than_gpus_are_refused_with_a_remedy(processes, gpus):
    with pytest.raises(AbstainError) as refused:
        check_gpus(processes, gpus)
    message = str(refused.value)
    assert message.startswith(f"processes must be at most {gpus}, one for each GPU of this machine")
    assert f"got {processes}: start fewer" in message
    assert "CUDA_VISIBLE_DEVICES= " in message


@pytest.mark.parametrize(
    "name", ["LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"]
)
def test_launchers_say_how_many_processes_are_here(monkeypatch, name):
    assert _processes_here() == 1
    monkeypatch.setenv("WORLD_SIZE", "16")  # on all machines together
    monkeypatch.setenv(name, "4")
    assert _processes_here() == 4


def test_accelerate_may_ask_for_the_cpu(monkeypatch):
    assert not _wants_cpu()
    for value, wanted in (("True", True), ("False", False), ("1", True)):
        monkeypatch.setenv("ACCELERATE_USE_CPU", value)
        assert _wants_cpu() == wanted
