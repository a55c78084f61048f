"""A sample as a person looks at it, and the samples that are like it.

Everything that the page needs from the data goes through here.
"""

import io
import logging
import re
import zlib
from collections import Counter
from functools import cached_property
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from abstain.auditing.folder import AuditFolder
from abstain.data import Inputs, LabeledData
from abstain.data.inputs import release, take
from abstain.data.source import Source
from abstain.embed.backbones.names import NONE
from abstain.embed.embedding import embed
from abstain.embed.encoder import BackboneEncoder, load_any_encoder
from abstain.embed.finetuning import FineTuningEncoder
from abstain.embed.joined import JoinedEncoder
from abstain.errors import AbstainError, DataError
from abstain.showing.fingerprint import SampleFingerprint
from abstain.showing.pictures import SMALLEST, picture_of
from abstain.support.optional import require

_log = logging.getLogger(__name__)
_TEXT, _BRIEF = 20_000, 280
_CANDIDATES = 300  # of a class, among which the nearest are sought
_TEXTS = 20_000  # that words are counted in
_WORDS = re.compile(r"\w+")
_MARKED = log(3)  # a word is marked if it speaks for a class at least three times as often
_HASHED = 4096
_ODD = 3  # columns of a row that are unusual, at most

Floats = npt.NDArray[np.float32]


class AuditedSamples:
    """The samples of an audit, to look at."""

    def __init__(self, audit: AuditFolder, data: LabeledData | None = None) -> None:
        """Show the samples of an audit.

        Args:
            audit: The audit.
            data: What was audited, where that lay in memory.
        """
        data = data or _load(audit)
        source = audit.summary["sources"]
        # Images that could not be read to the end were left out of the audit, and are still there.
        is_audited = audit.holds(data, more=bool(source["options"].get("skip_bad")))
        if not is_audited or list(data.classes) != audit.classes:
            raise AbstainError(
                f"{source_of(audit)} must hold the samples and labels that were audited, got "
                "others: put them back, or audit what is there; all decisions are kept in "
                f"{audit.folder}"
            )
        self.data = data.as_shown
        self._features = None if data.shown is None else data.inputs
        self._audit = audit
        self.kind = self.data.kind
        row = {id_: k for k, id_ in enumerate(self.data.ids)}
        self._rows = [row[id_] for id_ in audit.ids]
        self.same = SampleFingerprint(self.data, self._rows)
        self._likely: npt.NDArray[np.bool_] | None = None
        self._candidates: dict[int, tuple[npt.NDArray[np.int64], Floats]] = {}

    def content(self, row: int, given: int, proposed: int | None) -> dict[str, Any]:
        """Show a sample as JSON, but for pictures, which are fetched by themselves.

        Args:
            row: Which sample.
            given: Its class.
            proposed: Another that it may be; None if what speaks for either is not to be shown.
        """
        if self.kind == "text":
            return self._text(str(self.data.inputs[self._rows[row]]), given, proposed)
        if self.kind == "table":
            texts = [
                {"name": name, **self._text(str(column[self._rows[row]]), given, proposed)}
                for name, column in self.data.texts.items()
            ]
            return {"columns": self._columns(row, given, proposed), "texts": texts}
        return {}

    def brief(self, row: int, given: int) -> dict[str, Any]:
        """The beginning of a sample, beside others; of a picture its version, to fetch it by."""
        if self.kind == "image":
            return {"version": self.same.version(row)}
        shown = self.content(row, given, None)
        return {"text": shown["text"][:_BRIEF]} if "text" in shown else shown

    def _text(self, text: str, given: int, proposed: int | None) -> dict[str, Any]:
        """A text, and its words that speak for the one class or the other."""
        text = text[:_TEXT]
        return {
            "text": text,
            "marks": [] if proposed is None else self._marks(text, given, proposed),
        }

    def picture(self, row: int, side: int) -> tuple[bytes, str]:
        """A picture, at most `side` pixels high and wide, and its media type."""
        return picture_of(self.data.inputs, self._rows[row], side)

    def near(
        self, row: int, classes: list[int], given: npt.NDArray[np.int64], count: int
    ) -> dict[int, list[int]]:
        """The samples most like one, of each of some classes.

        Args:
            row: The sample.
            classes: Of which classes.
            given: (N,) the class of each sample.
            count: How many of each.
        """
        try:
            own = self._embedded([row])[0]
        except (DataError, OSError, ValueError):
            return {k: [] for k in classes}
        found = {}
        for k in classes:
            rows, features = self._candidates_of(k, given)
            away = ((features - own) ** 2).sum(1)
            order = np.argsort(away, kind="stable")
            found[k] = [int(rows[i]) for i in order.tolist() if rows[i] != row][:count]
        return found

    def like(self, row: int, rows: list[int]) -> list[int]:
        """Rows in the order of how much they are like one."""
        try:
            away = ((self._embedded(rows) - self._embedded([row])) ** 2).sum(1)
        except (DataError, OSError, ValueError):
            return rows
        return [rows[k] for k in np.argsort(away, kind="stable").tolist()]

    def prefer(self, likely: npt.NDArray[np.bool_]) -> None:
        """Show as examples of a class only labels that are likely right.

        Args:
            likely: (N,) which those are.
        """
        self._likely = likely
        self._candidates.clear()

    def _candidates_of(
        self, k: int, given: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        if k not in self._candidates:
            of_class = given == k
            rows = np.flatnonzero(of_class if self._likely is None else of_class & self._likely)
            rows = rows if len(rows) else np.flatnonzero(of_class)
            rng = np.random.default_rng(k)
            if len(rows) > _CANDIDATES:
                rows = np.sort(rng.choice(rows, _CANDIDATES, replace=False))
            self._candidates[k] = rows, self._embedded(rows.tolist())
        return self._candidates[k]

    def _embedded(self, rows: list[int]) -> Floats:
        """Numbers in which samples that are alike lie close: embeddings, where there are any."""
        index = [self._rows[row] for row in rows]
        if not rows:
            return np.zeros((0, 1), np.float32)
        if self._embeddings is not None:
            return _unit(
                np.stack([np.asarray(x, np.float32) for x in take(self._embeddings, index)])
            )
        if self.kind == "text":
            return _unit(np.stack([_hashed(str(self.data.inputs[k])) for k in index]))
        if self.kind == "table":
            values = np.stack([np.asarray(self.data.inputs[k], np.float32) for k in index])
            mean, spread = self._spread
            return np.asarray(np.nan_to_num((values - mean) / spread), np.float32)
        image_of = require("PIL.Image", "pictures")
        return np.stack([self._thumbnail(image_of, row) for row in rows])

    @cached_property
    def _embeddings(self) -> Inputs | None:
        """Features that the audit was given, or those of its backbone, which are in the cache."""
        if self._features is not None or self._audit.summary.get("backbone", NONE) == NONE:
            return self._features
        try:
            encoder = load_any_encoder(self._audit.folder)
            if isinstance(encoder, JoinedEncoder):
                return encoder.encode(self.data)
            assert isinstance(encoder, BackboneEncoder | FineTuningEncoder)
            return embed(self.data, encoder.backbone)
        except AbstainError as error:  # such as a backbone that is not installed here
            _log.warning("similar samples are found without the backbone of the audit: %s", error)
            return None

    def _thumbnail(self, image_of: Any, row: int) -> Floats:  # noqa: ANN401
        blob, _ = self.picture(row, SMALLEST)
        image = image_of.open(io.BytesIO(blob)).convert("RGB").resize((16, 16))
        return np.asarray(np.asarray(image, np.float32).ravel() / 255, np.float32)

    @cached_property
    def _sampled(self) -> npt.NDArray[np.float64]:
        step = max(1, len(self.data) // _TEXTS)
        rows = [np.asarray(self.data.inputs[k], np.float64) for k in range(0, len(self.data), step)]
        return np.stack(rows)

    @cached_property
    def _spread(self) -> tuple[Floats, Floats]:
        values = np.ma.masked_invalid(self._sampled)
        spread = values.std(0).filled(0.0)
        spread[spread == 0] = 1
        return values.mean(0).filled(0.0).astype(np.float32), spread.astype(np.float32)

    @cached_property
    def _medians(self) -> dict[int, npt.NDArray[np.float64]]:
        step = max(1, len(self.data) // _TEXTS)
        given = self.data.given[::step].numpy()
        found = {}
        for k in np.unique(given).tolist():
            values = self._sampled[given == k]
            found[k] = np.where(np.isnan(values).all(0), np.nan, np.nanmedian(values, 0))
        return found

    def _columns(self, row: int, given: int, proposed: int | None) -> list[dict[str, Any]]:
        """Each column, unusual ones first: its value, beside what is usual in the classes."""
        # As it was written, 0.69: in double precision single is 0.6899999976158142.
        values = [float(str(x)) for x in np.asarray(self.data.inputs[self._rows[row]])]
        names = self.data.columns or [f"column {k}" for k in range(len(values))]
        shown = [
            {"name": n, "value": v} for n, v in zip(names, self.data.named(values), strict=True)
        ]
        mean, spread = self._spread
        usual = mean.astype(np.float64)  # blind, of all classes: the given one is not to be seen
        if proposed is not None:
            for key, k in (("given", given), ("proposed", proposed)):
                if k in self._medians:
                    of_class = self._medians[k].tolist()
                    for column, name, value in zip(shown, names, of_class, strict=True):
                        column[key] = self.data.read(name, value)
            usual = self._medians.get(given, usual)
        away = np.nan_to_num(np.abs(np.array(values) - usual) / spread)
        odd = [k for k in np.argsort(-away, kind="stable")[:_ODD].tolist() if away[k] > 1]
        for k in odd:
            shown[k]["odd"] = True
        # Nobody finds three unusual ones among a hundred; the others stay where they always are.
        return [shown[k] for k in odd] + [x for x in shown if "odd" not in x]

    @cached_property
    def _words(self) -> tuple[list[Counter[str]], npt.NDArray[np.float64]]:
        """In how many texts of each class each word stands, and how many texts there are."""
        counts: list[Counter[str]] = [Counter() for _ in self.data.classes]
        texts = np.zeros(len(self.data.classes))
        step = max(1, len(self.data) // _TEXTS)
        columns = self.data.texts.values() or [self.data.inputs]
        for k in range(0, len(self.data), step):
            given = int(self.data.given[k])
            text = "\n".join(str(column[k]) for column in columns)
            counts[given].update(set(_WORDS.findall(text.lower())))
            texts[given] += 1
        return counts, texts

    def _marks(self, text: str, given: int, proposed: int) -> list[tuple[int, int, str]]:
        """Words that speak for the class as given or as proposed: where, and for which.

        A word speaks for the class whose texts it stands in at least three times as often.
        """
        counts, texts = self._words
        marks = []
        for word in _WORDS.finditer(text):
            name = word.group().lower()
            seen = [(counts[k][name] + 0.5) / (texts[k] + 1) for k in (given, proposed)]
            ratio = log(seen[1] / seen[0])
            if (
                given != proposed
                and abs(ratio) >= _MARKED
                and counts[given][name] + counts[proposed][name] > 2
            ):
                marks.append((word.start(), word.end(), "proposed" if ratio > 0 else "given"))
        return marks


def _load(audit: AuditFolder) -> LabeledData:
    """The data that were audited, as a person sees them: images in the size that they have."""
    source = Source.found_again(audit.summary["sources"])
    if source.train is None:
        raise AbstainError(
            f"{audit.folder} is an audit of data in memory, of which there is nothing to show",
            remedy="open it in Python by abstain.review_labels, which has the data",
        )
    if audit.summary["inputs"] == "image":
        source = source.with_options(image_size=None, own_size=True)
    try:
        data = source.load_train()
    except DataError as error:
        raise AbstainError(
            f"the data that were audited must be where they were, {source.train}; decisions "
            f"are kept until they are. Got: {error}"
        ) from error
    release(data)  # a review is long, and is to see files that change
    return data


def source_of(audit: AuditFolder) -> str:
    """Name the audited data, in words."""
    source = audit.summary["sources"]["train"]
    return "the data in memory" if source is None else str(source)


def _hashed(text: str) -> Floats:
    """Words of a text, counted by their hash: the same in every process."""
    vector = np.zeros(_HASHED, np.float32)
    for word, count in Counter(_WORDS.findall(text.lower())).items():
        vector[zlib.crc32(word.encode("utf-8", "surrogatepass")) % _HASHED] += 1 + log(count)
    return vector


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-9), np.float32)
