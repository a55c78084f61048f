"""A table with texts from end to end: audit, predictions, resumption, checks, exports."""

import json
import signal

import numpy as np
import pandas as pd
import pytest
import small_runs as small
from tickets import tickets

from abstain import AbstainError, Recipe, audit, predict_from, train
from abstain.auditing.folder import AuditFolder
from abstain.exporting.cleaned import export_cleaned
from abstain.report.page import render
from abstain.training.loop.loop import Loop
from abstain.training.processes import Interrupted

SHORT = Recipe(epochs=6, warm_up=1)


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))
    tickets().to_csv(tmp_path / "tickets.csv", index=False)
    return tmp_path / "tickets.csv"


def test_texts_find_wrong_labels_that_numbers_cannot(source, caplog):
    planted = Recipe(epochs=6, warm_up=1, flip=0.15)
    joined = audit(source, planted)
    assert not caplog.text
    assert "description, comment by small:" in joined.trained.encoder.backbone_used
    alone = audit(source, planted, backbone="none")
    assert "texts of tickets are left out" in caplog.text
    assert "description, comment; backbone='small:wordllama'" in caplog.text
    assert joined.detection.auroc > 0.9 > 0.7 > alone.detection.auroc
    assert joined.probabilities.shape == (160, 2)
    assert np.mean(joined.probabilities.argmax(1) == joined.data.true.numpy()) > 0.9


def test_new_rows_are_predicted_whatever_the_order_of_their_columns(source, tmp_path):
    found = train(source, SHORT, folder=tmp_path / "run")
    new = tickets(20, seed=1)
    turned = new[new.columns[::-1]].assign(extra=1)
    turned.to_csv(tmp_path / "new.csv", index=False)
    predicted = predict_from(tmp_path / "run", tmp_path / "new.csv", compare=True)
    assert np.mean(predicted.predicted == predicted.given) > 0.8
    again = predict_from(found, new)
    np.testing.assert_allclose(again.confidence, predicted.confidence, atol=1e-5)
    for changed in (new.assign(comment=None), new.assign(comment=12.5), new.head(1)):
        assert len(predict_from(found, changed).predicted) == len(changed)
    with pytest.raises(AbstainError, match="got no description"):
        predict_from(tmp_path / "run", new.drop(columns="description"))


def test_a_run_that_is_stopped_goes_on_as_if_it_was_not(source, tmp_path, monkeypatch):
    whole = train(source, SHORT)
    original = Loop._step

    def interrupt(loop, batch):
        original(loop, batch)
        if loop.position.step == 6:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_step", interrupt)
        with pytest.raises(Interrupted):
            train(source, SHORT, folder=tmp_path / "run")
    kept = source.read_text()
    source.write_text(kept.replace("router", "rooter"))
    with pytest.raises(AbstainError, match="data must be those that the run"):
        train(folder=tmp_path / "run", resume=True)
    source.write_text(kept)
    resumed = train(folder=tmp_path / "run", resume=True)
    small.assert_same_weights(whole.model.state_dict(), resumed.model.state_dict())


def test_a_test_set_has_the_texts_of_the_training(source, tmp_path):
    tickets(4, seed=1).to_csv(tmp_path / "test.csv", index=False)  # too few to tell by themselves
    found = train(source, SHORT, test=tmp_path / "test.csv")
    assert found.test_accuracy > 0.7


def test_checks_see_all_columns(source):
    frame = tickets()
    frame.loc[5] = frame.loc[4]
    frame.loc[7, ["priority", "created", "hours", "description", "comment"]] = None
    found = audit(frame, SHORT).checks
    assert {4, 5} in [set(x.tolist()) for x in found.near_duplicate_sets]
    assert found.worst("null").tolist() == [7]


def test_all_columns_are_shown_and_exported(source, tmp_path):
    found = audit(source, Recipe(epochs=6, warm_up=1, flip=0.2), folder=tmp_path / "audit")
    assert "<strong><bdi>comment</bdi></strong>" in render(found)
    frame = pd.read_csv(source)
    cleaned = tmp_path / "cleaned.csv"
    export_cleaned(AuditFolder.open(tmp_path / "audit"), cleaned)
    pd.testing.assert_frame_equal(pd.read_csv(cleaned)[frame.columns[:-1]], frame.iloc[:, :-1])


def test_where_no_backbone_is_installed_texts_are_left_out_with_one_warning(
    source, monkeypatch, caplog
):
    monkeypatch.setattr("abstain.embed.choice.SMALL", {})
    train(source, SHORT)
    assert [x.getMessage() for x in caplog.records] == [
        "texts of tickets are left out, as no backbone is used: description, comment; "
        "backbone='small:wordllama' (--backbone small:wordllama) reads them, from: pip install "
        "'abstain[small]'"
    ]
    with pytest.raises(AbstainError, match="got only texts in description, comment"):
        train(source, SHORT, features=["description", "comment"])


def test_what_texts_of_a_table_cannot_be(source):
    with pytest.raises(AbstainError, match="only backbones of images and texts are trained"):
        train(source, finetune=True)
    with pytest.raises(AbstainError, match="must be one for texts, got small:efficientnet-lite2"):
        train(source, SHORT, backbone="small:efficientnet-lite2")
    with pytest.raises(AbstainError, match="must be left out for tickets, which holds numbers"):
        train(source, SHORT, backbone="small:wordllama", ignore=["description", "comment"])


def test_the_encoder_is_plain_text(source, tmp_path):
    train(source, SHORT, folder=tmp_path / "run")
    about = json.loads((tmp_path / "run/encoder.json").read_text())
    assert about["kind"] == "joined"
    assert [*about["texts"]] == ["description", "comment"]
