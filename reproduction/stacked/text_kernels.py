# mypy: allow-untyped-decorators, allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs
# ruff: noqa: ANN001, ANN202, N803
"""The elementwise work of K LSTMs on a GPU: each step, and the attention over their states.

The matrix product of a step is left to cuBLAS. The large tensors are (K, length, B, …), so that a
step of a model is one run of memory.
"""

from typing import Any

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

_BLOCK = 1024  # units of some texts, taken at once
_TOKENS = 32  # of a text, read at once by its attention


@triton.jit
def _step(
    gate_ptr, state_ptr, cell_ptr, cell_before_ptr, batch, states_of_model, cells_of_model,
    FIRST: tl.constexpr, KEEP: tl.constexpr, HIDDEN: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Gates, cells and states of a step from what inputs and states before add to the gates.

    i, f, o = σ(…) and g = tanh(…); cell = f · cell + i · g, state = o · tanh(cell)
    """
    model = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.arange(0, HIDDEN)
    inside = (row < batch)[:, None]
    gate = gate_ptr + model * 4 * states_of_model + row[:, None] * (4 * HIDDEN) + unit[None, :]
    i = tl.sigmoid(tl.load(gate, mask=inside, other=0.0).to(tl.float32))
    f = tl.sigmoid(tl.load(gate + HIDDEN, mask=inside, other=0.0).to(tl.float32))
    g = _tanh(tl.load(gate + 2 * HIDDEN, mask=inside, other=0.0).to(tl.float32))
    o = tl.sigmoid(tl.load(gate + 3 * HIDDEN, mask=inside, other=0.0).to(tl.float32))
    where = row[:, None] * HIDDEN + unit[None, :]
    cell = i * g
    if not FIRST:
        cell += f * tl.load(
            cell_before_ptr + model * cells_of_model + where, mask=inside, other=0.0
        )
    if KEEP:
        tl.store(gate, i, mask=inside)
        tl.store(gate + HIDDEN, f, mask=inside)
        tl.store(gate + 2 * HIDDEN, g, mask=inside)
        tl.store(gate + 3 * HIDDEN, o, mask=inside)
    tl.store(cell_ptr + model * cells_of_model + where, cell, mask=inside)
    tl.store(state_ptr + model * states_of_model + where, o * _tanh(cell), mask=inside)


@triton.jit
def _step_back(
    gate_ptr, slope_ptr, cell_ptr, cell_before_ptr, state_carry_ptr, cell_carry_ptr,
    batch, states_of_model,
    FIRST: tl.constexpr, LAST: tl.constexpr, HIDDEN: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The slopes of a step's gates before σ and tanh, in their place.

    The carries have the parts of the slopes of state and cell that come from the step after.
    """
    model = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.arange(0, HIDDEN)
    inside = (row < batch)[:, None]
    gate = gate_ptr + model * 4 * states_of_model + row[:, None] * (4 * HIDDEN) + unit[None, :]
    i = tl.load(gate, mask=inside, other=0.0).to(tl.float32)
    f = tl.load(gate + HIDDEN, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(gate + 2 * HIDDEN, mask=inside, other=0.0).to(tl.float32)
    o = tl.load(gate + 3 * HIDDEN, mask=inside, other=0.0).to(tl.float32)
    where = row[:, None] * HIDDEN + unit[None, :]
    of_model = model * states_of_model + where
    carried = model * batch * HIDDEN + where
    state = tl.load(slope_ptr + of_model, mask=inside, other=0.0).to(tl.float32)
    if not LAST:
        state += tl.load(state_carry_ptr + carried, mask=inside, other=0.0).to(tl.float32)
    height = _tanh(tl.load(cell_ptr + of_model, mask=inside, other=0.0))
    cell = state * o * (1 - height * height)
    if not LAST:
        cell += tl.load(cell_carry_ptr + carried, mask=inside, other=0.0)
    before = tl.zeros((ROWS, HIDDEN), tl.float32)
    if not FIRST:
        before = tl.load(cell_before_ptr + of_model, mask=inside, other=0.0)
        tl.store(cell_carry_ptr + carried, cell * f, mask=inside)
    tl.store(gate, cell * g * i * (1 - i), mask=inside)
    tl.store(gate + HIDDEN, cell * before * f * (1 - f), mask=inside)
    tl.store(gate + 2 * HIDDEN, cell * i * (1 - g * g), mask=inside)
    tl.store(gate + 3 * HIDDEN, state * height * o * (1 - o), mask=inside)


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _attend(
    state_ptr, last_ptr, mean_ptr, log_sum_ptr, batch, states_of_model,
    HIDDEN: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    """A text: its states averaged with weights e^score / Σ e^score, in one pass over them."""
    text, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    unit = tl.arange(0, HIDDEN)
    place = model * batch + text
    last = tl.load(last_ptr + place)
    state_ptr += model * states_of_model + text * HIDDEN + unit
    final = tl.load(state_ptr + last * batch * HIDDEN).to(tl.float32)
    highest = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    mean = tl.zeros((HIDDEN,), tl.float32)
    for first in range(0, last + 1, TOKENS):
        step = first + tl.arange(0, TOKENS)
        real = step <= last
        steps = state_ptr[None, :] + (step * batch * HIDDEN)[:, None]
        state = tl.load(steps, mask=real[:, None], other=0.0).to(tl.float32)
        score = tl.where(real, tl.sum(state * final[None, :], 1), float("-inf"))
        higher = tl.maximum(highest, tl.max(score, 0))
        scale, weight = tl.exp(highest - higher), tl.exp(score - higher)
        total = total * scale + tl.sum(weight, 0)
        mean = mean * scale + tl.sum(weight[:, None] * state, 0)
        highest = higher
    tl.store(mean_ptr + place * HIDDEN + unit, mean / total)
    tl.store(log_sum_ptr + place, highest + tl.log(total))


@triton.jit
def _attend_back(
    state_ptr, last_ptr, mean_ptr, log_sum_ptr, slope_ptr, out_ptr,
    length, batch, states_of_model, HIDDEN: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    """The slopes of a text's states from that of their mean."""
    text, model = tl.program_id(0), tl.program_id(1).to(tl.int64)
    unit = tl.arange(0, HIDDEN)
    place = model * batch + text
    last = tl.load(last_ptr + place)
    log_sum = tl.load(log_sum_ptr + place)
    slope = tl.load(slope_ptr + place * HIDDEN + unit).to(tl.float32)
    # Σ weight · (state · slope): what a score loses by the others'.
    shared = tl.sum(slope * tl.load(mean_ptr + place * HIDDEN + unit).to(tl.float32), 0)
    state_ptr += model * states_of_model + text * HIDDEN + unit
    out_ptr += model * states_of_model + text * HIDDEN + unit
    final = tl.load(state_ptr + last * batch * HIDDEN).to(tl.float32)
    of_final = tl.zeros((HIDDEN,), tl.float32)
    for first in range(0, length, TOKENS):
        step = first + tl.arange(0, TOKENS)
        real = step <= last
        offset = (step.to(tl.int64) * batch * HIDDEN)[:, None]
        state = tl.load(state_ptr[None, :] + offset, mask=real[:, None], other=0.0).to(tl.float32)
        score = tl.where(real, tl.sum(state * final[None, :], 1), float("-inf"))
        weight = tl.exp(score - log_sum)
        pull = weight * (tl.sum(state * slope[None, :], 1) - shared)
        of_final += tl.sum(pull[:, None] * state, 0)
        out = weight[:, None] * slope[None, :] + pull[:, None] * final[None, :]
        tl.store(out_ptr[None, :] + offset, out, mask=(step < length)[:, None])
    tl.debug_barrier()  # other threads wrote what is read here
    out_ptr += last * batch * HIDDEN
    tl.store(out_ptr, tl.load(out_ptr).to(tl.float32) + of_final)


def recur(gates: Tensor, weight: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    """Compute what `text.recur` does."""
    models, length, batch, _ = gates.shape
    hidden, slots = weight.shape[1], length if keep else 2
    states = gates.new_empty(models, length, batch, hidden)
    cells = gates.new_empty(models, slots, batch, hidden, dtype=torch.float32)
    rows = _BLOCK // hidden
    for step in range(length):
        now = gates[:, step]
        if step:
            now.baddbmm_(states[:, step - 1], weight)
        _step[(triton.cdiv(batch, rows), models)](
            now, states[:, step], cells[:, step % slots], cells[:, (step - 1) % slots],
            batch, states.stride(0), cells.stride(0),
            FIRST=step == 0, KEEP=keep, HIDDEN=hidden, ROWS=rows,
        )  # fmt: skip
    return states, cells


def recur_back(gates: Tensor, cells: Tensor, weight: Tensor, slopes: Tensor) -> Tensor:
    """Compute what `text.recur_back` does."""
    models, length, batch, _ = gates.shape
    hidden = weight.shape[1]
    state_carry = gates.new_empty(models, batch, hidden)
    cell_carry = cells.new_empty(models, batch, hidden)
    rows = _BLOCK // hidden
    for step in reversed(range(length)):
        last = step == length - 1
        if not last:
            torch.bmm(gates[:, step + 1], weight.mT, out=state_carry)
        _step_back[(triton.cdiv(batch, rows), models)](
            gates[:, step], slopes[:, step], cells[:, step], cells[:, step - 1],
            state_carry, cell_carry, batch, slopes.stride(0),
            FIRST=step == 0, LAST=last, HIDDEN=hidden, ROWS=rows,
        )  # fmt: skip
    return gates


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, last: Tensor) -> Tensor:  # noqa: ANN401
        models, _, batch, hidden = states.shape
        mean = states.new_empty(models, batch, hidden)
        log_sum = torch.empty(models, batch, device=states.device)
        last = last.contiguous()
        _attend[(batch, models)](
            states, last, mean, log_sum, batch, states.stride(0), hidden, _TOKENS
        )
        ctx.save_for_backward(states, last, mean, log_sum)
        return mean

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        states, last, mean, log_sum = ctx.saved_tensors
        models, length, batch, hidden = states.shape
        slopes = torch.empty_like(states)
        _attend_back[(batch, models)](
            states, last, mean, log_sum, slope.contiguous(), slopes,
            length, batch, states.stride(0), hidden, _TOKENS,
        )  # fmt: skip
        return slopes, None


def attend(states: Tensor, last: Tensor) -> Tensor:
    """Compute what `text.attend` does."""
    mean: Tensor = _Attend.apply(states, last)
    return mean
