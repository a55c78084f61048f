import numpy as np
import pytest

from abstain import AbstainError
from abstain.auditing.kept_evidence import keep_evidence, kept_evidence
from abstain.scores.evidence import evidence_from_probabilities


def test_evidence_is_read_as_it_was_kept(tmp_path):
    given = np.array([0, 1, 1])
    evidence = evidence_from_probabilities([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], given)
    keep_evidence(tmp_path, evidence, given)
    again, labels = kept_evidence(tmp_path)
    assert labels.tolist() == given.tolist()
    assert again.memorised == evidence.memorised
    for name in ("log_odds", "rival", "rival_share", "abstention"):
        np.testing.assert_array_equal(getattr(again, name), getattr(evidence, name))


def test_a_folder_without_evidence_says_how_to_add_it(tmp_path):
    with pytest.raises(AbstainError, match="abstain audit --resume"):
        kept_evidence(tmp_path)


def test_a_file_cut_short_is_refused(tmp_path):
    (tmp_path / "evidence.parquet").write_bytes(b"PAR1")
    with pytest.raises(AbstainError, match="must be as abstain wrote it"):
        kept_evidence(tmp_path)
