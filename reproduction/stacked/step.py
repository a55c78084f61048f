"""One step of K models at once, and what is kept of each sample: `Stepper`.

Whatever differs between the models is a row of a table on the device. So a step is the same
sequence of operations for any mixture of methods, makes no copy to the host, and is recorded once
as a CUDA graph. A model whose share of a batch is empty does not move: that is how it waits for
others with more batches, and how it is stopped.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from abstain.losses import stake
from abstain.training.loop.evaluation import LOG_PAYOFF_SHOWN, SUMS
from abstain.training.objective.losses import remembered
from reproduction.stacked.coteaching import exchange
from reproduction.stacked.models import Models
from reproduction.stacked.nets import Net
from reproduction.stacked.optim import Rule


class Stepper:
    """The steps of an epoch, for as long as the same models train."""

    def __init__(
        self,
        net: Net,
        models: Models,
        rule: Rule,
        *,
        inputs: Tensor,
        true: Tensor,
        steps: int,
        batch: int,
        pairs: int,
    ) -> None:
        self.net, self.models, self.inputs, self.true = net, models, inputs, true
        count, device = len(models.given), inputs.device
        self.order = torch.zeros(steps, count, batch, dtype=torch.int64, device=device)
        """(steps, K, B) which samples; each batch is filled up with anything."""
        self.sizes = torch.zeros(steps, count, dtype=torch.int64, device=device)
        """(steps, K) how many of them count."""
        dtype = models.weights[0].dtype
        self.record = torch.zeros(steps, count, len(SUMS), dtype=dtype, device=device)
        """Record of a step for each model: sums over the samples of its batch."""
        self._position = torch.zeros(1, dtype=torch.int64, device=device)
        self._places = torch.arange(batch, device=device)
        self._alone = count - 2 * pairs
        # Apart, since torch.compile would repeat the powers in `scales` for every single weight.
        parts: list[Callable[..., Any]] = [
            self._next,
            self._losses_and_sums,
            rule.scales,
            rule.move,
            models.average,
        ]
        on_gpu = device.type == "cuda"
        self._parts = [torch.compile(part, dynamic=True) for part in parts] if on_gpu else parts
        self.step: Callable[[], None] = self._recorded() if on_gpu else self._step

    def begin(self, sizes: Tensor) -> None:
        """Start an epoch whose `order` is set."""
        self.sizes.copy_(sizes)
        self._position.zero_()

    def stop(self, row: int) -> None:
        """Let a model rest for the remaining steps of the epoch."""
        self.sizes[:, row] = 0

    def _step(self) -> None:
        models = self.models
        fetch, judge, scales, move, average = self._parts
        index, given, right, counts, inputs = fetch()
        logits = self.net.forward(models.working, inputs).to(models.weights[0].dtype)
        loss, moves, sums = judge(logits, given, counts, right, self._recalled(index, counts))
        gradients = torch.autograd.grad(loss, models.working)
        move(models, gradients, moves, scales(models, moves))
        average(moves)
        self._remember(index, logits.detach(), given, counts)
        self.record.index_copy_(0, self._position, sums.unsqueeze(0))
        if models.sample_sums is not None:
            self._keep_samples(index, logits.detach(), given, counts)
        self._position += 1

    def _next(self) -> tuple[Tensor, ...]:
        """Take the next samples of every model: labels, which are right, which count, inputs."""
        models = self.models
        index = self.order.index_select(0, self._position).squeeze(0)
        size = self.sizes.index_select(0, self._position).squeeze(0)
        given = models.given.gather(1, index)
        inputs = as_numbers(self.inputs[index], models.working[0])
        return index, given, self.true[index] == given, self._places < size.unsqueeze(1), inputs

    def _losses_and_sums(
        self,
        logits: Tensor,
        given: Tensor,
        counts: Tensor,
        right: Tensor,
        memory: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the loss, summed over the models, which of them move, and what is recorded."""
        models = self.models
        losses, log_payoff = models.losses(logits, given, memory)
        detached, predicted = losses.detach(), logits[..., :-1].argmax(-1)
        trains = counts
        if self._alone < len(counts):
            pairs = (-1, 2, counts.shape[1])
            chosen = exchange(
                predicted[self._alone :].view(pairs),
                detached[self._alone :].view(pairs),
                counts[self._alone :].view(pairs),
                models.kept[self._alone :: 2],
                models.by_disagreement[self._alone :: 2],
            )
            trains = torch.cat((counts[: self._alone], chosen.flatten(0, 1)))
        number = trains.sum(-1).clamp(min=1)
        public = models.losses.public.squeeze(-1)
        loss = ((losses * trains).sum(-1) / torch.where(public, number * number, number)).sum()
        shown = log_payoff.clamp(max=LOG_PAYOFF_SHOWN) * self._shows_payoff()
        columns = (
            detached,
            predicted == given,
            stake(logits.detach()),
            shown,
            detached * right,
            right,
            ~right,
            counts,
        )
        sums = torch.stack([(x * counts).sum(-1).to(self.record.dtype) for x in columns], -1)
        return loss, trains.any(-1), sums

    def _shows_payoff(self) -> Tensor:
        return self.models.losses.shows_payoff & ~self.models.losses.warm

    def _where(self, index: Tensor, counts: Tensor) -> Tensor:
        """The places of these samples among those of all models, N + 1 of each."""
        places = self.models.given.shape[1] + 1
        where = torch.where(counts, index, places - 1)
        return (where + torch.arange(len(where), device=where.device)[:, None] * places).flatten()

    def _recalled(self, index: Tensor, counts: Tensor) -> Tensor | None:
        memory = self.models.memory
        if memory is None:
            return None
        return memory.view(-1, 2)[self._where(index, counts)].view(*index.shape, 2)

    def _remember(self, index: Tensor, logits: Tensor, given: Tensor, counts: Tensor) -> None:
        memory = self.models.memory
        if memory is None:
            return
        log_belief = torch.log_softmax(logits[..., :-1], -1)
        where = self._where(index, counts)
        new = remembered(memory.view(-1, 2)[where].view(*index.shape, 2), log_belief, given)
        memory.view(-1, 2)[where] = new.view(-1, 2)

    def _keep_samples(self, index: Tensor, logits: Tensor, given: Tensor, counts: Tensor) -> None:
        models = self.models
        assert models.sample_sums is not None
        assert models.abstention is not None
        where = self._where(index, counts)
        belief = torch.softmax(logits[..., :-1], -1).gather(-1, given.unsqueeze(-1))
        visit = torch.cat((torch.ones_like(belief), belief), -1)
        models.sample_sums.view(-1, 2).index_add_(0, where, visit.flatten(0, 1).float())
        models.abstention.view(-1).index_copy_(0, where, (1 - stake(logits)).flatten().float())

    def _recorded(self) -> Callable[[], None]:
        """The step as a CUDA graph: one launch instead of some sixty."""
        # All sizes are zero still, so that these steps, needed to compile and to make room for
        # what is allocated once, move nothing.
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._position.zero_()
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        self._position.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self._position.zero_()
        return graph.replay


def as_numbers(inputs: Tensor, like: Tensor) -> Tensor:
    """Bytes as [0, 1] in the precision of `like`; floats in it; tokens as they are."""
    if inputs.dtype == torch.uint8:
        return inputs.to(like.dtype) / 255
    return inputs.to(like.dtype) if inputs.is_floating_point() else inputs
