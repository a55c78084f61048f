"""A run that is killed, or whose disk is full, goes on as if nothing had happened: to the bit.

Tests of state.py, in real processes.
"""

import json
import random
import resource
import sys
import time

import pyarrow.parquet as pq
import pytest
import small_runs as small
import torch

from abstain.errors import AbstainError
from abstain.training.loop import loop as loop_module
from abstain.training.plan import Plan
from abstain.training.recipe import plan_of
from abstain.training.saving.checkpoint import load_checkpoint
from abstain.training.train import train

# Batches of 4: 17 steps an epoch, looked at after 10 and at the end, so that with save_every=0
# checkpoints come within epochs and between them.
SAMPLES, BATCH, EPOCHS = 67, 4, 8
MANY_EPOCHS = 20  # to be killed in ten times, however many a slow look at the folder misses


@pytest.fixture
def begun(tmp_path):
    source = small.save_blobs(tmp_path, SAMPLES)
    model = small.save_net(tmp_path, small.SLOW_DROPOUT_NET)

    def arguments(name, **settings):
        settings = {"batch": BATCH, "epochs": EPOCHS, "flip": 0.2} | settings
        if settings.get("method") != "nll":  # which has none
            settings = {"warm_up": 2} | settings
        # Measured anew for every run, "auto" is not the same for all when the machine is busy.
        settings = {"precision": "fp32"} | settings
        recipe = plan_of(settings.pop("method", "schedule"), **{"model": model, **settings})
        where = {"source": str(source), "test": str(source), "folder": str(tmp_path / name)}
        return tmp_path / name, {**where, "recipe": recipe.as_json(), "save_every": 0.0}

    return arguments


def progress(folder):
    """Position of the last checkpoint of a run: (epoch, batch), or None before there is one."""
    if not (folder / "last.safetensors").exists():
        return None
    position = load_checkpoint(folder / "last.safetensors").part("position")[1]
    return position["epoch"], position["batch"]


def assert_same_run(one, two):
    small.assert_same_weights(small.weights(one), small.weights(two))
    for file in ("ledger", "steps", "epochs"):
        tables = [pq.read_table(folder / f"{file}.parquet") for folder in (one, two)]
        timeless = [t.drop_columns([c for c in t.column_names if c == "seconds"]) for t in tables]
        # Compared as text: NaN is to equal NaN.
        assert str(timeless[0].to_pydict()) == str(timeless[1].to_pydict()), file


def kill_when(process, happened, delay=0.0):
    """Kill -9 at a moment; whether the run was still under way."""
    reached = small.wait_until(happened, process)
    time.sleep(delay)
    process.kill()
    process.join()
    return reached and process.exitcode != 0


def test_killed_ten_times_and_resumed_it_ends_with_the_same_bits(begun):
    whole, arguments = begun("whole", epochs=MANY_EPOCHS)
    small.start(arguments)
    killed, arguments = begun("killed", epochs=MANY_EPOCHS)
    again = {"folder": str(killed), "resume": True, "save_every": 0.0}
    dice = random.Random(0)

    # Before run.json is there: there is nothing to go on with, and the folder is not taken.
    process = small.start(arguments, wait=False)
    time.sleep(0.01)
    process.kill()
    process.join()
    assert not (killed / "run.json").exists()
    with pytest.raises(AbstainError, match="folder must be the folder of a run"):
        train(folder=killed, resume=True)

    # After it, but before the first checkpoint: resume begins at the beginning.
    process = small.start(arguments, wait=False)
    assert kill_when(process, (killed / "run.json").exists)
    seen = [progress(killed)]
    assert seen == [None]

    # Then within an epoch, between two, while a file is being written, and whenever it happens.
    def is_within_an_epoch():
        return (at := progress(killed)) is not None and at != seen[-1] and at[1] > 0

    def is_between_epochs():
        return (at := progress(killed)) is not None and at != seen[-1] and at[1] == 0

    def is_writing():
        return any(killed.glob(".last.safetensors.*.tmp"))

    def moves():
        return progress(killed) != seen[-1]

    moments = [is_within_an_epoch, is_between_epochs, is_writing, moves]
    while len(seen) < 10:
        process = small.start(again, wait=False)
        moment = moments[(len(seen) - 1) % len(moments)]
        assert kill_when(process, moment, dice.uniform(0, 0.02) if moment is moves else 0.0)
        seen.append(progress(killed))
    assert any(at and at[1] > 0 for at in seen)
    assert any(at and at[1] == 0 for at in seen)
    assert seen[-1][0] < MANY_EPOCHS, "it ended before it could be killed ten times"
    small.start(again)
    assert_same_run(whole, killed)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "ves", "patience": 2, "schedule": "cosine", "optimizer": "sgd", "clip": 1.0},
        {"method": "aes", "rate": 0.2, "optimizer": "laprop", "schedule": "one-cycle"},
        {"method": "nll", "optimizer": "adamw", "weight_decay": 0.1, "schedule": "linear"},
        {"method": "lq-truncated", "precision": "bf16"},
        {"method": "small-stake", "precision": "fp16"},
    ],
    ids=lambda settings: settings["method"],
)
def test_every_part_of_the_state_is_resumed(begun, settings):
    whole, arguments = begun("whole", **settings)
    small.start(arguments)
    killed, arguments = begun("killed", **settings)
    process = small.start(arguments, wait=False)
    assert kill_when(process, lambda: (progress(killed) or (0, 0)) >= (2, 1))
    small.start({"folder": str(killed), "resume": True})
    assert_same_run(whole, killed)


INTERRUPTED_NET = (
    small.SLOW_DROPOUT_NET
    + """
import signal
from pathlib import Path

class InterruptedNet(Net):
    # asks for an interruption in its 24th step, if there is a file that asks for it
    calls = 0

    def forward(self, x):
        self.calls += self.training
        asked = Path(__file__).with_name("interrupt")
        if self.calls == 24 and asked.exists():
            asked.unlink()
            signal.raise_signal(signal.SIGINT)
        return super().forward(x)
"""
)


@pytest.mark.parametrize("processes", [1, 2])
def test_an_interruption_between_two_looks_loses_nothing(begun, tmp_path, processes):
    model = small.save_net(tmp_path, INTERRUPTED_NET).replace(":Net", ":InterruptedNet")
    whole, arguments = begun("whole", model=model, epochs=3)
    small.start(arguments)
    (tmp_path / "interrupt").touch()
    broken, arguments = begun("broken", model=model, epochs=3)
    process = small.start(arguments, wait=False)
    process.join(60)
    assert not (tmp_path / "interrupt").exists()
    assert progress(broken) == (1, 24 - 17)  # the next look would come after 30 steps
    again = {"folder": str(broken), "resume": True}
    if processes == 1:
        small.start(again)
        assert_same_run(whole, broken)
    else:  # dropout then draws other numbers
        small.start_many(again, processes)
        ledger = pq.read_table(broken / "ledger.parquet").to_pydict()
        assert ledger["visits"] == [3] * SAMPLES
        losses = [pq.read_table(f / "steps.parquet")["loss"].to_pylist() for f in (whole, broken)]
        assert losses[0][:24] == losses[1][:24]
        assert len(losses[0]) == len(losses[1])


def test_a_validation_run_killed_before_its_first_best_epoch_goes_on(begun):
    killed, arguments = begun("killed", method="ves", batch=2)
    process = small.start(arguments, wait=False)
    assert kill_when(process, lambda: progress(killed) == (0, 20))
    assert not (killed / "best.safetensors").exists()
    small.start({"folder": str(killed), "resume": True})
    assert (killed / "summary.json").exists()


def test_lazy_inputs_are_resumed_within_an_epoch_too(begun):
    # The loader of a resumed epoch must not take numbers that dropout would have had.
    whole, arguments = begun("whole")
    small.start(arguments)
    killed, arguments = begun("killed")
    lazy = {**arguments, "memory_budget": 1}
    process = small.start(lazy, wait=False)
    assert kill_when(process, lambda: (progress(killed) or (0, 0)) >= (1, 1))
    small.start({"folder": str(killed), "resume": True})
    assert_same_run(whole, killed)


def test_a_finished_run_can_be_resumed_and_stays_as_it_is(begun):
    out, arguments = begun("out")
    small.start(arguments)
    before = small.weights(out)
    (out / "model.safetensors").unlink()  # killed while it wrote its results
    (out / "summary.json").unlink()
    small.start({"folder": str(out), "resume": True})
    small.assert_same_weights(before, small.weights(out))
    assert json.loads((out / "summary.json").read_text())["epoch"] == EPOCHS


def test_run_again_from_the_recipe_gives_identical_weights(begun):
    one, arguments = begun("one", seed_noise=3, seed_init=4, seed_order=5)
    small.start(arguments)
    two, arguments = begun("two")
    about = json.loads((one / "run.json").read_text())
    small.start({**arguments, "recipe": about["plan"]})
    assert_same_run(one, two)


def test_changed_data_are_refused(begun, tmp_path):
    out, arguments = begun("out")
    process = small.start(arguments, wait=False)
    assert kill_when(process, lambda: progress(out))
    small.save_blobs(tmp_path, SAMPLES + 1)
    with pytest.raises(AbstainError, match=r"data must be those that the run in .* began with"):
        train(folder=out, resume=True)


@pytest.mark.parametrize(
    ("before", "after"), [("0.5,red", "0.6,red"), ("0.5,red", "0.5,blue"), ("text,", "texts,")]
)
def test_changed_inputs_are_refused_where_labels_are_the_same(tmp_path, before, after):
    rows = [f"{k}.5,red,{'yn'[k % 2]}" for k in range(20)]
    if before == "text,":
        rows = [f"text,{'yn'[k % 2]}" for k in range(20)]
    source = tmp_path / "t.csv"
    source.write_text("\n".join(["x,colour,label" if "red" in before else "x,label", *rows]))
    recipe = Plan(epochs=2, warm_up=1, batch=4, precision="fp32")
    train(source, recipe, folder=tmp_path / "run")
    train(folder=tmp_path / "run", resume=True)
    text = source.read_text()
    source.write_text(text.replace(before, after, 1))
    with pytest.raises(AbstainError, match=r"data must be those that the run in .* began with"):
        train(folder=tmp_path / "run", resume=True)


def test_data_and_modules_in_memory_are_given_again_to_resume(tmp_path, monkeypatch):
    data, recipe = small.blobs(SAMPLES), Plan(batch=BATCH, epochs=3, warm_up=1)

    def module():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))

    whole = train(data, recipe, model=module())

    def interrupt(loop, *_):
        if loop.position.epoch == 1:
            raise KeyboardInterrupt
        return original(loop, *_)

    original = loop_module.Loop._step
    with monkeypatch.context() as patch:
        patch.setattr(loop_module.Loop, "_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(data, recipe, model=module(), folder=tmp_path / "run")
    with pytest.raises(AbstainError, match="source must be given"):
        train(folder=tmp_path / "run", resume=True)
    with pytest.raises(AbstainError, match="model must be given"):
        train(data, folder=tmp_path / "run", resume=True)
    resumed = train(data, folder=tmp_path / "run", resume=True, model=module())
    small.assert_same_weights(whole.model.state_dict(), resumed.model.state_dict())


def _train_on_a_small_disk(arguments, room, has_log):
    """As `train`, but no file may grow beyond `room`, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    if not has_log:
        sys.modules["torch.utils.tensorboard"] = None  # as if it were not installed
    try:
        train(**{**arguments, "recipe": Plan.from_json(arguments["recipe"])})
    except AbstainError as error:
        reason = str(error)
        is_clear = "\n" not in reason and f"cannot be {'written' if has_log else 'saved'}" in reason
        raise SystemExit(2 if is_clear and "is whole" in reason else reason) from None


@pytest.mark.parametrize("has_log", [False, True], ids=["checkpoint", "log"])
def test_a_full_disk_is_a_clear_error_and_leaves_the_last_checkpoint_whole(begun, has_log):
    whole, arguments = begun("whole")
    small.start(arguments)
    full, arguments = begun("full")
    # Checkpoints grow with the history, so that one fits and a later one does not; the log of
    # TensorBoard grows faster, and is the first that does not fit.
    room = (whole / "last.safetensors").stat().st_size - 2000
    process = small.PROCESSES.Process(
        target=_train_on_a_small_disk, args=(arguments, room, has_log)
    )
    process.start()
    process.join(60)
    assert process.exitcode == 2
    assert not (full / "summary.json").exists()
    assert progress(full) is not None
    small.start({"folder": str(full), "resume": True})
    assert_same_run(whole, full)
