"""Small plots: everything stands where its number says, and inside the frame."""

from itertools import pairwise

import numpy as np
import pytest

from abstain.report.charts import PlotLine, ReferenceLine, histogram, line_chart


def test_curves_rise_where_numbers_do_and_stay_inside():
    x = np.linspace(1, 9, 1000)
    drawing = line_chart(
        [PlotLine("a", x, x**2)],
        x_label="x",
        description="",
        y_range=(0.0, 50.0),
        marks=[ReferenceLine(20.0, "m")],
    )
    points = drawing.curves[0].points
    assert len(points) <= 240
    assert all(a[0] <= b[0] and a[1] >= b[1] for a, b in pairwise(points))
    assert min(y for _, y in points) >= drawing.frame.top


@pytest.mark.parametrize(
    ("curve", "start", "above"),
    [
        (lambda x: np.maximum(2 - x / 4, 1.05), False, False),  # falls to the mark, and rests on it
        (lambda x: x / 9, True, True),  # rises to it
        (lambda x: 2 - x / 9, True, True),  # falls to it from far
    ],
)
def test_the_name_of_a_mark_stands_clear_of_the_curve(curve, start, above):
    x = np.linspace(0, 9, 200)
    line = PlotLine("a", x, curve(x))
    drawing = line_chart(
        [line],
        x_label="",
        description="",
        marks=[ReferenceLine(1.0, "predicted plateau of the warm-up")],
        y_range=(0.0, 2.0),
    )
    (mark,) = drawing.marks
    assert (mark.y < mark.y1) == above
    if above:
        assert (mark.anchor == "start") == start


@pytest.mark.parametrize(
    "values", [[0.5] * 3, [0.0, 1.0, float("nan")], list(np.linspace(0, 1, 500))]
)
def test_histograms_of_any_scores_are_drawn(values):
    scores = np.array(values, dtype=np.float32)
    drawing = histogram(scores, scores < 0.3, x_label="", description="")
    assert drawing.bars
    assert all(bar.y >= drawing.frame.top for bar in drawing.bars)
    assert all(bar.y + bar.height == pytest.approx(drawing.frame.bottom) for bar in drawing.bars)
