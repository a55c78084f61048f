import numpy as np
import pytest
import torch

from abstain.data.inputs import LazyRows
from abstain.errors import DataError
from abstain.training.loop.batches import Batches

CPU = torch.device("cpu")


class Lazy:
    """Inputs that are decoded when asked for; sample i is [i, i]."""

    def __init__(self, count, broken=None):
        self.count, self.broken = count, broken

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.broken:
            raise DataError(f"sample {index} cannot be read: it is broken")
        return torch.full((2,), float(index))


class AtOnce(LazyRows):
    """Inputs that are read a batch at once; sample i is [i, i]."""

    def __init__(self):
        self.asked = []

    def __len__(self):
        return 11

    def as_tensor(self, indices):
        self.asked.append(len(indices))
        return torch.tensor(indices).float()[:, None].expand(-1, 2)


def make(count=11, size=4, *, lazy=False, rows=None, **settings):
    inputs = torch.arange(count).float().unsqueeze(1).expand(-1, 2)
    return Batches(
        inputs=Lazy(count) if lazy else inputs,
        rows=torch.arange(count) if rows is None else rows,
        size=size,
        seed=settings.pop("seed", 0),
        device=CPU,
        **settings,
    )


@pytest.mark.parametrize("lazy", [False, True])
def test_an_epoch_visits_every_row_once_with_its_own_input(lazy):
    batches = list(make(lazy=lazy).epoch(0))
    assert [len(b.index) for b in batches] == [4, 4, 3] == [b.total for b in batches]
    assert sorted(torch.cat([b.index for b in batches]).tolist()) == list(range(11))
    for batch in batches:
        assert torch.equal(batch.inputs[:, 0], batch.index.float())


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("count", "world"), [(11, 1), (11, 2), (8, 1), (3, 1), (5, 3)])
def test_batches_are_filled_up_to_one_size_by_inputs_that_do_not_count(count, world, lazy):
    plain = list(make(count, lazy=lazy, world=world).epoch(0))
    filled = list(make(count, lazy=lazy, world=world, filled=True).epoch(0))
    assert {len(batch.inputs) for batch in filled} == {-(-4 // world)}
    for a, b in zip(plain, filled, strict=True):
        assert torch.equal(a.index, b.index)
        assert torch.equal(a.inputs, b.inputs[: len(b.index)])
        assert (a.counts, a.total) == (b.counts, b.total)


def test_the_order_is_that_of_seed_and_epoch_alone():
    def order(seed, epoch):
        return torch.cat([b.index for b in make(seed=seed).epoch(epoch)]).tolist()

    assert order(0, 1) == order(0, 1)
    assert len({tuple(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4


def test_an_epoch_can_be_taken_up_in_the_middle():
    rest = list(make().epoch(3, start=1))
    whole = list(make().epoch(3))
    assert len(rest) == 2
    assert all(torch.equal(a.index, b.index) for a, b in zip(rest, whole[1:], strict=True))
    assert list(make().epoch(3, start=3)) == []


@pytest.mark.parametrize("count", [7, 9, 10, 11, 13])
@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_every_global_batch_without_overlap(count, world):
    alone = list(make(count).epoch(2))
    ranks = [list(make(count, rank=rank, world=world).epoch(2)) for rank in range(world)]
    assert {len(batches) for batches in ranks} == {len(alone)}
    for whole, *parts in zip(alone, *ranks, strict=True):
        assert all(part.total == len(whole.index) for part in parts)
        assert all(len(part.index) for part in parts)  # a stand-in, where none was left
        seen = [i for part in parts if part.counts for i in part.index.tolist()]
        assert sorted(seen) == sorted(whole.index.tolist())


@pytest.mark.parametrize(
    ("count", "least", "sizes"),
    [(9, 1, [4, 4, 1]), (9, 2, [4, 5]), (10, 2, [4, 4, 2]), (11, 4, [4, 7]), (8, 4, [4, 4]),
     (1, 2, [1])],
)  # fmt: skip
def test_too_few_samples_at_the_end_join_the_batch_before(count, least, sizes):
    batches = make(count, least=least)
    alone = torch.cat([batch.index for batch in make(count).epoch(0)])
    together = list(batches.epoch(0))
    assert [batch.total for batch in together] == sizes
    assert len(batches) == len(sizes)
    assert torch.equal(torch.cat([batch.index for batch in together]), alone)
    assert len(list(batches.epoch(0, start=1))) == len(sizes) - 1


def test_only_the_rows_asked_for_are_visited():
    rows = torch.tensor([9, 2, 5])
    batches = make(rows=rows, size=2)
    assert len(batches) == 2
    assert torch.cat([b.index for b in batches.in_order()]).tolist() == [9, 2, 5]
    assert sorted(torch.cat([b.index for b in batches.epoch(0)]).tolist()) == [2, 5, 9]


def test_workers_bring_what_one_process_brings_and_take_no_random_numbers():
    alone, helped = make(lazy=True), make(lazy=True, workers=2)
    before = torch.get_rng_state()
    for a, b in zip(alone.epoch(0), helped.epoch(0), strict=True):
        assert torch.equal(a.index, b.index)
        assert torch.equal(a.inputs, b.inputs)
    assert torch.equal(before, torch.get_rng_state())


def test_rows_are_read_a_batch_at_once():
    inputs = AtOnce()
    batches = Batches(inputs=inputs, rows=torch.arange(11), size=4, seed=0, device=CPU)
    for at_once, alone in zip(batches.epoch(0), make().epoch(0), strict=True):
        assert torch.equal(at_once.inputs, alone.inputs)
    assert inputs.asked == [4, 4, 3]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_in_a_worker_stays_one_line(workers):
    batches = Batches(
        inputs=Lazy(5, broken=3), rows=torch.arange(5), size=2, seed=0, device=CPU, workers=workers
    )
    with pytest.raises(DataError) as caught:
        list(batches.in_order())
    assert str(caught.value) == "sample 3 cannot be read: it is broken"


def test_orders_are_fair():
    # Over many epochs each sample comes first about equally often.
    firsts = [int(next(make(5, 1).epoch(epoch)).index) for epoch in range(1000)]
    counts = np.bincount(firsts, minlength=5)
    assert counts.min() > 140  # mean 200, standard deviation 12.6
