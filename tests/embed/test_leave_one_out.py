import numpy as np
import pytest
import torch
from hypothesis import given as cases
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import euclidean_distances, linear_kernel, rbf_kernel
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import KernelCenterer, StandardScaler

from abstain.embed import leave_one_out as module
from abstain.embed.leave_one_out import kernel, leave_one_out


def clouds(samples, columns, classes, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, columns))
    given = rng.integers(classes, size=samples)
    rows = centres[given] + rng.normal(size=(samples, columns))
    return torch.from_numpy(rows).float(), torch.from_numpy(given)


def kernel_by_sklearn(rows):
    rows = StandardScaler().fit_transform(rows.numpy().astype(np.float64))
    distances = np.sort(euclidean_distances(rows, squared=True)[np.triu_indices(len(rows), 1)])
    gamma = 1 / distances[(len(distances) - 1) // 2]  # the lower of two middle ones, as torch
    kernels = [linear_kernel(rows), KernelCenterer().fit_transform(rbf_kernel(rows, gamma=gamma))]
    return sum(x / x.trace() for x in kernels)


def test_the_kernel_is_that_of_sklearn():
    rows, _ = clouds(40, 6, 3)
    np.testing.assert_allclose(kernel(rows.double()), kernel_by_sklearn(rows), atol=1e-6)


def test_probabilities_are_those_of_a_ridge_fitted_without_the_sample():
    rows, given = clouds(30, 5, 3, seed=1)
    values, vectors = np.linalg.eigh(kernel_by_sklearn(rows))
    values, vectors = values[values > 1e-9], vectors[:, values > 1e-9]
    features, targets = vectors * np.sqrt(values), np.eye(3)[given]
    found = []
    for strength in module._STRENGTHS:
        predicted = np.zeros((30, 3))
        for one in range(30):
            rest = np.arange(30) != one
            model = Ridge(strength * values.mean()).fit(features[rest], targets[rest])
            predicted[one] = model.predict(features[[one]])[0]
        for sharpness in module._SHARPNESSES:
            odds = np.exp(sharpness * predicted)
            found.append(odds / odds.sum(1, keepdims=True))
    best = min(found, key=lambda x: log_loss(given.numpy(), x))
    np.testing.assert_allclose(leave_one_out(rows, given, 3), best, atol=1e-4)


def test_it_agrees_with_cross_validated_logistic_regression():
    rows, given = clouds(400, 10, 3)
    own = leave_one_out(rows, given, 3)
    other = cross_val_predict(LogisticRegression(), rows.numpy(), given.numpy(), cv=5)
    assert (own.argmax(1).numpy() == other).mean() > 0.95
    torch.testing.assert_close(own.sum(1), torch.ones(400))


def test_no_sample_is_judged_by_its_own_label():
    # More columns than samples: whoever saw these labels, which mean nothing, knows them all.
    rows = torch.randn(200, 400, generator=torch.Generator().manual_seed(0))
    given = torch.randint(2, (200,), generator=torch.Generator().manual_seed(1))
    own = leave_one_out(rows, given, 2)
    assert 0.35 < float((own.argmax(1) == given).float().mean()) < 0.65
    assert float(torch.nn.functional.nll_loss(own.log(), given)) < 0.75


@settings(max_examples=25, deadline=None)
@cases(st.integers(5, 40), st.integers(1, 60), st.integers(2, 4), st.integers(0, 1000))
def test_neither_order_of_samples_nor_numbers_of_classes_matter(samples, columns, classes, seed):
    rows, given = clouds(samples, columns, classes, seed)
    rng = np.random.default_rng(seed)
    order, number = (torch.from_numpy(rng.permutation(x)) for x in (samples, classes))
    own = leave_one_out(rows, given, classes)
    other = leave_one_out(rows[order], number[given[order]], classes)
    torch.testing.assert_close(other[:, number], own[order], atol=1e-3, rtol=0)
    torch.testing.assert_close(own.sum(1), torch.ones(samples))


def test_features_on_disk_give_the_same(tmp_path):
    from abstain.embed.store.shards import Features, write_shard

    rows, given = clouds(100, 4, 2)
    path = tmp_path / "rows.safetensors"
    write_shard(path, rows)
    features = Features((path,), 100, 4)
    assert torch.equal(
        leave_one_out(features, given, 2), leave_one_out(features.in_memory(), given, 2)
    )


@pytest.mark.parametrize("change", ["constant", "equal", "half", "far"])
def test_odd_features_have_probabilities_too(change):
    rows, given = clouds(60, 4, 2)
    if change == "constant":
        rows[:, 1] = 7.0
    elif change == "equal":
        rows[:] = 1.0
    elif change == "half":
        rows[10:] = rows[10]  # most pairs have no distance
    else:
        rows[3, 2] = 1e30
    found = leave_one_out(rows, given, 2)
    assert bool(found.isfinite().all())
    torch.testing.assert_close(found.sum(1), torch.ones(60))


def test_equal_rows_know_only_the_frequencies_of_the_others():
    given = torch.tensor([0] * 30 + [1] * 10)
    found = leave_one_out(torch.ones(40, 3), given, 2)
    assert len(found.unique(dim=0)) == 2
    assert bool((found[:, 0] > 0.5).all())


@pytest.mark.parametrize(("given", "classes"), [([0, 1], 2), ([0, 1, 1], 3), ([0, 0, 0, 0], 1)])
def test_two_samples_an_empty_class_or_a_single_one_have_probabilities_too(given, classes):
    found = leave_one_out(torch.randn(len(given), 4), torch.tensor(given), classes)
    torch.testing.assert_close(found.sum(1), torch.ones(len(given)))
