"""Tests of store.py, parquet.py and record.py."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
from paper_runs import hand_made, tiny_run
from sklearn.metrics import roc_auc_score

from abstain.errors import AbstainError
from reproduction.parquet import read_results, write_results
from reproduction.recipes import make_run
from reproduction.record import separate
from reproduction.store import RecordStore


def test_a_record_is_read_as_it_was_written(tmp_path):
    store = RecordStore(tmp_path / "runs")
    record = hand_made(make_run("mnist", "nll_entropy", 0.5), payoff=[math.nan] * 50)
    store.put(record)
    (again,) = store.all().values()
    assert math.isnan(again.history["payoff"][0])
    assert replace(again, history={}) == replace(record, history={})
    assert again.history["loss"] == record.history["loss"]


def test_a_record_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    store = RecordStore(tmp_path)

    def killed(_descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", killed)  # the text is written, and not yet in its place
    with pytest.raises(KeyboardInterrupt):
        store.put(hand_made(tiny_run()))
    assert list(tmp_path.iterdir()) == []


def test_stores_merge_by_copying(tmp_path):
    here, there = RecordStore(tmp_path / "here"), RecordStore(tmp_path / "there")
    here.put(hand_made(tiny_run(0)))
    there.put(hand_made(tiny_run(0)))
    there.put(hand_made(tiny_run(1)))
    shutil.copytree(there.folder, here.folder, dirs_exist_ok=True)
    assert set(here.all()) == {tiny_run(0).name, tiny_run(1).name}


def test_a_damaged_file_is_a_missing_run(tmp_path, caplog):
    store = RecordStore(tmp_path)
    path = store.put(hand_made(tiny_run()))
    path.write_text(path.read_text()[:100])
    assert store.all() == {}
    assert path.name in caplog.text


def test_what_is_no_run_is_left_out(tmp_path, caplog):
    store = RecordStore(tmp_path)
    store.put(hand_made(tiny_run()))
    (tmp_path / "measured.json").write_text("[1, 2]")
    (tmp_path / f"{tiny_run(1).name}.json").write_text("[1, 2]")
    assert set(store.all()) == {tiny_run().name}
    assert "measured" not in caplog.text
    assert tiny_run(1).name in caplog.text


def test_a_store_that_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AbstainError, match="store must be a folder"):
        RecordStore(tmp_path / "file")


def test_results_hold_all_that_a_page_needs(tmp_path):
    records = [hand_made(make_run("mnist", "gamblers", 0.5).with_seed(seed)) for seed in range(2)]
    write_results(tmp_path / "t.parquet", records)
    again = read_results(tmp_path)
    assert set(again) == {record.name for record in records}
    for record in records:
        read = again[record.name]
        assert read.run == record.run
        assert read.separation == record.separation
        assert np.allclose(read.history["loss"], record.history["loss"], rtol=1e-5)
        assert read.machine == record.machine


def test_the_same_results_give_the_same_file(tmp_path):
    records = [hand_made(tiny_run(seed)) for seed in range(3)]
    write_results(tmp_path / "a.parquet", records)
    first = (tmp_path / "a.parquet").read_bytes()
    write_results(tmp_path / "a.parquet", list(read_results(tmp_path).values())[::-1])
    assert (tmp_path / "a.parquet").read_bytes() == first


def test_a_file_that_is_no_result(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"no")
    with pytest.raises(AbstainError, match=r"x\.parquet must be a results file"):
        read_results(tmp_path)


def test_auroc_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    wrong = rng.random(500) < 0.3
    scores = np.round(rng.random(500) + 0.3 * wrong, 2)  # with ties
    found = separate(scores, 1 - scores, wrong)
    assert found.rejection_auroc == pytest.approx(roc_auc_score(wrong, scores))
    assert found.belief_auroc == pytest.approx(found.rejection_auroc)
    assert sum(found.clean) + sum(found.corrupt) == 500
