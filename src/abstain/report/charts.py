"""Small plots as SVG: drawn at the width of a phone, styled by the page."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from abstain.report.markup import Markup, element
from abstain.report.numbers import ticks
from abstain.scores.interval import Interval

# In units of the drawing. It is shown about as wide as it is drawn, so letters keep their size.
_WIDTH, _HEIGHT = 380, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 16, 36
_POINTS = 240
_LETTER, _LINE = 5.6, 18  # room for a letter and for a line of them


@dataclass(frozen=True)
class Line:
    """A curve and what it is called."""

    name: str
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    style: str = "first"


@dataclass(frozen=True)
class Mark:
    """A value worth a line of its own across the plot."""

    at: float
    text: str
    vertical: bool = False


@dataclass(frozen=True)
class _Axes:
    """Data to places on the drawing."""

    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, value: float) -> float:
        share = (value - self.x[0]) / (self.x[1] - self.x[0] or 1)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def up(self, value: float) -> float:
        share = (value - self.y[0]) / (self.y[1] - self.y[0] or 1)
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)


def line_chart(
    lines: Sequence[Line],
    *,
    x_label: str,
    said: str,
    marks: Sequence[Mark] = (),
    y_format: Callable[[float], str] = "{:g}".format,
    x_format: Callable[[float], str] = "{:g}".format,
    y_range: tuple[float, float] | None = None,
    x_range: tuple[float, float] | None = None,
    whole: bool = False,
) -> Markup:
    """Curves over one axis; `said` tells the whole to those who cannot see it.

    What lies beyond `y_range` runs along its edge; `whole` puts ticks at whole numbers only.
    """
    shown = [_thinned(line) for line in lines if np.isfinite(line.y).any()]
    level = [mark.at for mark in marks if not mark.vertical]
    values = np.concatenate([line.y[np.isfinite(line.y)] for line in shown] + [np.array(level)])
    places = np.concatenate([line.x for line in shown])
    y_range = y_range or _padded(float(values.min()), float(values.max()))
    axes = _Axes(x_range or (float(places.min()), float(places.max())), y_range)
    return _drawing(
        said,
        _grid(axes, ticks(*y_range), y_format),
        _x_axis(axes, ticks(*axes.x, whole=whole), x_format, x_label),
        [element("path", d=_path(line, axes), class_=f"curve {line.style}") for line in shown],
        [_mark(mark, axes, shown[0]) for mark in marks],
    )


def histogram(
    values: npt.NDArray[np.float32], flagged: npt.NDArray[np.bool_], *, x_label: str, said: str
) -> Markup:
    """Scores in [0, 1], the flagged ones in front.

    Heights grow with the square root, so that a few wrong labels show beside many right ones.
    """
    edges = np.linspace(0, 1, 31)
    usable = np.isfinite(values)
    counts = {
        "kept": np.histogram(values[usable & ~flagged], edges)[0],
        "flagged": np.histogram(values[usable & flagged], edges)[0],
    }
    top = max(1, max(int(part.max()) for part in counts.values()))
    axes = _Axes((0.0, 1.0), (0.0, math.sqrt(top) * 1.04))
    levels = [n for n in (1, 10, 100, 1000, 10**4, 10**5, 10**6, 10**7) if n <= top]
    while len(levels) < 3 and top > 2:
        levels = sorted({*levels, *(round(top * f) for f in (0.25, 0.6, 1.0))})
    roots = [math.sqrt(level) for level in levels if _far(level, levels, axes)]
    bars = []
    for name, part in counts.items():
        for height, left, right in zip(part.tolist(), edges, edges[1:], strict=False):
            if height:
                x0, x1 = axes.across(left) + 0.8, axes.across(right) - 0.8
                y = axes.up(math.sqrt(height))
                box = {"x": round(x0, 1), "y": y, "width": round(x1 - x0, 1)}
                tall = round(axes.up(0.0) - y, 1)
                bars.append(element("rect", class_=f"bar {name}", height=tall, **box))
    return _drawing(
        said,
        _grid(axes, roots, lambda root: f"{round(root**2):,}"),
        _x_axis(axes, [0, 0.25, 0.5, 0.75, 1], "{:g}".format, x_label),
        bars,
    )


def interval_scale(found: Interval, top: float, said: str) -> Markup:
    """A value and its interval on a line from 0 to `top`, as wide as there is room."""

    def place(share: float) -> str:
        return f"{100 * min(max(share / top, 0), 1):.2f}%"

    return element(
        "svg",
        element("line", x1="0", x2="100%", y1="50%", y2="50%", class_="track"),
        element(
            "line", x1=place(found.low), x2=place(found.high), y1="50%", y2="50%", class_="span"
        ),
        element("circle", cx=place(found.value), cy="50%", r=4, class_="dot"),
        class_="scale",
        role="img",
        aria_label=said,
    )


def bar(share: float) -> Markup:
    """A share as a thin bar; the number stands beside it, so nobody needs to be told."""
    return element(
        "svg",
        element("rect", width="100%", height="100%", class_="rest"),
        element("rect", width=f"{100 * min(max(share, 0), 1):.1f}%", height="100%", class_="part"),
        class_="share",
        aria_hidden="true",
    )


def _drawing(said: str, *parts: object) -> Markup:
    return element(
        "svg",
        element("title", said),
        *parts,  # type: ignore[arg-type]
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        class_="chart",
        role="img",
        aria_label=said,
    )


def _grid(axes: _Axes, levels: Sequence[float], text: Callable[[float], str]) -> list[Markup]:
    drawn = []
    for level in levels:
        y = axes.up(level)
        drawn.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        drawn.append(
            element("text", text(level), x=_LEFT - 7, y=round(y + 3.5, 1), class_="tick end")
        )
    return drawn


def _x_axis(
    axes: _Axes, places: Sequence[float], text: Callable[[float], str], label: str
) -> list[Markup]:
    y = _HEIGHT - _BOTTOM
    drawn = [element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="axis")]
    for place in places:
        x = axes.across(place)
        drawn.append(element("text", text(place), x=x, y=y + 15, class_="tick middle"))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    drawn.append(element("text", label, x=middle, y=_HEIGHT - 4, class_="label middle"))
    return drawn


def _mark(mark: Mark, axes: _Axes, beside: Line) -> list[Markup]:
    """A line across the plot and its name, where it stands clear of a curve."""
    if mark.vertical:
        x = axes.across(mark.at)
        late = x > _WIDTH * 0.6
        place = {"x": round(x - 5 if late else x + 5, 1), "y": _TOP + 9}
        return [
            element("line", x1=x, x2=x, y1=_TOP, y2=_HEIGHT - _BOTTOM, class_="mark"),
            element("text", mark.text, class_=f"said {'end' if late else 'start'}", **place),
        ]
    y = axes.up(mark.at)
    left, below = _clearest(mark, axes, beside)
    place = {"x": _LEFT + 4 if left else _WIDTH - _RIGHT, "y": round(y + 13 if below else y - 5, 1)}
    return [
        element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="mark"),
        element("text", mark.text, class_=f"said {'start' if left else 'end'}", **place),
    ]


def _clearest(mark: Mark, axes: _Axes, beside: Line) -> tuple[bool, bool]:
    """Whether the name of a level mark stands at the left, and below it: where a curve is not."""
    known, y = np.isfinite(beside.y), axes.up(mark.at)
    x = np.array([axes.across(value) for value in beside.x[known]])
    above = y - np.array([axes.up(value) for value in beside.y[known]])
    width = _LETTER * len(mark.text)

    def covered(left: bool, below: bool) -> int:
        if y > _HEIGHT - _BOTTOM - 16 if below else y < _TOP + 14:
            return len(x) + 1  # there is no room
        across = x < _LEFT + 4 + width if left else x > _WIDTH - _RIGHT - width
        up = (above < 0) & (above > -_LINE) if below else (above > 0) & (above < _LINE)
        return int((across & up).sum())

    places = [(left, below) for below in (False, True) for left in (True, False)]
    return min(places, key=lambda place: covered(*place))


def _path(line: Line, axes: _Axes) -> str:
    known = np.isfinite(line.y)
    points = zip(line.x[known].tolist(), line.y[known].clip(*axes.y).tolist(), strict=True)
    return "M" + "L".join(f"{axes.across(x)} {axes.up(y)}" for x, y in points)


def _thinned(line: Line) -> Line:
    if len(line.x) <= _POINTS:
        return line
    kept = np.unique(np.linspace(0, len(line.x) - 1, _POINTS).round().astype(int))
    return Line(line.name, line.x[kept], line.y[kept], line.style)


def _padded(low: float, high: float) -> tuple[float, float]:
    room = 0.06 * (high - low or abs(high) or 1.0)
    return (0.0 if 0 <= low < 0.4 * high else low - room), high + room


def _far(level: int, levels: Sequence[int], axes: _Axes) -> bool:
    """Whether a tick stands clear of the next one above, which is the more telling."""
    above = [other for other in levels if other > level]
    return not above or axes.up(math.sqrt(level)) - axes.up(math.sqrt(above[0])) > 13
