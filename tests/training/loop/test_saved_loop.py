"""When a training is saved, and that what is saved is all of it; real processes: test_resume.py."""

import pytest
import small_runs as small
import torch

from abstain.errors import AbstainError
from abstain.training.saving.checkpoint import CheckpointFolder


def begun(folder, **settings):
    return small.loop_on_blobs(epochs=3, parts={"checkpoints": folder}, **settings)


@pytest.mark.parametrize(("seconds", "saves"), [(0.0, 3 + 2), (60.0, 2)])
def test_a_checkpoint_within_an_epoch_is_due_after_so_many_seconds(
    tmp_path, monkeypatch, seconds, saves
):
    saved = []
    monkeypatch.setattr(CheckpointFolder, "save_last", lambda *_: saved.append(1))
    # Forty-odd steps in batches of one: looks at steps 10, 20, 30 and at the end of each epoch.
    loop = small.loop_on_blobs(
        count=35, batch=1, epochs=1,
        parts={"checkpoints": CheckpointFolder(tmp_path), "save_every": seconds},
    )  # fmt: skip
    loop.run()
    assert len(saved) == saves - 1


def test_a_restored_training_ends_as_if_it_had_not_been_left(tmp_path):
    straight = begun(None)
    straight.run()
    folder = CheckpointFolder(tmp_path)
    left = begun(folder)
    assert not left.restore()  # there is nothing yet
    left.train_epoch()
    left.save()
    again = begun(folder)
    again.run()
    assert again.position.step == straight.position.step
    small.assert_same_weights(
        again.learner.plain_model.state_dict(), straight.learner.plain_model.state_dict()
    )


def test_weights_that_are_no_numbers_are_not_saved(tmp_path):
    loop = begun(CheckpointFolder(tmp_path), learning_rate=0.5)
    loop.save()
    torch.nn.init.constant_(loop.learner.plain_model.bias, torch.nan)
    message = r"got others in bias: .* lower learning_rate \(0.5\); .*last.* is whole"
    with pytest.raises(AbstainError, match=message):
        loop.save()
