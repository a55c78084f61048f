"""Markup by templates: any text comes back as it was, and as nothing but text."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from abstain.report.markup import environment


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


def rendered(text):
    source = """{% macro bdi(text) %}<bdi>{{ text }}</bdi>{% endmacro %}
    {%- set copy = text %}<p title="{{ text }}">{{ bdi(copy) }}</p>"""
    return environment().from_string(source).render(text=text)


# Without what HTML itself cannot hold, which is replaced.
TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"))


@given(TEXT)
def test_any_text_stays_text(text):
    reader = read(rendered(text))
    assert reader.tags == ["p", "bdi"]
    assert "".join(reader.text) == text
    assert reader.attributes == [("title", text)]


@given(st.text())
def test_any_text_can_be_written(text):
    rendered(text).encode("utf-8")


def test_a_value_that_is_missing_is_an_error_not_a_gap():
    with pytest.raises(UndefinedError):
        environment().from_string("{{ nothing }}").render()


@pytest.mark.parametrize("name", environment().list_templates())
def test_no_template_marks_text_as_safe(name):
    source, _, _ = environment().loader.get_source(environment(), name)
    assert not re.search(r"\|\s*safe|autoescape", source)
