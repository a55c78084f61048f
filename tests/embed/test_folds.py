import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from abstain.embed.folds import out_of_sample


def clouds(samples, columns, classes, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, columns))
    given = rng.integers(classes, size=samples)
    rows = centres[given] + rng.normal(size=(samples, columns))
    return torch.from_numpy(rows).float(), torch.from_numpy(given)


def test_heads_agree_with_cross_validated_logistic_regression():
    rows, given = clouds(1000, 10, 3)
    own = out_of_sample(rows, given, 3)
    other = cross_val_predict(
        LogisticRegression(), rows.numpy(), given.numpy(), cv=5, method="predict_proba"
    )
    assert (own.argmax(1).numpy() == other.argmax(1)).mean() > 0.97
    assert np.abs(own.numpy() - other).mean() < 0.03
    torch.testing.assert_close(own.sum(1), torch.ones(1000))


def test_no_head_knows_the_labels_of_its_fold():
    # More columns than samples: whoever saw these labels, which mean nothing, knows them all.
    rows = torch.randn(200, 400, generator=torch.Generator().manual_seed(0))
    given = torch.randint(2, (200,), generator=torch.Generator().manual_seed(1))
    own = out_of_sample(rows, given, 2)
    agreement = float((own.argmax(1) == given).float().mean())
    assert 0.35 < agreement < 0.65
    # By the end of the training the heads are sure of what they do not know.
    assert float(torch.nn.functional.nll_loss(own.log(), given)) < 0.8


def test_features_on_disk_give_the_same(tmp_path):
    from abstain.embed.store.shards import Features, write_shard

    rows, given = clouds(300, 4, 2)
    path = tmp_path / "rows.safetensors"
    write_shard(path, rows)
    features = Features((path,), 300, 4)
    assert torch.equal(
        out_of_sample(features, given, 2), out_of_sample(features.in_memory(), given, 2)
    )


def test_a_column_that_is_the_same_everywhere_does_no_harm():
    rows, given = clouds(300, 4, 2)
    rows[:, 1] = 7.0
    assert bool(out_of_sample(rows, given, 2).isfinite().all())


@pytest.mark.parametrize(("given", "classes"), [([0, 1, 1], 2), ([0, 0, 0, 0, 0, 0], 1)])
def test_fewer_samples_than_folds_or_a_single_class_have_probabilities_too(given, classes):
    found = out_of_sample(torch.randn(len(given), 4), torch.tensor(given), classes)
    assert found.shape == (len(given), classes)
    torch.testing.assert_close(found.sum(1), torch.ones(len(given)))
