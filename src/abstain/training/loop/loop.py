"""The training loop: one model, any device, any number of processes.

A step computes the loss per sample and leaves its outputs on the device. Every few steps the loop
*looks*: from these outputs the ledger is fed, and sums are added up over all processes, so that
all take the same decision (stop, save, interrupt) from the same numbers.

The `Learner` computes outputs and moves weights, the `Objective` is what a step minimises,
`evaluation` measures the model after an epoch, the `StopController` decides whether to go on, and
`Hooks` take part. The state of each of them makes up a checkpoint.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from abstain.errors import NO_VALUE, DivergedError
from abstain.scores.ledger import Ledger, reduced
from abstain.training.loop.batches import Batch, Batches, Task
from abstain.training.loop.controller import StopController
from abstain.training.loop.evaluation import (
    Tally,
    figures_on_test,
    has_diverged,
    held_out_figures,
    means,
    no_sums,
)
from abstain.training.loop.hooks import Hooks
from abstain.training.loop.step import Layout, Learner
from abstain.training.objective.losses import Objective, make_objective
from abstain.training.plan import Plan
from abstain.training.processes import Interrupted, InterruptFlag, add_up, gather, used_devices
from abstain.training.saving.checkpoint import Checkpoint, CheckpointFolder
from abstain.training.saving.history import Average, History, Row
from abstain.training.saving.state import pack_rng, unpack_rng

LOOK_EVERY = 10


@dataclass
class Position:
    """The position in a training."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    smoothed: Average = field(default_factory=Average)
    totals: list[float] = field(default_factory=no_sums)
    """Sums over the steps of this epoch that were looked at."""
    outcome: str = ""
    """Why the training ended; empty while it goes on."""


class Loop:
    """A training under way; `run` takes it to its end, from wherever it is.

    Args:
        model: m+1 outputs.
        task: Data and labels.
        plan: Resolved.
        accelerator: The processes that train together.
        layout: How a step is computed.
        ledger: Gets every visit of every sample.
        objective: What a step minimises, by default the loss of the plan. One that takes logits
            with one more dimension in front trains several networks, or heads, in one pass.
        hooks: Take part along the way, one after the other.
        checkpoints: Where to save, if at all.
        save_every: Seconds between checkpoints within an epoch.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        task: Task,
        plan: Plan,
        *,
        accelerator: Accelerator,
        layout: Layout,
        ledger: Ledger,
        objective: Objective | None = None,
        hooks: Sequence[Hooks] = (),
        checkpoints: CheckpointFolder | None = None,
        save_every: float = 60.0,
    ) -> None:
        self.task, self.plan, self.accelerator = task, plan, accelerator
        self.hooks = tuple(hooks)
        dtype = next(model.parameters()).dtype
        self.objective = objective or make_objective(plan, task.given, task.num_classes, dtype)
        self.learner = Learner(
            model,
            plan,
            encoder=task.encoder,
            accelerator=accelerator,
            layout=layout,
            steps=self.steps,
            steps_per_epoch=len(task.training),
        )
        self.checkpoints, self._save_every = checkpoints, save_every
        self._saved_at = time.monotonic()
        self.controller = StopController(plan, task, self.learner, self.objective, checkpoints)
        self.ledger, self.history, self.position = ledger, History(), Position()
        self.tally = Tally(ledger, task.given, task.true)
        self._epoch_began = time.monotonic()

    @property
    def steps(self) -> int:
        """Number of steps, if nothing stops the training early."""
        return len(self.task.everything or self.task.training) * (self.plan.epochs or 0)

    def run(self) -> None:
        """Train to the end; raises `Interrupted` after saving if a signal asked for it."""
        forked = torch.random.fork_rng(devices=used_devices(self.accelerator.device))
        with InterruptFlag() as interrupted, forked:
            if not self.restore():
                self.seed_epoch()
            for hook in self.hooks:
                hook.on_begin(self)
            while not self.position.outcome:
                self.train_epoch(interrupted)
            self.save()
        for hook in self.hooks:
            hook.on_end(self)

    def train_epoch(self, interrupted: InterruptFlag | bool = False) -> None:
        """Train what is left of an epoch, then evaluate the model."""
        position, training = self.position, self._batches()
        self.learner.model.train()
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

    def end(self, reason: str) -> None:
        """Let the training end after this step, as a hook may want; all processes must agree."""
        self.position.outcome = self.position.outcome or reason

    def _step(self, batch: Batch) -> None:
        """One step: zero_grad, forward, loss, backward, clip, step."""
        for hook in self.hooks:
            batch = hook.on_batch(self, batch)
        learner, weights = self.learner, self.task.weights
        given = self.task.given[batch.index]

        learner.optimizer.zero_grad()
        logits = learner.logits(batch)
        logits = logits.float() if logits.dtype.itemsize < 4 else logits
        losses = self.objective(logits, given, self.position.epoch, batch.index)
        total = (losses if weights is None else losses * weights[batch.index]).sum()
        # Gradients are averaged over processes: the sum over the global batch, divided by it once.
        learner.backward(total * (batch.counts * self.accelerator.num_processes / batch.total))
        learner.clip_gradients()
        learner.step()

        seen = len(given) if batch.counts else 0
        self.tally.add(batch.index[:seen], logits[:seen], losses[:seen])

    def seconds_per_step(self, timed: int) -> float:
        """Time a step by making a few: the training cannot be begun after.

        The first is not timed: there the device gets ready, and workers begin to read.
        """
        device = self.accelerator.device
        seconds: list[float] = []
        self.learner.model.train()
        with torch.random.fork_rng(devices=used_devices(device)):
            began = time.perf_counter()
            for batch in islice(self.task.training.epoch(0), 1 + timed):
                self._step(batch)
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
                seconds.append(time.perf_counter() - began)
                began = time.perf_counter()
        return statistics.mean(seconds[1:] or seconds)

    def _batches(self) -> Batches:
        """The batches of this epoch."""
        task, is_warm_up = self.task, self.objective.is_warm_up(self.position.epoch)
        return task.training if task.everything is None or is_warm_up else task.everything

    def _look(self, interrupted: InterruptFlag | bool, last: bool) -> None:
        """Add up the sums of the last steps over all processes, and decide from them."""
        position = self.position
        is_due = time.monotonic() - self._saved_at > self._save_every
        wants_save = is_due and self.accelerator.is_main_process
        wishes = torch.tensor([float(bool(interrupted)), float(wants_save)])
        sums = self.tally.take(self.objective, position.epoch).double()
        flat = add_up(self.accelerator, torch.cat([sums.flatten(), wishes.to(sums)])).cpu()
        rows = flat[:-2].view_as(sums).tolist()
        for offset, row in enumerate(rows, start=1 - len(rows)):
            position.totals = [a + b for a, b in zip(position.totals, row, strict=True)]
            self._note_step(position.step + offset, row)
        if flat[-2] > 0 and not position.outcome:
            self._leave()
        if flat[-1] > 0 and not last:
            self.save()

    def _note_step(self, step: int, sums: list[float]) -> None:
        position = self.position
        row: Row = {"step": step, "epoch": position.epoch + 1, **means(sums)}
        if has_diverged(row["loss"]):
            finding = f"loss must stay small, got {row['loss']:g} at step {step}"
            raise self._diverged(finding)
        row["smoothed_loss"] = position.smoothed.add(row["loss"])
        self.history.steps.append(row)
        self._show("step", row)
        if not position.outcome:
            samples = round(sums[-1])
            position.outcome = self.controller.after_step(row["loss"], samples, position.epoch)

    def _end_epoch(self) -> None:
        position, task = self.position, self.task
        row: Row = {"epoch": position.epoch + 1, "step": position.step, **means(position.totals)}
        row["smoothed_loss"] = self.history.steps[-1]["smoothed_loss"]
        row["learning_rate"] = float(self.learner.schedule.get_last_lr()[0])
        row |= figures_on_test(self.learner, task)
        held_out: Tensor | None = None
        warm_up = self.objective.warm_up
        if task.hold_out is not None and not (warm_up and warm_up.ended):
            # In a warm-up these are trained on later: the ledger is to hold every sample alike.
            held_out = held_out_figures(self.learner, task, self._visit if warm_up else None)
            row["validation_loss"], row["validation_accuracy"] = held_out.mean(1).tolist()
        row["seconds"] = time.monotonic() - self._epoch_began
        self._epoch_began = time.monotonic()
        self.history.epochs.append(row)
        self._show("epoch", row)
        position.epoch += 1
        position.batch, position.totals = 0, no_sums()
        self.share_memories()
        outcome = self.controller.after_epoch(
            position.epoch, row, held_out, lambda: self.whole_ledger().evidence
        )
        position.outcome = position.outcome or outcome
        self.seed_epoch()
        if not position.outcome:
            self.save()

    def _visit(self, index: Tensor, logits: Tensor, given: Tensor) -> None:
        self.ledger.update(index, logits, given, epoch=self.position.epoch)

    def _leave(self) -> None:
        self.save()
        # Where one process has ended, a launcher ends the others, even one that still writes.
        self.accelerator.wait_for_everyone()
        raise Interrupted

    def _show(self, kind: str, row: Row) -> None:
        for hook in self.hooks:
            hook.on_row(self, kind, row)

    def save(self) -> None:
        """Save everything from which the training can go on as if nothing had happened."""
        self._saved_at = time.monotonic()
        if self.checkpoints is None:
            return
        # The loss of a step is that before its update: it does not show what the update did.
        for name, weight in self.learner.plain_model.named_parameters():
            if not weight.isfinite().all():
                raise self._diverged(f"weights must be finite, got others in {name}")
        self.share_memories()
        checkpoint = self.state()
        if self.accelerator.is_main_process:
            self.checkpoints.save_last(checkpoint)

    def restore(self) -> bool:
        """Go on from the last checkpoint; False if there is none."""
        self._saved_at = time.monotonic()  # what came before the training does not count
        if self.checkpoints is None or not self.checkpoints.has_last:
            return False
        self.load_state(self.checkpoints.load_last())
        return True

    def state(self) -> Checkpoint:
        """All of the training as tensors and plain values; to be called by every process.

        From it a training goes on to the same bits, on one process. With another number of
        processes it goes on too: what all had seen together is kept once.
        """
        rng_tensors, rng_state = pack_rng()
        stacked = {name: gather(self.accelerator, x) for name, x in rng_tensors.items()}
        trust = self.objective.trust
        return Checkpoint.join(
            {
                **self.learner.state(),
                **self.controller.state(),
                **({} if trust is None else {"trust": (trust.state_dict(), None)}),
                "ledger": (self.whole_ledger().state_dict(), None),
                "rng": (stacked, rng_state),
                "history": self.history.packed(),
                "position": (self.tally.packed(), asdict(self.position)),
            }
        )

    def load_state(self, checkpoint: Checkpoint) -> None:
        """Put the training where it was when `state` was called."""
        is_main = self.accelerator.is_main_process
        self.learner.load_state(checkpoint)
        self.controller.load_state(checkpoint)
        if self.objective.trust is not None:
            self.objective.trust.load_state_dict(checkpoint.part("trust")[0])
        self.ledger.load_state_dict(checkpoint.part("ledger")[0])
        if not is_main:
            self.ledger.clear()  # what all had seen together is kept once
        self.history = History.unpacked(checkpoint.part("history")[0], checkpoint.values("history"))
        position = checkpoint.values("position")
        self.position = Position(**{**position, "smoothed": Average(**position["smoothed"])})
        # One process had seen these; now all look at them together.
        self.tally.unpack(checkpoint.part("position")[0], mine=is_main)
        self._load_rng(*checkpoint.part("rng"))

    def _load_rng(self, tensors: dict[str, Tensor], state: Any) -> None:  # noqa: ANN401
        rank = self.accelerator.process_index
        if all(rank < len(stacked) for stacked in tensors.values()):
            unpack_rng({name: stacked[rank] for name, stacked in tensors.items()}, state)
        else:
            self.seed_epoch()  # more processes than before: the new ones have no state to take up

    def _diverged(self, finding: str) -> DivergedError:
        """The error of a training whose numbers have left all bounds."""
        whole = ""
        if self.checkpoints is not None and self.checkpoints.has_last:
            whole = f"; the last good checkpoint, {self.checkpoints.last}, is whole"
        return DivergedError(
            f"{finding}: the training has diverged",
            remedy=f"lower {{learning_rate}} ({self.plan.learning_rate:g})"
            + whole.replace("{", "{{").replace("}", "}}"),
            learning_rate=NO_VALUE,
        )

    def share_memories(self) -> None:
        """Let all processes have what each remembers of the samples that it saw."""
        trust = self.objective.trust
        if trust is not None and self.accelerator.num_processes > 1:
            trust.agree(lambda tensor: add_up(self.accelerator, tensor))

    def seed_epoch(self) -> None:
        """Dropout draws from its own numbers in every epoch and process."""
        place = (self.position.epoch + 1) * 4096 + self.accelerator.process_index
        torch.manual_seed(self.plan.seed_order * 1_000_003 + place)

    def whole_ledger(self) -> Ledger:
        """The ledger over all processes: every sample once."""
        if self.accelerator.num_processes == 1:
            return self.ledger
        return reduced(self.ledger, lambda tensor: gather(self.accelerator, tensor))
