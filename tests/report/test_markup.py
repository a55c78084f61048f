"""Markup by construction: any text comes back as it was, and as nothing but text."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from abstain.report.markup import cut, element, foreign


class Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def read(markup):
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


# Without what HTML itself cannot hold, which `escaped` replaces.
TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"))


@given(TEXT)
def test_any_text_stays_text(text):
    reader = read(element("p", foreign(text), title=text))
    assert reader.tags == ["p", "bdi"]
    assert "".join(reader.text) == text
    assert reader.attributes == [("title", text)]


@given(st.text())
def test_any_text_can_be_written(text):
    element("p", text, title=text).encode("utf-8")


@given(st.text(), st.integers(2, 50))
def test_a_cut_text_is_no_longer_than_asked(text, length):
    assert len(cut(text, length)) <= length


def test_children_are_flattened_and_none_is_nothing():
    assert element("ul", [element("li", n) for n in (1, 2)], None) == (
        "<ul><li>1</li><li>2</li></ul>"
    )
