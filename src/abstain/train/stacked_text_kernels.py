# mypy: allow-untyped-decorators, allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs
# ruff: noqa: ANN001, ANN202, N803
"""The steps of K LSTMs on a GPU, and the attention over their states, each way in one launch.

A step is a matrix product and what is done to its results element by element. Apart, the second
would wait for the first to be written down. Together, a block of texts and units is finished at
once: forward, from the states before to its gates, cell and state; backward, from the slopes of the
gates after it to those of its own.

The large tensors are (K, length, B, …), so that a step of a model is one run of memory.
"""

from typing import Any

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

# Measured on an H200, by the bytes of a number; those of twice the size fill shared memory twice as
# fast. UNITS of the state, each with four gates.
_FORWARD = {
    2: {"ROWS": 128, "UNITS": 64, "DEPTH": 64, "num_warps": 8, "num_stages": 3},
    4: {"ROWS": 64, "UNITS": 32, "DEPTH": 32, "num_warps": 4, "num_stages": 2},
}
_BACKWARD = {
    2: {"ROWS": 128, "UNITS": 64, "DEPTH": 64, "num_warps": 4, "num_stages": 4},
    4: {"ROWS": 64, "UNITS": 64, "DEPTH": 32, "num_warps": 4, "num_stages": 2},
}
_TOKENS = 32  # of a text, read at once by its attention


@triton.jit
def _step(
    gate_ptr, weight_ptr, state_ptr, cell_ptr, state_before_ptr, cell_before_ptr,
    batch, states_of_model, cells_of_model,
    FIRST: tl.constexpr, KEEP: tl.constexpr,
    HIDDEN: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Gates, of which the inputs' part is there already, cells and states of a step.

    i, f, o = σ(gates + state · weight) and g = tanh(…);
    cell = f · cell + i · g, state = o · tanh(cell)
    """
    model = tl.program_id(2).to(tl.int64)
    unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = (row < batch)[:, None]
    i = tl.zeros((ROWS, UNITS), tl.float32)
    f, g, o = i, i, i
    if not FIRST:
        weight_ptr += model * HIDDEN * 4 * HIDDEN
        state_before_ptr += model * states_of_model
        for k in range(0, HIDDEN, DEPTH):
            depth = k + tl.arange(0, DEPTH)
            before = state_before_ptr + row[:, None] * HIDDEN + depth[None, :]
            state = tl.load(before, mask=inside, other=0.0)
            weight = weight_ptr + depth[:, None] * (4 * HIDDEN) + unit[None, :]
            i = tl.dot(state, tl.load(weight), i)
            f = tl.dot(state, tl.load(weight + HIDDEN), f)
            g = tl.dot(state, tl.load(weight + 2 * HIDDEN), g)
            o = tl.dot(state, tl.load(weight + 3 * HIDDEN), o)
    gate = gate_ptr + model * 4 * states_of_model + row[:, None] * (4 * HIDDEN) + unit[None, :]
    i = tl.sigmoid(i + tl.load(gate, mask=inside, other=0.0).to(tl.float32))
    f = tl.sigmoid(f + tl.load(gate + HIDDEN, mask=inside, other=0.0).to(tl.float32))
    g = _tanh(g + tl.load(gate + 2 * HIDDEN, mask=inside, other=0.0).to(tl.float32))
    o = tl.sigmoid(o + tl.load(gate + 3 * HIDDEN, mask=inside, other=0.0).to(tl.float32))
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
    gate_ptr, weight_ptr, slope_ptr, cell_ptr, cell_before_ptr, gate_after_ptr, carry_ptr,
    batch, states_of_model,
    FIRST: tl.constexpr, LAST: tl.constexpr,
    HIDDEN: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """The slopes of a step's gates before σ and tanh, in their place.

    The slope of its state is what comes from outside, and slopes of the gates after · weightᵀ;
    `carry_ptr` has the part of the cell's slope that comes from the cell after.
    """
    model = tl.program_id(2).to(tl.int64)
    unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = (row < batch)[:, None]
    gate_ptr += model * 4 * states_of_model
    state = tl.zeros((ROWS, UNITS), tl.float32)
    if not LAST:
        weight_ptr += model * HIDDEN * 4 * HIDDEN
        gate_after_ptr += model * 4 * states_of_model
        for k in range(0, 4 * HIDDEN, DEPTH):
            depth = k + tl.arange(0, DEPTH)
            after = gate_after_ptr + row[:, None] * (4 * HIDDEN) + depth[None, :]
            weight = tl.load(weight_ptr + unit[:, None] * (4 * HIDDEN) + depth[None, :])
            state = tl.dot(tl.load(after, mask=inside, other=0.0), tl.trans(weight), state)
    where = row[:, None] * HIDDEN + unit[None, :]
    of_model = model * states_of_model + where
    state += tl.load(slope_ptr + of_model, mask=inside, other=0.0).to(tl.float32)
    gate = gate_ptr + row[:, None] * (4 * HIDDEN) + unit[None, :]
    i = tl.load(gate, mask=inside, other=0.0).to(tl.float32)
    f = tl.load(gate + HIDDEN, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(gate + 2 * HIDDEN, mask=inside, other=0.0).to(tl.float32)
    o = tl.load(gate + 3 * HIDDEN, mask=inside, other=0.0).to(tl.float32)
    height = _tanh(tl.load(cell_ptr + of_model, mask=inside, other=0.0))
    cell = state * o * (1 - height * height)
    carry = carry_ptr + model * batch * HIDDEN + where
    if not LAST:
        cell += tl.load(carry, mask=inside, other=0.0)
    tl.store(gate, cell * g * i * (1 - i), mask=inside)
    tl.store(gate + 2 * HIDDEN, cell * i * (1 - g * g), mask=inside)
    tl.store(gate + 3 * HIDDEN, state * height * o * (1 - o), mask=inside)
    if FIRST:
        tl.store(gate + HIDDEN, tl.zeros((ROWS, UNITS), tl.float32), mask=inside)
    else:
        before = tl.load(cell_before_ptr + of_model, mask=inside, other=0.0)
        tl.store(gate + HIDDEN, cell * before * f * (1 - f), mask=inside)
        tl.store(carry, cell * f, mask=inside)


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
    """What `stacked_text.recur` computes."""
    models, length, batch, width = gates.shape
    hidden, slots = width // 4, length if keep else 2
    states = gates.new_empty(models, length, batch, hidden)
    cells = gates.new_empty(models, slots, batch, hidden, dtype=torch.float32)
    shape = _FORWARD[gates.element_size()]
    grid = (hidden // shape["UNITS"], triton.cdiv(batch, shape["ROWS"]), models)
    for step in range(length):
        before = max(step - 1, 0)
        _step[grid](
            gates[:, step], weight, states[:, step], cells[:, step % slots],
            states[:, before], cells[:, before % slots],
            batch, states.stride(0), cells.stride(0),
            FIRST=step == 0, KEEP=keep, HIDDEN=hidden, **shape,
        )  # fmt: skip
    return states, cells


def recur_back(gates: Tensor, cells: Tensor, weight: Tensor, slopes: Tensor) -> Tensor:
    """What `stacked_text.recur_back` computes."""
    models, length, batch, width = gates.shape
    hidden = width // 4
    carry = torch.empty_like(cells[:, 0], memory_format=torch.contiguous_format)
    shape = _BACKWARD[gates.element_size()]
    grid = (hidden // shape["UNITS"], triton.cdiv(batch, shape["ROWS"]), models)
    for step in reversed(range(length)):
        after = min(step + 1, length - 1)
        _step_back[grid](
            gates[:, step], weight, slopes[:, step], cells[:, step],
            cells[:, max(step - 1, 0)], gates[:, after], carry,
            batch, slopes.stride(0),
            FIRST=step == 0, LAST=step == length - 1, HIDDEN=hidden, **shape,
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
    """What `stacked_text.attend` computes."""
    mean: Tensor = _Attend.apply(states, last)
    return mean
