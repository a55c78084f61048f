import pytest
import torch
from sklearn.cluster import KMeans

from abstain.checks import cells
from abstain.checks.cells import Cells, k_means, nearest_cells


def clustered(size=4000, columns=24, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(60, columns, generator=generator)
    own = torch.randint(60, (size,), generator=generator)
    return centres[own] + 0.6 * torch.randn(size, columns, generator=generator)


def recall(found, right):
    return float((right[:, :, None] == found[:, None]).any(dim=2).float().mean())


@pytest.fixture
def few_cells_asked(monkeypatch):
    monkeypatch.setattr(cells, "_SIZE", 20)
    monkeypatch.setattr(cells, "_ASKED", 12)


@pytest.mark.usefixtures("few_cells_asked")
def test_each_step_finds_more_and_the_last_nearly_all(monkeypatch):
    rows = torch.randn(3000, 24, generator=torch.Generator().manual_seed(0))  # as hard as can be
    index = Cells(rows)
    right = torch.cdist(rows, rows).topk(10, largest=False).indices
    asked = recall(index.nearest(rows.clone(), 10), right)
    whole = recall(index.nearest(rows, 10), right)
    monkeypatch.setattr(index, "_neighbours_of", lambda known, _: known)
    met = recall(index.nearest(rows, 10), right)
    assert asked + 0.05 < met < whole - 0.05
    assert whole > 0.9
    rows = clustered()
    right = torch.cdist(rows[:50] + 0.01, rows).topk(10, largest=False).indices
    assert recall(Cells(rows).nearest(rows[:50] + 0.01, 10), right) > 0.99


def test_neighbours_of_neighbours_against_a_loop(monkeypatch):
    monkeypatch.setitem(cells._GATHERED, "cpu", 7 * 4 * 4 * 24)  # blocks that do not fit evenly
    rows = clustered(200)
    known = torch.randint(200, (200, 4), generator=torch.Generator().manual_seed(0))
    found = Cells(rows)._neighbours_of(known, 3)
    for i, row in enumerate(rows.double()):
        others = known[known[i]].unique()
        nearest = (rows[others].double() - row).norm(dim=1).argsort()[:3]
        assert found[i].tolist() == others[nearest].tolist()


@pytest.mark.usefixtures("few_cells_asked")
def test_a_copy_is_always_met():
    rows = clustered()
    rows[1::2] = rows[::2] + 1e-3 * torch.randn(
        2000, 24, generator=torch.Generator().manual_seed(3)
    )
    found = Cells(rows).nearest(rows, 10)
    other = torch.arange(4000) ^ 1
    assert bool((found == other[:, None]).any(dim=1).all())


@pytest.mark.usefixtures("few_cells_asked")
def test_two_runs_are_equal():
    rows = clustered()
    assert torch.equal(Cells(rows).nearest(rows, 5), Cells(rows).nearest(rows, 5))


def test_blocks_change_nothing(monkeypatch):
    rows = clustered(1000)
    rows[200:800] = 0  # one large cell
    at_once = Cells(rows).nearest(rows, 5)
    monkeypatch.setitem(cells.PRODUCTS, "cpu", 5000)
    monkeypatch.setattr(cells, "_AT_ONCE", 300)
    in_parts = Cells(rows).nearest(rows, 5)
    for found in (at_once, in_parts):
        distance = (rows[found] - rows[:, None]).norm(dim=2)
        assert bool((distance[200:800, :5] == 0).all())
    one, other = (
        (rows[x[:, :5]] - rows[:, None]).norm(dim=2).sort(dim=1).values for x in (at_once, in_parts)
    )
    torch.testing.assert_close(one, other)


def test_centres_fit_nearly_as_well_as_those_of_scikit_learn():
    rows = clustered()
    centres = k_means(rows, 60, len(rows))
    own = nearest_cells(rows, centres, 1)[:, 0]
    torch.testing.assert_close(own, torch.cdist(rows, centres).argmin(dim=1))
    other = KMeans(60, init="random", n_init=1, random_state=0).fit(rows.numpy())
    assert float((rows - centres[own]).square().sum()) < 1.15 * other.inertia_
