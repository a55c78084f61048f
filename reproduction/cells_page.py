"""The part of the page that goes through the paper's numbers one by one."""

from collections import Counter
from collections.abc import Sequence

from reproduction.agreement import TABLES, CellView, Runs, Setting, runs_of
from reproduction.evidence import Evidence
from reproduction.recipes import METHODS, NAMES
from reproduction.targets import DIFFERENCES
from reproduction.variants import CONTROLS, STOPPING, VARIANTS

_REPOSITORIES = (
    "[noisy-label-gamblers](https://github.com/chenblair/noisy-label-gamblers) (the release), "
    "[coteaching_plus, branch gamblers-exp](https://github.com/chenblair/coteaching_plus/tree/"
    "gamblers-exp) (CIFAR-10 and Co-teaching+, with logs) and "
    "[adaptive_label_smoothing](https://github.com/physicsru/adaptive_label_smoothing) (AES and "
    "VES, IMDB)"
)
_NOISE = {"table-stopping": "stopped early", "table-pairflip": "pairflip"}
_RULE = (
    "The paper's ± is the spread over the last five epochs of one run. So a number *agrees* if it "
    "could be one run of ours: within three standard deviations of a single run, over our seeds "
    "and over the last five epochs. Where runs are split, some having collapsed (a standard "
    "deviation over seeds above 3), each is shown, and one of them has to be as near by itself, "
    "and within three points. *As they ran it*: it could be a run with the setting named, by the "
    "authors' public code; a setting is taken for a cause only if it was run in every cell of the "
    "column, and one for a whole column. *Not in their log*: the number printed is not that of the "
    "log, and the log's could be a run of ours. Numbers: mean over n seeds of the last five epochs "
    "(of a stop: its model), ± the standard deviation of a single run."
)


def findings(views: Sequence[CellView]) -> list[str]:
    """List what the public code and the logs show, for readers of the paper's tables."""
    if not views:
        return []
    apart = ", ".join(
        f"{METHODS[v.method]} on {NAMES[v.data]}, {_kind(v)} {v.rate:g} (printed "
        f"{v.paper.mean:.1f}, log {v.log.mean:.1f})"
        for v in views
        if v.log is not None and v.log.differs(v.paper)
    )
    pair = next((v for v in views if v.log is not None and v.log.all_classes is not None), None)
    example = ""
    if pair is not None and pair.log is not None:
        example = (
            f" On MNIST at r = {pair.rate:g} {pair.paper.mean:.1f} is printed; the other network "
            f"of the pair, evaluated on all digits, has {pair.log.all_classes:.1f} in the log."
        )
    lines = [
        "The printed ± is the standard deviation over the last five epochs of one run, not over "
        "seeds.",
        "The numbers of Co-teaching+ (MNIST and CIFAR-10) and of L_q on CIFAR-10 are of an "
        "evaluation that never predicts the last class: it leaves out the last output, also of "
        f"networks without an abstention output.{example}",
        f"On MNIST the validation stop (VES) also trains on its validation set.{_leak(views)}",
        "Co-teaching+ ran for 50 epochs on MNIST, with an MLP, and for 100 on CIFAR-10, with the "
        "loss of its public code.",
    ]
    if apart:
        lines.append(f"Not the numbers of the logs: {apart}.")
    intro = (
        f"The authors published their code, and most of their logs: {_REPOSITORIES}. That made it "
        "possible to run what they ran. What a reader of the tables should know:"
    )
    return [intro + "\n\n" + "\n".join(f"- {line}" for line in lines)]


def _leak(views: Sequence[CellView]) -> str:
    """When the stop comes that trains on what it watches, and when the other."""
    stops = [v for v in views if (v.data, v.method) == ("mnist", "validation")]
    epochs: dict[bool, list[float]] = {True: [], False: []}
    for setting in (s for view in stops for s in view.settings):
        epochs["held-out" in setting.what].append(setting.runs.epoch)
    if not (epochs[True] and epochs[False]):
        return ""
    leaking, apart = (sum(epochs[leaks]) / len(epochs[leaks]) for leaks in (True, False))
    printed = [v.paper.epoch for v in stops if v.paper.epoch is not None]
    return (
        f" If it does, it stops after {leaking:.0f} epochs on average (printed: "
        f"{sum(printed) / len(printed):.0f}); if it does not, after {apart:.0f} "
        "([below](#cell-by-cell))."
    )


def counts(views: Sequence[CellView]) -> str:
    """Count the printed numbers that come out, and by what."""
    found = Counter(view.verdict for view in views)
    settled = len(views) - found["open"]
    return (
        f"**Of {len(views)} numbers in its tables {settled} agree or have a cause that was run** "
        f"([cell by cell](#cell-by-cell)): {found['agrees']} could be a run of ours, "
        f"{found['as they ran it']} a run with the authors' setting, and "
        f"{found['not in their log']} are not those of their log. {found['open']} are open."
    )


def cell_by_cell(evidence: Evidence, views: Sequence[CellView]) -> list[str]:
    """A table for each data set and table of the paper, a line per number."""
    parts = [_RULE]
    for target in TABLES:
        for data in dict.fromkeys(v.data for v in views if v.target == target):
            shown = [v for v in views if (v.target, v.data) == (target, data)]
            kind = _NOISE.get(target, "symmetric")
            head = f"{NAMES[data]}, {kind}"
            lines = [
                f"| {head} | paper | their log | ours | as they ran it | verdict |",
                "|---|---|---|---|---|---|",
                *map(_line, shown),
            ]
            parts.append("\n".join(lines))
    parts += _settings(views)
    if control := _controls(evidence):
        parts.append(control)
    return parts


def _line(view: CellView) -> str:
    log = "" if view.log is None else f"{view.log.mean:.1f} ± {view.log.spread:.1f}"
    stops = TABLES[view.target] == STOPPING
    own = view.as_run
    cells = (
        f"{METHODS[view.method]}, r = {view.rate:g}",
        f"{view.paper.mean:.1f} ± {view.paper.spread:.1f}" + _at(view.paper.epoch, stops),
        log,
        _shown(view.ours, stops),
        "" if own is None else _shown(own.runs, stops),
        _verdict(view),
    )
    return f"| {' | '.join(cells)} |"


def _shown(runs: Runs, stops: bool) -> str:
    n = len(runs.accuracies)
    if runs.is_split:
        each = ", ".join(f"{x:.1f}" for x in sorted(runs.accuracies))
        return f"{each} ({n})" + _at(runs.epoch, stops)
    return f"{runs.mean:.1f} ± {runs.spread:.1f} ({n})" + _at(runs.epoch, stops)


def _at(epoch: float | None, stops: bool) -> str:
    return f" @{epoch:.0f}" if stops and epoch is not None else ""


def _verdict(view: CellView) -> str:
    if view.verdict == "agrees":
        return "✔ agrees"
    if view.verdict == "as they ran it":
        return f"✔ as they ran it: {view.chosen}"
    if view.verdict == "not in their log":
        return "◐ not in their log"
    others = [s for s in view.settings if s.what != view.chosen]
    tried = [f"{s.what} ({s.runs.mean:.1f})" for s in (*_first(view), *others)]
    return f"✘ open; tried: {'; '.join(tried)}" if tried else "✘ open; nothing was run"


def _first(view: CellView) -> list[Setting]:
    return [] if view.as_run is None else [view.as_run]


def _settings(views: Sequence[CellView]) -> list[str]:
    """Say what the settings that are taken do to the numbers that agree without them."""
    lines = []
    for key in dict.fromkeys((v.target, v.data, v.method, v.chosen) for v in views):
        column = [v for v in views if (v.target, v.data, v.method, v.chosen) == key]
        used = [v for v in column if v.verdict == "as they ran it"]
        if not used:
            continue
        lost = [v for v in column if v.verdict == "agrees" and v.as_run and not v.as_run.agrees]
        where = f"{NAMES[key[1]]}, {_NOISE.get(key[0], 'symmetric')}, {METHODS[key[2]]}"
        line = f"{where}: *{key[3]}* gives {len(used)} more of {len(column)}"
        if lost:
            each = ", ".join(f"{v.rate:g}" for v in lost)
            line += f", and no longer {each}, where ours agrees"
        lines.append(f"- {line}.")
    if not lines:
        return []
    return ["Settings taken for a cause, each run in its whole column:\n\n" + "\n".join(lines)]


def _controls(evidence: Evidence) -> str:
    """The same in bfloat16 and in float32."""
    lines = []
    usual = {v.column: v for v in VARIANTS}
    for control in CONTROLS:
        row = control.data, control.rate
        half = usual[control.column.removesuffix(", in float32")]
        ours, exact = (
            runs_of(evidence.records(DIFFERENCES, row, v.column), v.without_last)
            for v in (half, control)
        )
        if ours is not None and exact is not None:
            where = f"{NAMES[control.data]}, {METHODS[control.method]}, r = {control.rate:g}"
            lines.append(f"| {where} | {_shown(ours, False)} | {_shown(exact, False)} |")
    if not lines:
        return ""
    head = "| precision of matrix products | bfloat16 | float32 |\n|---|---|---|\n"
    return head + "\n".join(lines)


def _kind(view: CellView) -> str:
    return "pairflip" if view.target == "table-pairflip" else "symmetric"
