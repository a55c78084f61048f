"""The training loop: one model, any device, any number of processes.

A step computes the loss per sample and leaves its outputs on the device. Every few steps the loop
*looks*: from these outputs the ledger is fed, and sums are added up over all processes, so that
all take the same decision (stop, save, interrupt) from the same numbers.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.nn.functional import cross_entropy

from abstain.data import Encoder
from abstain.errors import AbstainError
from abstain.scores.ledger import Ledger, reduced
from abstain.training import coteaching
from abstain.training.averaging import Averaged
from abstain.training.batches import Batch, Batches
from abstain.training.checkpoint import Checkpoint, CheckpointFolder
from abstain.training.coteaching import Pair, PairObjective
from abstain.training.history import History, Row, all_done
from abstain.training.interrupt import Interrupted, InterruptFlag
from abstain.training.loop_state import Position, pack_loop, unpack_loop
from abstain.training.objective import Objective
from abstain.training.optim import make_optimizer, make_schedule
from abstain.training.parts import Parts
from abstain.training.recipe import Recipe
from abstain.training.settling import SettledStop
from abstain.training.step_layout import Layout, used_devices
from abstain.training.stopping import AnalyticalStop, ValidationStop
from abstain.training.tally import SUMS, Tally, means
from abstain.training.trust import Trust
from abstain.training.warm_up import WarmUp, untaught_loss

LOOK_EVERY = 10
# A model that gives the labels a probability of e^−1000000 has not merely a high loss.
_DIVERGED = 1e6


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained on what: the same on every process, and never changed by the loop."""

    encoder: Encoder
    num_classes: int
    training: Batches
    given: Tensor
    """Labels of all samples, on the device; those of the training rows train."""
    true: Tensor | None = None
    """Where known, only for the clean and corrupt parts of the loss in the history."""
    weights: Tensor | None = None
    """How much each sample counts, on the device; alike where there are none."""
    hold_out: Batches | None = None
    """Rows held out for the validation stop, or for the warm-up; judged by their given labels."""
    everything: Batches | None = None
    """All rows: what is trained on after a warm-up that ends by itself."""
    test: Batches | None = None
    test_labels: Tensor | None = None


class Loop:
    """A training under way; `run` takes it to its end, from wherever it is."""

    def __init__(
        self,
        model: torch.nn.Module,
        task: Task,
        recipe: Recipe,
        *,
        accelerator: Accelerator,
        layout: Layout,
        ledger: Ledger,
        checkpoints: CheckpointFolder | None = None,
        save_every: float = 60.0,
    ) -> None:
        self.task, self.recipe, self.layout, self.ledger = task, recipe, layout, ledger
        self.accelerator, self.checkpoints = accelerator, checkpoints
        self.report: Callable[[str, Row], None] = lambda _kind, _row: None
        self.objective = _make_objective(recipe, task, next(model.parameters()).dtype)
        self.position = Position()
        self.tally = Tally(ledger, task.given, task.true)
        self.stop = _make_stop(recipe, task.num_classes)
        self.optimizer = make_optimizer(model.parameters(), recipe)
        self.schedule = make_schedule(self.optimizer, recipe, self.steps)
        self._plain = placed = layout.place(model)
        self.averaged: Averaged | None = None
        if recipe.average is not None:
            self.averaged = Averaged(
                placed.to(accelerator.device), recipe.average * len(self._training)
            )
        with warnings.catch_warnings():
            # Accelerate knows no other name yet for what torch calls forward_sync_buffers by now.
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
            self.model = accelerator.prepare(placed)
        self.parts = Parts(layout.parts, self.model)
        # Accelerate has one precision per process; a program may train again in another one. So
        # precision is the layout's, and half precision is scaled here.
        self.scaler = torch.amp.GradScaler(
            accelerator.device.type, enabled=layout.precision == "fp16"
        )
        self.history = History()
        self._best_weights: dict[str, Tensor] = {}
        self.warm: dict[str, Tensor] = {}
        self._save_every, self._saved_at, self._wants_save = save_every, time.monotonic(), False
        self._epoch_began = time.monotonic()

    @property
    def steps(self) -> int:
        """How many there are, if nothing stops the training early."""
        return len(self.task.everything or self.task.training) * (self.recipe.epochs or 0)

    @property
    def _training(self) -> Batches:
        """What this epoch is trained on."""
        task, is_warm_up = self.task, self.objective.is_warm_up(self.position.epoch)
        return task.training if task.everything is None or is_warm_up else task.everything

    def run(self) -> None:
        """Train to the end; raises `Interrupted` after saving if a signal asked for it."""
        devices = used_devices(self.accelerator.device)
        forked = torch.random.fork_rng(devices=devices)
        with InterruptFlag() as interrupted, forked, self.parts:
            if not self._restore():
                self.seed_epoch()
            while not self.position.outcome:
                self._epoch(interrupted)
            self._save()

    def _epoch(self, interrupted: InterruptFlag) -> None:
        position, training = self.position, self._training
        self.model.train()
        self.objective.begin_epoch(self.optimizer, position.epoch)
        for batch in training.epoch(position.epoch, start=position.batch):
            self._step(batch)
            position.batch += 1
            position.step += 1
            last = position.batch == len(training)
            if last or position.step % LOOK_EVERY == 0:
                self._look(interrupted, last)
            elif interrupted and self.accelerator.num_processes == 1:
                self._leave()
            if position.outcome:
                break
        self._end_epoch()

    def _step(self, batch: Batch) -> None:
        task, epoch = self.task, self.position.epoch
        given = task.given[batch.index]
        logits = self._logits(self.model, batch)
        logits = logits.float() if logits.dtype.itemsize < 4 else logits
        total, logits, losses = self.objective.judge(logits, given, epoch, batch.index)
        if task.weights is not None:
            total = (losses * task.weights[batch.index]).sum()
        self.optimizer.zero_grad()
        # Gradients are averaged over processes: the sum over the global batch, divided by it once.
        loss = total * (batch.counts * self.accelerator.num_processes / batch.total)
        self.scaler.scale(loss).backward()
        if self.recipe.clip is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        if self.averaged is not None:
            self.averaged.update()
        seen = len(given) if batch.counts else 0
        self.tally.add(batch.index[:seen], logits[:seen], losses[:seen])

    def _logits(self, model: torch.nn.Module, batch: Batch) -> Tensor:
        def answer(inputs: Tensor) -> Tensor:
            inputs = self.layout.lay(self.task.encoder.to_model(inputs))
            with self.layout.autocast(inputs.device):
                logits: Tensor = model(inputs)
            return logits

        return self.parts(answer, batch.inputs)

    def _look(self, interrupted: InterruptFlag, last: bool) -> None:
        """Add up the sums of the last steps over all processes, and decide from them."""
        position = self.position
        wishes = torch.tensor([float(bool(interrupted)), float(self._wants_save)])
        sums = self.tally.take(self.objective, position.epoch).double()
        flat = torch.cat([sums.flatten(), wishes.to(sums)])
        flat = self.accelerator.reduce(flat, "sum").cpu()
        rows = flat[:-2].view_as(sums).tolist()
        asked_to_leave, wanted_save = bool(flat[-2] > 0), bool(flat[-1] > 0)
        for offset, row in enumerate(rows, start=1 - len(rows)):
            position.totals = [a + b for a, b in zip(position.totals, row, strict=True)]
            self._note_step(position.step + offset, row)
        if asked_to_leave and not position.outcome:
            self._leave()
        if wanted_save and not last:
            self._save()
        overdue = time.monotonic() - self._saved_at > self._save_every
        self._wants_save = overdue and self.accelerator.is_main_process

    def _note_step(self, step: int, sums: list[float]) -> None:
        position = self.position
        row: Row = {"step": step, "epoch": position.epoch + 1, **means(sums)}
        if not row["loss"] < _DIVERGED:  # NaN is not, either
            raise self._diverged(f"loss must stay small, got {row['loss']:g} at step {step}")
        row["smoothed_loss"] = position.smoothed.add(row["loss"])
        self.history.steps.append(row)
        self.report("step", row)
        judged = not position.outcome and not self.objective.is_warm_up(position.epoch)
        if isinstance(self.stop, AnalyticalStop) and judged:
            stopped = self.stop.update(row["loss"], round(sums[-1]))
            position.outcome = self.stop.reason if stopped else ""

    def _end_epoch(self) -> None:
        position, task = self.position, self.task
        row: Row = {"epoch": position.epoch + 1, "step": position.step, **means(position.totals)}
        row["smoothed_loss"] = self.history.steps[-1]["smoothed_loss"]
        row["learning_rate"] = float(self.schedule.get_last_lr()[0])
        if task.test is not None and task.test_labels is not None:
            row["test_accuracy"] = self.accuracy(task.test, task.test_labels)
        warm_up, held_out = self.objective.warm_up, None
        if task.hold_out is not None and not (warm_up and warm_up.ended):
            # In a warm-up these are trained on later: the ledger is to know every sample alike.
            held_out = self._evaluate(task.hold_out, task.given, visits=warm_up is not None)
            held_out[0] *= self._importance(task.hold_out)
            row["validation_loss"], row["validation_accuracy"] = held_out.mean(1).tolist()
        row["seconds"] = time.monotonic() - self._epoch_began
        self._epoch_began = time.monotonic()
        self.history.epochs.append(row)
        self.report("epoch", row)
        position.epoch += 1
        position.batch, position.totals = 0, [0.0] * len(SUMS)
        self._agree()
        if warm_up is not None:
            self._judge_warm_up(warm_up, row, held_out)
        if isinstance(self.stop, ValidationStop):
            stopped = self.stop.update(row["validation_accuracy"])
            if self.stop.best_epoch == self.stop.epoch:
                self._keep_best(row["validation_accuracy"])
            if stopped:
                position.outcome = self.stop.reason
        if isinstance(self.stop, SettledStop) and not position.outcome:
            self._judge_order(self.stop)
        if not position.outcome and position.epoch == self.recipe.epochs:
            position.outcome = all_done(position.epoch)
            if self.stop is not None:
                position.outcome += f"; to stop it was {self.stop.reason}"
            if warm_up is not None:
                position.outcome += f"; {warm_up.reason}"
        self.seed_epoch()
        if not position.outcome:
            self._save()

    def _judge_warm_up(self, warm_up: WarmUp, row: Row, held_out: Tensor | None) -> None:
        """End the warm-up where it was best; later on, go back there if all has been lost since."""
        if held_out is not None:
            if warm_up.update(held_out[0], row["validation_accuracy"]):
                self._keep_warm()
            if warm_up.ended:
                self._go_back()
        elif not warm_up.check(row["train_accuracy"]):
            self._go_back()
            self.position.outcome = f"stopped at epoch {self.position.epoch}: {warm_up.reason}"
            if self.task.test is not None and self.task.test_labels is not None:
                row["test_accuracy"] = self.accuracy(self.task.test, self.task.test_labels)

    def _judge_order(self, stop: SettledStop) -> None:
        """Stop where the order of the labels has settled, once the loss of the recipe trains."""
        epoch = self.position.epoch
        if self.objective.is_warm_up(epoch) or not stop.is_due(epoch):
            return
        if stop.update(self.whole_ledger().evidence, epoch):
            warm_up = self.objective.warm_up
            self.position.outcome = stop.reason + (f"; {warm_up.reason}" if warm_up else "")

    def _keep_warm(self) -> None:
        """Hold on to the weights as they are now, and to what is remembered of the samples."""
        trust = self.objective.trust
        weights, memory = self.current_model().state_dict(), trust.state_dict() if trust else {}
        parts = {"weights": weights, "trust": memory}
        self.warm = {
            f"{part}/{name}": x.detach().clone()
            for part, tensors in parts.items()
            for name, x in tensors.items()
        }

    def _go_back(self) -> None:
        """To where the warm-up was kept; what the optimiser knows is of other epochs and a loss."""
        model, trust = self.plain_model(), self.objective.trust
        model.load_state_dict(_under("weights/", self.warm))
        if trust is not None:
            trust.load_state_dict(_under("trust/", self.warm))
        self.optimizer.state.clear()
        if self.averaged is not None:
            self.averaged.restart(model)

    def _agree(self) -> None:
        """Let all processes have what each remembers of the samples that it saw."""
        trust = self.objective.trust
        if trust is not None and self.accelerator.num_processes > 1:
            trust.agree(self._add_up)

    def accuracy(self, batches: Batches, labels: Tensor) -> float:
        """Share of samples whose likeliest class is the label, over all processes."""
        return float(self._evaluate(batches, labels)[1].mean())

    @torch.no_grad()
    def _evaluate(self, batches: Batches, labels: Tensor, *, visits: bool = False) -> Tensor:
        """Of each sample: cross-entropy on all outputs, and whether its label is met.

        With `visits`, the ledger takes in what the model says.
        """
        model = self.model if self.averaged is None else self.current_model()
        model.eval()
        figures = torch.zeros(2, len(labels), dtype=torch.float64, device=labels.device)
        for batch in batches.in_order():
            logits = self._logits(model, batch)
            seen = len(logits) if batch.counts else 0
            index, logits = batch.index[:seen], logits[:seen]
            given = labels[index]
            figures[0, index] = cross_entropy(logits.double(), given, reduction="none")
            figures[1, index] = (logits[..., :-1].argmax(-1) == given).double()
            if visits:
                self.ledger.update(index, logits, given, epoch=self.position.epoch)
        self.model.train()
        return self._add_up(figures)[:, batches.rows.to(labels.device)].cpu()

    def _importance(self, batches: Batches) -> Tensor:
        """How much each sample counts, 1 on average."""
        if self.task.weights is None:
            return torch.ones(len(batches.rows))
        weights = self.task.weights.cpu()[batches.rows]
        return weights / weights.mean() if weights.any() else torch.ones_like(weights)

    def whole_ledger(self) -> Ledger:
        """The ledger over all processes: every sample once."""
        return (
            reduced(self.ledger, self.gather) if self.accelerator.num_processes > 1 else self.ledger
        )

    @property
    def final_epoch(self) -> int:
        """The epoch that `final_model` is of, from 1."""
        if isinstance(self.stop, ValidationStop):
            return self.stop.best_epoch
        return self.position.epoch

    def final_model(self) -> torch.nn.Module:
        """The model at the end or, under the validation stop, of its best epoch; on the CPU.

        Of a pair it is the first network.
        """
        model = self.current_model()
        if isinstance(self.stop, ValidationStop):
            model.load_state_dict(self._best_weights)
        return (model.first if isinstance(model, Pair) else model).cpu()

    def current_model(self) -> torch.nn.Module:
        """The model as it would be used now: where weights are averaged, with these averages."""
        model = self.plain_model()
        return model if self.averaged is None else self.averaged.settle(model)

    def plain_model(self) -> torch.nn.Module:
        """The model without what Accelerate wrapped around it."""
        # Not unwrapped each time: to do so, Accelerate looks for optional packages on the disk.
        return self._plain

    def _keep_best(self, accuracy: float) -> None:
        weights = self.current_model().state_dict()
        self._best_weights = {name: x.detach().cpu().clone() for name, x in weights.items()}
        if self.checkpoints is not None and self.accelerator.is_main_process:
            best = Checkpoint(tensors=self._best_weights, state={"epoch": self.position.epoch})
            self.checkpoints.save_best(best, accuracy)

    def _leave(self) -> None:
        self._save()
        # Where one process has ended, a launcher ends the others, even one that still writes.
        self.accelerator.wait_for_everyone()
        raise Interrupted

    def _save(self) -> None:
        """Save everything from which the training can go on as if nothing had happened."""
        self._saved_at, self._wants_save = time.monotonic(), False
        if self.checkpoints is None:
            return
        # The loss of a step is that before its update: it does not tell what the update did.
        for name, weight in self.plain_model().named_parameters():
            if not weight.isfinite().all():
                raise self._diverged(f"weights must be finite, got others in {name}")
        self._agree()
        checkpoint = pack_loop(self)
        if self.accelerator.is_main_process:
            self.checkpoints.save_last(checkpoint)

    def _diverged(self, finding: str) -> AbstainError:
        whole = ""
        if self.checkpoints is not None and self.checkpoints.has_last:
            whole = f"; the last good checkpoint, {self.checkpoints.last}, is whole"
        return AbstainError(
            f"{finding}: the training has diverged; lower learning_rate "
            f"({self.recipe.learning_rate:g}) or set clip{whole}"
        )

    def _restore(self) -> bool:
        """Go on from the last checkpoint, if there is one."""
        if self.checkpoints is None or not self.checkpoints.has_last:
            return False
        unpack_loop(self, self.checkpoints.load_last())
        if isinstance(self.stop, ValidationStop) and self.stop.best_epoch:
            self._best_weights = self.checkpoints.load_best().tensors
        return True

    def seed_epoch(self) -> None:
        """Dropout draws from its own numbers in every epoch and process."""
        place = (self.position.epoch + 1) * 4096 + self.accelerator.process_index
        torch.manual_seed(self.recipe.seed_order * 1_000_003 + place)

    def _add_up(self, tensor: Tensor) -> Tensor:
        total = self.accelerator.reduce(tensor, "sum")
        assert isinstance(total, Tensor)
        return total

    def gather(self, tensor: Tensor) -> Tensor:
        """What each process has, stacked."""
        gathered = self.accelerator.gather(tensor.unsqueeze(0).to(self.accelerator.device))
        assert isinstance(gathered, Tensor)
        return gathered


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, without it."""
    return {n.removeprefix(prefix): x for n, x in tensors.items() if n.startswith(prefix)}


def _make_objective(recipe: Recipe, task: Task, dtype: torch.dtype) -> Objective:
    if recipe.method == coteaching.METHOD:
        return PairObjective(recipe)
    trust: Trust | None = None
    warm_up: WarmUp | None = None
    if recipe.loss == "trusted":
        memory = torch.float64 if dtype == torch.float64 else torch.float32
        trust = Trust(len(task.given), task.num_classes, task.given.device, memory)
    if recipe.warm_up_ends == "held-out" and task.hold_out is not None:
        counts = torch.bincount(task.given, minlength=task.num_classes).tolist()
        warm_up = WarmUp(recipe.epochs or 1, untaught_loss(counts), len(task.hold_out.rows))
    return Objective(recipe, warm_up, trust)


def _make_stop(
    recipe: Recipe, num_classes: int
) -> AnalyticalStop | ValidationStop | SettledStop | None:
    if recipe.stop == "analytical":
        assert isinstance(recipe.payoff, int | float)
        return AnalyticalStop(recipe.rate, recipe.payoff, num_classes, recipe.noise)
    if recipe.stop == "settled":
        return SettledStop()
    return ValidationStop(recipe.patience) if recipe.stop == "validation" else None
