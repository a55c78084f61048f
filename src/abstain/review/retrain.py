"""`python -m abstain.review.retrain AUDIT FOLDER`: audit the labels as they were corrected.

A process of its own, so that the page stays quick.
"""

import sys
from dataclasses import replace
from pathlib import Path

from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.auditing.result import Audit
from abstain.data import splits
from abstain.data.source import Source
from abstain.embed.backbones.names import NONE
from abstain.errors import AbstainError
from abstain.exporting.cleaned import default_suffix, export_cleaned
from abstain.report import write_report
from abstain.review.before_after import PAGE, compare, write_before_after
from abstain.review.unchanged import check_for_export
from abstain.training.plan import Plan
from abstain.training.saving.run_folder import RunFolder


def retrain(folder: Path, place: Path) -> Audit:
    """Write the corrected data set, and audit it as the one before was.

    Args:
        folder: Of an audit that was reviewed.
        place: A new folder for both.
    """
    before = AuditFolder.open(folder)
    check_for_export(before)
    metadata = RunFolder(folder).metadata()
    source = Source.found_again(before.summary["sources"])
    place.mkdir(parents=True)
    clean = place / f"corrected{default_suffix(str(source.train), before.summary['inputs'])}"
    written = export_cleaned(before, clean, "reviewed")
    plan = replace(Plan.from_json(metadata["plan"]), flip=0.0)
    test = None
    if isinstance(source.train, str) and "test" in splits(source.train):
        own_size = plan.backbone != NONE  # as the training data were read
        test = source.load_train(split="test", own_size=own_size)
    found = audit(clean, plan, test=test, folder=place / "audit", **written.reading)
    write_report(found, place / "audit" / "report.html")
    write_before_after(compare(folder, place / "audit"), place / "audit" / PAGE)
    return found


if __name__ == "__main__":
    try:
        retrain(Path(sys.argv[1]), Path(sys.argv[2]))
    except AbstainError as error:
        sys.exit(str(error))
