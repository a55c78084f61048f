"""Tests of identity.py."""

import torch

from abstain.data import LabeledData, load
from abstain.data.identity import contents, fingerprints


def texts(words, labels=None):
    given = torch.arange(len(words)) % 2 if labels is None else torch.tensor(labels)
    ids = [str(i) for i in range(len(words))]
    return LabeledData(inputs=words, given=given, classes=("a", "b"), ids=ids, kind="text")


def test_fingerprints_are_equal_for_equal_inputs_only(image_folder):
    images = load(image_folder(per_class=3))
    assert len(set(fingerprints(images).tolist())) == 6
    twice = LabeledData(
        inputs=torch.cat([images.inputs, images.inputs]),
        given=torch.cat([images.given, images.given]),
        classes=images.classes,
        ids=[str(i) for i in range(12)],
        kind="image",
    )
    prints = fingerprints(twice)
    assert prints[:6].tolist() == prints[6:].tolist()


def test_lazy_images_differ_by_their_files(image_folder):
    root = image_folder(per_class=3)
    lazy = load(root, memory_budget=1)
    assert not isinstance(lazy.inputs, torch.Tensor)
    assert len(set(fingerprints(lazy).tolist())) == 6


def test_texts_are_compared_without_case_and_spacing():
    prints = fingerprints(texts(["A  film", "a film ", "a films", "\ud800"]))
    assert prints[0] == prints[1] != prints[2]


def test_what_a_sample_is_does_not_depend_on_where_it_lies(tmp_path, monkeypatch):
    monkeypatch.setattr("abstain.data.identity._FEW", 7)
    lines = [f"text {k} äß,{k % 2}" for k in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *lines]))
    whole, lazy = load(tmp_path / "t.csv"), load(tmp_path / "t.csv", memory_budget=1)
    rows = range(5, 25)
    expected = [text.encode() for text in whole.inputs[5:25]]
    assert list(contents(whole, rows)) == list(contents(lazy, rows)) == expected
