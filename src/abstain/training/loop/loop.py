"""The training loop: one model, any device, any number of processes.

A step computes the loss per sample and leaves its outputs on the device. Every few steps the loop
*looks*: from these outputs the ledger is fed, and sums are added up over all processes, so that
all take the same decision (stop, save, interrupt) from the same numbers.

The `Learner` computes outputs and moves weights, the `Objective` is what a step minimises,
`evaluation` measures the model after an epoch, the `Judge` decides whether to go on, the `Saver`
writes checkpoints, and `Hooks` let others take part.
"""

import statistics
import time
from itertools import islice

import torch
from accelerate import Accelerator
from torch import Tensor

from abstain.scores.ledger import Ledger, reduced
from abstain.training.loop.batches import Batch, Batches, Task
from abstain.training.loop.controller import Judge
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
from abstain.training.processes import Interrupted, InterruptFlag, add_up, gather, used_devices
from abstain.training.recipe import Recipe
from abstain.training.saving.checkpoint import CheckpointFolder
from abstain.training.saving.history import History, Row
from abstain.training.saving.saver import Saver
from abstain.training.saving.state import Position

LOOK_EVERY = 10


class Loop:
    """A training under way; `run` takes it to its end, from wherever it is.

    Args:
        model: m+1 outputs.
        task: Data and labels.
        recipe: Resolved.
        accelerator: The processes that train together.
        layout: How a step is computed.
        ledger: Gets every visit of every sample.
        objective: What a step minimises, by default the loss of the recipe. One that takes logits
            with one more dimension in front trains several networks, or heads, in one pass.
        hooks: Take part along the way.
        checkpoints: Where to save, if at all.
        save_every: Seconds between checkpoints within an epoch.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        task: Task,
        recipe: Recipe,
        *,
        accelerator: Accelerator,
        layout: Layout,
        ledger: Ledger,
        objective: Objective | None = None,
        hooks: Hooks | None = None,
        checkpoints: CheckpointFolder | None = None,
        save_every: float = 60.0,
    ) -> None:
        self.task, self.recipe, self.accelerator = task, recipe, accelerator
        self.hooks = hooks or Hooks()
        dtype = next(model.parameters()).dtype
        self.objective = objective or make_objective(recipe, task.given, task.num_classes, dtype)
        self.learner = Learner(
            model,
            recipe,
            encoder=task.encoder,
            accelerator=accelerator,
            layout=layout,
            steps=self.steps,
            steps_per_epoch=len(task.training),
        )
        self.saver = Saver(checkpoints, save_every)
        self.judge = Judge(recipe, task, self.learner, self.objective, self.saver)
        self.ledger, self.history, self.position = ledger, History(), Position()
        self.tally = Tally(ledger, task.given, task.true)
        self._epoch_began = time.monotonic()

    @property
    def steps(self) -> int:
        """How many there are, if nothing stops the training early."""
        return len(self.task.everything or self.task.training) * (self.recipe.epochs or 0)

    def run(self) -> None:
        """Train to the end; raises `Interrupted` after saving if a signal asked for it."""
        forked = torch.random.fork_rng(devices=used_devices(self.accelerator.device))
        with InterruptFlag() as interrupted, forked:
            if not self.saver.restore(self):
                self.seed_epoch()
            while not self.position.outcome:
                self.train_epoch(interrupted)
            self.saver.save(self)

    def train_epoch(self, interrupted: InterruptFlag | bool = False) -> None:
        """Train what is left of an epoch, and judge the model after it."""
        position, training = self.position, self._batches()
        self.learner.model.train()
        self.objective.begin_epoch(self.learner.optimizer, position.epoch)
        for batch in training.epoch(position.epoch, start=position.batch):
            self._step(self.hooks.on_batch(batch))
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

    def seconds_per_step(self, timed: int) -> float:
        """What a step takes, by a few that are really made: the training cannot be begun after.

        The first is not timed: there the device gets ready, and workers begin to read.
        """
        device = self.accelerator.device
        seconds: list[float] = []
        self.learner.model.train()
        with torch.random.fork_rng(devices=used_devices(device)):
            began = time.perf_counter()
            for batch in islice(self.task.training.epoch(0), 1 + timed):
                self._step(self.hooks.on_batch(batch))
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
                seconds.append(time.perf_counter() - began)
                began = time.perf_counter()
        return statistics.mean(seconds[1:] or seconds)

    def _batches(self) -> Batches:
        """What this epoch is trained on."""
        task, is_warm_up = self.task, self.objective.is_warm_up(self.position.epoch)
        return task.training if task.everything is None or is_warm_up else task.everything

    def _step(self, batch: Batch) -> None:
        task = self.task
        given = task.given[batch.index]
        logits = self.learner.logits(batch)
        logits = logits.float() if logits.dtype.itemsize < 4 else logits
        total, logits, losses = self.objective.judge(
            logits, given, self.position.epoch, batch.index
        )
        if task.weights is not None:
            total = (losses * task.weights[batch.index]).sum()
        # Gradients are averaged over processes: the sum over the global batch, divided by it once.
        self.learner.step(total * (batch.counts * self.accelerator.num_processes / batch.total))
        seen = len(given) if batch.counts else 0
        self.tally.add(batch.index[:seen], logits[:seen], losses[:seen])

    def _look(self, interrupted: InterruptFlag | bool, last: bool) -> None:
        """Add up the sums of the last steps over all processes, and decide from them."""
        position = self.position
        wants_save = self.saver.is_due and self.accelerator.is_main_process
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
            self.saver.save(self)

    def _note_step(self, step: int, sums: list[float]) -> None:
        position = self.position
        row: Row = {"step": step, "epoch": position.epoch + 1, **means(sums)}
        if has_diverged(row["loss"]):
            finding = f"loss must stay small, got {row['loss']:g} at step {step}"
            raise self.saver.diverged(finding, self)
        row["smoothed_loss"] = position.smoothed.add(row["loss"])
        self.history.steps.append(row)
        self.hooks.on_row("step", row)
        if not position.outcome:
            samples = round(sums[-1])
            position.outcome = self.judge.after_step(row["loss"], samples, position.epoch)

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
        self.hooks.on_row("epoch", row)
        position.epoch += 1
        position.batch, position.totals = 0, no_sums()
        self.share_memories()
        outcome = self.judge.after_epoch(
            position.epoch, row, held_out, lambda: self.whole_ledger().evidence
        )
        position.outcome = position.outcome or outcome
        self.seed_epoch()
        if not position.outcome:
            self.saver.save(self)

    def _visit(self, index: Tensor, logits: Tensor, given: Tensor) -> None:
        self.ledger.update(index, logits, given, epoch=self.position.epoch)

    def _leave(self) -> None:
        self.saver.save(self)
        # Where one process has ended, a launcher ends the others, even one that still writes.
        self.accelerator.wait_for_everyone()
        raise Interrupted

    def share_memories(self) -> None:
        """Let all processes have what each remembers of the samples that it saw."""
        trust = self.objective.trust
        if trust is not None and self.accelerator.num_processes > 1:
            trust.agree(lambda tensor: add_up(self.accelerator, tensor))

    def seed_epoch(self) -> None:
        """Dropout draws from its own numbers in every epoch and process."""
        place = (self.position.epoch + 1) * 4096 + self.accelerator.process_index
        torch.manual_seed(self.recipe.seed_order * 1_000_003 + place)

    def whole_ledger(self) -> Ledger:
        """The ledger over all processes: every sample once."""
        if self.accelerator.num_processes == 1:
            return self.ledger
        return reduced(self.ledger, lambda tensor: gather(self.accelerator, tensor))
