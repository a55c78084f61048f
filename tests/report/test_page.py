"""The report: one safe file, with everything in it that a person asks for."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.report import render, write_report
from abstain.report.numbers import expectation

from audits import blobs, hostile_data

LINKS = ("src", "href", "action", "data", "srcset", "poster", "background", "xlink:href")


class Page(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.links, self.handlers, self.headings = [], [], [], []
        self.policy, self.style, self._inside, self.texts = "", "", "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._inside = tag
        named = dict(attrs)
        self.links += [named[name] for name in LINKS if name in named]
        self.handlers += [name for name in named if name.startswith("on") or name == "style"]
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"]

    def handle_data(self, data):
        self.texts.append(data)
        if self._inside == "style":
            self.style += data
        elif self._inside == "h2":
            self.headings.append(data)

    def handle_endtag(self, tag):
        self._inside = ""


def check_safe(text):
    """Nothing runs, and nothing is fetched."""
    page = Page(text)
    assert "script" not in page.tags
    assert not set(page.tags) & {"iframe", "object", "embed", "link", "form", "base"}
    assert page.handlers == []
    assert all(link.startswith("data:image/") for link in page.links)
    assert "http" not in page.style
    assert "url(" not in page.style
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert page.policy.startswith("default-src 'none'")
    assert f"style-src 'sha256-{digest}'" in page.policy
    return page


def test_the_page_has_all_parts_and_is_one_small_safe_file(digits, tmp_path):
    write_report(digits, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = check_safe(text)
    assert page.headings == [
        "Worst labels",
        "How many labels to review",
        "Confused classes",
        "By class",
        "Scores",
        "Training",
        "Other data issues",  # what was skipped
        "Settings",
        "Next steps",
    ]
    assert 20_000 < len(text) < 3_000_000
    assert 24 <= page.tags.count("img") <= 72
    assert f"{digits.detection.wrong} errors planted on purpose" in text
    assert "Errors already in the data count as correct here." in text
    wrong = digits.planted[digits.order]
    for budget in digits.budgets:
        expected = expectation(digits.verdict.expected_wrong(budget))
        head = f">{'all flagged: ' * (budget == digits.flagged)}{budget:,}</th>"
        row = rf"{head}\s*<td[^>]*>{re.escape(expected)}</td>.*?>{wrong[:budget].sum()}</td>"
        assert re.search(row, text, re.DOTALL)
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)  # well-formed by itself
        assert 'aria-label="' in drawing or 'aria-hidden="true"' in drawing
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("kind", ["text", "table", "image"])
def test_hostile_text_stays_text_everywhere(kind):
    found = audit(hostile_data(kind), Recipe(epochs=3, warm_up=1, flip=0.2))
    text = render(found)
    page = check_safe(text)
    if kind != "image":
        assert "img" not in page.tags
    assert "onerror=alert(1)" in "".join(page.texts)  # shown, not run
    assert "\x00" not in text


def test_a_set_that_was_reviewed_whole_is_known(digits):
    true = digits.data.true.tolist()
    names = [digits.data.classes[k] for k in true]
    found = digits.with_reviewed(dict(zip(digits.data.ids, names, strict=True)))
    page = render(found)
    assert "<h1><em>" in page
    assert "known: every label was reviewed" in page
    for word in ("nan", "None was flagged", "in doubt", "abstain sample", "alone"):
        assert word not in re.sub(r"<style>.*?</style>|data:image[^\"]*", "", page, flags=re.DOTALL)


def test_no_truth_is_claimed_where_no_errors_were_planted():
    text = re.sub(
        r"<style>.*?</style>",
        "",
        render(audit(blobs(), Recipe(epochs=3, warm_up=1))),
        flags=re.DOTALL,
    )
    assert "planted" not in text
    assert "in truth" not in text


def test_probabilities_have_a_report_without_a_training():
    x, y = blobs(90)
    found = audit((x, y), probabilities=0.9 * np.eye(3)[y] + 0.1 / 3)
    page = check_safe(render(found))
    assert "Training" not in page.headings
    assert "This is an estimate from the labels alone" in found.caution
