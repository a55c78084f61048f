"""The ledger against a slow loop over Python floats; exact sums; merging; memory."""

import math
import socket

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from abstain.errors import AbstainError
from abstain.scores.ledger import EVIDENCE_FLOOR, SNAPSHOT_EPOCHS, Ledger, reduced

COLUMNS = (
    "belief",
    "margin",
    "evidence",
    "logit_margin",
    "wrong",
    "visits",
    "abstention",
    "payoff",
)
SAMPLES, CLASSES = 20, 5


class SlowLedger:
    """The definition, one visit at a time, in float64."""

    def __init__(self, samples):
        self.seen = [[] for _ in range(samples)]

    def update(self, index, logits, given, payoff=None, has_abstention=True, epoch=0):
        for position, (sample, row, y) in enumerate(
            zip(index.tolist(), logits.double().tolist(), given.tolist(), strict=True)
        ):
            classes = row[:-1] if has_abstention else row
            bets = [math.exp(z - max(classes)) for z in classes]
            q = [bet / math.fsum(bets) for bet in bets]
            others = [q[j] for j in range(len(q)) if j != y]
            f = [math.exp(z - max(row)) for z in row]
            odds = (q[y] + EVIDENCE_FLOOR) / (max(others) + EVIDENCE_FLOOR)
            self.seen[sample].append(
                {
                    "belief": q[y],
                    "margin": q[y] - max(others),
                    "wrong": classes.index(max(classes)) != y,
                    "evidence": math.log(odds),
                    "logit_margin": classes[y] - max(z for j, z in enumerate(classes) if j != y),
                    "epoch": epoch,
                    "weight": 1 / epoch if epoch else 2**-10,
                    "rival": q.index(max(others)),
                    "rival_belief": max(others),
                    "abstention": f[-1] / math.fsum(f) if has_abstention else math.nan,
                    "payoff": math.nan if payoff is None else float(payoff[position]),
                }
            )

    def column(self, name):
        def value(visits):
            if name == "visits":
                return len(visits)
            values = [visit[name] for visit in visits]
            if name == "wrong":
                return sum(values)
            if not values:
                return math.nan
            if name == "evidence":
                return np.average(values, weights=[visit["weight"] for visit in visits])
            averaged = ("belief", "margin", "logit_margin")
            return math.fsum(values) / len(values) if name in averaged else values[-1]

        return torch.tensor([value(visits) for visits in self.seen]).float()


def batches(seed, steps=12, width=7, has_abstention=True):
    rng = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        index = torch.randperm(SAMPLES - 3, generator=rng)[:width]  # the last three go unvisited
        logits = 4 * torch.randn(width, CLASSES + has_abstention, generator=rng)
        labels = torch.randint(CLASSES, (width,), generator=rng)
        yield index, logits, labels, 1 + torch.rand(width, generator=rng)


def filled(seed=0, **kwargs):
    ledger = Ledger(SAMPLES)
    for epoch, batch in enumerate(batches(seed, **kwargs)):
        ledger.update(*batch, epoch=epoch)
    return ledger


def same(a, b):
    """Equal to the last bit, NaN to NaN."""
    b = b.state_dict()
    return all(
        torch.equal(value.nan_to_num(-7.0), b[name].nan_to_num(-7.0))
        for name, value in a.state_dict().items()
    )


@pytest.mark.parametrize("has_abstention", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_agrees_with_the_slow_loop(dtype, has_abstention):
    fast, slow = Ledger(SAMPLES), SlowLedger(SAMPLES)
    for epoch, batch in enumerate(batches(1, has_abstention=has_abstention)):
        index, logits, labels, payoff = batch
        # Only the input is rounded: both must then see the same values, in any precision.
        logits = logits.to(dtype)
        fast.update(index, logits, labels, payoff, has_abstention, epoch=epoch)
        slow.update(index, logits.float(), labels, payoff, has_abstention, epoch)
    for name in COLUMNS:
        expected = slow.column(name)
        assert_close(
            getattr(fast, name).float(), expected, equal_nan=True, rtol=1e-5, atol=1e-6, msg=name
        )
    assert fast.visits[-3:].eq(0).all()
    for snapshot in fast.snapshots:
        assert snapshot.rival[-3:].eq(-1).all()
        for sample, visits in enumerate(slow.seen):
            kept = [visit for visit in visits if visit["epoch"] == snapshot.epoch]
            assert (snapshot.rival[sample] == -1) == (not kept)
            if kept:
                assert snapshot.rival[sample] == kept[0]["rival"]
                assert snapshot.belief[sample] == pytest.approx(kept[0]["belief"], abs=1e-3)
                got = snapshot.rival_belief[sample]
                assert got == pytest.approx(kept[0]["rival_belief"], abs=1e-3)
    assert [snapshot.epoch for snapshot in fast.snapshots] == [0, 1, 2, 4, 8]


def test_extreme_logits():
    ledger = Ledger(3)
    logits = torch.tensor([[1e4, -1e4, 0.0], [0.0, 0.0, 1e4], [-1e4, 0.0, -1e4]])
    ledger.update(torch.arange(3), logits, torch.tensor([0, 1, 0]), payoff=torch.inf)
    assert_close(ledger.belief, torch.tensor([1.0, 0.5, 0.0]))
    assert_close(ledger.margin, torch.tensor([1.0, 0.0, -1.0]))
    assert_close(ledger.abstention, torch.tensor([0.0, 1.0, 0.0]))
    assert ledger.payoff.isposinf().all()


def test_small_abstention_is_not_lost():
    ledger = Ledger(1)
    ledger.update(torch.tensor([0]), torch.tensor([[0.0, 0.0, -60.0]]), torch.tensor([0]))
    assert_close(ledger.abstention, torch.exp(torch.tensor([-60.0])) / 2)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_visit_that_is_not_finite_is_not_counted(bad):
    ledger = Ledger(2)
    index, labels = torch.arange(2), torch.tensor([0, 1])
    ledger.update(index, torch.zeros(2, 3), labels)
    logits = torch.zeros(2, 3)
    logits[0, 0] = bad
    ledger.update(index, logits, labels)
    assert ledger.visits.tolist() == [1, 2]
    assert ledger.belief.tolist() == [0.5, 0.5]
    assert ledger.abstention.isnan().tolist() == [True, False]
    assert ledger.evidence.tolist() == [0.0, 0.0]
    assert ledger.logit_margin.tolist() == [0.0, 0.0]
    assert ledger.snapshots[0].rival.tolist() == [-1, 0]


def test_loss_without_payoff_and_one_payoff_for_all():
    ledger = Ledger(2)
    ledger.update(torch.tensor([0]), torch.zeros(1, 3), torch.tensor([0]))
    ledger.update(torch.tensor([1]), torch.zeros(1, 3), torch.tensor([0]), payoff=1.5)
    assert_close(ledger.payoff, torch.tensor([torch.nan, 1.5]), equal_nan=True)
    ledger.update(torch.tensor([0]), torch.zeros(1, 3), torch.tensor([0]), torch.tensor(1.25))
    assert ledger.payoff.tolist() == [1.25, 1.5]


def test_takes_no_part_in_the_gradient_and_leaves_its_input_alone():
    ledger = Ledger(4)
    logits = torch.randn(4, 3, requires_grad=True)
    before = logits.detach().clone()
    ledger.update(torch.arange(4), logits, torch.tensor([0, 1, 0, 1]), payoff=logits.exp().sum(1))
    assert torch.equal(logits.detach(), before)
    assert not any(value.requires_grad for value in ledger.state_dict().values())


def test_empty_batch_counts_as_a_step_only():
    ledger = filled()
    other = filled()
    ledger.update(
        torch.empty(0, dtype=torch.int64),
        torch.empty(0, CLASSES + 1),
        torch.empty(0, dtype=torch.int64),
    )
    assert ledger.state_dict()["step"] == other.state_dict()["step"] + 1
    other.state_dict()["step"].add_(1)
    assert same(ledger, other)


@given(st.permutations(range(7)))
def test_order_within_a_batch_does_not_matter(order):
    plain, shuffled = Ledger(SAMPLES), Ledger(SAMPLES)
    for epoch, batch in enumerate(batches(2)):
        plain.update(*batch, epoch=epoch)
        shuffled.update(*(part[list(order)] for part in batch), epoch=epoch)
    assert same(plain, shuffled)


def test_mean_is_steady_over_ten_thousand_visits():
    # The last values are too near the mean to move a running float32 mean by then: it would stay.
    beliefs = [0.6] * 5_000 + [0.6001] * 5_000
    ledger = Ledger(1)
    index, labels = torch.tensor([0]), torch.tensor([0])
    for q in beliefs:
        ledger.update(index, torch.tensor([[math.log(q), math.log1p(-q)]]), labels, None, False)
    assert ledger.visits.item() == 10_000
    assert abs(ledger.belief.item() - math.fsum(beliefs) / 10_000) < 1e-7


def test_sums_do_not_depend_on_the_order_of_batches():
    visits = list(enumerate(batches(3)))
    there, back = Ledger(SAMPLES), Ledger(SAMPLES)
    for epoch, batch in visits:
        there.update(*batch, epoch=epoch)
    for epoch, batch in reversed(visits):
        back.update(*batch, epoch=epoch)
    for name in ("sums", "rival", "beliefs"):
        assert torch.equal(there.state_dict()[name], back.state_dict()[name])


def test_every_doubling_of_the_training_counts_alike_as_evidence():
    """Believed up to epoch 7 and disbelieved up to epoch 63: three doublings each, about half."""
    ledger, index, labels = Ledger(1), torch.tensor([0]), torch.tensor([0])
    for epoch in range(64):
        logits = torch.tensor([[9.0, 0.0]]) if 0 < epoch < 8 else torch.tensor([[0.0, 9.0]])
        ledger.update(index, logits, labels, None, False, epoch=epoch)
    assert abs(ledger.evidence.item()) < 0.5
    assert ledger.margin.item() < -0.7
    assert [snapshot.epoch for snapshot in ledger.snapshots] == list(SNAPSHOT_EPOCHS[:-1])


def test_bytes_per_sample():
    state = Ledger(1000).state_dict()
    assert (
        sum(t.nbytes for name, t in state.items() if name != "step")
        == 1000 * Ledger.BYTES_PER_SAMPLE
    )
    assert f"{Ledger.BYTES_PER_SAMPLE} bytes a sample" in Ledger.__doc__


@given(st.lists(st.integers(0, 5), min_size=3, max_size=3), st.permutations(range(3)))
@settings(max_examples=30)
def test_merge_is_associative_and_commutative(seeds, order):
    # Equal seeds are processes that visited the same samples in the same steps.
    ledgers = [filled(seed, steps=3 + seed) for seed in seeds]
    a, b, c = ledgers
    left, right = a.merge([b]).merge([c]), a.merge([b.merge([c])])
    shuffled = [ledgers[i] for i in order]
    assert same(left, right)
    assert same(left, shuffled[0].merge(shuffled[1:]))


def test_merged_processes_equal_one_process():
    """Each batch split over three processes, unevenly: the same bits as if one had seen it all."""
    one, ranks = Ledger(SAMPLES), [Ledger(SAMPLES) for _ in range(3)]
    for epoch, batch in enumerate(batches(4)):
        one.update(*batch, epoch=epoch)
        for ledger, rows in zip(ranks, ([0, 3, 5, 6], [1, 2, 4], []), strict=True):
            ledger.update(*(part[rows] for part in batch), epoch=epoch)
    before = ranks[1].table(range(SAMPLES), range(SAMPLES))
    assert same(one, ranks[0].merge(ranks[1:]))
    for name, column in ranks[1].table(range(SAMPLES), range(SAMPLES)).items():
        np.testing.assert_array_equal(column, before[name])
    assert same(one, ranks[0].merge_(ranks[1:]))
    assert same(one, ranks[0])


def test_later_visit_wins_and_a_tie_goes_to_the_greater():
    one, two = Ledger(2), Ledger(2)
    index, logits, labels = torch.arange(2), torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)
    one.update(index, logits, labels, torch.tensor([5.0, 2.0]))
    two.update(index, logits, labels, torch.tensor([3.0, 4.0]))
    two.update(index[:1], logits[:1], labels[:1], torch.tensor([1.0]))
    assert one.merge([two]).payoff.tolist() == two.merge([one]).payoff.tolist() == [1.0, 4.0]


def test_reduced_with_a_fake_gather_equals_merge():
    ledgers = [filled(seed) for seed in range(3)]
    states = [ledger.state_dict() for ledger in ledgers]

    def gather(tensor):
        name = next(key for key, value in states[1].items() if value is tensor)
        return torch.stack([state[name] for state in states])

    assert same(reduced(ledgers[1], gather), ledgers[0].merge(ledgers[1:]))


def test_resumed_processes_end_where_an_uninterrupted_one_does():
    visits = list(enumerate(batches(5)))
    one = Ledger(SAMPLES)
    for epoch, batch in visits:
        one.update(*batch, epoch=epoch)
    ranks = [Ledger(SAMPLES), Ledger(SAMPLES)]

    def train(part):
        for epoch, batch in part:
            ranks[0].update(*(column[:4] for column in batch), epoch=epoch)
            ranks[1].update(*(column[4:] for column in batch), epoch=epoch)

    train(visits[:5])
    saved = {key: value.clone() for key, value in ranks[0].merge(ranks[1:]).state_dict().items()}
    ranks = [Ledger(SAMPLES), Ledger(SAMPLES)]
    for ledger in ranks:
        ledger.load_state_dict(saved)
    ranks[1].clear()
    train(visits[5:])
    assert same(one, ranks[0].merge(ranks[1:]))


def _worker(rank, port, folder):
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)

    def gather(tensor):
        parts = [torch.empty_like(tensor) for _ in range(2)]
        dist.all_gather(parts, tensor)
        return torch.stack(parts)

    torch.save(reduced(filled(rank), gather).state_dict(), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_reduced_over_two_real_processes(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_worker, (port, str(tmp_path)), nprocs=2)
    expected = filled(0).merge([filled(1)])
    for rank in range(2):
        ledger = Ledger(SAMPLES)
        ledger.load_state_dict(torch.load(tmp_path / f"{rank}.pt", weights_only=True))
        assert same(ledger, expected)


def test_state_round_trip_copies():
    ledger = filled()
    other = Ledger(SAMPLES)
    other.load_state_dict(ledger.state_dict())
    assert same(ledger, other)
    for batch in batches(6):
        ledger.update(*batch)
        other.update(*batch)
    assert same(ledger, other)
    ledger.clear()
    assert other.visits.sum() > 0


def test_state_of_another_data_set_is_refused():
    with pytest.raises(AbstainError, match=r"ledger of 20 samples.*another data set"):
        Ledger(SAMPLES).load_state_dict(Ledger(SAMPLES + 1).state_dict())
    with pytest.raises(AbstainError, match="ledger of 20 samples"):
        Ledger(SAMPLES).merge([Ledger(SAMPLES + 1)])


def test_table_has_a_row_per_sample_and_nan_where_nothing_is_known():
    ledger = filled()
    ids = [f"{i}.png" for i in range(SAMPLES)]
    table = ledger.table(ids, np.arange(SAMPLES))
    assert list(table) == ["id", "given", *COLUMNS]
    assert {len(column) for column in table.values()} == {SAMPLES}
    assert table["id"][3] == "3.png"
    for name in ("belief", "margin", "evidence", "logit_margin", "abstention", "payoff"):
        assert np.isnan(table[name][-3:]).all()
        assert np.isfinite(table[name][table["visits"] > 0]).all()
    assert table["visits"][-3:].tolist() == table["wrong"][-3:].tolist() == [0, 0, 0]
    assert (table["wrong"] <= table["visits"]).all()
    ledger.clear()
    assert table["visits"].sum() > 0


def test_bad_arguments():
    with pytest.raises(AbstainError, match="num_samples must be at least 1, got 0"):
        Ledger(0)
    with pytest.raises(AbstainError, match="given must have one entry for each of 2 samples"):
        Ledger(2).table(["a", "b"], [0])


def test_a_copy_on_the_cpu_is_a_copy():
    ledger = Ledger(3)
    ledger.update(torch.tensor([1]), torch.zeros(1, 4), torch.tensor([2]), payoff=2.0)
    copy = ledger.cpu()
    ledger.clear()
    assert copy.visits.tolist() == [0, 1, 0]
    assert copy.belief[1] == pytest.approx(1 / 3)
