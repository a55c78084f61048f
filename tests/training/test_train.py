"""From any source to a trained model and a folder that describes it completely.

Tests of run.py, prepared.py, setup.py, task.py, agreement.py, reports.py, run_sources.py,
run_folder.py, network.py and trained.py.
"""

import json
import subprocess
import sys
import warnings

import numpy as np
import pyarrow.parquet as pq
import pytest
import small_runs as small
import torch
from PIL import Image

import abstain
from abstain.data import load
from abstain.data.encoders.image_encoder import ImageEncoder
from abstain.errors import AbstainError
from abstain.models import default_model
from abstain.predicting.predict import predict_from
from abstain.training.plan import Plan
from abstain.training.recipe import plan_of
from abstain.training.saving.run_folder import RunFolder
from abstain.training.setup import warn_of_large_images
from abstain.training.train import train

SHORT = Plan(epochs=2, warm_up=1, batch=8)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))


def predicted_classes(folder, source):
    """Predict with the model of a run, from its folder alone."""
    model, encoder, classes = RunFolder(folder).load_model()
    data = load(source, classes=classes)
    encoded = encoder.encode(data)
    inputs = torch.stack([encoded[i] for i in range(len(data))])
    with torch.no_grad():
        predicted = model(encoder.to_model(inputs))[:, :-1].argmax(-1)
    return predicted, data.given


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for colour, name in enumerate(("red", "green")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(12):
            pixels = rng.integers(0, 80, (16, 16, 3), dtype=np.uint8)
            pixels[..., colour] += 150
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def reviews(tmp_path):
    good, bad = ["good fine great", "great love fine"], ["bad awful dull", "dull hate awful"]
    rows = [f"{text} film {i},{label}" for i in range(10) for text, label in
            [(good[i % 2], "pos"), (bad[i % 2], "neg")]]  # fmt: skip
    path = tmp_path / "reviews.csv"
    path.write_text("\n".join(["text,label", *rows]))
    return path


@pytest.fixture
def table(tmp_path):
    x, y = small.blobs(40)
    lines = [",".join([*(f"{v:.4f}" for v in row), name]) for row, name in zip(x, y, strict=True)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["a,b,c,d,e,label", *lines]))
    return path


@pytest.mark.parametrize(
    ("kind", "model", "epochs"),
    [("photos", "mnist-cnn", 4), ("reviews", "bag-of-words", 12), ("table", "mlp", 15)],
)
def test_every_kind_of_source_is_learnt_and_its_model_used_again(
    request, tmp_path, kind, model, epochs
):
    source = request.getfixturevalue(kind)
    trained = train(source, Plan(epochs=epochs, batch=8, backbone="none"), folder=tmp_path / "run")
    assert trained.plan.model == model
    predicted, given = predicted_classes(tmp_path / "run", source)
    assert (predicted == given).double().mean() > 0.9
    table = pq.read_table(tmp_path / "run" / "ledger.parquet")
    assert table["id"].to_pylist() == list(trained.data.ids)
    assert table["visits"].to_pylist() == [epochs] * len(trained.data)


@pytest.mark.parametrize("kind", ["photos", "reviews", "table"])
def test_lazy_inputs_train_what_resident_ones_train(request, tmp_path, kind):
    source = request.getfixturevalue(kind)
    recipe = Plan(epochs=2, warm_up=1, batch=7, precision="fp32")
    resident = train(source, recipe, backbone="none", cache_dir=tmp_path / "one")
    lazy = train(source, recipe, backbone="none", memory_budget=1, cache_dir=tmp_path / "two")
    if kind != "reviews":
        assert isinstance(resident.data.inputs, torch.Tensor)
    assert not isinstance(lazy.data.inputs, torch.Tensor | list)
    # Means of a lazy table are added up in the same way, so that nothing may differ.
    small.assert_same_weights(resident.model.state_dict(), lazy.model.state_dict())
    assert resident.ledger.visits.tolist() == lazy.ledger.visits.tolist()


def module(outputs, head=torch.nn.Identity):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, outputs), head()
    )


def test_a_module_of_ones_own_is_widened_in_place_or_used_as_it_is():
    recipe = Plan(epochs=20, batch=8)
    for outputs in (3, 4):
        own = module(outputs)
        trained = train(small.blobs(60), recipe, model=own)
        assert trained.model is own
        assert own(torch.zeros(1, 5)).shape == (1, 4)
        assert trained.history.epochs[-1]["train_accuracy"] > 0.9
        assert trained.plan.model is None


class Tuple(torch.nn.Module):
    def forward(self, x):
        return (x,)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (module(7), "has 3 outputs; its linear layers have"),
        (module(3, Tuple), "model must return logits of the shape .* got tuple"),
        (torch.nn.Linear(9, 3), r"model must take a batch of the shape \(1, 5\), got RuntimeError"),
        (module(3).requires_grad_(False), "model must have weights to train"),
    ],
)
def test_a_module_that_does_not_fit_is_refused_in_words(tmp_path, own, message):
    with pytest.raises(AbstainError, match=message):
        train(small.blobs(20), SHORT, model=own, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_names_in_place_of_a_recipe_or_a_module_are_refused_in_words():
    with pytest.raises(AbstainError, match=r"recipe must be a Recipe, .* got 'auto'"):
        train(small.blobs(20), "auto")
    with pytest.raises(AbstainError, match="model must be a torch module, got 'mlp'"):
        train(small.blobs(20), SHORT, model="mlp")


def test_unknown_arguments_are_answered_by_the_nearest_known_one():
    with pytest.raises(AbstainError, match="train must be known, got 'foldr'; did you mean folder"):
        train(small.blobs(20), SHORT, foldr="run")
    with pytest.raises(AbstainError, match=r"method must be set in the recipe, Recipe.of\('nll'\)"):
        train(small.blobs(20), method="nll")


def test_batches_too_large_for_the_device_are_refused_with_a_smaller_size(monkeypatch):
    def run_once(*_, **__):
        raise torch.OutOfMemoryError

    monkeypatch.setattr("abstain.training.train.run_once", run_once)
    rule = "batch must fit into the memory of the device, got 48, too many at once"
    with pytest.raises(AbstainError, match=f"{rule}; start again with batch=24"):
        train(small.blobs(60), Plan(epochs=2, batch=48))
    with pytest.raises(AbstainError, match="got 1, too many at once; take a smaller network"):
        train(small.blobs(60), Plan(epochs=2, batch=1))


def with_batch_norm(outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(5, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, outputs)
    )


@pytest.mark.parametrize("method", ["schedule", "auto"])
def test_a_batch_norm_is_never_left_alone_with_one_sample(method):
    # Of 41 samples in batches of 8, and of the 33 that auto warms up with, one is left over.
    recipe = plan_of(method, epochs=6, batch=8)
    trained = train(small.blobs(41), recipe, model=with_batch_norm(3))
    assert trained.ledger.visits.tolist() == [6] * 41


def test_batches_that_a_batch_norm_cannot_take_are_refused():
    rule = "batch must be at least 2 for a model with BatchNorm1d, two for each process, got 1"
    with pytest.raises(AbstainError, match=rule):
        train(small.blobs(20), Plan(epochs=2, batch=1), model=with_batch_norm(3))


def test_the_folder_of_an_own_module_says_that_it_cannot_build_it(tmp_path):
    train(small.blobs(20), SHORT, model=module(3), folder=tmp_path / "run")
    with pytest.raises(AbstainError, match="was trained with a module of another program"):
        RunFolder(tmp_path / "run").load_model()


def test_a_named_model_with_the_wrong_number_of_outputs_is_refused(tmp_path):
    path = tmp_path / "net.py"
    path.write_text("import torch\ndef net(num_outputs): return torch.nn.Linear(5, 2)\n")
    with pytest.raises(AbstainError, match="must have 4 outputs, one for each class"):
        train(small.blobs(20), Plan(epochs=1, warm_up=0, model=f"{path}:net"))


def test_true_labels_are_scored_and_never_trained_on():
    clean = train("digits", Plan(epochs=3, warm_up=1))
    noisy = train("digits", Plan(epochs=3, warm_up=1, flip=0.5))
    assert clean.data.true is None
    assert noisy.data.true.tolist() == clean.data.given.tolist()
    assert (noisy.data.given != noisy.data.true).double().mean() == pytest.approx(0.5, abs=0.05)
    last = noisy.history.epochs[-1]
    assert last["train_accuracy"] < 0.6  # judged by the given labels
    assert last["test_accuracy"] == noisy.test_accuracy > 0.7  # by the right ones
    assert last["clean_loss"] < last["corrupt_loss"]
    assert "clean_loss" not in clean.history.epochs[-1]


def test_a_test_source_is_scored_with_the_classes_of_the_training(tmp_path):
    x, y = small.blobs(40)
    test = tmp_path / "test.npz"
    np.savez(test, x=x[y == "class 2"], label=y[y == "class 2"])  # the last class only
    trained = train((x, y), Plan(epochs=15, batch=8), test=test)
    assert trained.test_accuracy > 0.9


def test_the_folder_holds_everything(tmp_path):
    source = small.save_blobs(tmp_path, 40)
    recipe = Plan(epochs=2, warm_up=1, flip=0.25, seed_noise=1, seed_init=2, seed_order=3)
    trained = train(source, recipe, folder=tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert Plan.from_json(about["plan"]) == trained.plan
    assert about["plan"]["precision"] == "fp32"
    assert [about["plan"][f"seed_{name}"] for name in ("noise", "init", "order")] == [1, 2, 3]
    assert about["sources"]["train"] == str(source)
    assert about["classes"] == ["class 0", "class 1", "class 2"]
    assert about["versions"]["torch"] == torch.__version__
    assert about["flipped"] == int((trained.data.given != trained.data.true).sum())
    steps = pq.read_table(tmp_path / "run" / "steps.parquet").to_pydict()
    wanted = {"step", "epoch", "loss", "smoothed_loss", "train_accuracy", "stake", "payoff",
              "clean_loss", "corrupt_loss"}  # fmt: skip
    assert wanted <= steps.keys()
    assert steps["step"] == list(range(1, len(steps["step"]) + 1))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary == trained.summary()


def test_tensorboard_gets_the_same_numbers(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    trained = train(small.blobs(40), SHORT, folder=tmp_path / "run")
    log = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    log.Reload()
    events = log.Scalars("step/loss")
    assert [event.step for event in events] == [int(r["step"]) for r in trained.history.steps]
    np.testing.assert_allclose(
        [event.value for event in events], [r["loss"] for r in trained.history.steps], rtol=1e-6
    )
    assert len(log.Scalars("epoch/train_accuracy")) == 2


def test_relative_paths_are_found_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small.save_blobs(tmp_path, 20)
    net = small.save_net(tmp_path, small.NET64).removeprefix(f"{tmp_path}/")
    recipe = Plan(epochs=1, warm_up=0, model=net)
    train("blobs.npz", recipe, folder="run", test="blobs.npz", cache_dir="kept")
    about = RunFolder(tmp_path / "run").metadata()
    assert about["sources"]["train"] == about["sources"]["test"] == str(tmp_path / "blobs.npz")
    assert about["sources"]["options"]["cache_dir"] == str(tmp_path / "kept")
    monkeypatch.chdir("/")
    assert train(folder=tmp_path / "run", resume=True).outcome == "the only epoch is done"


def test_options_of_the_source_are_taken_up_again(photos, tmp_path):
    first = train(photos, SHORT, folder=tmp_path / "run", image_size=(20, 24))
    again = train(folder=tmp_path / "run", resume=True)
    assert again.data.inputs.shape == first.data.inputs.shape == (24, 3, 20, 24)


def test_no_run_is_written_over_and_no_half_made_folder_is_left(tmp_path, monkeypatch):
    taken = tmp_path / "taken"
    train(small.blobs(20), SHORT, folder=taken)
    with pytest.raises(AbstainError, match=r"new or empty, got .*; go on with it by resume=True"):
        train(small.blobs(20), SHORT, folder=taken)
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(AbstainError, match="folder must be one that can be"):
            train(small.blobs(20), SHORT, folder=bad)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("abstain.training.saving.run_folder._write_json", full)
    with pytest.raises(AbstainError, match=r"can be written, got .*No space left"):
        train(small.blobs(20), SHORT, folder=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written_is_an_error_before_anything_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda place, mode: False)  # a disk for reading only
    with pytest.raises(
        AbstainError, match=r"folder must be .* can be written, got .* is not writable"
    ):
        train("no such source", SHORT, folder=tmp_path / "a" / "run")
    assert not (tmp_path / "a").exists()


def test_results_that_cannot_be_written_are_an_error_in_words(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("abstain.training.saving.history.History.write", full)
        with pytest.raises(AbstainError, match=r"No space left on device\): make room, then go on"):
            train(small.blobs(20), SHORT, folder=tmp_path / "run")
    resumed = train(small.blobs(20), folder=tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "summary.json").exists()
    assert resumed.outcome == "all 2 epochs are done"


def test_abstain_train_is_the_stage_and_the_verb():
    assert abstain.train(small.blobs(20), abstain.Recipe(epochs=1, warm_up=0)).epoch == 1
    from abstain import train as verb
    from abstain.training.train import train as function

    assert verb(small.blobs(20), SHORT).outcome == function(small.blobs(20), SHORT).outcome


def test_importing_abstain_loads_no_torch():
    code = "import sys, abstain, abstain.training; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_training_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(small.blobs(20), SHORT, folder=tmp_path / "run")


@pytest.mark.parametrize("flip", [0.0, 0.2])
def test_defaults_beat_cross_entropy_on_a_small_table_and_cost_nothing_when_it_is_clean(flip):
    from sklearn.datasets import load_wine

    wine = load_wine()
    order = np.random.default_rng(0).permutation(len(wine.target))
    x, y = wine.data[order].astype(np.float32), wine.target[order]
    test = load((x[:44], y[:44]))
    accuracy = {
        method: train((x[44:], y[44:]), plan_of(method, flip=flip), test=test).test_accuracy
        for method in ("auto", "nll")
    }
    assert accuracy["auto"] >= accuracy["nll"] + (0.02 if flip else 0)
    assert accuracy["auto"] > 0.9


@pytest.mark.parametrize("side", [64, 65])
def test_large_images_on_a_cpu_are_warned_of(caplog, side):
    encoder = ImageEncoder((1, side, 60))
    warn_of_large_images(default_model(encoder.kind, encoder.input_shape), encoder)
    assert ("images of 65×60 pixels take long on a CPU" in caplog.text) == (side == 65)


def test_options_of_the_test_source_alone_are_not_refused_by_the_other(photos, tmp_path):
    rows = [f"{path.relative_to(tmp_path)},{path.parent.name}" for path in photos.rglob("*.png")]
    (tmp_path / "checked.csv").write_text("\n".join(["image,species", *rows]))
    options = {"image_size": 8, "label": "species"}
    trained = train(
        photos, SHORT, test=tmp_path / "checked.csv", folder=tmp_path / "run", **options
    )
    assert trained.test_accuracy is not None
    again = train(folder=tmp_path / "run", resume=True)
    assert again.test_accuracy == trained.test_accuracy
    with pytest.raises(AbstainError, match=r"label must be left out for .*photos"):
        train(photos, SHORT, **options)


def test_a_run_that_remembers_what_was_once_passed_over_goes_on(photos, tmp_path):
    train(photos, SHORT, folder=tmp_path / "run", image_size=8)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    about["sources"]["options"]["label"] = "species"
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    assert train(folder=tmp_path / "run", resume=True).outcome == "all 2 epochs are done"


def test_options_of_data_that_are_read_already_are_refused():
    with pytest.raises(AbstainError, match="label must be left out for LabeledData"):
        train(load("digits"), SHORT, label="stars")


def test_classes_that_are_spelt_in_two_ways_are_reported(caplog):
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    train((x, ["Oslo", "oslo", "Rome", "a", "A"] * 8), SHORT)
    assert "only count as different ones: 'Oslo' and 'oslo'; write them alike" in caplog.text
    assert len(caplog.records) == 1


def test_photos_of_several_sizes_train_and_are_reported(photos, tmp_path, caplog):
    for part, side in (("train", 20), ("test", 30)):
        for colour in ("red", "green"):
            (tmp_path / "split" / part / colour).mkdir(parents=True)
            for number, path in enumerate(sorted((photos / colour).iterdir())):
                image = Image.open(path).resize((side + number % 3, side))
                image.save(tmp_path / "split" / part / colour / path.name)
    trained = train(tmp_path / "split", SHORT, backbone="none", folder=tmp_path / "run")
    assert trained.encoder.input_shape == (3, 20, 21)
    assert trained.test_accuracy is not None  # scaled to the size of the training
    assert "images of split have several sizes and are scaled to 20×21 pixels" in caplog.text
    assert len(predict_from(tmp_path / "run", photos)) == 24
    caplog.clear()
    train(folder=tmp_path / "run", resume=True)
    assert "several sizes" not in caplog.text  # once


def test_a_value_that_is_clipped_is_reported(caplog):
    rng = np.random.default_rng(0)
    label = np.arange(60) % 2
    x = rng.normal(size=(60, 2)) + 3 * label[:, None]
    x[7, 1] = 1e30
    trained = train((x, label), Plan(epochs=20, warm_up=1, batch=4, precision="fp32"))
    text = "values of arrays are extreme and are clipped:"
    assert f"{text} column 1 (1e+30 in row 7); correct them" in caplog.text
    caplog.clear()
    assert (predict_from(trained, x[:7]).predicted == label[:7]).mean() > 0.8
    assert caplog.text == ""
    predict_from(trained, x[[7, 0]] * -1)
    assert f"{text} column 1 (-1e+30 in row 0); correct them" in caplog.text


def test_categories_that_training_did_not_have_are_reported(caplog, tmp_path):
    rows = [f"{k},{('gold', 'basic')[k % 2]},{'yn'[k % 2]}" for k in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["x,plan,label", *rows]))
    (tmp_path / "new.csv").write_text("\n".join(["x,plan,label", "1,GOLD,y", "2,,n", "3,GOLD,y"]))
    trained = train(tmp_path / "t.csv", SHORT, test=tmp_path / "new.csv")
    text = "categories of new that the training data do not have count as missing: plan (GOLD in "
    assert f"{text}row 0 and 1 more; did you mean gold?)" in caplog.text
    caplog.clear()
    predict_from(trained, tmp_path / "new.csv")
    assert text in caplog.text
    (tmp_path / "less.csv").write_text("x\n1\n")
    lacks = r"less.csv must have the columns that the model was trained on, got no plan; its col"
    with pytest.raises(AbstainError, match=lacks):
        predict_from(trained, tmp_path / "less.csv")
    (tmp_path / "less.csv").write_text("x,size,label\n1,2,y\n")
    with pytest.raises(AbstainError, match="columns of the training data, got none called plan"):
        train(tmp_path / "t.csv", SHORT, test=tmp_path / "less.csv")
