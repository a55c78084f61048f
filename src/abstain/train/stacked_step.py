"""One step of K models at once: their losses, their optimiser, what is kept of each sample.

Whatever differs between the models is a row of a table on the device. So a step is the same
sequence of operations for any mixture of methods, makes no copy to the host, and is recorded once
as a CUDA graph. A model whose share of a batch is empty does not move: that is how it waits for
others with more batches, and how it is stopped.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import softplus

from abstain.losses import stake
from abstain.losses.kernels import plain_bet_loss
from abstain.train.averaging import step_weight
from abstain.train.coteaching import exchange
from abstain.train.recipe import Recipe
from abstain.train.stacked_nets import Net
from abstain.train.trust import remembered, trust_from, trusted_losses

SUMS = ("loss", "correct", "stake", "log_payoff", "clean_loss", "clean", "samples")
"""What a step records of each model, in this order: sums over the samples of its batch."""

FloatArray = npt.NDArray[np.float32]

_LOG_PAYOFF_SHOWN = 50.0  # a guarded payoff has no bound; its mean is to be read by people
_RULES = ("fixed", "euc", "mid", "exp")


class PerModel:
    """A dataclass of tensors, or lists of them, whose first dimension is the model."""

    def take(self, rows: Tensor) -> Self:
        """These models alone."""
        changes: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, list):
                changes[field.name] = [tensor[rows] for tensor in value]
            elif value is not None:
                changes[field.name] = value[rows] if isinstance(value, Tensor) else value.take(rows)
        return replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True)
class Losses(PerModel):
    """The losses of K recipes as one formula, with a column (K, 1) for each of its parameters.

    A bet is judged by `plain_bet_loss` at the payoff of its rule, cross-entropy being a bet at an
    infinite payoff. The others are one family, w · (1 − q_y^p)/p: L_q with w = 1, and the small
    stake with p = 1 and w = 1/Σq², held constant.
    """

    rule: Tensor
    """Position in `_RULES`."""
    log_fixed: Tensor
    log_guard: Tensor
    shows_payoff: Tensor
    bets: Tensor
    power: Tensor
    floor: Tensor
    """log q_y below which L_q is truncated."""
    weighs: Tensor
    trusts: Tensor
    """Whether what is remembered of a sample weighs its label."""
    warm: Tensor
    """Whether cross-entropy is trained for now."""

    @classmethod
    def of(cls, recipes: Sequence[Recipe], device: torch.device, dtype: torch.dtype) -> Self:
        """The table of resolved recipes."""

        def column(values: list[float] | list[bool], kind: torch.dtype = dtype) -> Tensor:
            return torch.tensor(values, dtype=kind, device=device).unsqueeze(1)

        is_bet = [r.loss in ("gamblers", "nll") for r in recipes]
        by_rule = [r.loss == "gamblers" and isinstance(r.payoff, str) for r in recipes]
        rules = [
            _RULES.index(str(r.payoff)) if ruled else 0
            for r, ruled in zip(recipes, by_rule, strict=True)
        ]
        fixed = [
            math.log(float(r.payoff or math.inf))
            if r.loss == "gamblers" and not ruled
            else math.inf
            for r, ruled in zip(recipes, by_rule, strict=True)
        ]
        is_small = [r.loss == "small-stake" for r in recipes]
        return cls(
            rule=torch.tensor(rules, device=device).unsqueeze(1),
            log_fixed=column(fixed),
            log_guard=column([math.log(r.guard) for r in recipes]),
            shows_payoff=column([r.loss == "gamblers" for r in recipes], torch.bool),
            bets=column(is_bet, torch.bool),
            power=column([1.0 if r.loss == "small-stake" else r.q for r in recipes]),
            floor=column(
                [
                    math.log(r.truncate) if r.truncate and r.loss == "lq" else -math.inf
                    for r in recipes
                ]
            ),
            weighs=column(is_small, torch.bool),
            trusts=column([r.loss == "trusted" for r in recipes], torch.bool),
            warm=column([False] * len(recipes), torch.bool),
        )

    def __call__(
        self, logits: Tensor, given: Tensor, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Losses (K, B) of logits (K, B, m+1), and the logs of the payoffs that were used."""
        classes = logits[..., :-1]
        log_belief = torch.log_softmax(classes, -1)
        log_payoff, effective_classes = self._constants(logits.detach(), log_belief.detach())
        bet = plain_bet_loss(logits, given, log_payoff)
        label = log_belief.gather(-1, given.unsqueeze(-1)).squeeze(-1)
        robust = -torch.expm1(self.power * label.clamp(min=self.floor)) / self.power
        robust = torch.where(self.weighs, effective_classes, 1.0) * robust
        if memory is not None:
            trusted = trusted_losses(log_belief, given, trust_from(memory))
            robust = torch.where(self.trusts, trusted, robust)
        return torch.where(self.bets | self.warm, bet, robust), log_payoff

    def _constants(self, logits: Tensor, log_belief: Tensor) -> tuple[Tensor, Tensor]:
        """Log of the payoff, as `losses.payoff` defines it, and 1/Σq²: no gradient sees them."""
        log_stake = torch.logsumexp(logits[..., :-1], -1) - torch.logsumexp(logits, -1)
        log_effective = -torch.logsumexp(2 * log_belief, -1)
        entropy = -(log_belief.exp() * log_belief).sum(-1)
        most = math.log(log_belief.shape[-1])
        euc = log_effective + softplus(self.log_guard - 2 * log_stake, threshold=50)
        mid, exp = ((x - log_stake).clamp(0.0, most) for x in (log_effective, entropy))
        log_payoff = self.log_fixed.expand_as(euc)
        for position, value in enumerate((euc, mid, exp), start=1):
            log_payoff = torch.where(self.rule == position, value, log_payoff)
        return log_payoff.masked_fill(self.warm, math.inf), log_effective.exp()


@dataclass(frozen=True)
class Models(PerModel):
    """K models under way: all of their state."""

    weights: list[Tensor]
    working: list[Tensor]
    """The same in the precision of the matrix products; the same memory where that is theirs."""
    first: list[Tensor]
    second: list[Tensor]
    steps: Tensor
    given: Tensor
    """(K, N) labels."""
    losses: Losses
    learning_rate: Tensor
    beta1: Tensor
    kept: Tensor
    """Of co-teaching pairs, which come last, two rows each: the share of candidates that train."""
    by_disagreement: Tensor
    averaged: list[Tensor] | None
    """The weights averaged over the last steps; the same as the weights where none is wanted."""
    average_over: Tensor
    """Steps over which they are averaged; 1 for none."""
    best: list[Tensor] | None
    """Those of these that are kept of the warm-up."""
    memory: Tensor | None
    """(K, N + 1, 2) what `trust` remembers; the last place takes what is padding."""
    best_memory: Tensor | None
    """The same, as it was then."""
    sample_sums: Tensor | None
    """(K, N + 1, 2) visits and beliefs in the given label; the last place takes what is padding."""
    abstention: Tensor | None
    """(K, N + 1) at the last visit."""

    @classmethod
    def begin(
        cls,
        weights: list[Tensor],
        precision: torch.dtype,
        recipes: Sequence[Recipe],
        given: Tensor,
        keep_samples: bool,
        *,
        num_classes: int,
        steps_per_epoch: Sequence[int],
    ) -> Self:
        """Before the first step."""
        device, dtype = weights[0].device, weights[0].dtype
        places = (len(given), given.shape[1] + 1)
        floats: dict[str, Any] = {"dtype": torch.float32, "device": device}
        ones = torch.ones(len(given), dtype=torch.float64, device=device)
        ends = any(r.warm_up_ends == "held-out" for r in recipes)
        memory: Tensor | None = None
        if any(r.loss == "trusted" for r in recipes):
            memory = torch.full((*places, 2), 1 / num_classes, dtype=dtype, device=device)
        return cls(
            weights=weights,
            working=_leaves(weights, precision),
            first=[torch.zeros_like(weight) for weight in weights],
            second=[torch.zeros_like(weight) for weight in weights],
            steps=torch.zeros_like(ones),
            given=given.to(device),
            losses=Losses.of(recipes, device, dtype),
            learning_rate=ones * recipes[0].learning_rate,
            beta1=ones * 0.9,
            kept=ones.clone(),
            by_disagreement=torch.zeros_like(ones, dtype=torch.bool),
            averaged=[w.clone() for w in weights] if any(r.average for r in recipes) else None,
            average_over=torch.tensor(
                [
                    max(1.0, (r.average or 0) * steps)
                    for r, steps in zip(recipes, steps_per_epoch, strict=True)
                ],
                device=device,
            ).to(ones),
            best=[w.clone() for w in weights] if ends else None,
            memory=memory,
            best_memory=memory.clone() if memory is not None and ends else None,
            sample_sums=torch.zeros(*places, 2, **floats) if keep_samples else None,
            abstention=torch.full(places, torch.nan, **floats) if keep_samples else None,
        )

    def take(self, rows: Tensor) -> Self:
        """These models alone."""
        with torch.no_grad():
            fewer = super().take(rows)
        return replace(fewer, working=_leaves(fewer.weights, self.working[0].dtype))

    @property
    def used(self) -> list[Tensor]:
        """The weights that a model would be used with now, in float32."""
        return self.weights if self.averaged is None else self.averaged

    @torch.no_grad()
    def average(self, moves: Tensor) -> None:
        """Take the weights of those that have moved into their averages."""
        if self.averaged is None:
            return
        early = step_weight(self.steps, self.average_over)
        share = torch.where(self.average_over > 1, early, torch.ones_like(early)) * moves
        for own, weight in zip(self.averaged, self.weights, strict=True):
            own.lerp_(weight, share.to(weight.dtype).view((-1,) + (1,) * (weight.ndim - 1)))

    @torch.no_grad()
    def keep_best(self, rows: slice) -> None:
        """Hold on to the weights as they are now, and to what is remembered of the samples."""
        assert self.best is not None
        for best, used in zip(self.best, self.used, strict=True):
            best[rows] = used[rows]
        if self.memory is not None and self.best_memory is not None:
            self.best_memory[rows] = self.memory[rows]

    @torch.no_grad()
    def go_back(self, rows: slice) -> None:
        """To what `keep_best` held on to, with an optimiser and an average that begin anew."""
        assert self.best is not None
        if self.memory is not None and self.best_memory is not None:
            self.memory[rows] = self.best_memory[rows]
        for moments in (*self.first, *self.second):
            moments[rows] = 0
        self.steps[rows] = 0
        for tensors in (self.weights, self.working, self.averaged or []):
            for tensor, best in zip(tensors, self.best, strict=False):
                tensor[rows] = best[rows].to(tensor.dtype)

    def samples(self, rows: slice) -> tuple[FloatArray, FloatArray] | None:
        """Mean belief in the given label and last abstention of each sample, over these models."""
        if self.sample_sums is None or self.abstention is None:
            return None
        visits, beliefs = self.sample_sums[rows, :-1].unbind(-1)
        figures = (beliefs / visits, self.abstention[rows, :-1])
        belief, abstention = (figure.mean(0).numpy(force=True) for figure in figures)
        return belief, abstention


def _leaves(weights: list[Tensor], precision: torch.dtype) -> list[Tensor]:
    """What the gradient is taken of: the weights, or copies of them in another precision."""
    return [weight.detach().to(precision).requires_grad_() for weight in weights]


@dataclass(frozen=True)
class Rule:
    """An optimiser: Adam, or LaProp, which normalises the gradient before it averages."""

    beta2: float
    epsilon: float
    normalises_first: bool

    @torch.no_grad()
    def scales(self, models: Models, moves: Tensor) -> Tensor:
        """Count the step of those that move, and give what it is scaled by, (3, K)."""
        models.steps.add_(moves)
        # In float64: of 1 − 0.999, float32 has but four digits.
        rate = models.learning_rate / (1 - models.beta1**models.steps)
        root = (1 - self.beta2**models.steps).sqrt()
        return torch.stack((1 - models.beta1, rate, root)).to(models.weights[0].dtype)

    @torch.no_grad()
    def move(
        self, models: Models, gradients: Sequence[Tensor], moves: Tensor, scales: Tensor
    ) -> None:
        """Move the models of which `moves` is true; the others stay, moments and all."""
        tensors = (models.weights, models.working, models.first, models.second, gradients)
        for weight, working, first, second, gradient in zip(*tensors, strict=True):
            column = (-1,) + (1,) * (weight.ndim - 1)
            new, rate, root = (scale.view(column) for scale in scales.unbind())
            slope = gradient.to(weight.dtype)
            square = second + (1 - self.beta2) * (slope * slope - second)
            size = square.sqrt() / root + self.epsilon
            if self.normalises_first:
                mean = first + new * (slope / size - first)
                change = rate * mean
            else:
                mean = first + new * (slope - first)
                change = rate * mean / size
            move = moves.view(column)
            first.copy_(torch.where(move, mean, first))
            second.copy_(torch.where(move, square, second))
            weight.copy_(torch.where(move, weight - change, weight))
            if working.dtype != weight.dtype:
                working.copy_(weight)


ADAM = Rule(0.999, 1e-8, normalises_first=False)
LAPROP = Rule(0.9, 1e-15, normalises_first=True)


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
        """Of every model the next samples, their labels, which are right, which count, inputs."""
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
        """What is minimised, summed over the models; which of them move; what is recorded."""
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
        loss = ((losses * trains).sum(-1) / trains.sum(-1).clamp(min=1)).sum()
        shown = log_payoff.clamp(max=_LOG_PAYOFF_SHOWN) * self._shows_payoff()
        columns = (
            detached,
            predicted == given,
            stake(logits.detach()),
            shown,
            detached * right,
            right,
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
