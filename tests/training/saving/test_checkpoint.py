"""Checkpoints: to the last bit, and whole whatever happens: kill -9, a full disk, a broken file.

Tests of checkpoint.py and state.py.
"""

import json
import os
import random
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from abstain.errors import AbstainError
from abstain.support.optimizers import LaProp
from abstain.training.saving import checkpoint as module
from abstain.training.saving.checkpoint import (
    Checkpoint,
    CheckpointFolder,
    load_checkpoint,
    save_checkpoint,
)
from abstain.training.saving.state import pack_optimizer, pack_rng, unpack_optimizer, unpack_rng


def assert_same(a, b):
    assert a.state == b.state
    assert a.tensors.keys() == b.tensors.keys()
    for name, tensor in a.tensors.items():
        assert tensor.dtype == b.tensors[name].dtype
        assert torch.equal(tensor, b.tensors[name]), name


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_round_trip_of_odd_tensors(tmp_path):
    base = torch.arange(12.0).view(3, 4)
    tensors = {
        "whole": base,
        "transposed": base.t(),
        "row": base[1],
        "tied": base,
        "scalar": torch.tensor(3, dtype=torch.int32),
        "empty": torch.empty(0, 3),
        "also empty": torch.empty(0),
        "half": torch.randn(5).bfloat16(),
        "flags": torch.tensor([True, False]),
        "channels_last": torch.randn(1, 3, 2, 2).to(memory_format=torch.channels_last),
        "learned": nn.Parameter(torch.ones(2)),
    }
    state = {"epoch": 3, "score": 0.1 + 0.2, "worst": -np.inf, "name": "λ", "none": [None, True]}
    save_checkpoint(tmp_path / "new" / "folder" / "a.safetensors", Checkpoint(tensors, state))
    loaded = load_checkpoint(str(tmp_path / "new" / "folder" / "a.safetensors"))
    assert_same(Checkpoint(tensors, state), loaded)
    assert not any(tensor.requires_grad for tensor in loaded.tensors.values())


def test_parts():
    whole = Checkpoint.join(
        {"a": ({"w": torch.ones(1)}, {"n": 1}), "ab": ({"w/x": torch.zeros(1)}, None)}
    )
    assert whole.part("a") == ({"w": torch.ones(1)}, {"n": 1})
    assert whole.part("ab") == ({"w/x": torch.zeros(1)}, None)
    with pytest.raises(AbstainError, match="must have a part 'b'"):
        whole.part("b")


def test_files_can_be_read_by_whom_the_umask_allows(tmp_path):
    save_checkpoint(tmp_path / "a.safetensors", Checkpoint({}, {}))
    (tmp_path / "plain").touch()
    modes = {(tmp_path / name).stat().st_mode for name in ("a.safetensors", "plain")}
    assert len(modes) == 1


OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adam-fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "adam-amsgrad": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(
        [{"params": p[:1], "weight_decay": 0.0}, {"params": p[1:], "betas": (0.5, 0.9)}], lr=0.01
    ),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "sgd-plain": lambda p: torch.optim.SGD(p, lr=0.01),
    "lbfgs": lambda p: torch.optim.LBFGS(p, max_iter=3, history_size=4),
    "laprop": lambda p: LaProp(p, lr=0.01),
}


def make(build):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(12, 4), nn.Dropout(0.5), nn.Linear(4, 2)
    )
    if build is not OPTIMIZERS["lbfgs"]:  # which takes no strides
        model = model.to(memory_format=torch.channels_last)
    return model, build(list(model.parameters()))


def steps(model, optimizer, number):
    for _ in range(number):
        # Drawn from all three generators: if one is not restored, the weights will differ.
        x = torch.randn(8, 2, 3, 3) + random.random() + np.random.rand()  # noqa: NPY002
        draws = torch.get_rng_state()

        def closure(x=x, draws=draws):
            torch.set_rng_state(draws)  # LBFGS calls more than once
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_resumed_training_equals_uninterrupted_training(name, tmp_path):
    build = OPTIMIZERS[name]
    path = tmp_path / "a.safetensors"
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    model, optimizer = make(build)
    steps(model, optimizer, 5)
    save_checkpoint(
        path,
        Checkpoint.join(
            {
                "model": (model.state_dict(), None),
                "optimizer": pack_optimizer(optimizer),
                "rng": pack_rng(),
            }
        ),
    )
    steps(model, optimizer, 5)

    resumed, fresh = make(build)
    loaded = load_checkpoint(path)
    untouched = {key: tensor.clone() for key, tensor in loaded.tensors.items()}
    resumed.load_state_dict(loaded.part("model")[0])
    unpack_optimizer(fresh, *loaded.part("optimizer"))
    unpack_rng(*loaded.part("rng"))
    steps(resumed, fresh, 5)

    for key, value in model.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key]), key
    want, got = pack_optimizer(optimizer), pack_optimizer(fresh)
    assert_same(Checkpoint(*want), Checkpoint(*got))
    assert all(want[0][key].stride() == got[0][key].stride() for key in want[0])
    # What was loaded must not share memory with what went on training.
    assert all(torch.equal(value, loaded.tensors[key]) for key, value in untouched.items())


def test_settings_of_groups_keep_their_types():
    _, optimizer = make(lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.9), fused=True))
    tensors, state = pack_optimizer(optimizer)
    _, fresh = make(lambda p: torch.optim.Adam(p, lr=0.3))
    unpack_optimizer(fresh, tensors, json.loads(json.dumps(state)))
    for key in ("lr", "betas", "amsgrad", "foreach", "fused", "eps"):
        want, got = optimizer.param_groups[0][key], fresh.param_groups[0][key]
        assert type(want) is type(got)
        assert want == got


def test_states_finer_than_their_parameters_are_not_rounded():
    weight = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([weight], momentum=0.9)
    optimizer.state[weight]["momentum_buffer"] = torch.full((3,), 1 / 3)
    fresh = torch.optim.SGD([weight], momentum=0.9)
    unpack_optimizer(fresh, *pack_optimizer(optimizer))
    assert torch.equal(fresh.state[weight]["momentum_buffer"], torch.full((3,), 1 / 3))


def test_optimizer_over_other_parameters_is_refused():
    _, optimizer = make(OPTIMIZERS["adam"])
    packed = pack_optimizer(optimizer)
    with pytest.raises(AbstainError, match="must have the parameter groups it was saved with"):
        unpack_optimizer(torch.optim.Adam([nn.Parameter(torch.ones(1))]), *packed)


def test_optimizer_state_that_is_no_data_is_refused():
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight])
    optimizer.state[weight]["odd"] = object()
    with pytest.raises(AbstainError, match=r"0/odd must be made of tensors.*got object"):
        pack_optimizer(optimizer)


@pytest.mark.gpu
@pytest.mark.parametrize("fused", [True, False])
def test_resumed_training_on_cuda(fused, tmp_path):
    def make_cuda():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)).cuda()
        return model, torch.optim.Adam(model.parameters(), fused=fused)

    def train(model, optimizer):
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(8, 4, device="cuda")).square().mean().backward()
            optimizer.step()

    model, optimizer = make_cuda()
    train(model, optimizer)
    parts = {
        "model": (model.state_dict(), None),
        "optimizer": pack_optimizer(optimizer),
        "rng": pack_rng(),
    }
    save_checkpoint(tmp_path / "a.safetensors", Checkpoint.join(parts))
    train(model, optimizer)
    resumed, fresh = make_cuda()
    loaded = load_checkpoint(tmp_path / "a.safetensors")
    resumed.load_state_dict(loaded.part("model")[0])
    unpack_optimizer(fresh, *loaded.part("optimizer"))
    unpack_rng(*loaded.part("rng"))
    train(resumed, fresh)
    for key, value in model.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key]), key


def test_generators_go_on_where_they_were(tmp_path):
    random.gauss(0, 1)  # leaves a spare draw behind, which is part of the state
    np.random.randn()  # noqa: NPY002

    def draws():
        return (
            torch.randn(3).tolist(),
            [random.gauss(0, 1) for _ in range(3)],
            np.random.randn(3).tolist(),  # noqa: NPY002
        )

    save_checkpoint(tmp_path / "a.safetensors", Checkpoint.join({"rng": pack_rng()}))
    first = draws()
    assert draws() != first
    unpack_rng(*load_checkpoint(tmp_path / "a.safetensors").part("rng"))
    assert draws() == first


def test_a_generator_takes_its_state_from_among_those_of_several_processes():
    """Torch reads beyond the end, and may crash, where a state is a row of others."""
    (tensors, values), expected = pack_rng(), torch.randn(3)
    others = {name: torch.zeros_like(state) for name, state in tensors.items()}
    stacked = {name: torch.stack([others[name], state]) for name, state in tensors.items()}
    unpack_rng({name: states[1] for name, states in stacked.items()}, values)
    assert torch.equal(torch.randn(3), expected)


def test_saving_draws_nothing(tmp_path):
    before = pack_rng()
    save_checkpoint(tmp_path / "a.safetensors", Checkpoint({"a": torch.ones(3)}, {}))
    assert_same(Checkpoint(*before), Checkpoint(*pack_rng()))


def test_folder_keeps_the_last_and_the_best(tmp_path):
    folder = CheckpointFolder(tmp_path / "run")
    assert not folder.has_last
    scores = [0.5, float("nan"), 0.7, 0.7, 0.6]
    kept = []
    for epoch, score in enumerate(scores):
        current = Checkpoint({"epoch": torch.tensor(epoch)}, {"epoch": epoch})
        folder.save_last(current)
        # A new object each time, as in a process that was killed and resumed.
        kept.append(CheckpointFolder(tmp_path / "run").save_best(current, score))
    assert kept == [True, False, True, False, False]
    assert folder.has_last
    assert folder.load_last().state == {"epoch": 4}
    assert folder.load_best().state == {"epoch": 2}
    assert names(tmp_path / "run") == ["best.safetensors", "last.safetensors"]


def test_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    """SIGKILL during saves; what is there each time was once saved, and is not older."""
    script = """
        import os, random, signal, sys, time
        import torch
        from pathlib import Path
        from abstain.training.saving.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

        torch.set_num_threads(1)
        path = Path(sys.argv[1]) / "last.safetensors"
        def state(number):
            return Checkpoint({"a": torch.full((300_000,), number), "b": torch.tensor(number)},
                              {"number": number})
        save_checkpoint(path, state(0))
        number, cut_short, kills = 0, 0, 0
        while kills < 10 or (not cut_short and kills < 100):  # a save is short on some disks
            kills += 1
            child = os.fork()
            if child == 0:
                while True:
                    number += 1
                    save_checkpoint(path, state(number))
            time.sleep(random.uniform(0.05, 0.3))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            cut_short += any(name.endswith(".tmp") for name in os.listdir(path.parent))
            found = load_checkpoint(path)
            assert found.state["number"] >= number
            number = found.state["number"]
            assert found.tensors["a"].eq(number).all() and found.tensors["a"].shape == (300_000,)
            assert found.tensors["b"].item() == number
        save_checkpoint(path, state(number + 1))
        print(number, cut_short, os.listdir(path.parent))
    """
    number, cut_short, *files = run(script, tmp_path).split(maxsplit=2)
    assert int(number) > 0
    assert int(cut_short) > 0  # or the kills never hit a save, and this shows nothing
    assert files == ["['last.safetensors']\n"]  # the next save has cleaned up


def test_temporary_file_of_a_living_process_is_left_alone(tmp_path):
    path = tmp_path / "a.safetensors"
    alive, dead = tmp_path / ".a.safetensors.1.tmp", tmp_path / ".a.safetensors.2.tmp"
    other = tmp_path / ".b.safetensors.3.tmp"
    for file in (alive, dead, other):
        file.touch()
    with alive.open("rb+") as held:
        assert module._lock(held)
        save_checkpoint(path, Checkpoint({}, {}))
    assert alive.exists()
    assert other.exists()
    assert not dead.exists()


def test_full_disk_leaves_the_checkpoint_before_whole(tmp_path):
    """A real error of the system: no file of this process may grow beyond 100 kB."""
    script = """
        import resource, signal, sys
        import torch
        from abstain.errors import AbstainError
        from abstain.training.saving.checkpoint import Checkpoint, CheckpointFolder

        folder = CheckpointFolder(sys.argv[1])
        folder.save_last(Checkpoint({"a": torch.ones(10)}, {"epoch": 1}))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        large = Checkpoint({"a": torch.ones(100_000)}, {"epoch": 2})
        for save in (folder.save_last, lambda large: folder.save_best(large, 0.5)):
            try:
                save(large)
            except AbstainError as error:
                print(error)
        assert folder.load_last().state == {"epoch": 1}
        folder.save_last(Checkpoint({"a": torch.ones(10)}, {"epoch": 3}))
    """
    last, best = run(script, tmp_path).splitlines()
    whole = f"the last good checkpoint, {tmp_path}/last.safetensors, is whole"
    for name, message in (("last", last), ("best", best)):
        assert f"{tmp_path}/{name}.safetensors cannot be saved (File too large)" in message
        assert whole in message
    assert names(tmp_path) == ["last.safetensors"]
    assert CheckpointFolder(tmp_path).load_last().state == {"epoch": 3}


@pytest.mark.parametrize("when", ["write", "fsync", "replace"])
def test_any_failure_on_the_way_is_cleaned_up(when, tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, Checkpoint({}, {"epoch": 1}))

    def fail(*_):
        raise OSError(28, "No space left on device")

    target, name = {
        "write": (module, "_lock"),
        "fsync": (module.os, "fsync"),
        "replace": (module.Path, "replace"),
    }[when]
    monkeypatch.setattr(target, name, fail)
    with pytest.raises(AbstainError, match=r"No space left on device.*a\.safetensors, is whole"):
        save_checkpoint(path, Checkpoint({}, {"epoch": 2}))
    monkeypatch.undo()
    assert load_checkpoint(path).state == {"epoch": 1}
    assert names(tmp_path) == ["a.safetensors"]


def test_interrupt_is_cleaned_up_and_passed_on(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path / "a.safetensors", Checkpoint({}, {}))
    assert names(tmp_path) == []


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    for path in (tmp_path / "file" / "a.safetensors", tmp_path / "file" / "b" / "a.safetensors"):
        with pytest.raises(AbstainError, match=r"cannot be saved \(Not a directory\).*none before"):
            save_checkpoint(path, Checkpoint({}, {}))
    assert (tmp_path / "file").read_text() == "not a folder"


def test_only_a_file_is_ever_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(AbstainError, match="not a file"):
            save_checkpoint(path, Checkpoint({}, {}))
        with pytest.raises(AbstainError, match="not a file"):
            load_checkpoint(path)
    assert (tmp_path / "pipe").is_fifo()


def test_every_truncation_is_found(tmp_path):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, Checkpoint({"a": torch.ones(20)}, {"epoch": 1}))
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(AbstainError, match=r"a\.safetensors is broken.*remove it"):
            load_checkpoint(path)


def test_file_that_is_missing_foreign_or_of_another_version(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(AbstainError, match=r"there is no checkpoint .*a\.safetensors"):
        load_checkpoint(path)
    path.write_bytes(b"PK\x03\x04 this is a pickle of torch.save or anything else")
    with pytest.raises(AbstainError, match=r"a\.safetensors is broken, or not one at all"):
        load_checkpoint(path)
    save_file({"a": torch.ones(1)}, path)
    with pytest.raises(AbstainError, match=r"a\.safetensors is a safetensors file but not a"):
        load_checkpoint(path)
    header = {"format": "abstain-checkpoint", "version": "99", "state": "{}"}
    save_file({"a": torch.ones(1)}, path, header)
    with pytest.raises(AbstainError, match=r"must have version 1, got 99"):
        load_checkpoint(path)
    save_file({"a": torch.ones(1)}, path, header | {"version": "1", "state": "{"})
    with pytest.raises(AbstainError, match=r"a\.safetensors is broken"):
        load_checkpoint(path)
    with pytest.raises(AbstainError, match="is broken"):
        load_checkpoint(tmp_path)


def test_state_too_large_to_be_read_again_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_JSON", 10)
    with pytest.raises(AbstainError, match="keep large things as tensors"):
        save_checkpoint(tmp_path / "a.safetensors", Checkpoint({}, {"a": "1234567890"}))
    assert names(tmp_path) == []
