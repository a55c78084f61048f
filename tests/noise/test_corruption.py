"""Planted noise: what the matrices say, what is drawn from them, and what the manifest keeps."""

import dataclasses
import json
import os
import pickle
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from abstain import noise
from abstain.errors import AbstainError

MATRIX_KINDS = [kind for kind in noise.KINDS if kind != "instance"]

class_counts = st.integers(2, 12)
rates = st.floats(0, 1) | st.sampled_from([0.0, 1e-17, 0.2, 0.5, 0.85, 1.0])
seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(MATRIX_KINDS)


@st.composite
def matrices(draw):
    """Row-stochastic matrices, some with entries of exactly 0 and 1."""
    m = draw(class_counts)
    weights = np.random.default_rng(draw(seeds)).gamma(
        draw(st.sampled_from([0.05, 1.0])), size=(m, m)
    )
    weights[weights < draw(st.sampled_from([0.0, 0.3]))] = 0
    weights += np.eye(m) * (weights.sum(axis=1) == 0)
    return weights / weights.sum(axis=1, keepdims=True)


def draw_labels(m, size, seed=0):
    return np.random.default_rng([seed, 99]).integers(m, size=size)


def is_plausible(count, size, share):
    """Whether a binomial count is within six deviations, or a few where there are hardly any."""
    return abs(count - size * share) <= 6 * (size * share * (1 - share)) ** 0.5 + 6 * (share > 0)


# --- matrices ---


@given(kinds, class_counts, rates)
def test_rows_of_every_kind_sum_to_one(kind, m, rate):
    matrix = noise.check_transition(noise.transition(kind, m, rate))
    assert matrix.shape == (m, m)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)


def test_matrices_are_those_of_the_literature():
    np.testing.assert_allclose(
        noise.symmetric(4, 0.6), np.where(np.eye(4, dtype=bool), 0.4, 0.2), atol=1e-15
    )
    np.testing.assert_allclose(
        noise.symmetric_any(4, 0.6), np.where(np.eye(4, dtype=bool), 0.55, 0.15), atol=1e-15
    )
    flip = noise.pairflip(4, 0.6)
    assert [int(np.flatnonzero(row == 0.6)[0]) for row in flip] == [1, 2, 3, 0]
    assert np.count_nonzero(flip) == 8


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0]], "2 × 2"),
        ([[1.0, 0.0]], "square"),
        ([[1.5, -0.5], [0.0, 1.0]], "≥ 0, got -0.5"),
        ([[float("nan"), 1.0], [0.0, 1.0]], "≥ 0, got nan"),
        ([[1.0, 0.0], [0.5, 0.6]], "row 1 sums to 1.1"),
        ([[1.0, 0.0], [0.5, 0.4]], "row 1 sums to 0.9"),
        ([["a", "b"], ["c", "d"]], "array of numbers"),
        ([[1.0], [0.5, 0.5]], "array of numbers"),
    ],
)
def test_a_matrix_that_is_not_a_transition_is_refused(matrix, message):
    with pytest.raises(AbstainError, match=message):
        noise.check_transition(matrix)


def test_columns_summing_to_one_are_not_enough():
    with pytest.raises(AbstainError, match="rows of matrix"):
        noise.check_transition(np.array([[0.9, 0.3], [0.1, 0.7]]))


# --- corrupt ---


@given(matrices(), seeds, st.booleans())
def test_only_possible_labels_come_out_and_the_seed_decides(matrix, seed, exact):
    true = draw_labels(len(matrix), 500, seed)
    before = true.copy()
    first = noise.corrupt(true, matrix, np.random.default_rng(seed), exact=exact)
    again = noise.corrupt(true, matrix, np.random.default_rng(seed), exact=exact)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(true, before)
    assert (matrix[true, first] > 0).all()


def test_another_seed_gives_other_flips():
    true = draw_labels(10, 200)
    matrix = noise.symmetric(10, 0.5)
    one, two = (noise.corrupt(true, matrix, np.random.default_rng(seed)) for seed in (0, 1))
    assert (one != two).any()


@given(kinds, class_counts, rates, seeds)
def test_realised_rate_is_binomial(kind, m, rate, seed):
    matrix = noise.transition(kind, m, rate)
    true = draw_labels(m, 2000, seed)
    wrong = int((noise.corrupt(true, matrix, np.random.default_rng(seed)) != true).sum())
    share = {"symmetric": rate, "pairflip": rate, "symmetric-any": rate * (m - 1) / m}[kind]
    assert is_plausible(wrong, 2000, share)


@given(st.sampled_from(["symmetric", "pairflip"]), class_counts, seeds, st.data())
def test_exact_count_is_exact(kind, m, seed, data):
    size = data.draw(st.integers(1, 400))
    hundredths = data.draw(st.integers(0, 100))
    true = draw_labels(m, size, seed)
    matrix = noise.transition(kind, m, hundredths / 100)
    out = noise.corrupt(true, matrix, np.random.default_rng(seed), exact=True)
    # in whole numbers, where a half is a half
    assert (out != true).sum() == round(Fraction(hundredths * size, 100))


@pytest.mark.parametrize("m", [2, 3, 7, 10])
def test_halves_round_to_even_whatever_floating_point_makes_of_them(m):
    true = draw_labels(m, 50)
    for hundredths in range(1, 100, 2):
        matrix = noise.symmetric(m, hundredths / 100)
        out = noise.corrupt(true, matrix, np.random.default_rng(0), exact=True)
        assert (out != true).sum() == round(Fraction(hundredths, 2))


@given(matrices(), seeds)
def test_exact_count_of_a_general_matrix_is_the_expected_number(matrix, seed):
    true = draw_labels(len(matrix), 300, seed)
    expected = sum(1 - matrix[label, label] for label in true)
    wrong = (noise.corrupt(true, matrix, np.random.default_rng(seed), exact=True) != true).sum()
    assert abs(wrong - expected) <= 0.5 + 1e-6


def test_exact_flips_follow_the_rate_of_each_class():
    matrix = np.array([[0.95, 0.05, 0.0], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])
    true = np.repeat([0, 1, 2], 40)
    rng = np.random.default_rng(0)
    wrong = np.mean([noise.corrupt(true, matrix, rng, exact=True) != true for _ in range(4000)], 0)
    by_class = wrong.reshape(3, 40).mean(axis=1)
    np.testing.assert_allclose(by_class, [0.05, 0.5, 0.0], atol=0.003)
    # no sample of a class is favoured
    assert np.ptp(wrong[40:80]) < 0.06


@pytest.mark.parametrize("exact", [False, True])
def test_frequencies_follow_the_matrix(exact):
    rng = np.random.default_rng(3)
    matrix = rng.dirichlet(np.ones(6), size=6)
    true = draw_labels(6, 120_000)
    out = noise.corrupt(true, matrix, rng, exact=exact)
    counts = np.zeros((6, 6))
    np.add.at(counts, (true, out), 1)
    expected = counts.sum(axis=1, keepdims=True) * matrix
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert stats.chi2.sf(statistic, df=30) > 1e-4


def test_drawing_agrees_with_one_choice_per_label():
    """Against the slow, obvious version: numpy's own choice, label by label."""
    rng = np.random.default_rng(5)
    matrix = rng.dirichlet(np.full(4, 0.5), size=4)
    true = draw_labels(4, 20_000)
    slow = np.array([rng.choice(4, p=matrix[label]) for label in true])
    fast = noise.corrupt(true, matrix, rng)
    for label in range(4):
        table = [np.bincount(out[true == label], minlength=4) + 1 for out in (slow, fast)]
        assert stats.chi2_contingency(table).pvalue > 1e-4


@given(class_counts, seeds, st.booleans())
def test_symmetric_never_keeps_when_flipping(m, seed, exact):
    true = draw_labels(m, 300, seed)
    out = noise.corrupt(true, noise.symmetric(m, 1.0), np.random.default_rng(seed), exact=exact)
    assert (out != true).all()


def test_symmetric_any_keeps_some():
    true = draw_labels(10, 100_000)
    out = noise.corrupt(true, noise.symmetric_any(10, 0.8), np.random.default_rng(0))
    assert (out != true).mean() == pytest.approx(0.72, abs=0.01)


def test_a_million_labels_take_less_than_half_a_second():
    true, matrix = draw_labels(100, 10**6), noise.symmetric(100, 0.4)

    def seconds():  # of this process: others may hold the cores
        start = time.process_time()
        noise.corrupt(true, matrix, np.random.default_rng(0), exact=True)
        return time.process_time() - start

    assert min(seconds() for _ in range(3)) < 0.5


# --- instance-dependent noise ---


@settings(max_examples=30)
@given(class_counts, rates, seeds, st.booleans())
def test_instance_dependent_rate(m, rate, seed, exact):
    rng = np.random.default_rng(seed)
    features, true = rng.normal(size=(2000, 3)), rng.integers(m, size=2000)
    out, probability = noise.instance_dependent(features, true, m, rate, rng, exact=exact)
    wrong = int((out != true).sum())
    assert ((out >= 0) & (out < m)).all()
    assert ((probability >= 0) & (probability <= 1)).all()
    assert abs(probability.mean() - rate) < 6 * 0.1 / 2000**0.5
    if exact:
        assert wrong == round(rate * 2000)
    else:
        assert is_plausible(wrong, 2000, rate)


def test_instance_dependent_rate_is_not_pushed_up_near_zero():
    rng = np.random.default_rng(0)
    features, true = rng.normal(size=(50_000, 2)), rng.integers(5, size=50_000)
    out = noise.instance_dependent(features, true, 5, 0.05, rng).given
    assert (out != true).mean() == pytest.approx(0.05, abs=0.005)


def test_flips_follow_each_sample_s_own_probability():
    rng = np.random.default_rng(1)
    features, true = rng.normal(size=(50_000, 2)), rng.integers(5, size=50_000)
    out, probability = noise.instance_dependent(features, true, 5, 0.3, rng)
    wrong = out != true
    assert probability.std() == pytest.approx(0.1, abs=0.01)
    for low, high in [(0.1, 0.2), (0.2, 0.3), (0.3, 0.4), (0.4, 0.5)]:
        inside = (probability >= low) & (probability < high)
        assert wrong[inside].mean() == pytest.approx(probability[inside].mean(), abs=0.03)


def prototypes(count=30, copies=400, m=6):
    """Few distinct samples, each many times, with one label each."""
    rng = np.random.default_rng(7)
    kinds_of_sample = rng.normal(size=(count, 8))
    labels = np.arange(count) % m
    which = np.repeat(np.arange(count), copies)
    return kinds_of_sample[which], labels[which], which


def test_alike_samples_are_confused_with_the_same_class():
    features, true, which = prototypes()
    out = noise.instance_dependent(features, true, 6, 0.5, np.random.default_rng(0)).given
    favourites, shares = [], []
    for prototype in range(30):
        flipped_to = np.bincount(out[(which == prototype) & (out != true)], minlength=6)
        favourites.append(int(flipped_to.argmax()))
        shares.append(flipped_to.max() / flipped_to.sum())
    # one in five if features did not matter
    assert np.mean(shares) > 0.8
    # one wrong class per true class would be a transition matrix, not dependence on the input
    by_class = [set(favourites[label::6]) for label in range(6)]
    assert np.mean([len(wrong) for wrong in by_class]) > 1.5


def test_without_its_features_a_sample_has_no_favourite():
    features, true, which = prototypes()
    shuffled = np.random.default_rng(1).permutation(features)
    out = noise.instance_dependent(shuffled, true, 6, 0.5, np.random.default_rng(0)).given
    shares = []
    for prototype in range(30):
        flipped_to = np.bincount(out[(which == prototype) & (out != true)], minlength=6)
        shares.append(flipped_to.max() / flipped_to.sum())
    assert np.mean(shares) < 0.5


def test_units_of_the_features_do_not_matter():
    features, true, _ = prototypes(copies=20)
    one, two = (
        noise.instance_dependent(x, true, 6, 0.4, np.random.default_rng(2)).given
        for x in (features, features.reshape(-1, 2, 4) * 255 + 1000)
    )
    np.testing.assert_array_equal(one, two)


def test_constant_features_and_absent_classes_are_harmless():
    out = noise.instance_dependent(
        np.ones((100, 3)), np.zeros(100, int), 4, 0.5, np.random.default_rng(0), exact=True
    ).given
    assert (out != 0).sum() == 50


# --- manifest ---


def make(kind="symmetric", size=60, m=5, seed=0, ids=None, **options):
    true = draw_labels(m, size, seed)
    ids = np.array([f"img/{i}-é.png" for i in range(size)]) if ids is None else ids
    features = np.random.default_rng(seed).normal(size=(size, 4)) if kind == "instance" else None
    return noise.plant(true, ids, kind, 0.4, seed, num_classes=m, features=features, **options)


@settings(max_examples=25)
@given(st.sampled_from(noise.KINDS), seeds, st.booleans(), st.sampled_from(["U", "i", "u", "O"]))
def test_manifest_round_trip(tmp_path_factory, kind, seed, exact, id_type):
    ids = {
        "U": None,
        "i": np.arange(60) - 30,
        "u": np.arange(60, dtype=np.uint64) + 2**63,
        "O": np.array([f"row {i}" for i in range(60)], dtype=object),
    }[id_type]
    manifest = make(kind, seed=seed, exact=exact, ids=ids)
    path = tmp_path_factory.mktemp("manifest") / "noise.manifest"
    manifest.save(path)
    loaded = noise.NoiseManifest.load(path)
    for field in dataclasses.fields(noise.NoiseManifest):
        saved, read = getattr(manifest, field.name), getattr(loaded, field.name)
        np.testing.assert_array_equal(saved, read, err_msg=field.name)
        assert np.asarray(saved).dtype == np.asarray(read).dtype
    assert [file.name for file in path.parent.iterdir()] == ["noise.manifest"]
    assert set(loaded.versions) == {"abstain", "numpy", "python"}


@given(st.sampled_from(noise.KINDS), seeds)
def test_the_same_seed_plants_the_same_labels(kind, seed):
    np.testing.assert_array_equal(make(kind, seed=seed).given, make(kind, seed=seed).given)


def test_manifest_counts_what_is_wrong():
    manifest = make(exact=True)
    assert manifest.flipped.sum() == 24
    assert manifest.realised_rate == 0.4
    np.testing.assert_array_equal(manifest.flipped, manifest.given != manifest.true)


def test_planting_leaves_no_thread_to_the_caller_s_arrays():
    true, ids = np.array([0, 1, 2]), np.array([5, 6, 7])
    manifest = noise.plant(true, ids, "symmetric", 0.0, 0, num_classes=3)
    true[:], ids[:] = 0, 0
    np.testing.assert_array_equal(manifest.true, [0, 1, 2])
    np.testing.assert_array_equal(manifest.given, [0, 1, 2])
    np.testing.assert_array_equal(manifest.ids, [5, 6, 7])


@given(seeds)
def test_replay_goes_by_id_not_by_position(seed):
    manifest = make(seed=seed)
    order = np.random.default_rng(seed).permutation(60)
    replayed = manifest.replay(manifest.true[order], manifest.ids[order])
    np.testing.assert_array_equal(replayed, manifest.given[order])


def test_replay_refuses_other_samples():
    manifest = make()
    true, ids = manifest.true, manifest.ids
    other_ids = ids.copy()
    other_ids[3] = "new.png"
    changed = true.copy()
    changed[[3, 7]] = (changed[[3, 7]] + 1) % 5
    for labels, names, message in [
        (true, other_ids, "new.png, which it lacks"),
        (true[1:], ids[1:], "60 strings, got 59 strings"),
        (true, np.arange(60), "60 strings, got 60 integers"),
        (changed, ids, r"img/3-é.png had .* \(and 1 more\)"),
        (true[1:], ids, "one label per id, 60, got 59"),
        (true, np.repeat(ids[:30], 2), "unique"),
    ]:
        with pytest.raises(AbstainError, match=message):
            manifest.replay(labels, names)


def test_a_failed_save_keeps_the_old_file_and_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "noise.npz"
    old = make(seed=1)
    old.save(path)

    def full_disk(_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(AbstainError, match="no space left"):
        make(seed=2).save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["noise.npz"]
    assert noise.NoiseManifest.load(path).seed == 1


def test_a_reader_of_the_old_file_is_not_disturbed(tmp_path):
    path = tmp_path / "noise.npz"
    make(seed=1).save(path)
    before = path.read_bytes()
    with path.open("rb") as reader:
        make(seed=2).save(path)
        assert reader.read() == before
    assert noise.NoiseManifest.load(path).seed == 2


def test_saving_into_a_missing_folder_says_so(tmp_path):
    with pytest.raises(AbstainError, match="path must lie in a folder that exists"):
        make().save(tmp_path / "missing" / "noise.npz")


@pytest.fixture(scope="module")
def saved_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "noise.npz"
    make().save(path)
    return path.read_bytes()


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_file_is_refused_or_read_right(tmp_path_factory, saved_bytes, data):
    content = bytearray(saved_bytes)
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(content)
    try:
        loaded = noise.NoiseManifest.load(path)
    except AbstainError as error:
        assert "path must name a noise manifest" in str(error)  # noqa: PT017
    else:
        # the damage hit a byte that no reader looks at, such as a date
        np.testing.assert_array_equal(loaded.given, make().given)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


def test_foreign_files_are_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.arange(3))
    np.savez(tmp_path / "other.npz", weights=np.arange(3))
    np.savez(tmp_path / "objects.npz", header=np.array([Bomb()], dtype=object))
    (tmp_path / "pickle").write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "text").write_text("not a manifest")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    names = [file.name for file in tmp_path.iterdir()]
    for name in [*names, "missing"]:
        with pytest.raises(AbstainError, match=f"path must name a noise manifest.*{name}"):
            noise.NoiseManifest.load(tmp_path / name)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "abstain-noise-999"},
        {"num_classes": 3},
        {"num_classes": 6},
        {"kind": "instance"},
        {"kind": "gremlins"},
        {"rate": 1.5},
        {"seed": -1},
        {"surprise": True},
    ],
)
def test_a_header_that_contradicts_its_arrays_is_refused(tmp_path, saved_bytes, change):
    path = tmp_path / "noise.npz"
    path.write_bytes(saved_bytes)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"])) | change
    np.savez(path, **{**arrays, "header": np.array(json.dumps(header))})
    with pytest.raises(AbstainError):
        noise.NoiseManifest.load(path)


# --- what users get wrong ---


def test_errors_name_argument_rule_and_value():
    rng = np.random.default_rng(0)
    good = noise.symmetric(3, 0.2)
    ids = ["a", "b"]

    def plant(labels=(0, 1), ids=ids, kind="symmetric", rate=0.2, seed=0, **options):
        return noise.plant(labels, ids, kind, rate, seed, **{"num_classes": 3} | options)

    for call, message in [
        (lambda: noise.symmetric(1, 0.2), "num_classes must be an integer ≥ 2, got 1"),
        (lambda: noise.symmetric(2.0, 0.2), "num_classes must be an integer ≥ 2, got 2.0"),
        (lambda: noise.pairflip(3, 1.2), r"rate must lie in \[0, 1\], got 1.2"),
        (lambda: noise.symmetric_any(3, float("nan")), r"rate must lie in \[0, 1\], got nan"),
        (lambda: noise.symmetric(3, "0.2"), r"rate must lie in \[0, 1\], got '0.2'"),
        (lambda: noise.transition("pair", 3, 0.2), "one of symmetric, symmetric-any, pairflip, g"),
        (lambda: noise.corrupt([0, 3], good, rng), r"\[0, 3\), got 3 at position 1"),
        (lambda: noise.corrupt([-1, 0], good, rng), "got -1 at position 0"),
        (lambda: noise.corrupt([0.0, 1.0], good, rng), "labels must .* integers, got float64"),
        (lambda: noise.corrupt([[0, 1]], good, rng), "one-dimensional"),
        (lambda: noise.corrupt(np.array([], int), good, rng), "non-empty"),
        (lambda: noise.corrupt([0, 1], good, 0), r"rng must be .*, got 0; .*default_rng\(seed\)"),
        (lambda: plant(ids=["a", "a"]), "ids must be unique, got a more than once"),
        (lambda: plant(ids=[0.5, 1.5]), "ids must .* strings or of integers, got float64"),
        (lambda: plant(ids=np.array(["a", 1], object)), "strings or of integers, got object"),
        (lambda: plant(ids=["a"]), "one label per id, 1, got 2"),
        (lambda: plant(kind="pair"), "one of symmetric, .*instance, got 'pair'"),
        (lambda: plant(seed=-1), "seed must be an integer ≥ 0, got -1"),
        (lambda: plant(seed=None), "seed must be an integer ≥ 0, got None"),
        (lambda: plant(kind="instance"), "features must be given for kind instance"),
        (lambda: plant(kind="instance", features=[[0.0], [np.inf]]), "features must be finite"),
        (lambda: plant(kind="instance", features=[[0.0]]), r"features must be .* \(2, …\)"),
    ]:
        with pytest.raises(AbstainError, match=message):
            call()
