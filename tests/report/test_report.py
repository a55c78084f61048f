"""The report: one safe file, with everything in it that a person asks for."""

import base64
import hashlib
import html
import io
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.data import LabeledData
from abstain.report import curves, render, write_report
from abstain.report.charts import Line, Mark, histogram, line_chart
from abstain.report.numbers import expectation, rough
from abstain.report.samples import Samples, data_uri
from abstain.report.tables import class_pairs
from abstain.scores.sampling import draw
from abstain.scores.summaries import PairSummary

from audits import blobs, hostile_data, write_texts

SHORT = Recipe(epochs=3, warm_up=1)
LINKS = ("src", "href", "action", "data", "srcset", "poster", "background", "xlink:href")


class Page(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.links, self.handlers, self.headings = [], [], [], []
        self.policy, self.style, self._inside, self.texts = "", "", "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._inside = tag
        named = dict(attrs)
        self.links += [named[name] for name in LINKS if name in named]
        self.handlers += [name for name in named if name.startswith("on") or name == "style"]
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"]

    def handle_data(self, data):
        self.texts.append(data)
        if self._inside == "style":
            self.style += data
        elif self._inside == "h2":
            self.headings.append(data)

    def handle_endtag(self, tag):
        self._inside = ""


def check_safe(text):
    """Nothing runs, and nothing is fetched."""
    page = Page(text)
    assert "script" not in page.tags
    assert not set(page.tags) & {"iframe", "object", "embed", "link", "form", "base"}
    assert page.handlers == []
    assert all(link.startswith("data:image/") for link in page.links)
    assert "http" not in page.style
    assert "url(" not in page.style
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert page.policy.startswith("default-src 'none'")
    assert f"style-src 'sha256-{digest}'" in page.policy
    return page


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audits") / "digits"
    return audit("digits", Recipe(epochs=4, warm_up=1, flip=0.2), folder=folder)


def test_the_page_has_all_parts_and_is_one_small_safe_file(digits, tmp_path):
    write_report(digits, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = check_safe(text)
    assert page.headings == [
        "Worst labels",
        "How many to look at",
        "Which for which",
        "By class",
        "Scores and risk",
        "Training",
        "What was done",
        "How to go on",
    ]
    assert 20_000 < len(text) < 3_000_000
    assert 24 <= page.tags.count("img") <= 72
    assert f"{digits.detection.wrong} errors planted on purpose" in text
    assert "Errors already in the data count as correct here." in text
    wrong = digits.planted[digits.order]
    for budget in digits.budgets:
        expected = expectation(digits.verdict.expected_wrong(budget))
        head = f">{'all flagged: ' * (budget == digits.flagged)}{budget:,}</th>"
        row = rf"{head}<td[^>]*>{re.escape(expected)}</td>.*?>{wrong[:budget].sum()}</td>"
        assert re.search(row, text)
    for drawing in re.findall(r"<svg.*?</svg>", text):
        ElementTree.fromstring(drawing)  # well-formed by itself
        assert 'aria-label="' in drawing or 'aria-hidden="true"' in drawing
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("kind", ["text", "table", "image"])
def test_hostile_text_stays_text_everywhere(kind):
    found = audit(hostile_data(kind), Recipe(epochs=3, warm_up=1, flip=0.2))
    text = render(found)
    page = check_safe(text)
    if kind != "image":
        assert "img" not in page.tags
    assert "onerror=alert(1)" in "".join(page.texts)  # said, not done
    assert "\x00" not in text


@pytest.mark.parametrize(("kind", "shown"), [("table", "2024/7"), ("image", "7")])
def test_only_of_files_the_folder_is_left_out(kind, shown):
    data = hostile_data(kind)
    named = replace(data, ids=[f"2024/{k}" for k in range(len(data))])
    assert f'title="2024/7">{shown}</bdi>' in render(audit(named, Recipe(epochs=1, flip=0.4)))


def test_the_headline_is_the_estimate(digits):
    text = render(digits)
    share = rough(digits.noise_rate)
    assert f"About <em>{share}</em> of the labels are wrong." in text
    assert f"<title>digits: {share} wrong labels</title>" in text
    expected = digits.verdict.expected_wrong(100).value
    assert f"<dd>{expected:.0f}</dd><dt>of the 100 worst" in text


def test_clean_labels_are_hardly_accused():
    found = audit(blobs(300), Recipe(epochs=20))
    assert found.noise_rate.value < 0.05
    assert found.flagged <= 3


def test_where_nothing_is_flagged_nothing_is_to_be_repaired(tmp_path):
    x, y = blobs(300)
    np.savez(tmp_path / "blobs.npz", x=x, y=y)
    sure = 0.98 * np.eye(3)[y] + 0.02 / 3
    found = audit(tmp_path / "blobs.npz", probabilities=sure, folder=tmp_path / "audit")
    page = render(found)
    assert found.flagged == 0
    assert "<dt>labels flagged</dt>" in page
    assert "--to label-studio --all" in page
    assert "--to cleaned" not in page  # nothing is proposed that could be taken


def test_it_says_what_the_rate_rests_on_and_what_would_make_it_certain(digits, tmp_path):
    kept = replace(digits, folder=tmp_path / "my audit")
    assert re.fullmatch(
        r".*estimate from the labels alone.* follow the inputs cannot be seen.* check 200 labels: "
        r"abstain sample '.*/my audit' --size 200",
        kept.caution,
    )
    page = render(kept)
    shown = re.search(r'<p class="caution">(.*?)</p>', page)[1]
    text = html.unescape(re.sub("<.*?>", "", shown))
    assert text == kept.caution
    assert "90% interval" in page
    assert "95%" not in page  # no interval from labels alone is called 95%
    assert kept.summary()["caution"] == kept.caution


def test_a_checked_sample_is_said_to_have_measured_the_rate(digits):
    sample = draw(digits.verdict.wrong_probability, 60, np.random.default_rng(0))
    true = digits.data.true.numpy()
    answers = {digits.data.ids[k]: digits.data.classes[true[k]] for k in sample.rows.tolist()}
    found = digits.with_reviewed(answers, sample=sample)
    assert found.caution is None
    page = render(found)
    assert "measured on 60 labels checked at random" in page
    assert "95% interval " in page
    assert "wrong labels are left among those not reviewed" in page
    assert 'class="caution"' not in page


def test_a_set_that_was_reviewed_whole_is_known(digits):
    true = digits.data.true.tolist()
    names = [digits.data.classes[k] for k in true]
    found = digits.with_reviewed(dict(zip(digits.data.ids, names, strict=True)))
    page = render(found)
    assert "<h1><em>" in page
    assert "known: every label was reviewed" in page
    for word in ("nan", "None was flagged", "in doubt", "abstain sample", "alone"):
        assert word not in re.sub(r"<style>.*?</style>|data:image[^\"]*", "", page, flags=re.DOTALL)


def test_a_weak_model_is_called_weak():
    """Features that say nothing of the labels: what is doubted was guessed."""
    rng = np.random.default_rng(0)
    for shape in ((300, 4), (600, 50)):
        samples = rng.normal(size=shape).astype(np.float32)
        guessed = audit((samples, rng.integers(3, size=len(samples))))
        assert re.match(
            r"The model predicted \d+% of the held-out labels, hardly more than the commonest "
            r"class alone would: .*\(--features\) may tell more. This is an estimate",
            guessed.caution,
        )
        shown = re.search(r'<p class="caution">(.*?)</p>', render(guessed))[1]
        assert '<span class="option">--features</span>' in shown  # never broken after its hyphens


def test_a_method_that_holds_out_no_labels_is_named():
    found = audit(blobs(), Recipe.of("nll", epochs=2))
    assert found.caution.startswith("The method nll holds out no labels")


def test_nothing_is_said_of_truth_unless_errors_were_planted():
    text = re.sub(r"<style>.*?</style>", "", render(audit(blobs(), SHORT)), flags=re.DOTALL)
    assert "planted" not in text
    assert "in truth" not in text


def test_a_fixed_payoff_shows_its_plateau_and_its_stop():
    recipe = Recipe.of("aes", epochs=4, rate=0.3, flip=0.3)
    text = render(audit("digits", recipe))
    assert "predicted plateau" in text
    assert ">stop</text>" in text


@pytest.mark.parametrize(
    ("method", "name"),
    [("auto", "predicted plateau of the warm-up"), ("nll", "predicted plateau"), ("lq", None)],
)
def test_cross_entropy_has_a_plateau_too_the_entropy_of_the_labels(method, name):
    found = audit("digits", Recipe.of(method, epochs=6, flip=0.3))
    mark = curves._plateau(found)
    assert (name is not None) == ("predicted plateau" in render(found))
    if name is None:
        assert mark is None
        return
    assert mark.text == name
    shares = np.bincount(found.verdict.predicted_label, minlength=10) / len(found.given)
    rows = [-sum(p * math.log(p) for p in row if p > 0) for row in found.verdict.transition]
    assert mark.at == pytest.approx(shares @ rows, rel=1e-6)


def test_probabilities_have_a_report_without_a_training():
    x, y = blobs(90)
    found = audit((x, y), probabilities=0.9 * np.eye(3)[y] + 0.1 / 3)
    page = check_safe(render(found))
    assert "Training" not in page.headings
    assert found.caution.startswith("This is an estimate from the labels alone")


def test_probabilities_that_tell_nothing_are_called_weak():
    rng = np.random.default_rng(0)
    x, y = blobs(300)
    found = audit((x, rng.permutation(y)), probabilities=rng.dirichlet(np.ones(3), 300))
    assert re.search(r"predicted 3\d% of the labels, hardly more .* better model", found.caution)


def test_texts_and_their_duplicates_are_shown(tmp_path):
    path = write_texts(tmp_path / "texts.csv", count=60)
    lines = path.read_text(encoding="utf-8").splitlines()
    label, _, rest = lines[-1].partition(",")
    other = {"good": "bad", "bad": "good"}[label]
    path.write_text("\n".join([*lines, f"{other},{rest}"]) + "\n", encoding="utf-8")
    text = render(audit(path, Recipe(epochs=3, warm_up=1), label="stars", features="text"))
    assert "1 group of identical samples" in text
    assert rest.split(",")[0] in text
    assert "<dt>label</dt><dd><bdi>stars</bdi></dd>" in text  # how the source was read


def test_many_classes_and_empty_ones_are_no_trouble():
    """Three hundred classes, one of which only the names of the source know."""
    rng = np.random.default_rng(0)
    given = torch.arange(600) % 300
    inputs = torch.from_numpy(rng.normal(size=(600, 5)).astype(np.float32))
    data = LabeledData(
        inputs=inputs,
        given=given,
        classes=tuple(f"class {k}" for k in range(301)),
        ids=[str(k) for k in range(600)],
        kind="table",
    )
    text = render(audit(data, Recipe(epochs=2, warm_up=1)))
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).lower()
    assert len(text) < 1_000_000


def test_the_map_of_many_classes_has_the_most_frequent_pairs(monkeypatch):
    """Of classes that are each concerned a little, those most often in doubt are not left out."""
    x, y = blobs(400, classes=40)
    found = audit((x, y), probabilities=np.eye(40)[y])
    pairs = PairSummary(
        given=np.array([38, *np.repeat(np.arange(0, 30, 2), 2)]),
        predicted=np.array([39, *np.tile([30, 31], 15)]),
        count=np.array([2, *np.ones(30, dtype=np.int64)]),
    )
    monkeypatch.setitem(found.__dict__, "pairs", pairs)
    text = str(class_pairs(found))
    assert "Of 40 classes, the 16 most concerned." in text
    assert '<td class="h9">2</td>' in text


def test_a_missing_category_is_compared_with_others_that_are_missing():
    nan = float("nan")
    rows = [[nan, nan], [nan, 1.0], [nan, 2.0], [0.0, 3.0], [1.0, nan], [1.0, nan]]
    data = LabeledData(
        inputs=torch.tensor(rows),
        given=torch.tensor([0, 0, 0, 0, 1, 1]),
        classes=("a", "b"),
        ids=[str(k) for k in range(6)],
        kind="table",
        columns=("city", "size"),
        categories={"city": ("Oslo", "Rome")},
    )
    shown = str(Samples(data).show(0, proposed=1)).replace("<bdi>", "").replace("</bdi>", "")
    cells = re.findall(r"<td>(.*?)</td>", shown)
    assert cells[1:] == ["missing", "75% alike", "0% alike", "missing", "2", "missing"]


def test_an_absurd_value_is_shown_and_has_no_part_in_means():
    rows = torch.arange(60.0)[:, None].repeat(1, 2)
    rows[7, 0] = 1e30
    data = LabeledData(
        inputs=rows,
        given=torch.arange(60) % 2,
        classes=("a", "b"),
        ids=[str(k) for k in range(60)],
        kind="table",
    )
    shown = str(Samples(data).show(7, proposed=0))
    cells = re.findall(r"<td>(.*?)</td>", shown)
    assert cells[1:] == ["1e+30", "30.79", "29", "7", "30", "29"]


def test_pictures_stop_where_the_page_would_become_too_heavy():
    noise = torch.randint(0, 256, (60, 3, 200, 200), dtype=torch.uint8)
    ids = [str(k) for k in range(60)]
    given = torch.arange(60) % 2
    data = LabeledData(inputs=noise, given=given, classes=("a", "b"), ids=ids, kind="image")
    samples = Samples(data, bytes_left=40_000)
    shown = [samples.show(k) for k in range(60)]
    assert shown[0] is not None
    assert shown[-1] is None
    assert sum(len(x) for x in shown if x) < 60_000


@pytest.mark.parametrize(
    "pixels",
    [
        np.arange(64, dtype=np.uint8).reshape(1, 8, 8),
        np.random.default_rng(0).normal(size=(3, 9, 7)),
        np.zeros((2, 300, 40), dtype=np.float32),
        np.full((3, 500, 700), 7, dtype=np.uint8),
    ],
)
def test_any_image_becomes_a_small_picture(pixels):
    uri, size = data_uri(pixels)
    header, _, code = uri.partition(",")
    picture = Image.open(io.BytesIO(base64.b64decode(code)))
    assert header in ("data:image/png;base64", "data:image/jpeg;base64")
    assert picture.size == size
    assert max(size) <= 112
    if pixels.dtype == np.uint8 and pixels.shape == (1, 8, 8):
        assert np.asarray(picture).tolist() == pixels[0].tolist()


def test_an_image_that_is_gone_costs_its_picture_only(digits):
    class Gone:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            raise OSError("unmounted")

    data = LabeledData(
        inputs=Gone(), given=torch.tensor([0, 1, 0]), classes=("a", "b"), ids="abc", kind="image"
    )
    assert Samples(data).show(1) is None


def points(drawing):
    path = re.search(r'class="curve first"', drawing)
    start = drawing.rindex('d="M', 0, path.start()) + 4
    return [tuple(map(float, p.split())) for p in drawing[start:].partition('"')[0].split("L")]


def test_curves_rise_where_numbers_do_and_stay_inside():
    x = np.linspace(1, 9, 1000)
    drawing = line_chart(
        [Line("a", x, x**2)], x_label="x", said="", y_range=(0.0, 50.0), marks=[Mark(20.0, "m")]
    )
    ElementTree.fromstring(drawing)
    drawn = points(drawing)
    assert len(drawn) <= 240
    assert all(a[0] <= b[0] and a[1] >= b[1] for a, b in pairwise(drawn))
    assert min(y for _, y in drawn) >= 16


@pytest.mark.parametrize(
    ("curve", "start", "above"),
    [
        (lambda x: np.maximum(2 - x / 4, 1.05), False, False),  # falls to the mark, and rests on it
        (lambda x: x / 9, True, True),  # rises to it
        (lambda x: 2 - x / 9, True, True),  # falls to it from far
    ],
)
def test_the_name_of_a_mark_stands_clear_of_the_curve(curve, start, above):
    x = np.linspace(0, 9, 200)
    line = Line("a", x, curve(x))
    drawing = line_chart(
        [line],
        x_label="",
        said="",
        marks=[Mark(1.0, "predicted plateau of the warm-up")],
        y_range=(0.0, 2.0),
    )
    parts = {
        part.get("class", "").partition(" ")[0]: part for part in ElementTree.fromstring(drawing)
    }
    assert (float(parts["said"].get("y")) < float(parts["mark"].get("y1"))) == above
    if above:
        assert (parts["said"].get("class") == "said start") == start


@pytest.mark.parametrize(
    "values", [[0.5] * 3, [0.0, 1.0, float("nan")], list(np.linspace(0, 1, 500))]
)
def test_histograms_of_any_scores_are_drawn(values):
    scores = np.array(values, dtype=np.float32)
    drawing = histogram(scores, scores < 0.3, x_label="", said="")
    ElementTree.fromstring(drawing)
    heights = [float(h) for h in re.findall(r'class="bar [a-z]+" height="([\d.]+)"', drawing)]
    assert heights
    assert max(heights) <= 236
