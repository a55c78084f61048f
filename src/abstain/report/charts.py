"""Small plots, as places on a drawing that a template writes as SVG and the page styles."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from abstain.report.numbers import ticks

_POINTS = 240
_LETTER, _LINE = 5.6, 18  # room for a letter and for a line of them


@dataclass(frozen=True)
class PlotLine:
    """A curve and what it is called."""

    name: str
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    style: str = "first"


@dataclass(frozen=True)
class ReferenceLine:
    """A value worth a line of its own across the plot."""

    at: float
    text: str
    vertical: bool = False


@dataclass(frozen=True)
class Frame:
    """Size of a drawing, and the edges of the plot in it; y grows downwards.

    It is shown about as wide as it is drawn, so letters keep their size.
    """

    width: int = 380
    height: int = 236
    left: float = 44
    right: float = 366
    top: float = 16
    bottom: float = 200


FRAME = Frame()


@dataclass(frozen=True)
class Tick:
    """A place on an axis and its number."""

    at: float
    text: str


@dataclass(frozen=True)
class Bar:
    """A bar of a histogram."""

    x: float
    y: float
    width: float
    height: float
    style: str


@dataclass(frozen=True)
class Polyline:
    """A line through points."""

    points: list[tuple[float, float]]
    style: str


@dataclass(frozen=True)
class PlacedMark:
    """A line across the plot, and where its name stands."""

    x1: float
    x2: float
    y1: float
    y2: float
    text: str
    x: float
    y: float
    anchor: str


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A plot in units of its frame."""

    description: str
    """Description for those who cannot see the chart."""
    x_label: str
    levels: list[Tick]
    ticks: list[Tick]
    bars: list[Bar] = field(default_factory=list)
    curves: list[Polyline] = field(default_factory=list)
    marks: list[PlacedMark] = field(default_factory=list)
    frame: Frame = FRAME


@dataclass(frozen=True)
class _Axes:
    """Data to places on the drawing."""

    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, value: float) -> float:
        share = (value - self.x[0]) / (self.x[1] - self.x[0] or 1)
        return round(FRAME.left + share * (FRAME.right - FRAME.left), 1)

    def up(self, value: float) -> float:
        share = (value - self.y[0]) / (self.y[1] - self.y[0] or 1)
        return round(FRAME.bottom - share * (FRAME.bottom - FRAME.top), 1)


def line_chart(
    lines: Sequence[PlotLine],
    *,
    x_label: str,
    description: str,
    marks: Sequence[ReferenceLine] = (),
    y_format: Callable[[float], str] = "{:g}".format,
    y_range: tuple[float, float] | None = None,
    whole: bool = False,
) -> Drawing:
    """Curves over one axis; `description` is for those who cannot see them.

    What lies beyond `y_range` runs along its edge; `whole` puts ticks at whole numbers only.
    """
    shown = [_thinned(line) for line in lines if np.isfinite(line.y).any()]
    level = [mark.at for mark in marks if not mark.vertical]
    values = np.concatenate([line.y[np.isfinite(line.y)] for line in shown] + [np.array(level)])
    places = np.concatenate([line.x for line in shown])
    y_range = y_range or _padded(float(values.min()), float(values.max()))
    axes = _Axes((float(places.min()), float(places.max())), y_range)
    return Drawing(
        description=description,
        x_label=x_label,
        levels=[Tick(axes.up(y), y_format(y)) for y in ticks(*y_range)],
        ticks=[Tick(axes.across(x), f"{x:g}") for x in ticks(*axes.x, whole=whole)],
        curves=[Polyline(_points(line, axes), line.style) for line in shown],
        marks=[_placed(mark, axes, shown[0]) for mark in marks],
    )


def histogram(
    values: npt.NDArray[np.float32],
    flagged: npt.NDArray[np.bool_],
    *,
    x_label: str,
    description: str,
) -> Drawing:
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
    clear = [level for level in levels if _far(level, levels, axes)]
    bars = []
    for style, part in counts.items():
        for height, left, right in zip(part.tolist(), edges, edges[1:], strict=False):
            if height:
                x, y = axes.across(left) + 0.8, axes.up(math.sqrt(height))
                wide = axes.across(right) - 0.8 - x
                tall = FRAME.bottom - y
                bars.append(Bar(round(x, 1), y, round(wide, 1), round(tall, 1), style))
    return Drawing(
        description=description,
        x_label=x_label,
        levels=[Tick(axes.up(math.sqrt(level)), f"{level:,}") for level in clear],
        ticks=[Tick(axes.across(x), f"{x:g}") for x in (0, 0.25, 0.5, 0.75, 1)],
        bars=bars,
    )


def _placed(mark: ReferenceLine, axes: _Axes, beside: PlotLine) -> PlacedMark:
    """A line across the plot and its name, where it stands clear of a curve."""
    if mark.vertical:
        x = axes.across(mark.at)
        late = x > FRAME.width * 0.6
        line = (x, x, FRAME.top, FRAME.bottom)
        place = (round(x - 5 if late else x + 5, 1), FRAME.top + 9)
        return PlacedMark(*line, mark.text, *place, "end" if late else "start")
    y = axes.up(mark.at)
    left, below = _clearest(mark, axes, beside)
    line = (FRAME.left, FRAME.right, y, y)
    place = (FRAME.left + 4 if left else FRAME.right, round(y + 13 if below else y - 5, 1))
    return PlacedMark(*line, mark.text, *place, "start" if left else "end")


def _clearest(mark: ReferenceLine, axes: _Axes, beside: PlotLine) -> tuple[bool, bool]:
    """Whether the name of a level mark stands at the left, and below it: where a curve is not."""
    known, y = np.isfinite(beside.y), axes.up(mark.at)
    x = np.array([axes.across(value) for value in beside.x[known]])
    above = y - np.array([axes.up(value) for value in beside.y[known]])
    width = _LETTER * len(mark.text)

    def covered(left: bool, below: bool) -> int:
        if y > FRAME.bottom - 16 if below else y < FRAME.top + 14:
            return len(x) + 1  # there is no room
        across = x < FRAME.left + 4 + width if left else x > FRAME.right - width
        up = (above < 0) & (above > -_LINE) if below else (above > 0) & (above < _LINE)
        return int((across & up).sum())

    places = [(left, below) for below in (False, True) for left in (True, False)]
    return min(places, key=lambda place: covered(*place))


def _points(line: PlotLine, axes: _Axes) -> list[tuple[float, float]]:
    known = np.isfinite(line.y)
    pairs = zip(line.x[known].tolist(), line.y[known].clip(*axes.y).tolist(), strict=True)
    return [(axes.across(x), axes.up(y)) for x, y in pairs]


def _thinned(line: PlotLine) -> PlotLine:
    if len(line.x) <= _POINTS:
        return line
    kept = np.unique(np.linspace(0, len(line.x) - 1, _POINTS).round().astype(int))
    return PlotLine(line.name, line.x[kept], line.y[kept], line.style)


def _padded(low: float, high: float) -> tuple[float, float]:
    room = 0.06 * (high - low or abs(high) or 1.0)
    return (0.0 if 0 <= low < 0.4 * high else low - room), high + room


def _far(level: int, levels: Sequence[int], axes: _Axes) -> bool:
    """Whether a tick stands clear of the next one above, which is more useful."""
    above = [other for other in levels if other > level]
    return not above or axes.up(math.sqrt(level)) - axes.up(math.sqrt(above[0])) > 13
