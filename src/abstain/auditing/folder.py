"""The folder of an audit: its files are read and written here, and nowhere else.

It is the folder of the run (recipe, model, history, ledger) with the verdict beside:

evidence.parquet   what the verdict is computed from, in the order of the source: given labels,
                   evidence, planted errors, identical samples; enough for new answers
issues.parquet     every label, the worst first, and other faults of its sample; issues.csv
weights.parquet    how probable it is that a label is right, in the order of the source
reviewed.parquet   answers, and whether each was given in a table that held nothing but labels drawn
                   at random (`drawn`)
sample.parquet     labels to check at random, in the order to check them, with their strata; its
                   metadata hold how many were handed out
summary.json       the figures; written last: a folder that has it is whole
report.html        added by `abstain.report`
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain.arguments import typed
from abstain.auditing.answers import ANSWER, ID, NO_CLASS, Answer, Answers
from abstain.auditing.findings import Findings
from abstain.auditing.summary import FORMAT
from abstain.auditing.verdict_inputs import EVIDENCE, VerdictInputs, evidence_table
from abstain.checks.check import Checks
from abstain.checks.giveaways import Giveaway
from abstain.data import LabeledData
from abstain.data.readers.images import LazyImages
from abstain.data.source import Source
from abstain.errors import AbstainError
from abstain.scores.sampling import Sample, draw
from abstain.support.files import publish, publish_text
from abstain.support.optional import require
from abstain.support.spreadsheets import for_spreadsheets
from abstain.support.wording import many

if TYPE_CHECKING:
    import pyarrow as pa

    from abstain.auditing.result import Audit

COLUMNS = (
    ID,
    "is_label_issue",
    "label_score",
    "given_label",
    "predicted_label",
    "confidence",
    "abstention",
    ANSWER,
    NO_CLASS,
)
"""Columns of the table of issues; those of the checks follow."""
LARGEST_SAMPLE = 10_000
"""Labels that a sample holds at most: nobody checks more."""
OWN_FILES = _REVIEWED, _SAMPLE = "reviewed.parquet", "sample.parquet"
_DRAWN, _HANDED_OUT = "drawn", "handed_out"


class AuditFolder:
    """The folder of an audit, which may not be finished."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        """Without its tables."""
        return f"<AuditFolder {self.folder}: {len(self.issues):,} labels>"

    @classmethod
    @typed()
    def open(cls, folder: str | os.PathLike[str]) -> "AuditFolder":
        """Open the folder of a finished audit, or raise what is wrong with it."""
        opened = cls(folder)
        assert opened.summary is not None
        assert opened.issues is not None
        assert opened.weights is not None
        return opened

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """The figures when the audit was written last."""
        resume = f"abstain audit --resume {quote(str(self.folder))}"
        path = self.folder / "summary.json"
        try:
            summary = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            if (self.folder / "run.json").exists():
                raise AbstainError(
                    f"{self.folder} must be a finished audit, but has no verdict yet; go on with: "
                    f"{resume}"
                ) from None
            raise AbstainError(
                f"must be the folder of an audit, got {self.folder}: {error}", argument="audit"
            ) from error
        if not isinstance(summary, dict) or summary.get("kind") != "audit":
            raise AbstainError(
                f"must be the folder of an audit, got {self.folder}, which is that of a training; "
                f"audit it with: {resume}",
                argument="audit",
            )
        if summary.get("format") != FORMAT:
            raise AbstainError(
                f"{path} must be of format {FORMAT}; it is of another version of abstain"
            )
        if missing := [name for name in ("sources", "inputs", "classes") if name not in summary]:
            raise AbstainError(f"{path} must be whole, got none of {missing[0]}")
        return summary

    @cached_property
    def issues(self) -> "pa.Table":
        """Every label, the worst first."""
        return self._table("issues.parquet")

    @cached_property
    def weights(self) -> "pa.Table":
        """Probability that each label is right, in the order of the source."""
        return self._table("weights.parquet")

    def _table(self, name: str) -> "pa.Table":
        parquet = require("pyarrow.parquet", "reading an audit")
        try:
            return parquet.read_table(self.folder / name)
        except (OSError, ValueError) as error:  # Arrow's own errors are of these kinds
            anew = f"abstain audit --resume {quote(str(self.folder))} writes it anew"
            anew = anew if (self.folder / "run.json").exists() else "put it back from a copy"
            why = f"{self.folder} must be whole, got a damaged {name} ({error}); {anew}"
            raise AbstainError(why) from error

    @cached_property
    def ids(self) -> list[str]:
        """(N,) the ids of all samples, in the order of the source."""
        ids: list[str] = self.weights.column(ID).to_pylist()
        return ids

    @property
    def classes(self) -> list[str]:
        """The names of the classes."""
        return list(self.summary["classes"])

    @property
    def is_finished(self) -> bool:
        """Whether new answers need nothing but what is here."""
        try:
            sizes = {len(self.ids), len(self.verdict_inputs.given), self.issues.num_rows}
            return bool(self.summary) and len(sizes) == 1
        except AbstainError:
            return False

    @cached_property
    def verdict_inputs(self) -> VerdictInputs:
        """Read the evidence of the verdict, or raise an error if the folder has none."""
        return VerdictInputs.read(self.folder)

    def findings(self) -> Findings:
        """The findings that know all answers that the folder has now."""
        ids, inputs = self.ids, self.verdict_inputs
        if len(inputs.given) != len(ids):
            raise AbstainError(f"{self.folder} must be whole, got evidence on other labels")
        of_labels = inputs.evidence, inputs.given, self.classes, ids
        return Findings.knowing(self.answers(), *of_labels, self.sample(ids))

    # ── Answers and the random sample ─────────────────────────────────────────────────────────────

    def answers(self) -> Answers:
        """All answers of reviewers so far."""
        if not (self.folder / _REVIEWED).exists():
            return Answers()
        table = self._own_table(_REVIEWED, (ID, ANSWER, NO_CLASS, _DRAWN))
        ids, *columns = (table.column(x).to_pylist() for x in (ID, ANSWER, NO_CLASS, _DRAWN))
        by_id = {
            id_: Answer.read(word) if label is None else Answer("label", label)
            for id_, label, word in zip(ids, *columns[:2], strict=True)
        }
        drawn = frozenset(id_ for id_, is_drawn in zip(ids, columns[2], strict=True) if is_drawn)
        return Answers(by_id=by_id, drawn=drawn)

    def keep_answers(self, answers: Answers) -> None:
        """Write the answers of reviewers, in place of those before."""
        pa = require("pyarrow", "keeping reviewed labels")
        ids, text = list(answers.by_id), pa.string()
        kinds = [x.kind if x.label is None else None for x in answers.by_id.values()]
        columns = {
            ID: pa.array(ids, text),
            ANSWER: pa.array([x.label for x in answers.by_id.values()], text),
            NO_CLASS: pa.array(kinds, text),
            _DRAWN: [id_ in answers.drawn for id_ in ids],
        }
        self._publish(_REVIEWED, pa.table(columns))

    def sample(self, ids: Sequence[str]) -> Sample | None:
        """The labels that were handed out to be checked at random, if any were."""
        sample, handed_out = self._whole_sample(ids)
        return None if sample is None else sample.first(handed_out)

    def hand_out(self, ids: Sequence[str], wrong_probability: Any, size: int) -> Sample:  # noqa: ANN401
        """The first labels of the random sample of an audit, which is drawn once.

        So a larger size goes on where a smaller one ended.

        Args:
            ids: (N,) of all samples, in the order of the source.
            wrong_probability: (N,) P(wrong).
            size: How many labels.
        """
        sample, before = self._whole_sample(ids)
        if sample is None:
            most = min(LARGEST_SAMPLE, len(ids))
            sample = draw(wrong_probability, most, np.random.default_rng(0))
        if size > len(sample.rows):
            raise AbstainError(
                f"must be at most {len(sample.rows)}, all that was drawn, got {size}",
                argument="size",
            )
        self.keep_sample(sample, ids, max(size, before))
        return sample.first(size)

    def keep_sample(self, sample: Sample, ids: Sequence[str], handed_out: int) -> None:
        """Write a sample, and how many of it were handed out."""
        pa = require("pyarrow", "keeping a sample")
        about = {f"size{k}": str(n) for k, n in enumerate(sample.sizes.tolist())}
        about[_HANDED_OUT] = str(handed_out)
        drawn = pa.array([ids[row] for row in sample.rows.tolist()], pa.string())
        table = pa.table({ID: drawn, "stratum": sample.stratum})
        self._publish(_SAMPLE, table.replace_schema_metadata(about))

    def _whole_sample(self, ids: Sequence[str]) -> tuple[Sample | None, int]:
        """All that was drawn, in its order, and how many of it were handed out."""
        path = self.folder / _SAMPLE
        if not path.exists():
            return None, 0
        table = self._own_table(_SAMPLE, (ID, "stratum"))
        drawn = table.column(ID).to_pylist()
        wanted = set(drawn)
        row = {id_: k for k, id_ in enumerate(ids) if id_ in wanted}
        about = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
        try:
            strata = sum(name.startswith("size") for name in about)
            sample = Sample(
                rows=np.array([row[id_] for id_ in drawn], dtype=np.int64),
                stratum=table.column("stratum").to_numpy(),
                sizes=np.array([about[f"size{k}"] for k in range(strata)], dtype=np.int64),
            )
            return sample, int(about[_HANDED_OUT])
        except (KeyError, ValueError) as error:
            raise _damaged(path, f"no entry {error}") from error

    def _own_table(self, name: str, columns: tuple[str, ...]) -> "pa.Table":
        parquet = require("pyarrow.parquet", "reading an audit")
        try:
            return parquet.read_table(self.folder / name, columns=list(columns))
        except (OSError, ValueError, KeyError) as error:
            raise _damaged(self.folder / name, str(error)) from error

    # ── The data ──────────────────────────────────────────────────────────────────────────────────

    def load(self, *, shown_only: bool = False, own_size: bool = False) -> LabeledData:
        """Load the data that were audited, from where they came; without what was planted.

        Args:
            shown_only: Read only what a person is shown; features in a file need not be there.
            own_size: Leave images as they are, to be decoded when asked for.
        """
        source = Source.found_again(self.summary["sources"])
        if source.train is None:
            raise AbstainError(
                f"{self.folder} is an audit of data in memory, which cannot be loaded again: "
                "save them to a file and audit that, or export to csv or parquet"
            )
        options = {"own_size": True} if own_size and self.summary["inputs"] == "image" else {}
        data = source.load_train(shown_only=shown_only, **options)
        # What cannot be decoded is still there.
        if not self.holds(data, more=bool(options) and bool(source.options.get("skip_bad"))):
            raise AbstainError(
                f"{source.train} must hold the samples and labels that were audited, got "
                "others: audit it again"
            )
        return data

    def holds(self, data: LabeledData, *, more: bool = False) -> bool:
        """Whether these samples and labels were audited; with `more`, others may stand beside."""
        # By their labels too: rows that are known by their numbers may have changed places.
        planted = "detection" in self.summary
        ids, names = (self.issues.column(name).to_pylist() for name in (ID, "given_label"))
        audited = {id_: planted or name for id_, name in zip(ids, names, strict=True)}
        labels = zip(data.ids, data.given.tolist(), strict=True)
        found = {id_: planted or data.classes[k] for id_, k in labels}
        return audited == found if not more else audited.items() <= found.items()

    def checks(self) -> Checks | None:
        """The other faults of the samples, as they are written in the table of issues."""
        known, table = self.summary.get("checks"), self.issues
        if known is None:
            return None
        row = {id_: k for k, id_ in enumerate(self.ids)}
        order = np.argsort([row[id_] for id_ in table.column(ID).to_pylist()])
        names = [x for x in table.column_names if x not in (*COLUMNS, "near_duplicate_sets")]
        return Checks(
            columns={name: table.column(name).to_numpy()[order] for name in names},
            skipped=known["skipped"],
            giveaways=tuple(Giveaway(**one) for one in known["giveaways"]),
        )

    # ── Writing ───────────────────────────────────────────────────────────────────────────────────

    def write(self, audit: "Audit") -> None:
        """Write the tables and, last, summary.json; each whole or not at all."""
        pa = require("pyarrow", "writing issues")
        csv = require("pyarrow.csv", "writing issues")
        ids, verdict, table = audit.labels.ids, audit.verdict, audit.issues
        whole = table
        if audit.checks is not None:
            found = audit.checks.table(ids).take(audit.order)
            for name in found.column_names[1:]:  # the first is the id
                whole = whole.append_column(name, found.column(name))
        right = 1 - verdict.wrong_probability.astype(np.float64)
        right[verdict.dropped] = 0  # no training counts what left the data set
        weights = pa.table({ID: pa.array(ids[:], pa.string()), "weight": right})
        text = json.dumps(audit.summary(), indent=2, default=str) + "\n"
        with self._writing():
            self._keep_reviews(audit)
            self._publish(EVIDENCE, evidence_table(audit))
            self._publish("issues.parquet", whole)
            publish(
                self.folder / "issues.csv",
                lambda path: csv.write_csv(for_spreadsheets(table), path),
            )
            self._publish("weights.parquet", weights)
            publish_text(self.folder / "summary.json", text)

    def _keep_reviews(self, audit: "Audit") -> None:
        if lost := self.answers().by_id.keys() - audit.answers.by_id.keys():
            raise AbstainError(
                f"must hold no answers that this verdict does not know, got {self.folder} with "
                f"{many(len(lost), 'such answer')}",
                argument="folder",
                remedy="audit(folder=…, resume=True) knows them",
            )
        if audit.answers.by_id:
            self.keep_answers(audit.answers)
        sample, ids = audit.findings.sample, audit.labels.ids
        if sample is not None and self.sample(ids) is None:
            self.keep_sample(sample, ids, len(sample.rows))

    def _publish(self, name: str, table: "pa.Table") -> None:
        parquet = require("pyarrow.parquet", "writing an audit")
        with self._writing():
            publish(self.folder / name, lambda path: parquet.write_table(table, path))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Name the folder in a line where the system refuses to write."""
        try:
            yield
        except OSError as error:
            raise AbstainError(
                f"{self.folder} must be a folder to write to, got: {error.strerror or error}; make "
                "room, then go on by resume"
            ) from error


class Absent:
    """Inputs that are not loaded: they are where they came from, if they are still there."""

    def __init__(self, folder: AuditFolder, size: int) -> None:
        self._folder, self._size = folder, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int, /) -> object:
        raise AbstainError(f"{self._folder.folder} holds no samples: load them by its `load`")

    def load(self, labels: LabeledData) -> LabeledData:
        """Load the samples, under the labels that were audited."""
        data = self._folder.load(shown_only=True, own_size=True).as_shown
        if len(data) > len(labels) and isinstance(data.inputs, LazyImages):
            known = set(labels.ids)
            rows = [row for row, id_ in enumerate(data.ids) if id_ in known]
            data = replace(data, inputs=data.inputs.subset(rows), given=data.given[rows])
        own = {
            x: getattr(labels, x) for x in ("ids", "given", "classes", "true", "name", "skipped")
        }
        return replace(data, **own)


def _damaged(path: Path, why: str) -> AbstainError:
    return AbstainError(
        f"{path} must be as abstain wrote it, got a damaged file ({why}): put it back from a copy, "
        "or remove it and review anew"
    )
