# mypy: allow-untyped-decorators, allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs
# ruff: noqa: ANN001, ANN202, N803, N806
"""relu(pool(conv(x))) of K models on a GPU, without ever writing down the patches.

Copying out all 5×5 patches makes an image 25 times larger, and moving that, not arithmetic, would
be most of a step. Here a block of the matrix product gathers its patches as it goes. With one row
for each output pixel r = (image, y, x), and a column for each weight k = (dy, dx, channel):

    maps[r, o] = Σ_k image[pixel(r) + offset(k)] · weight[k, o]

Pooling and ReLU are applied before anything is written, and what is kept for the gradient is one
byte for each output: which of the four pixels of its window was the largest, or 4 for none.

Weights of one dy lie in one run, as do the numbers of an image that they meet: k is cut into these
runs where they are long enough for a matrix unit, so that loads are wide; else it stays in one.
"""

from typing import Any

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

_SMALLEST = 16  # side of a matrix that the matrix units take

# Measured on an H200 in bfloat16, for long runs of weights and for short ones.
_TUNED = {
    ("forward", True): {"ROWS": 64, "DEPTH": 128, "num_warps": 4, "num_stages": 1},
    ("forward", False): {"ROWS": 128, "DEPTH": 32, "num_warps": 4, "num_stages": 2},
    ("weight_slopes", True): {"ROWS": 64, "num_warps": 4, "num_stages": 1},
    ("weight_slopes", False): {"ROWS": 64, "num_warps": 2, "num_stages": 1},
    ("row_slopes", True): {"ROWS": 64, "num_warps": 4, "num_stages": 1},
    ("row_slopes", False): {"ROWS": 64, "num_warps": 4, "num_stages": 1},
}
_LONG = 64  # weights
# Programs among which the pixels are shared out: a few for each of the chip's processors.
_PARTS = 1024


@triton.jit
def _forward(
    x_ptr, weight_ptr, bias_ptr, y_ptr, code_ptr, rows, x_stride,
    H, W, HIGH, WIDE,
    C: tl.constexpr, OUT: tl.constexpr, KERNEL: tl.constexpr, RUN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A block of pooled outputs of one model: four products, and the largest of them."""
    model = tl.program_id(1)
    SIZE: tl.constexpr = KERNEL * KERNEL * C
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    column, high = row % WIDE, (row // WIDE) % HIGH
    corner = ((row // (WIDE * HIGH) * H + 2 * high) * W + 2 * column) * C
    x_ptr += model.to(tl.int64) * x_stride
    weight_ptr += model * SIZE * OUT
    out = tl.arange(0, COLUMNS)
    # One for each pixel of the window; Triton has no lists.
    upper_left = tl.zeros((ROWS, COLUMNS), tl.float32)
    upper_right, lower_left, lower_right = upper_left, upper_left, upper_left
    CUTS: tl.constexpr = (RUN + DEPTH - 1) // DEPTH
    for cut in range(SIZE // RUN * CUTS):
        run = cut // CUTS
        k = cut % CUTS * DEPTH + tl.arange(0, DEPTH)
        known = k < RUN
        offset = k if RUN < SIZE else k // (KERNEL * C) * (W * C) + k % (KERNEL * C)
        mask = inside[:, None] & known[None, :]
        weight = tl.load(
            weight_ptr + run * RUN * OUT + k[:, None] * OUT + out[None, :],
            mask=known[:, None] & (out < OUT)[None, :], other=0.0,
        )  # fmt: skip
        patch = x_ptr + run * W * C + corner[:, None] + offset[None, :]
        upper_left = tl.dot(tl.load(patch, mask=mask, other=0.0), weight, upper_left)
        upper_right = tl.dot(tl.load(patch + C, mask=mask, other=0.0), weight, upper_right)
        patch += W * C
        lower_left = tl.dot(tl.load(patch, mask=mask, other=0.0), weight, lower_left)
        lower_right = tl.dot(tl.load(patch + C, mask=mask, other=0.0), weight, lower_right)
    best = upper_left
    code = tl.zeros((ROWS, COLUMNS), tl.int32)
    code = tl.where(upper_right > best, 1, code)
    best = tl.maximum(best, upper_right)
    code = tl.where(lower_left > best, 2, code)
    best = tl.maximum(best, lower_left)
    code = tl.where(lower_right > best, 3, code)
    best = tl.maximum(best, lower_right)
    bias = tl.load(bias_ptr + model * OUT + out, mask=out < OUT, other=0.0)
    best += bias.to(tl.float32)[None, :]
    alive = best > 0
    where = model.to(tl.int64) * rows * OUT + row[:, None] * OUT + out[None, :]
    mask = inside[:, None] & (out < OUT)[None, :]
    tl.store(y_ptr + where, tl.where(alive, best, 0.0), mask=mask)
    tl.store(code_ptr + where, tl.where(alive, code, 4).to(tl.uint8), mask=mask)


@triton.jit
def _weight_slopes(
    x_ptr, slope_ptr, code_ptr, weight_ptr, bias_ptr, rows, x_stride, share,
    H, W, HIGH, WIDE,
    C: tl.constexpr, OUT: tl.constexpr, KERNEL: tl.constexpr, RUN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A run of the weights of one model, over a share of its outputs: Σ_r image[r, k] slope[r, o].

    The slope of an output goes to the one pixel of its window that was the largest.
    """
    run, part, model = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    SIZE: tl.constexpr = KERNEL * KERNEL * C
    k = tl.arange(0, DEPTH)
    known = k < RUN
    offset = k if RUN < SIZE else k // (KERNEL * C) * (W * C) + k % (KERNEL * C)
    out = tl.arange(0, COLUMNS)
    x_ptr += model.to(tl.int64) * x_stride + run * W * C
    slope_ptr += model.to(tl.int64) * rows * OUT
    code_ptr += model.to(tl.int64) * rows * OUT
    sums = tl.zeros((DEPTH, COLUMNS), tl.float32)
    bias = tl.zeros((COLUMNS,), tl.float32)
    for first in range(0, share, ROWS):
        row = part * share + first + tl.arange(0, ROWS)
        inside = row < rows
        high = (row // WIDE) % HIGH
        corner = ((row // (WIDE * HIGH) * H + 2 * high) * W + 2 * (row % WIDE)) * C
        where = row[:, None] * OUT + out[None, :]
        mask = inside[:, None] & (out < OUT)[None, :]
        slope = tl.load(slope_ptr + where, mask=mask, other=0.0)
        code = tl.load(code_ptr + where, mask=mask, other=4)
        bias += tl.sum(tl.where(code < 4, slope.to(tl.float32), 0.0), 0)
        for pixel in tl.static_range(4):
            start = corner + ((pixel // 2) * W + pixel % 2) * C
            patch = tl.load(
                x_ptr + start[:, None] + offset[None, :],
                mask=inside[:, None] & known[None, :], other=0.0,
            )  # fmt: skip
            sums = tl.dot(tl.trans(patch), tl.where(code == pixel, slope, 0.0), sums)
    place = model * tl.num_programs(1) + part
    where = (place * SIZE + run * RUN + k[:, None]) * OUT + out[None, :]
    tl.store(weight_ptr + where, sums, mask=known[:, None] & (out < OUT)[None, :])
    tl.store(bias_ptr + place * OUT + out, bias, mask=(out < OUT) & (run == 0))


@triton.jit
def _row_slopes(
    slope_ptr, code_ptr, weight_ptr, part_ptr, rows, outputs,
    H, HIGH, WIDE,
    C: tl.constexpr, OUT: tl.constexpr, KERNEL: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """The slopes of the image, all dy added up: part[(image, y, x), (dx, c)], x being the output's.

    part[y, x, (dx, c)] = Σ_dy Σ_o slope[y − dy, x, o] · weight[(dy, dx, c), o]
    """
    model = tl.program_id(1)
    RUN: tl.constexpr = KERNEL * C
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    x, y, image = row % (2 * WIDE), row // (2 * WIDE) % H, row // (2 * WIDE * H)
    out, k = tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    slope_ptr += model.to(tl.int64) * outputs * OUT
    code_ptr += model.to(tl.int64) * outputs * OUT
    weight_ptr += model * KERNEL * RUN * OUT
    sums = tl.zeros((ROWS, DEPTH), tl.float32)
    for dy in range(KERNEL):
        top = y - dy
        inner = inside & (top >= 0) & (top < 2 * HIGH)
        where = ((image * HIGH + top // 2) * WIDE + x // 2)[:, None] * OUT + out[None, :]
        mask = inner[:, None] & (out < OUT)[None, :]
        code = tl.load(code_ptr + where, mask=mask, other=4)
        slope = tl.load(slope_ptr + where, mask=mask, other=0.0)
        pixel = top % 2 * 2 + x % 2
        slope = tl.where(code == pixel[:, None], slope, 0.0)
        weight = tl.load(
            weight_ptr + dy * RUN * OUT + k[:, None] * OUT + out[None, :],
            mask=(k < RUN)[:, None] & (out < OUT)[None, :], other=0.0,
        )  # fmt: skip
        sums = tl.dot(slope, tl.trans(weight), sums)
    where = (model.to(tl.int64) * rows + row[:, None]) * RUN + k[None, :]
    tl.store(part_ptr + where, sums, mask=inside[:, None] & (k < RUN)[None, :])


@triton.jit
def _image_slopes(
    part_ptr, x_ptr, number, W, WIDE, C: tl.constexpr, KERNEL: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The slopes of the image: Σ_dx part[(image, y, x − dx), (dx, c)]."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < number
    channel, x, line = place % C, place // C % W, place // (C * W)
    total = tl.zeros((BLOCK,), tl.float32)
    for dx in tl.static_range(KERNEL):
        left = x - dx
        inner = inside & (left >= 0) & (left < 2 * WIDE)
        where = (line * (2 * WIDE) + left) * (KERNEL * C) + dx * C + channel
        total += tl.load(part_ptr + where, mask=inner, other=0.0).to(tl.float32)
    tl.store(x_ptr + place, total, mask=inside)


class _ConvPoolRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, kernel: int) -> Tensor:  # noqa: ANN401
        models, batch, height, width, channels = x.shape
        # All models of an evaluation see the same images.
        x = x if x.stride(0) == 0 and x[0].is_contiguous() else x.contiguous()
        high, wide = (height - kernel + 1) // 2, (width - kernel + 1) // 2
        outputs, rows = weight.shape[2], batch * high * wide
        y = x.new_empty(models, batch, high, wide, outputs)
        code = torch.empty_like(y, dtype=torch.uint8)
        run = _run(kernel, channels)
        shape = _tuned("forward", run, x)
        _forward[(triton.cdiv(rows, shape["ROWS"]), models)](
            x, weight, bias, y, code, rows, x.stride(0),
            height, width, high, wide, channels, outputs, kernel, run,
            COLUMNS=_side(outputs), **shape,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, code)
        ctx.kernel = kernel
        return y

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:  # noqa: ANN401
        x, weight, code = ctx.saved_tensors
        slope, kernel = slope.contiguous(), ctx.kernel
        models, batch, height, width, channels = x.shape
        high, wide, outputs = slope.shape[2:]
        rows, run = batch * high * wide, _run(kernel, channels)
        runs = weight.shape[1] // run
        # As many parts as keep the chip busy, each long enough to be worth its start.
        shape = _tuned("weight_slopes", run, x)
        parts = max(1, min(rows // 256, _PARTS // (models * runs)))
        share = triton.cdiv(triton.cdiv(rows, parts), shape["ROWS"]) * shape["ROWS"]
        weight_slopes = torch.empty(models, parts, *weight.shape[1:], device=x.device)
        bias_slopes = torch.empty(models, parts, outputs, device=x.device)
        _weight_slopes[(runs, parts, models)](
            x, slope, code, weight_slopes, bias_slopes, rows, x.stride(0), share,
            height, width, high, wide, channels, outputs, kernel, run,
            COLUMNS=_side(outputs), DEPTH=_side(run), **shape,
        )  # fmt: skip
        x_slope = None
        if ctx.needs_input_grad[0]:
            lines = batch * height * 2 * wide
            part = x.new_empty(models, lines, kernel * channels)
            shape = _tuned("row_slopes", run, x)
            _row_slopes[(triton.cdiv(lines, shape["ROWS"]), models)](
                slope, code, weight, part, lines, rows,
                height, high, wide, channels, outputs, kernel,
                COLUMNS=_side(outputs), DEPTH=_side(kernel * channels), **shape,
            )  # fmt: skip
            x_slope = torch.empty_like(x)
            _image_slopes[(triton.cdiv(x.numel(), 1024),)](
                part, x_slope, x.numel(), width, wide, channels, kernel, BLOCK=1024
            )
        weight_slope = weight_slopes.sum(1).to(weight.dtype)
        return x_slope, weight_slope, bias_slopes.sum(1, keepdim=True).to(weight.dtype), None


def _run(kernel: int, channels: int) -> int:
    """Number of weights taken at once: those of one dy, or all if these are too few."""
    return kernel * channels if kernel * channels >= 2 * _SMALLEST else kernel * kernel * channels


def _tuned(name: str, run: int, x: Tensor) -> dict[str, int]:
    shape = _TUNED[name, run > _LONG]
    if x.element_size() == 2:
        return shape
    # Numbers of twice the size fill shared memory twice as fast.
    smaller = {"ROWS": 64, "num_warps": 4, "num_stages": 1}
    return shape | smaller | ({"DEPTH": 32} if "DEPTH" in shape else {})


def _side(size: int) -> int:
    return max(_SMALLEST, int(triton.next_power_of_2(size)))


def conv_pool_relu(images: Tensor, weight: Tensor, bias: Tensor, kernel: int) -> Tensor:
    """Compute what `nets.conv_pool_relu` does."""
    y: Tensor = _ConvPoolRelu.apply(images, weight.contiguous(), bias, kernel)
    return y
