"""Fine-tuning that is tried within a budget: kept where it is better, whoever kills the process.

Tests of trial.py, trained.py and methods.py.
"""

import json
import re

import numpy as np
import pytest
import small_runs as small
import torch
from tiny_models import bert

from abstain import AbstainError, Recipe, audit, predict_from, train
from abstain.embed.encoder import BackboneEncoder
from abstain.embed.finetuning import FineTuningEncoder
from abstain.report import write_report
from abstain.training import train as run
from abstain.training import trial
from abstain.training.loop.batches import held_out_rows
from abstain.training.plan import Plan
from abstain.training.recipe import fine_tuned, plan_of
from abstain.training.saving.run_folder import RunFolder
from abstain.training.trained import held_out_agreement
from abstain.training.trial import TrialFolder

NETWORK = """
import time
import torch

class Net(torch.nn.Module):
    size = 6

    def __init__(self):
        super().__init__()
        self.colours = torch.nn.Conv2d(3, 4, 1)
        with torch.no_grad():
            self.colours.bias.zero_()
            WEIGHTS

    def forward(self, images):
        if self.training:
            IN_TRAINING
        return self.colours(images).mean((2, 3))
"""
BLIND = "self.colours.weight.fill_(0.3)  # brightness, which tells nothing"
SEEING = "self.colours.weight[:] = 9 * torch.eye(4, 3)[:, :, None, None]"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def backbone(tmp_path):
    def write(weights, in_training="pass"):
        path = tmp_path / "pretrained.py"
        path.write_text(NETWORK.replace("WEIGHTS", weights).replace("IN_TRAINING", in_training))
        return f"{path}:Net"

    return write


@pytest.fixture
def photos(tmp_path):
    """Squares of three colours, alike in brightness."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(120):
        colour = number % 3
        pixels = rng.normal(80, 10, (6, 6, 3))
        pixels[..., colour] += 80
        place = tmp_path / "photos" / ("red", "green", "blue")[colour]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(place / f"{number:03}.png")
    return tmp_path / "photos"


def recipe(**changes):
    fixed = {"precision": "fp32", "augment": False}
    return plan_of("auto", **{**fixed, "batch": 8, "learning_rate": 0.1, **changes})


def test_fine_tuning_is_kept_where_frozen_features_are_blind(photos, backbone, tmp_path):
    trained = train(photos, recipe(), backbone=backbone(BLIND), budget="10m", folder=tmp_path / "a")
    found = trained.finetuning
    assert found.chosen == "fine-tuned"
    assert found.tuned_agreement > found.frozen_agreement
    assert trained.plan.finetune
    assert trained.plan.epochs == found.epochs == 8
    held_out = f"{recipe().held_out(120)} held-out labels"
    figures = (f"{found.tuned_agreement:.1%}", f"{found.frozen_agreement:.1%}", held_out)
    assert all(figure in found.reason for figure in figures)
    # One folder, as of any run.
    assert not (tmp_path / "a" / "finetuned").exists()
    predicted = predict_from(tmp_path / "a", photos, compare=True)
    assert (predicted.predicted == predicted.given).mean() > 0.8
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["finetuning"] == found.as_json()
    again = train(folder=tmp_path / "a", resume=True)
    assert again.finetuning == found
    small.assert_same_weights(trained.model.state_dict(), again.model.state_dict())
    # And the recipe repeats it, without a trial.
    repeated = train(photos, Plan.from_json(RunFolder(tmp_path / "a").metadata()["plan"]))
    small.assert_same_weights(trained.model.state_dict(), repeated.model.state_dict())


@pytest.mark.gpu
def test_a_gpu_tries_it_without_being_told(photos, backbone, tmp_path):
    sizes = "assert len(images) == 16"  # the last batch is filled up
    trained = train(
        photos,
        Recipe.of("auto", batch=16, learning_rate=0.1),
        backbone=backbone(BLIND, sizes),
        test=photos,
        folder=tmp_path / "a",
    )
    assert trained.finetuning.chosen == "fine-tuned"
    assert trained.plan.precision == "bf16"
    assert trained.history.epochs[-1]["test_accuracy"] > 0.8
    predicted = predict_from(tmp_path / "a", photos, compare=True)
    assert (predicted.predicted == predicted.given).mean() > 0.8


def test_frozen_features_are_kept_where_few_steps_spoil_them(photos, backbone, tmp_path):
    few = recipe(batch=100, learning_rate=0.01)
    trained = train(photos, few, backbone=backbone(SEEING), budget=600, folder=tmp_path / "a")
    found = trained.finetuning
    assert found.chosen == "frozen"
    assert found.tuned_agreement <= found.frozen_agreement
    assert "no better than frozen features" in found.reason
    assert isinstance(trained.encoder, BackboneEncoder)
    assert trained.plan.finetune is False
    assert not (tmp_path / "a" / "finetuned").exists()
    assert train(folder=tmp_path / "a", resume=True).finetuning == found
    plain = train(photos, few, backbone=backbone(SEEING), finetune=None, budget=0)
    assert plain.finetuning is None
    small.assert_same_weights(trained.model.state_dict(), plain.model.state_dict())


def test_both_are_judged_by_the_same_held_out_labels(photos, backbone):
    asked, tuned = recipe(seed_order=3), fine_tuned(recipe(seed_order=3))
    for one, two in zip(held_out_rows(asked, 120), held_out_rows(tuned, 120), strict=True):
        assert torch.equal(one, two)
    forced = train(photos, tuned, backbone=backbone(BLIND))
    chosen = train(photos, asked, backbone=backbone(BLIND), budget=600)
    assert chosen.finetuning.tuned_agreement == held_out_agreement(forced.history.epochs)
    small.assert_same_weights(forced.model.state_dict(), chosen.model.state_dict())


def test_what_does_not_fit_into_the_budget_is_not_tried(photos, backbone, tmp_path):
    slow = backbone(BLIND, in_training="time.sleep(0.2)")  # 13 steps an epoch: 8 s at least
    trained = train(photos, recipe(), backbone=slow, budget="5s", folder=tmp_path / "a")
    assert trained.finetuning.chosen == "frozen"
    assert trained.finetuning.tuned_agreement is None
    assert re.match(r"not tried: the minimum number of epochs, 3, takes", trained.finetuning.reason)
    assert train(folder=tmp_path / "a", resume=True).finetuning == trained.finetuning


def test_features_and_the_first_training_count_towards_the_budget(photos, backbone, monkeypatch):
    def after_ten_minutes(*arguments, began, **others):
        return trial.tried(*arguments, began=began - 600, **others)

    monkeypatch.setattr(run, "tried", after_ten_minutes)
    trained = train(photos, recipe(epochs=4), backbone=backbone(BLIND), budget="10m")
    assert trained.finetuning.chosen == "frozen"
    assert trained.finetuning.reason.endswith("and 0s of the budget are left")


def test_what_cannot_fit_is_not_even_set_up(photos, backbone, monkeypatch):
    """To decode all images takes long by itself."""
    monkeypatch.setattr(trial, "seconds_to_embed", lambda *_: 1e4)
    monkeypatch.delattr(trial, "set_up")
    trained = train(photos, recipe(epochs=4), backbone=backbone(BLIND), budget="10m")
    assert trained.finetuning.reason.startswith("not tried")


def test_fewer_epochs_are_trained_where_all_do_not_fit(photos, backbone):
    slow = backbone(BLIND, in_training="time.sleep(0.04)")  # 13 steps an epoch: 20 s at least
    trained = train(photos, recipe(epochs=40), backbone=slow, budget=12)
    assert trained.finetuning.chosen == "fine-tuned"
    assert 3 <= trained.plan.epochs == trained.finetuning.epochs < 40
    # The learning rate comes down at their end, not at that of the epochs that were asked for.
    tuned = trained.history.epochs
    assert tuned[-1]["learning_rate"] < 0.2 * max(row["learning_rate"] for row in tuned)


@pytest.mark.parametrize("budget", [None, 0, "0s"])
def test_on_a_cpu_nothing_is_tried_unless_there_is_a_budget(photos, backbone, budget):
    trained = train(photos, recipe(epochs=2), backbone=backbone(BLIND), budget=budget)
    assert trained.finetuning is None
    assert trained.plan.finetune is False


@pytest.mark.parametrize(
    "changes",
    [{"finetune": False, "epochs": 2}, {"finetune": True, "epochs": 2}, {"model": "mlp"}],
)
def test_what_was_said_is_not_tried(photos, backbone, changes):
    trained = train(photos, recipe(**changes), backbone=backbone(BLIND), budget="10m")
    assert trained.finetuning is None
    assert trained.plan.finetune == bool(changes.get("finetune"))


def test_what_has_no_weights_is_not_tried(photos, tmp_path):
    path = tmp_path / "mean.py"
    path.write_text(
        "import torch\n\nclass Mean(torch.nn.Module):\n    size = 6\n\n"
        "    def forward(self, images):\n        return images.mean((2, 3))\n"
    )
    trained = train(photos, recipe(epochs=2), backbone=f"{path}:Mean", budget="10m")
    assert trained.finetuning is None


def test_texts_are_not_fine_tuned_unasked(tmp_path):
    pytest.importorskip("transformers")
    rows = "".join(f"a good {'film' if k % 2 else 'match'},{k % 2}\n" for k in range(60))
    (tmp_path / "texts.csv").write_text("text,label\n" + rows)
    network = f"hf:{bert(tmp_path / 'bert')}"
    trained = train(tmp_path / "texts.csv", recipe(epochs=2), backbone=network, budget="10m")
    assert trained.finetuning is None
    assert trained.plan.finetune is False


def test_a_method_that_holds_nothing_out_is_not_tried(photos, backbone):
    nothing = Recipe.of("nll", epochs=2, batch=8)
    assert train(photos, nothing, backbone=backbone(BLIND), budget="10m").finetuning is None


@pytest.mark.parametrize(
    ("in_training", "why"),
    [
        ("images = images * float('nan')", "the training diverged"),
        ("raise torch.OutOfMemoryError", "the device has too little memory"),
    ],
)
def test_a_trial_that_fails_leaves_the_frozen_features(
    photos, backbone, tmp_path, in_training, why
):
    failing = backbone(SEEING, in_training=in_training)
    trained = train(photos, recipe(), backbone=failing, budget="10m", folder=tmp_path / "run")
    assert trained.finetuning.chosen == "frozen"
    assert trained.finetuning.reason == f"fine-tuning failed: {why}"
    assert isinstance(trained.encoder, BackboneEncoder)
    assert not (tmp_path / "run" / "finetuned").exists()


def test_an_audit_is_of_the_training_that_was_chosen(photos, backbone, tmp_path):
    # Of an audit, frozen features may be trained for fewer epochs; fine-tuning never is.
    found = audit(
        photos, recipe(flip=0.1), backbone=backbone(BLIND), budget="10m", folder=tmp_path / "a"
    )
    assert found.trained.finetuning.chosen == "fine-tuned"
    assert isinstance(found.trained.encoder, FineTuningEncoder)
    assert found.trained.plan.stop == "never"
    assert found.detection.auroc > 0.8
    reason = found.trained.finetuning.reason
    write_report(found, tmp_path / "a" / "report.html")
    assert reason in (tmp_path / "a" / "report.html").read_text()
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["training"]["finetuning"]["reason"] == reason
    again = audit(folder=tmp_path / "a", resume=True)
    assert again.noise_rate == found.noise_rate


def test_a_bad_budget_is_refused_before_anything_is_read():
    with pytest.raises(AbstainError, match="budget must be a duration such as 90s, 10m"):
        train("no-such-source", budget="soon")


# ── Killed and resumed ────────────────────────────────────────────────────────────────────────────


def test_killed_in_every_phase_it_ends_with_the_same_choice(photos, backbone, tmp_path):
    slow = backbone(BLIND, in_training="time.sleep(0.01)")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    common = {"recipe": recipe().as_json() | {"finetune": None}, "backbone": slow}
    common |= {"source": str(photos), "save_every": 0.0, "budget": 600}
    small.start({**common, "folder": str(whole)})
    again = {"folder": str(killed), "resume": True, "save_every": 0.0}
    process = small.start({**common, "folder": str(killed)}, wait=False)
    moments = [
        (killed / "last.safetensors").exists,  # frozen features
        (killed / "model.safetensors").exists,  # between the two
        (killed / "finetuned" / "run.json").exists,
        (killed / "finetuned" / "last.safetensors").exists,
    ]
    for happened in moments:
        assert small.wait_until(happened, process)
        process.kill()
        process.join()
        assert "trial" in RunFolder(killed).metadata()
        process = small.start(again, wait=False)
    process.join(120)
    assert process.exitcode == 0
    saved = [RunFolder(folder).metadata() for folder in (whole, killed)]
    assert saved[0]["finetuning"] == saved[1]["finetuning"]
    assert saved[0]["plan"] == saved[1]["plan"]
    small.assert_same_weights(small.weights(whole), small.weights(killed))
    assert not (killed / "finetuned").exists()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moves", range(8))
def test_killed_while_files_are_moved_it_is_still_one_run(
    photos, backbone, tmp_path, monkeypatch, moves
):
    original, done = trial._replace, []

    def killed(path, target):
        if len(done) == moves:
            raise Killed
        done.append(target.name)
        original(path, target)

    arguments = {"backbone": backbone(BLIND), "budget": "10m", "folder": tmp_path / "run"}
    with monkeypatch.context() as patch:
        patch.setattr(trial, "_replace", killed)
        with pytest.raises(Killed):
            train(photos, recipe(), **arguments)
    if "run.json" not in done:
        with pytest.raises(AbstainError, match="holds no model yet"):
            predict_from(tmp_path / "run", photos)
    resumed = train(folder=tmp_path / "run", resume=True)
    assert resumed.finetuning.chosen == "fine-tuned"
    assert not TrialFolder(RunFolder(tmp_path / "run")).path.exists()
    again = predict_from(tmp_path / "run", photos)
    np.testing.assert_allclose(again.confidence, predict_from(resumed, photos).confidence, 1e-5)


def test_two_processes_choose_the_same(photos, backbone, tmp_path):
    common = {"recipe": recipe().as_json() | {"finetune": None}, "backbone": backbone(BLIND)}
    small.start_many(
        {**common, "source": str(photos), "budget": 600, "folder": str(tmp_path / "a")}
    )
    assert RunFolder(tmp_path / "a").metadata()["finetuning"]["chosen"] == "fine-tuned"
