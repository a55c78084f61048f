"""`abstain verify`: a random sample checked at the keyboard, which measures the noise rate."""

import shutil
import sys
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
from rich.console import Console
from rich.text import Text

from abstain.errors import AbstainError

if TYPE_CHECKING:
    from abstain.auditing.findings import Findings
    from abstain.review.session import Session

EXAMPLES = """
[bold]Examples[/]

  abstain verify audits/reviews-…

  abstain verify audits/reviews-… --within 0.03

  abstain audit reviews.csv --label stars --check-now
"""
WITHIN, MOST = 0.05, 200


def verify(
    audit: Annotated[Path, typer.Argument(help="Folder of a finished audit.")],
    within: Annotated[
        float,
        typer.Option(help="Stop once the noise rate is measured to within this share of labels."),
    ] = WITHIN,
    most: Annotated[int, typer.Option(help="Stop after so many answers.")] = MOST,
) -> None:
    """Measure the noise rate at the keyboard: the class of a random sample, one key each.

    You see each sample without its label and without what the audit says of it. After every answer
    the interval of the noise rate is shown; from 30 answers on it is measured. Every answer is on
    disk at once, so you can stop at any time and go on later, here or on the page of abstain
    review. Pictures are shown on that page.
    """
    if not 0 < within < 0.5:
        raise AbstainError(f"must lie in (0, 0.5), got {within:g}", argument="within")
    if most < 1:
        raise AbstainError(f"must be 1 or more, got {most}", argument="most")
    from abstain.review.session import Session

    session = Session(audit)
    if session.shown.kind == "image":
        session.close()
        from abstain.cli.review import review

        review(audit, verify=True)
        return
    try:
        is_narrow = _sit(session, within, most)
    finally:
        session.close()
    _say_result(session, is_narrow, most)
    _write(audit)


def _write(folder: Path) -> None:
    """Write the tables and the report anew, now that the audit knows more."""
    from abstain.auditing.audit import audit as run
    from abstain.report import write_report

    report = folder / "report.html"
    write_report(run(folder=folder, resume=True), report)
    Console(highlight=False).print(f"Report: {report}", soft_wrap=True, markup=False)


def _sit(session: "Session", within: float, most: int) -> bool:
    """Ask until the rate is known well enough; whether it is."""
    from abstain.review.serving import own_name
    from abstain.review.sitting import verify as ask_all

    console = Console(highlight=False)
    keys = session.description()["keys"]
    console.print(_explained(session, keys), soft_wrap=True)
    is_narrow = False
    with suppress(KeyboardInterrupt):
        is_narrow = ask_all(
            session,
            who=own_name() or "me",
            ask=_key if keys and sys.stdin.isatty() else _line,
            show=lambda item, answered: _show(console, item, answered),
            tell=lambda text: console.print(text, markup=False),
            progress=lambda said, findings: console.print(
                _standing(said, findings), soft_wrap=True
            ),
            width=2 * within,
            most=most,
        )
    return is_narrow


def _explained(session: "Session", keys: list[str] | None) -> Text:
    """Explain how to answer."""
    text = Text("Which class is it? The label as given is not shown, so that it does not lead.\n")
    if keys:
        pairs = zip(keys, session.classes, strict=True)
        text.append("  ".join(f"{key} {name}" for key, name in pairs), style="bold")
    else:
        names = [session.classes[k] for k in session.queue.by_frequency]
        text.append("Type a class, or its first letters: ")
        text.append(", ".join(names[:30]) + (", …" if len(names) > 30 else ""), style="bold")
    text.append("\n? not sure   x drop the sample   < take the last answer back   q stop")
    from abstain.review.sitting import CONTROLS, EXACT

    if not keys and (alike := sorted({*CONTROLS} & {*session.classes})):
        text.append("\nA class of such a name: ")
        text.append("  ".join(f"{EXACT}{name}" for name in alike), style="bold")
    return text


def _show(console: Console, item: dict[str, Any], answered: int) -> None:
    """A sample as the page shows it: its text, or its columns, unusual ones first."""
    console.rule(f"{answered + 1}", style="dim")
    rows = max(shutil.get_terminal_size().lines - 8, 10)
    for column in item.get("columns", ())[:rows]:
        value = "missing" if column["value"] is None else column["value"]
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        style = "bold" if column.get("odd") else ""
        console.print(Text(f"  {column['name'][:30]:<30} {shown}", style=style))
    if (left := len(item.get("columns", ())) - rows) > 0:
        console.print(f"  … and {left} more columns", style="dim")
    for one in item.get("texts", ()):
        console.print(Text(f"  {one['name'][:30]}", style="dim"))
        _print_text(console, one["text"], rows)
    if "text" in item:
        _print_text(console, item["text"], rows)


def _print_text(console: Console, text: str, rows: int) -> None:
    room = rows * console.width
    console.print(Text(text[:room] + (" …" if len(text) > room else "")))


def _key() -> str | None:
    """One key, as it is pressed."""
    with suppress(EOFError):
        key = click.getchar()
        return None if key in ("\x04", "\x1b") else key
    return None


def _line() -> str | None:
    """A line of the input."""
    line = sys.stdin.readline()
    return line or None


def _standing(said: str, findings: "Findings") -> Text:
    """The last answer and the rate so far, in a line."""
    from abstain.report.numbers import rough, rough_interval

    verified, rate = findings.verified, findings.rate
    text = Text(f"→ {said}", style="bold")
    if findings.measured is None:
        return text.append(
            f"  {verified.answered} answered; {verified.more} the rate. "
            f"Estimate until then: {rough_interval(rate)}",
            style="not bold dim",
        )
    half = 50 * (rate.high - rate.low)
    return text.append(
        f"  {verified.answered} answered: {rough(rate)} of the labels are wrong "
        f"(measured, {findings.confidence:.0%} interval {rough_interval(rate)}, "
        f"±{half:.0f} points)",
        style="not bold",
    )


def _say_result(session: "Session", is_narrow: bool, most: int) -> None:
    from abstain.report.numbers import rough, rough_interval

    console, findings = Console(highlight=False), session.findings
    folder = quote(str(session.folder))
    if findings.measured is None:
        words = (
            f"Not measured yet: {findings.verified.why}. Estimate until then: "
            f"{rough_interval(findings.rate)} of the labels are wrong. "
            f"Go on with: abstain verify {folder}"
        )
    else:
        rate = findings.rate
        words = (
            f"{rough(rate)} of the labels are wrong ({findings.confidence:.0%} interval "
            f"{rough_interval(rate)}, {findings.basis})."
        )
        if not is_narrow:
            more = f" --most {2 * most}" if findings.verified.answered >= most else ""
            words += f" For a narrower interval, go on with: abstain verify {folder}{more}"
    console.print(words, soft_wrap=True, markup=False)
