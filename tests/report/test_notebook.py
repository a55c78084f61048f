"""A notebook shows an audit: small, in its own styles, and safe whatever the data hold."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.report.headline import headline

from audits import blobs, hostile_data, write_texts


class Shown(HTMLParser):
    """Tags, attributes and text of a fragment; every tag must be closed that is to be."""

    VOID = ("img", "line", "rect", "circle", "br")

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data


def check_safe(text):
    shown = Shown(text)
    assert not set(shown.tags) & {"script", "iframe", "object", "embed", "link", "form", "base"}
    assert not [name for name, _ in shown.attributes if name.startswith("on")]
    links = [value for name, value in shown.attributes if name in ("src", "href")]
    assert all(link.startswith("data:image/") for link in links)
    assert len(text.encode()) <= 200_000
    return shown


def test_an_audit_of_pictures_shows_rate_worst_labels_and_classes(digits):
    shown = check_safe(digits._repr_html_())
    assert headline(digits).rate in shown.text
    assert shown.tags.count("img") == 12
    assert f"{digits.flagged - 12:,} more labels flagged: see the table issues." in shown.text
    worst = digits.labels.ids[digits.order[0]]
    assert ("title", worst) in shown.attributes
    for name in digits.labels.classes:
        assert name in shown.text


def test_texts_and_rows_are_shown(tmp_path):
    path = write_texts(tmp_path / "texts.csv", count=60)
    found = audit(path, Recipe(epochs=3, warm_up=1, flip=0.2), label="stars", features="text")
    worst = str(found.shown.inputs[found.order[0]])
    assert worst[:30] in check_safe(found._repr_html_()).text
    x, y = blobs(90)
    rows = audit((x, y), Recipe(epochs=3, warm_up=1, flip=0.2))
    assert "this row" in check_safe(rows._repr_html_()).text


@pytest.mark.parametrize("kind", ["text", "table", "image"])
def test_markup_in_names_and_ids_stays_text(kind):
    found = audit(hostile_data(kind), Recipe(epochs=3, warm_up=1, flip=0.2))
    shown = check_safe(found._repr_html_())
    assert "onerror=alert(1)" in shown.text
    assert shown.tags.count("img") == (min(12, found.flagged or 12) if kind == "image" else 0)


def test_many_classes_and_noisy_photographs_stay_small():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (400, 3, 96, 96), dtype=np.uint8)
    y = np.arange(400) % 200
    p = np.full((400, 200), 0.2 / 199)
    p[np.arange(400), (y + (np.arange(400) < 40)) % 200] = 0.8
    found = audit((x, y), probabilities=p)
    shown = check_safe(found._repr_html_())
    assert "The 10 worst of 200 classes." in shown.text


def test_styles_hold_inside_the_audit_alone(digits):
    (style,) = re.findall(r"<style>(.*?)</style>", digits._repr_html_(), re.DOTALL)
    assert style.startswith(".abstain-audit {")
    assert style.count("{") == style.count("}")
    assert not re.search(r"(^|[\s,])(:root|html|body)\b", style)
