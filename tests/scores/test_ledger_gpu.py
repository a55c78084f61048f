"""The ledger on a GPU, by itself: a machine with one may lack what test_ledger.py needs."""

import pytest
import torch
from torch.testing import assert_close

from abstain.scores.ledger import Ledger

COLUMNS = ("belief", "margin", "evidence", "logit_margin", "wrong", "visits", "abstention")
SAMPLES, CLASSES = 20, 5


@pytest.mark.gpu
def test_update_on_cuda_never_waits_for_the_device():
    generator = torch.Generator().manual_seed(0)
    visits = [
        (
            torch.randperm(SAMPLES, generator=generator)[:7],
            torch.randn(7, CLASSES + 1, generator=generator),
            torch.randint(CLASSES, (7,), generator=generator),
        )
        for _ in range(5)
    ]
    ledger, host = Ledger(SAMPLES, "cuda"), Ledger(SAMPLES)
    on_device = [[part.cuda() for part in batch] for batch in visits]
    ledger.update(*on_device[0])
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in on_device[1:]:
            ledger.update(*batch)
        ledger.update(*on_device[0], payoff=9.99)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for batch in visits:
        host.update(*batch)
    host.update(*visits[0], payoff=9.99)
    for name in (*COLUMNS, "payoff"):
        assert_close(getattr(ledger, name).cpu(), getattr(host, name), equal_nan=True, msg=name)
