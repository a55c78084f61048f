"""`abstain theory`: the loss to stop at, and whether training can be stopped there at all."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isfinite, log
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from abstain.errors import AbstainError

IMAGE_SUFFIXES = (".png", ".svg", ".pdf", ".jpg")

# Below this, in nats, the noise of a mini-batch loss hides the way from the start to the plateau.
THIN_MARGIN = 0.05


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """Predictions of theory for a run; losses are in nats, None where there is no such value."""

    rate: float
    payoff: float
    classes: int
    noise: str
    plateau: float
    clean: float
    corrupt: float | None
    untrained: float
    margin: float
    learnable: bool
    payoffs: tuple[float, float] | None
    suggested_payoff: float | None

    @property
    def works(self) -> bool:
        """Whether training with the gambler's loss can be stopped at the plateau."""
        return self.payoffs is not None and self.payoffs[0] < self.payoff < self.payoffs[1]

    @property
    def advice(self) -> str | None:
        """Suggest a remedy for a stop that does not work, or hardly does."""
        if self.payoffs is None:
            return f"The stop cannot work: {_hopeless(self.rate, self.classes, self.noise)}."
        low, high = self.payoffs
        remedy = (
            f"Take a payoff between {low:.4g} and {high:g}, for example"
            f" {self.suggested_payoff:.9g}."
        )
        if self.payoff <= low:
            return (
                f"The stop cannot work: a payoff of {self.payoff:.9g} is not above"
                f" 1/(1 − rate) = {low:.4g}, so no bet pays, the network abstains from everything"
                f" and its loss stays at log(payoff) = {log(self.payoff):.4f}. {remedy}"
            )
        if self.payoff >= high:
            return (
                f"This is plain cross-entropy: with {self.classes} classes, abstaining earns"
                f" nothing from a payoff of {high:g} upwards. {remedy}"
            )
        if self.rate == 0:
            return "No label is wrong, so there is nothing to stop for."
        if self.margin < THIN_MARGIN:
            return (
                "The margin is thin: average the loss over many batches, look at it more often"
                " than once an epoch, and do not stop before it has left its starting value."
            )
        return None


def theory(
    rate: Annotated[
        float,
        typer.Option(help="Noise rate: at least 0, below 1."),
    ],
    classes: Annotated[
        int,
        # Bounded because the distribution of a label is laid out in memory, for many rates at once.
        typer.Option(min=2, max=50_000, help="Number of classes."),
    ],
    payoff: Annotated[
        float | None,
        typer.Option(
            help="Payoff of a correct bet: above 1, below the number of classes. A small one"
            " makes the network abstain more: more robust, slower to learn.",
            show_default="one that works well",
        ),
    ] = None,
    noise: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="[bold]symmetric[/]: a wrong label is any other class."
            " [bold]pairflip[/]: it is always the same other class.",
        ),
    ] = "symmetric",
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"Draw the plateau over all rates; ends in {', '.join(IMAGE_SUFFIXES)}.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of the table.")
    ] = False,
) -> None:
    """Compute the training loss to stop at, before wrong labels are memorised.

    With partly wrong labels, the loss of the gambler's method rests on a
    plateau once all that can be learnt is learnt. What lowers it further is
    memorising. Its height follows from noise rate, classes and payoff.

    [bold]Examples[/]

    Half of the labels wrong, ten classes:
    [cyan]abstain theory --rate 0.5 --payoff 9.99 --classes 10[/]

    Each class mistaken for one other, with a picture:
    [cyan]abstain theory --rate 0.2 --classes 10 --noise pairflip --plot plateau.png[/]

    Two classes, for a program to read:
    [cyan]abstain theory --rate 0.15 --classes 2 --json[/]
    """
    outlook = _look(rate, payoff, classes, noise)
    if plot is not None:
        _draw(outlook, plot)
    if as_json:
        typer.echo(
            json.dumps({**asdict(outlook), "works": outlook.works, "advice": outlook.advice})
        )
        return
    _show(outlook)
    if plot is not None:
        Console().print(f"\nPicture: {escape(str(plot))}", soft_wrap=True, highlight=False)


def _look(rate: float, payoff: float | None, classes: int, noise: str) -> Outlook:
    from abstain import theory

    if not 0 <= rate < 1:
        raise AbstainError(f"must lie in [0, 1), got {rate:g}", argument="rate")
    clean_rate = 1 - rate
    label = theory.label_distribution(clean_rate, classes, noise)
    payoffs, suggested = None, None
    with suppress(AbstainError):  # the arguments are valid, so it means that there are none
        low, high = theory.stoppable_payoffs(clean_rate, classes, noise)
        payoffs = float(low), float(high)
        suggested = float(theory.suggested_payoff(clean_rate, classes, noise))
    payoff = suggested if payoff is None else payoff
    if payoff is None:
        raise AbstainError(
            f"cannot be chosen: {_hopeless(rate, classes, noise)}", argument="payoff"
        )
    if not isfinite(payoff):
        raise AbstainError(
            f"must be a finite number greater than 1, got {payoff}", argument="payoff"
        )
    parts = theory.plateau_parts(clean_rate, payoff, classes, noise)
    untrained = float(theory.untrained_loss(payoff, classes))
    return Outlook(
        rate=rate,
        payoff=payoff,
        classes=classes,
        noise=noise,
        plateau=float(parts.total),
        clean=float(parts.clean),
        corrupt=float(parts.corrupt) if isfinite(parts.corrupt) else None,
        untrained=untrained,
        margin=untrained - float(parts.total),
        learnable=bool(theory.is_learnable(label, payoff)),
        payoffs=payoffs,
        suggested_payoff=suggested,
    )


def _show(outlook: Outlook) -> None:
    console = Console(highlight=False)
    console.print(
        f"[bold]{100 * outlook.rate:.4g}% of the labels wrong[/] ({outlook.noise}),"
        f" {outlook.classes} classes, payoff {outlook.payoff:.9g}\n"
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    table.add_row("plateau", _loss(outlook.plateau), "where the training loss rests")
    table.add_row("  clean", _loss(outlook.clean), "its mean over the right labels")
    table.add_row("  corrupt", _loss(outlook.corrupt), "its mean over the wrong labels")
    table.add_row("untrained", _loss(outlook.untrained), "where it starts")
    table.add_row("margin", _loss(outlook.margin), "how far it falls from start to plateau")
    table.add_row(
        "learnable", "yes" if outlook.learnable else "no", "whether any bet beats abstaining"
    )
    if outlook.payoffs is None:
        table.add_row("payoffs", "none", "at which the stop works")
    else:
        low, high = outlook.payoffs
        table.add_row(
            "payoffs",
            f"{low:.4g}–{high:g}",
            f"at which the stop works, ends excluded; try {outlook.suggested_payoff:.9g}",
        )
    console.print(table)
    console.print()
    if outlook.works and outlook.rate > 0:
        console.print(f"[green]Stop when the training loss reaches {outlook.plateau:.4f}.[/]")
    if outlook.advice is not None:
        console.print(f"[yellow]{outlook.advice}[/]")


def _draw(outlook: Outlook, path: Path) -> None:
    import numpy as np

    from abstain import theory

    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import PercentFormatter
    except ImportError as error:
        raise AbstainError(
            "needs matplotlib", argument="plot", remedy="run: pip install 'abstain[plot]'"
        ) from error
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        raise AbstainError(
            f"must end in one of {', '.join(IMAGE_SUFFIXES)}, got {path.name}", argument="plot"
        )

    rates = np.linspace(0, 1, 201)
    parts = theory.plateau_parts(1 - rates, outlook.payoff, outlook.classes, outlook.noise)
    label = theory.label_distribution(0.5, outlook.classes, outlook.noise)
    # Beyond it no bet pays, or the true class is not the likeliest of the possible labels.
    limit = 1 - max(1 / outlook.payoff, 1 / np.count_nonzero(label))

    figure = Figure(figsize=(8, 4.2), dpi=160, layout="constrained")
    axes = figure.add_subplot()
    axes.plot(rates, parts.total, color="#1d3557", lw=3, zorder=2.5, label="plateau, all labels")
    axes.plot(
        outlook.rate,
        outlook.plateau,
        "o",
        ms=10,
        color="#f4a261",
        mec="#1d3557",
        mew=1.8,
        zorder=4,
        clip_on=False,
        label=f"{100 * outlook.rate:.4g}% wrong: {outlook.plateau:.4f}",
    )
    axes.plot(rates, parts.corrupt, color="#d1495b", lw=1.8, label="wrong labels")
    axes.plot(rates, parts.clean, color="#2e8b6f", lw=1.8, label="right labels")
    axes.axhline(outlook.untrained, color="0.35", ls=(0, (5, 3)), lw=1.2, label="untrained")
    # Over the lines: they go on there, but have no meaning.
    axes.axvspan(limit, 1, color="0.9", alpha=0.8, lw=0, zorder=3, label="no stop possible")
    axes.set(
        xlim=(0, 1),
        ylim=(0, 1.8 * outlook.untrained),
        xlabel="noise rate",
        ylabel="training loss (nats)",
    )
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_title(
        f"{outlook.noise} noise, {outlook.classes} classes, payoff {outlook.payoff:.9g}", loc="left"
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines["bottom"].set_zorder(3.5)
    figure.legend(loc="outside right upper", frameon=False)
    try:
        figure.savefig(path)
    except OSError as error:
        raise AbstainError(
            f"cannot be written to {path}: {error.strerror}", argument="plot"
        ) from error


def _loss(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _hopeless(rate: float, classes: int, noise: str) -> str:
    return (
        f"with {noise} noise over {classes} classes and {100 * rate:.4g}% of the labels wrong, the"
        " true class is not the likeliest label, and no payoff helps"
    )
