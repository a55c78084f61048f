"""From a source to a trained model: load, plant, encode, build, loop."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs, PartialState
from accelerate.utils import broadcast_object_list

from abstain import noise
from abstain.data import Encoder, LabeledData, fit_encoder, load, load_encoder, splits
from abstain.errors import AbstainError
from abstain.models import default_model, with_abstention
from abstain.scores.ledger import Ledger
from abstain.train.batches import Batches, resident
from abstain.train.checkpoint import CheckpointFolder
from abstain.train.display import live_display
from abstain.train.folder import RunFolder, make_model
from abstain.train.history import History, Row
from abstain.train.layout import Layout, fastest_layout
from abstain.train.loop import Loop, Task
from abstain.train.recipe import Recipe

Report = Callable[[str, Row], None]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a training gives: the model, how it came about, and what it saw of each sample."""

    model: torch.nn.Module
    encoder: Encoder
    data: LabeledData
    """The training data, with planted errors where the recipe asked for them."""
    recipe: Recipe
    outcome: str
    """Why it ended, in words."""
    history: History
    ledger: Ledger
    folder: RunFolder | None

    @property
    def test_accuracy(self) -> float | None:
        """After the last epoch, where test labels are known."""
        return self.history.epochs[-1].get("test_accuracy")

    def summary(self) -> dict[str, Any]:
        """The outcome in a few plain values; what is not a number is left out."""
        figures = {name: x for name, x in self.history.epochs[-1].items() if x == x}
        return {"outcome": self.outcome, "samples": len(self.data), **figures}


def train(
    source: object = None,
    recipe: Recipe | None = None,
    *,
    test: object = None,
    folder: str | os.PathLike[str] | None = None,
    model: torch.nn.Module | None = None,
    resume: bool = False,
    show: bool = False,
    save_every: float = 60.0,
    **options: Any,  # noqa: ANN401
) -> Trained:
    """Train a classifier on labels that may be partly wrong.

    Runs on one process or, under `accelerate launch` or `torchrun`, on many.

    Args:
        source: What `abstain.data.load` takes: a name, a path, arrays, a DataFrame, a data set.
        recipe: How; by default the guarded schedule, with sizes that fit the data.
        test: Another source whose labels are right, for the history only; by default the test
            split of the source, where it has one.
        folder: Where to keep checkpoints, history, ledger and model; new or empty.
        model: A torch classifier of your own with one output per class, which is widened by the
            abstention output in place; or already with one more.
        resume: Go on with the run in `folder`; recipe and source then come from there.
        show: Show progress, where there is a terminal.
        save_every: Seconds between checkpoints within an epoch.
        **options: For `abstain.data.load`: `label`, `features`, `data_dir`, `skip_bad`, …

    Raises:
        Interrupted: A signal asked to stop; everything is saved, and `resume` goes on.

    >>> train("digits", Recipe(epochs=2, warm_up=1)).outcome
    'all 2 epochs are done'
    """
    state = PartialState(cpu=not torch.cuda.is_available())
    place = RunFolder(folder) if folder is not None else None
    about = _about(place, resume)
    if place and about is None and state.is_main_process:
        place.create()
    sources = about["sources"] if about else {"train": source, "test": test, "options": options}
    with state.main_process_first():  # the others then find the decoded data in the cache
        data, test_data = _load(sources)
    recipe = Recipe.from_json(about["recipe"]) if about else recipe or Recipe()
    recipe = recipe.resolved(num_samples=len(data), num_classes=data.num_classes)
    data, manifest = _plant(data, recipe)
    encoder = load_encoder(place.path) if place and about else fit_encoder(data)
    if model is None:
        name = recipe.model or default_model(encoder.kind, encoder.input_shape)
        recipe = replace(recipe, model=name)
        model = make_model(name, encoder, data.num_classes, recipe.seed_init)
    else:
        model = _widened(model, encoder, data.num_classes)

    task = _task(data, test_data, encoder, recipe, state)
    layout = Layout(**about["layout"]) if about else _agreed_layout(model, task, recipe, state)
    accelerator = Accelerator(
        cpu=state.device.type == "cpu",
        mixed_precision="no" if layout.precision == "fp32" else layout.precision,
        # Word vectors are a large buffer that never changes: there is nothing to keep in step.
        kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=encoder.kind != "text")],
    )
    if place and about is None and accelerator.is_main_process:
        place.describe(
            recipe=recipe,
            sources=_as_json(sources),
            layout=asdict(layout),
            data=data,
            encoder=encoder,
            manifest=manifest,
            processes=accelerator.num_processes,
            device=_device_name(state.device),
        )
    accelerator.wait_for_everyone()
    steps = len(task.training) * (recipe.epochs or 0)
    visible = show and accelerator.is_main_process
    with _reports(place if accelerator.is_main_process else None, recipe, steps, visible) as report:
        loop = Loop(
            model,
            task,
            recipe,
            accelerator=accelerator,
            layout=layout,
            ledger=Ledger(len(data), state.device),
            checkpoints=CheckpointFolder(place.path) if place else None,
            save_every=save_every,
            report=report,
        )
        loop.run()
    trained = Trained(
        model=loop.final_model(),
        encoder=encoder,
        data=data,
        recipe=recipe,
        outcome=loop.position.outcome,
        history=loop.history,
        ledger=loop.whole_ledger(),
        folder=place,
    )
    if place and accelerator.is_main_process:
        trained.history.write(place.path)
        place.finish(trained.model, trained.ledger, data, trained.summary())
    accelerator.wait_for_everyone()
    return trained


def _about(place: RunFolder | None, resume: bool) -> dict[str, Any] | None:
    if not resume:
        return None
    if place is None:
        raise AbstainError("resume needs the folder of the run to go on with, got none")
    about = place.about()
    if about["sources"]["train"] is None:
        raise AbstainError(
            f"{place.path} was trained on data in memory, which it cannot load again: "
            "call train with resume from the program that has them"
        )
    return about


def _load(sources: Mapping[str, Any]) -> tuple[LabeledData, LabeledData | None]:
    source, test, options = sources["train"], sources["test"], sources["options"]
    if source is None:
        raise AbstainError("source must be given, got none")
    data = source if isinstance(source, LabeledData) else load(source, **options)
    if isinstance(test, LabeledData):
        return data, test
    if test is None and (isinstance(source, LabeledData) or "test" not in splits(source)):
        return data, None
    split = "test" if test is None or "test" in splits(test) else "train"
    where = source if test is None else test
    return data, load(where, **{**options, "split": split, "classes": data.classes})


def _as_json(sources: Mapping[str, Any]) -> dict[str, Any]:
    """The sources as a folder can remember them: names and paths; data in memory are None."""

    def name(source: object) -> str | None:
        if not isinstance(source, str | os.PathLike):
            return None
        text = os.fspath(source)
        # A relative path must still be found when the run is taken up from elsewhere.
        return os.path.abspath(text) if os.path.exists(text) else text  # noqa: PTH100, PTH110

    options = {
        k: os.fspath(v) if isinstance(v, os.PathLike) else v for k, v in sources["options"].items()
    }
    return {"train": name(sources["train"]), "test": name(sources["test"]), "options": options}


def _plant(data: LabeledData, recipe: Recipe) -> tuple[LabeledData, noise.NoiseManifest | None]:
    """Flip the labels that the recipe asks for; the labels as they came are then the true ones."""
    if not recipe.flip:
        return data, None
    features = None
    if recipe.flip_kind == "instance":
        if not isinstance(data.inputs, torch.Tensor):
            raise AbstainError(
                f"flip_kind 'instance' needs numbers in memory as inputs, got {data.kind} data "
                f"from {data.name}"
            )
        features = data.inputs.flatten(1).float().numpy()
    manifest = noise.plant(
        data.given.numpy(),
        np.asarray(data.ids),
        recipe.flip_kind,
        recipe.flip,
        recipe.seed_noise,
        num_classes=data.num_classes,
        features=features,
    )
    given = torch.from_numpy(manifest.given)
    true = data.given if data.true is None else data.true
    return replace(data, given=given, true=true), manifest


def _widened(model: torch.nn.Module, encoder: Encoder, num_classes: int) -> torch.nn.Module:
    """A user's model with its abstention output, added if it is not there yet."""
    example = torch.zeros(2, *encoder.input_shape)
    with torch.no_grad():
        training, outputs = model.training, model.eval()(encoder.to_model(example))
    model.train(training)
    if outputs.shape[-1] == num_classes + 1:
        return model
    return with_abstention(model, num_classes=num_classes)


def _task(
    data: LabeledData,
    test_data: LabeledData | None,
    encoder: Encoder,
    recipe: Recipe,
    state: PartialState,
) -> Task:
    """The data as batches on the device of this process."""
    assert recipe.batch is not None
    inputs = resident(encoder.encode(data), state.device)
    order = torch.arange(len(data))
    held_out = 0
    if recipe.stop == "validation":
        held_out = max(1, round(recipe.hold_out * len(data)))
        generator = torch.Generator().manual_seed(recipe.seed_order)
        order = torch.randperm(len(data), generator=generator)

    def batches(inputs: Any, rows: torch.Tensor, size: int) -> Batches:  # noqa: ANN401
        return Batches(
            inputs=inputs,
            rows=rows,
            size=size,
            seed=recipe.seed_order,
            device=state.device,
            rank=state.process_index,
            world=state.num_processes,
            workers=0 if isinstance(inputs, torch.Tensor) else min(4, os.cpu_count() or 1),
        )

    large = max(512, recipe.batch)
    test = None
    if test_data is not None:
        test_inputs = resident(encoder.encode(test_data), state.device)
        test = batches(test_inputs, torch.arange(len(test_data)), large)
    return Task(
        encoder=encoder,
        num_classes=data.num_classes,
        training=batches(inputs, order[held_out:], recipe.batch),
        given=data.given.to(state.device),
        true=None if data.true is None else data.true.to(state.device),
        hold_out=batches(inputs, order[:held_out], large) if held_out else None,
        test=test,
        test_labels=None if test_data is None else test_data.given.to(state.device),
    )


def _agreed_layout(
    model: torch.nn.Module, task: Task, recipe: Recipe, state: PartialState
) -> Layout:
    """The fastest layout as the main process measures it, the same on all."""
    choice: list[Any] = [None]
    if state.is_main_process:
        sample = next(task.training.epoch(0))
        inputs = task.encoder.to_model(sample.inputs)
        choice = [fastest_layout(model.to(state.device), inputs, recipe.precision)]
    if state.num_processes > 1:
        broadcast_object_list(choice)
    layout: Layout = choice[0]
    return layout


@contextmanager
def _reports(
    place: RunFolder | None, recipe: Recipe, steps: int, visible: bool
) -> Iterator[Report]:
    """Where the rows of the history go as they come: the terminal and TensorBoard."""
    writer = None
    if place is not None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            pass  # a convenience: the Parquet files hold the same numbers
        else:
            writer = SummaryWriter(str(place.path / "tensorboard"))
    with live_display(steps, recipe.epochs or 0, visible=visible) as display:

        def report(kind: str, row: Row) -> None:
            display(kind, row)
            if writer is not None:
                for name in row.keys() - {"step", "epoch"}:
                    writer.add_scalar(f"{kind}/{name}", row[name], int(row["step"]))

        try:
            yield report
        finally:
            if writer is not None:
                writer.close()


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
