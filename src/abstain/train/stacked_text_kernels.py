# mypy: allow-untyped-decorators, allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs
# ruff: noqa: ANN001, ANN202, N803
"""The recurrence of K LSTMs on a GPU: all steps in one launch, and back in another.

A step of an LSTM needs the one before it, of the same text alone. So a program takes some texts of
one model through all of their steps, and no program waits for another. What one step hands to the
next passes through memory, where the gradient needs it anyway; it comes back from the cache. Its
threads wait for each other at a barrier before they read what others of them wrote.
"""

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

# By the bytes of a number. Numbers of twice the size fill shared memory twice as fast.
_FORWARD = {
    2: {"ROWS": 64, "UNITS": 64, "DEPTH": 64, "num_warps": 4, "num_stages": 2},
    4: {"ROWS": 64, "UNITS": 32, "DEPTH": 32, "num_warps": 4, "num_stages": 2},
}
_BACKWARD = {
    2: {"ROWS": 64, "UNITS": 64, "DEPTH": 64, "num_warps": 4, "num_stages": 3},
    4: {"ROWS": 64, "UNITS": 32, "DEPTH": 32, "num_warps": 8, "num_stages": 2},
}


@triton.jit
def _forward(
    gate_ptr, weight_ptr, state_ptr, cell_ptr, steps, batch,
    HIDDEN: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Some texts of one model, all steps: their gates, of which the inputs' part is there before.

    i, f, o = σ(gates + state · weight) and g = tanh(…);
    cell = f · cell + i · g, state = o · tanh(cell)
    """
    model = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = (row < batch)[:, None]
    weight_ptr += model * HIDDEN * 4 * HIDDEN
    gate_ptr += model * steps * batch * 4 * HIDDEN
    state_ptr += model * steps * batch * HIDDEN
    cell_ptr += model * steps * batch * HIDDEN
    for step in tl.range(steps, num_stages=1):
        known = inside & (step > 0)  # at first, state and cell are 0
        for first in tl.range(0, HIDDEN, UNITS, num_stages=1):
            unit = first + tl.arange(0, UNITS)
            i = tl.zeros((ROWS, UNITS), tl.float32)
            f, g, o = i, i, i
            for k in range(0, HIDDEN, DEPTH):
                depth = k + tl.arange(0, DEPTH)
                before = state_ptr - batch * HIDDEN + row[:, None] * HIDDEN + depth[None, :]
                state = tl.load(before, mask=known, other=0.0)
                weight = weight_ptr + depth[:, None] * (4 * HIDDEN) + unit[None, :]
                i = tl.dot(state, tl.load(weight), i)
                f = tl.dot(state, tl.load(weight + HIDDEN), f)
                g = tl.dot(state, tl.load(weight + 2 * HIDDEN), g)
                o = tl.dot(state, tl.load(weight + 3 * HIDDEN), o)
            gate = gate_ptr + row[:, None] * (4 * HIDDEN) + unit[None, :]
            i = tl.sigmoid(i + tl.load(gate, mask=inside, other=0.0).to(tl.float32))
            f = tl.sigmoid(f + tl.load(gate + HIDDEN, mask=inside, other=0.0).to(tl.float32))
            g = _tanh(g + tl.load(gate + 2 * HIDDEN, mask=inside, other=0.0).to(tl.float32))
            o = tl.sigmoid(o + tl.load(gate + 3 * HIDDEN, mask=inside, other=0.0).to(tl.float32))
            where = row[:, None] * HIDDEN + unit[None, :]
            cell = tl.load(cell_ptr - batch * HIDDEN + where, mask=known, other=0.0)
            cell = f * cell + i * g
            tl.store(gate, i, mask=inside)
            tl.store(gate + HIDDEN, f, mask=inside)
            tl.store(gate + 2 * HIDDEN, g, mask=inside)
            tl.store(gate + 3 * HIDDEN, o, mask=inside)
            tl.store(cell_ptr + where, cell, mask=inside)
            tl.store(state_ptr + where, o * _tanh(cell), mask=inside)
        gate_ptr += batch * 4 * HIDDEN
        state_ptr += batch * HIDDEN
        cell_ptr += batch * HIDDEN
        tl.debug_barrier()


@triton.jit
def _backward(
    gate_ptr, weight_ptr, slope_ptr, cell_ptr, state_carry_ptr, cell_carry_ptr, steps, batch,
    HIDDEN: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """From the slopes of the states to those of the gates before σ and tanh, in their place."""
    model = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = (row < batch)[:, None]
    weight_ptr += model * HIDDEN * 4 * HIDDEN
    last = (model + 1) * steps - 1
    gate_ptr += last * batch * 4 * HIDDEN
    slope_ptr += last * batch * HIDDEN
    cell_ptr += last * batch * HIDDEN
    state_carry_ptr += model * batch * HIDDEN
    cell_carry_ptr += model * batch * HIDDEN
    for back in tl.range(steps, num_stages=1):
        carried = inside & (back > 0)
        known = inside & (back < steps - 1)
        for first in tl.range(0, HIDDEN, UNITS, num_stages=1):
            unit = first + tl.arange(0, UNITS)
            where = row[:, None] * HIDDEN + unit[None, :]
            gate = gate_ptr + row[:, None] * (4 * HIDDEN) + unit[None, :]
            i = tl.load(gate, mask=inside, other=0.0).to(tl.float32)
            f = tl.load(gate + HIDDEN, mask=inside, other=0.0).to(tl.float32)
            g = tl.load(gate + 2 * HIDDEN, mask=inside, other=0.0).to(tl.float32)
            o = tl.load(gate + 3 * HIDDEN, mask=inside, other=0.0).to(tl.float32)
            before = tl.load(cell_ptr - batch * HIDDEN + where, mask=known, other=0.0)
            height = _tanh(tl.load(cell_ptr + where, mask=inside, other=0.0))
            state = tl.load(slope_ptr + where, mask=inside, other=0.0).to(tl.float32)
            state += tl.load(state_carry_ptr + where, mask=carried, other=0.0)
            cell = tl.load(cell_carry_ptr + where, mask=carried, other=0.0)
            cell += state * o * (1 - height * height)
            tl.store(cell_carry_ptr + where, cell * f, mask=inside)
            tl.store(gate, cell * g * i * (1 - i), mask=inside)
            tl.store(gate + HIDDEN, cell * before * f * (1 - f), mask=inside)
            tl.store(gate + 2 * HIDDEN, cell * i * (1 - g * g), mask=inside)
            tl.store(gate + 3 * HIDDEN, state * height * o * (1 - o), mask=inside)
        tl.debug_barrier()
        carry = tl.zeros((ROWS, HIDDEN), tl.float32)
        every = tl.arange(0, HIDDEN)
        for k in range(0, 4 * HIDDEN, DEPTH):
            depth = k + tl.arange(0, DEPTH)
            gates = gate_ptr + row[:, None] * (4 * HIDDEN) + depth[None, :]
            weight = weight_ptr + every[:, None] * (4 * HIDDEN) + depth[None, :]
            slope = tl.load(gates, mask=inside, other=0.0)
            carry = tl.dot(slope, tl.trans(tl.load(weight)), carry)
        tl.store(state_carry_ptr + row[:, None] * HIDDEN + every[None, :], carry, mask=inside)
        gate_ptr -= batch * 4 * HIDDEN
        slope_ptr -= batch * HIDDEN
        cell_ptr -= batch * HIDDEN
        tl.debug_barrier()


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


def recur(gates: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """What `stacked_text.recur` computes."""
    models, steps, batch, width = gates.shape
    states = gates.new_empty(models, steps, batch, width // 4)
    cells = torch.empty_like(states, dtype=torch.float32)
    shape = _FORWARD[gates.element_size()]
    _forward[(triton.cdiv(batch, shape["ROWS"]), models)](
        gates, weight, states, cells, steps, batch, width // 4, **shape
    )
    return states, cells


def recur_back(gates: Tensor, cells: Tensor, weight: Tensor, slopes: Tensor) -> Tensor:
    """What `stacked_text.recur_back` computes."""
    models, steps, batch, width = gates.shape
    carries = torch.empty(2, models, batch, width // 4, device=gates.device)
    shape = _BACKWARD[gates.element_size()]
    _backward[(triton.cdiv(batch, shape["ROWS"]), models)](
        gates, weight, slopes, cells, *carries, steps, batch, width // 4, **shape
    )
    return gates
