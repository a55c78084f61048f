"""Verify at a keyboard: the labels of a random sample, one key each, until the rate is measured.

In:  a `Session`, a way to ask for an answer and a way to show text.
Out: decisions in the log of the review, the same as those of the page.
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from abstain.auditing.answers import DROP, UNSURE, Answer
from abstain.auditing.findings import Findings
from abstain.review.session import Session

Ask: TypeAlias = Callable[[], str | None]
"""Returns what the person typed; None at the end of input."""

WORDS = {"?": UNSURE, "x": DROP}
BACK, STOP = "<", "q"
CONTROLS = (*WORDS, BACK, STOP)
"""Keys that always mean the same, whatever the classes are called."""
EXACT = "="
"""Goes before the name of a class that is called like a control, where names are typed."""
_SAID = {"unsure": "not sure", "drop": "dropped (the sample)"}
_WAIT, _LOOK = 1.0, 0.02  # seconds that the figures are waited for, and between two looks


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The words that a person types for an answer: a digit for each class, or its name.

    >>> keys = Keys.of(["cat", "dog", "x"], None)
    >>> keys.read("d"), keys.read("?"), keys.read("bird")
    (Answer(kind='label', label='dog'), Answer(kind='unsure', label=None), None)
    >>> keys.read("x"), keys.read("=x")
    (Answer(kind='drop', label=None), Answer(kind='label', label='x'))
    """

    classes: Sequence[str]
    by_key: Mapping[str, str]
    """The class of each key; empty where names are typed."""

    @classmethod
    def of(cls, classes: Sequence[str], keys: Sequence[str] | None) -> "Keys":
        """The keys of some classes, or none where there are more classes than digits."""
        return cls(classes=classes, by_key=dict(zip(keys or (), classes, strict=False)))

    def read(self, text: str) -> Answer | None:
        """The answer that a text stands for; None for one that means no class, or several.

        Where classes have keys, no name counts: at a terminal each key is taken as it is pressed,
        and a class may be called `x`. Where names are typed, a control is no name.
        """
        if text in WORDS:
            return WORDS[text]
        if self.by_key or text in CONTROLS:
            return Answer("label", self.by_key[text]) if text in self.by_key else None
        name = text.removeprefix(EXACT)
        if name in self.classes:
            return Answer("label", name)
        begins = self.beginning_with(text)
        return Answer("label", begins[0]) if len(begins) == 1 else None

    def beginning_with(self, text: str) -> list[str]:
        """The classes whose names begin so, in capitals or not; none where classes have keys."""
        if self.by_key or not text:
            return []
        return [name for name in self.classes if name.casefold().startswith(text.casefold())]


def verify(
    session: Session,
    *,
    who: str,
    ask: Ask,
    show: Callable[[dict[str, Any], int], None],
    tell: Callable[[str], None],
    progress: Callable[[str, Findings], None],
    width: float,
    most: int,
) -> bool:
    """Ask for the classes of a random sample until the interval of the rate is narrow.

    Args:
        session: The review.
        who: The person.
        ask: Gets an answer.
        show: Shows a sample, and the number of those answered before it.
        tell: Says a sentence.
        progress: Shows what was answered, and the findings after it.
        width: Width of the interval at which to stop, as a share of all labels.
        most: Number of answers at which to stop.

    Returns:
        Whether the interval became that narrow.
    """
    keys = Keys.of(session.classes, session.description()["keys"])
    seqs: list[int] = []
    while True:
        if is_narrow(session.findings, width):
            return True
        if session.findings.verified.answered >= most:
            return False
        items = session.to_verify(who, 1, ())["items"]
        # What was skipped on the page comes back at the end. Here nothing can be skipped.
        items = items or session.to_verify(who, 1, (), skipped=True)["items"]
        if not items:
            return False
        show(items[0], session.findings.verified.answered)
        answer = _answer(keys, ask, tell, can_go_back=bool(seqs))
        if answer is None:
            return False
        request = secrets.token_hex(8)
        if answer == BACK:
            session.undo(seqs.pop(), who=who, request=request)
            said = "taken back"
        else:
            assert isinstance(answer, Answer)
            said = _SAID.get(answer.kind, f"class {answer.label}")
            entries = session.decide(
                {items[0]["row"]: answer}, who=who, mode="verify", request=request
            )
            seqs.append(entries[0]["seq"])
        _wait_for_figures(session)
        progress(said, session.findings)


def is_narrow(findings: Findings, width: float) -> bool:
    """Whether the rate is measured within an interval of a width."""
    measured = findings.measured
    return measured is not None and measured.high - measured.low <= width


def _answer(
    keys: Keys, ask: Ask, tell: Callable[[str], None], *, can_go_back: bool
) -> Answer | str | None:
    """An answer, `BACK`, or None to stop; whatever means nothing is asked again."""
    while True:
        text = ask()
        if text is None:
            return None
        text = text.strip()
        answer = keys.read(text)
        if answer is not None:
            return answer
        if text == STOP:
            return None
        if text == BACK:
            if can_go_back:
                return BACK
            tell("Nothing of this sitting to take back.")
        elif begins := keys.beginning_with(text):
            tell(f"{len(begins)} classes begin so: {', '.join(begins[:10])}")
        elif text:
            tell(f"{text!r} is none of the keys.")


def _wait_for_figures(session: Session) -> None:
    """Let the figures follow the decision; of very many labels they may come later."""
    until = time.monotonic() + _WAIT
    while not session.status()["up_to_date"] and time.monotonic() < until:
        time.sleep(_LOOK)
