"""When a training is saved, and that what is saved is all of it; real processes: test_resume.py."""

import pytest
import small_runs as small
import torch

from abstain.errors import AbstainError
from abstain.training.saving.checkpoint import CheckpointFolder
from abstain.training.saving.saver import Saver


def begun(folder, **settings):
    return small.loop_on_blobs(epochs=3, parts={"checkpoints": folder}, **settings)


@pytest.mark.parametrize(("seconds", "due"), [(0.0, True), (60.0, False)])
def test_a_checkpoint_is_due_after_so_many_seconds(seconds, due):
    assert Saver(None, seconds).is_due is due


def test_a_restored_training_ends_as_if_it_had_not_been_left(tmp_path):
    straight = begun(None)
    straight.run()
    folder = CheckpointFolder(tmp_path)
    left = begun(folder)
    assert not left.saver.restore(left)  # there is nothing yet
    left.train_epoch()
    left.saver.save(left)
    again = begun(folder)
    again.run()
    assert again.position.step == straight.position.step
    small.assert_same_weights(
        again.learner.plain_model.state_dict(), straight.learner.plain_model.state_dict()
    )


def test_weights_that_are_no_numbers_are_not_saved(tmp_path):
    loop = begun(CheckpointFolder(tmp_path), learning_rate=0.5)
    loop.saver.save(loop)
    torch.nn.init.constant_(loop.learner.plain_model.bias, torch.nan)
    message = r"got others in bias: .* lower learning_rate \(0.5\) or set clip; .*last.* is whole"
    with pytest.raises(AbstainError, match=message):
        loop.saver.save(loop)
