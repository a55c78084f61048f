"""Many small models of one architecture trained at once on one device: `train_stacked`.

A small network leaves a GPU idle: its step is some sixty short operations, each waiting for the one
before. Side by side, K models take the same sixty. Each has its own initial weights, wrong labels,
order, method and stop, and becomes what it would have become alone.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, count

import torch
from torch import Tensor, nn

from abstain.errors import AbstainError
from abstain.losses.kernels import plain_bet_loss
from abstain.training.loop.evaluation import SUMS, means
from abstain.training.loop.loop import LOOK_EVERY
from abstain.training.objective.stopping import AnalyticalStop
from abstain.training.objective.warm_up import WarmUp
from abstain.training.plan import Plan
from abstain.training.saving.history import Row
from reproduction.authors_plan import quirk
from reproduction.stacked.models import Models
from reproduction.stacked.nets import STACKED, LoopNet, Net, PatchNet, build_one
from reproduction.stacked.optim import RULES
from reproduction.stacked.runs import Run, epoch_orders
from reproduction.stacked.step import Stepper, as_numbers
from reproduction.stacked.task import StackedResult, StackedTask
from reproduction.stacked.text import PaddedTextNet, TextNet

__all__ = ["StackedResult", "StackedTask", "train_stacked"]

Report = Callable[[int, Row], None]
"""Called after every epoch of every run: with its place among the recipes, and its row."""

# In these, all models of a stack must agree.
_SHARED = ("batch", "optimizer", "learning_rate", "precision")
_SHARED_QUIRKS = ("exact", "beta1", "beta2")
# What the stack does not do, and the value that asks for nothing.
_LEFT_OUT = {"schedule": "constant", "clip": None, "weight_decay": 0.0}
_LAST = 5
# With so few left, going on without the others is worth a new CUDA graph.
_WORTH_SHRINKING = 0.75
_NETS: dict[str, Callable[[nn.Module], Net]] = {
    **dict.fromkeys(STACKED, PatchNet),
    "lstm": TextNet,
    "lstm-attention": TextNet,
    "lstm-padded": PaddedTextNet,
}


def train_stacked(
    task: StackedTask,
    recipes: Sequence[Plan],
    *,
    device: torch.device | str | None = None,
    keep_samples: bool = False,
    evaluate_every: int = 1,
    report: Report | None = None,
) -> list[StackedResult]:
    """Train a model for each recipe, all at once; the results are in the order of the recipes.

    Recipes must be resolved (`Plan.resolved`) and agree in batch, optimiser, learning rate and
    precision. One whose method is "coteaching-plus" trains a pair of networks: its rate is that of
    the method, its warm-up the epochs of plain co-teaching.

    On a GPU, matrix products are in bfloat16 unless the recipes ask for fp32 (there, TF32); weights
    and moments, losses and all sums are in float32.

    Args:
        task: Data and network.
        recipes: One for each run.
        device: By default the GPU, if there is one.
        keep_samples: Also give `belief`, `rejection` and `given` of every run.
        evaluate_every: Epochs between two looks at the test set, which are also taken where a run
            ends, and after every epoch where it may stop by a held-out set.
        report: Called after every epoch.

    >>> task = StackedTask(
    ...     inputs=torch.eye(4).repeat(8, 1), true=torch.arange(4).repeat(8), num_classes=4,
    ...     test_inputs=torch.eye(4), test_labels=torch.arange(4), network="mlp",
    ... )
    >>> from abstain.training.recipe import plan_of
    >>> recipe = plan_of("nll", epochs=30).resolved(num_samples=32, num_classes=4)
    >>> [result.test_accuracy for result in train_stacked(task, [recipe, recipe], device="cpu")]
    [1.0, 1.0]
    """
    _check(recipes)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    runs = [
        Run.begin(number, recipe, task.inputs, task.true, task.num_classes)
        for number, recipe in enumerate(recipes)
    ]
    exact = quirk(recipes[0], "exact")
    with ThreadPoolExecutor(1) as executor, _fast_float32(place, exact):
        stack = _Stack(task, runs, place, keep_samples, evaluate_every)
        ahead = executor.submit(epoch_orders, stack.live, 0)
        for epoch in count():
            orders = ahead.result()
            ahead = executor.submit(epoch_orders, stack.live, epoch + 1)  # while the device works
            stack.train(epoch, orders)
            for run in stack.judge(epoch):
                if report is not None:
                    report(run.number, run.epochs[-1])
            if all(run.outcome for run in runs):
                break
            stack.shrink()
    return [_result(run, keep_samples, stack.precision) for run in runs]


class _Stack:
    """The models of all runs that go on, and of some that have ended."""

    def __init__(
        self,
        task: StackedTask,
        runs: Sequence[Run],
        device: torch.device,
        keep_samples: bool,
        evaluate_every: int = 1,
    ) -> None:
        # Pairs stand last, so that the others are one slice of the stack.
        self.live = sorted(runs, key=lambda run: len(run.seeds))
        modules = [
            build_one(
                task.network,
                input_shape=tuple(task.inputs.shape[1:]),
                num_outputs=task.num_classes + 1,
                vectors=task.vectors,
                seed=seed,
            ).to(device)
            for run in self.live
            for seed in run.seeds
        ]
        self._net = _NETS.get(task.network, LoopNet)(modules[0])
        recipe = runs[0].recipe
        rule = RULES[recipe.optimizer]
        self._rule = replace(rule, beta2=quirk(recipe, "beta2") or rule.beta2)
        weights = self._net.stack(modules)
        # What runs one model after the other has no use for it.
        half = device.type == "cuda" and not _in_float32(recipe) and self._net.is_stacked
        self._models = Models.begin(
            weights,
            torch.bfloat16 if half else weights[0].dtype,
            # A pair is trained by cross-entropy.
            [
                run.recipe if run.plan is None else replace(run.recipe, loss="nll")
                for run in self.live
                for _ in run.seeds
            ],
            torch.stack([torch.from_numpy(run.given) for run in self.live for _ in run.seeds]),
            keep_samples,
            num_classes=task.num_classes,
            # As many as an epoch has at first: those of the warm-up.
            steps_per_epoch=[len(run.sizes) for run in self.live for _ in run.seeds],
        )
        self._inputs, self._test_inputs = (
            x.to(device).movedim(1, -1).contiguous() if self._net.wants_images else x.to(device)
            for x in (task.inputs, task.test_inputs)
        )
        self._true, self._test_labels = task.true.to(device), task.test_labels.to(device)
        self._evaluate_every = evaluate_every
        on_gpu = "fp32" if quirk(recipe, "exact") else "bf16" if half else "tf32"
        self.precision = on_gpu if device.type == "cuda" else "fp32"
        self._stepper = self._new_stepper()

    def _new_stepper(self) -> Stepper:
        return Stepper(
            self._net,
            self._models,
            self._rule,
            inputs=self._inputs,
            true=self._true,
            steps=max(run.most_steps for run in self.live),
            batch=self.live[0].recipe.batch or 1,
            pairs=sum(run.plan is not None for run in self.live),
        )

    @property
    def _places(self) -> list[tuple[Run, slice]]:
        """Every run with its rows of the stack: one, or the two of a pair."""
        ends = accumulate(len(run.seeds) for run in self.live)
        return [
            (run, slice(end - len(run.seeds), end))
            for run, end in zip(self.live, ends, strict=True)
        ]

    def train(self, epoch: int, orders: Mapping[tuple[int, int], Tensor]) -> None:
        """An epoch of all runs that go on."""
        stepper = self._stepper
        sizes = torch.zeros_like(stepper.sizes, device="cpu")
        resident = {key: order.to(stepper.order.device) for key, order in orders.items()}
        for run, rows in self._places:
            if not run.outcome:
                sizes[: len(run.sizes), rows] = torch.tensor(run.sizes)[:, None]
                stepper.order[: len(run.sizes), rows] = resident[run.order_key][:, None]
        self._set_for(epoch)
        stepper.begin(sizes)
        watched = [
            (run, rows.start)
            for run, rows in self._places
            if isinstance(run.stop, AnalyticalStop) and not (run.outcome or run.is_warm_up(epoch))
        ]
        seen, steps = 0, len(sizes)
        for step in range(1, steps + 1):
            stepper.step()
            if watched and ((epoch * steps + step) % LOOK_EVERY == 0 or step == steps):
                record = stepper.record[seen:step].cpu()
                for run, row in watched:
                    _watch(run, record[:, row])
                    if run.outcome:
                        stepper.stop(row)
                        run.stop_epoch = epoch + step / steps
                watched = [(run, row) for run, row in watched if not run.outcome]
                seen = step

    def _set_for(self, epoch: int) -> None:
        """Set what the models do differently from epoch to epoch."""
        models = self._models
        for run, rows in self._places:
            if quirk(run.recipe, "fresh"):
                models.restart(rows)
            if run.plan is None:
                models.losses.warm[rows] = run.is_warm_up(epoch)
            else:
                models.learning_rate[rows] = run.plan.learning_rate_at(epoch)
                models.beta1[rows] = run.plan.beta1(epoch)
                models.kept[rows] = run.plan.kept(epoch)
                models.by_disagreement[rows] = run.plan.by_disagreement(epoch)
                if quirk(run.recipe, "public"):
                    models.losses.warm[rows] = not run.plan.by_disagreement(epoch)

    def judge(self, epoch: int) -> list[Run]:
        """End the epoch of the runs that trained in it, and return these."""
        totals = self._stepper.record.double().sum(0).cpu()
        sizes = totals[:, SUMS.index("samples")]
        trained = []
        for run, rows in self._places:
            if sizes[rows.start] > 0:
                row = {"epoch": epoch + 1.0, **means(totals[rows].mean(0).tolist())}
                trained.append((run, rows, row))
        # The paper's numbers are means over the last five epochs.
        left = max(run.recipe.epochs or 1 for run in self.live) - epoch - 1
        due = (epoch + 1) % self._evaluate_every == 0 or left < _LAST
        if due or any(run.may_end(row) for run, _, row in trained):
            test = self._test(slice(None))
            for run, rows, row in trained:
                row["test_accuracy"] = float(test.accuracy[rows].mean())
                row["test_accuracy_without_last"] = float(test.without_last[rows].mean())
                run.by_class = test.by_class[rows].mean(0).tolist()
        for run, rows, row in trained:
            losses: Tensor | None = None
            if run.judges:
                labels = torch.from_numpy(run.given)[run.held_out].to(self._inputs.device)
                held_out = self._inputs[run.held_out.to(self._inputs.device)]
                losses, met, _ = self._evaluate(rows, held_out, labels, run.recipe).mean(1).cpu()
                row["validation_loss"] = float(losses.mean())
                row["validation_accuracy"] = float(met.mean())
            run.end_epoch(row, run.stop_epoch if run.outcome else epoch + 1.0, losses)
            if run.warm_up is not None:
                self._follow(run.warm_up, rows, row)
            if run.outcome:
                run.samples = self._models.samples(rows)
        return [run for run, _, _ in trained]

    def _follow(self, warm_up: WarmUp, rows: slice, row: Row) -> None:
        """Keep the best weights of a warm-up, and go back to them where it asks for it."""
        if warm_up.collapsed:
            self._models.go_back(rows)
            row["test_accuracy"] = float(self._test(rows).accuracy.mean())
        elif "validation_loss" in row:
            if warm_up.kept_epoch == warm_up.epoch:
                self._models.keep_best(rows)
            if warm_up.ended:
                self._models.go_back(rows)

    def _test(self, rows: slice) -> "_Test":
        labels = self._test_labels
        _, met, without = self._evaluate(rows, self._test_inputs, labels)
        sums = met.new_zeros(len(met), int(labels.max()) + 1).index_add_(1, labels, met)
        by_class = sums / torch.bincount(labels, minlength=sums.shape[1])
        return _Test(met.mean(-1).cpu(), without.mean(-1).cpu(), by_class.cpu())

    @torch.no_grad()
    def _evaluate(
        self, rows: slice, inputs: Tensor, labels: Tensor, recipe: Plan | None = None
    ) -> Tensor:
        """(3, models, samples): the loss, whether the label is met, and so without the last class.

        The loss is cross-entropy on all outputs, or what the stop of a recipe looks at.
        """
        log_payoff = math.inf
        raw = recipe is not None and quirk(recipe, "raw")
        if recipe is not None and quirk(recipe, "rises") and recipe.loss == "gamblers":
            log_payoff = math.log(float(recipe.payoff or math.inf))
        working = self._models.working
        weights = [used[rows].to(working[0].dtype) for used in self._models.used]
        models = len(weights[0])
        figures: list[Tensor] = []
        size = max(1, self._net.at_once[inputs.device.type] // models)
        for part, given in zip(torch.split(inputs, size), torch.split(labels, size), strict=True):
            numbers = as_numbers(part, weights[0])
            logits = self._net.forward(weights, numbers.expand(models, *numbers.shape))
            given = given.expand(models, -1)
            wide = logits.to(self._models.weights[0].dtype)
            losses = plain_bet_loss(wide, given, log_payoff)
            if raw:
                losses = -wide.gather(-1, given.unsqueeze(-1)).squeeze(-1)
            met = [logits[..., :last].argmax(-1) == given for last in (-1, -2)]
            figures.append(torch.stack((losses.double(), *(x.double() for x in met))))
        return torch.cat(figures, -1)

    def shrink(self) -> None:
        """Leave out runs that have ended, if they are many."""
        going = [(run, rows) for run, rows in self._places if not run.outcome]
        kept = [row for _, rows in going for row in range(rows.start, rows.stop)]
        if len(kept) <= _WORTH_SHRINKING * len(self._models.given):
            self.live = [run for run, _ in going]
            self._models = self._models.take(torch.tensor(kept, device=self._inputs.device))
            self._stepper = self._new_stepper()


@dataclass(frozen=True)
class _Test:
    """Accuracy on the test set: (K), (K) if the last class is never predicted, (K, classes)."""

    accuracy: Tensor
    without_last: Tensor
    by_class: Tensor


def _in_float32(recipe: Plan) -> bool:
    return recipe.precision == "fp32" or bool(quirk(recipe, "exact"))


def _watch(run: Run, record: Tensor) -> None:
    """Show the losses of the last batches to a run that stops by them."""
    sums, samples = record[:, SUMS.index("loss")], record[:, SUMS.index("samples")]
    run.watch((sums / samples).tolist(), samples.tolist())


def _result(run: Run, keep_samples: bool, precision: str) -> StackedResult:
    belief, rejection = run.samples or (None, None)
    return StackedResult(
        recipe=run.recipe,
        epochs=run.epochs,
        stop_epoch=run.stop_epoch,
        outcome=run.outcome,
        test_accuracy=run.test_accuracy,
        belief=belief,
        rejection=rejection,
        given=run.given if keep_samples else None,
        by_class=run.by_class,
        precision=precision,
    )


def _check(recipes: Sequence[Plan]) -> None:
    if not recipes:
        raise AbstainError("recipes must hold at least one recipe, got none")
    for recipe in recipes:
        warm_up = 0 if recipe.warm_up_ends == "held-out" else recipe.warm_up
        if None in (recipe.epochs, recipe.batch, warm_up, recipe.payoff):
            raise AbstainError(
                "recipes must be resolved, got one that leaves epochs, batch, warm_up or payoff "
                "open; call its method resolved"
            )
        if recipe.optimizer not in RULES:
            known = ", ".join(RULES)
            raise AbstainError(f"optimizer must be one of {known} here, got {recipe.optimizer}")
        for name, value in _LEFT_OUT.items():
            if getattr(recipe, name) != value:
                raise AbstainError(f"{name} must be {value} here, got {getattr(recipe, name)}")
    for name in _SHARED:
        values = sorted({str(getattr(recipe, name)) for recipe in recipes})
        if len(values) > 1:
            raise AbstainError(f"recipes must agree in {name}, got {', '.join(values)}")
    for name in _SHARED_QUIRKS:
        if len({quirk(recipe, name) for recipe in recipes}) > 1:
            raise AbstainError(f"recipes must agree in {name}")


@contextmanager
def _fast_float32(device: torch.device, exact: bool) -> Iterator[None]:
    """Let matrix products of a GPU round their float32 operands to TF32, but in a control."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(
        "highest" if exact else "high" if device.type == "cuda" else before
    )
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
