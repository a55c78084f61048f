"""What a training under way is made of: as a checkpoint, and back.

From it a training goes on to the same bits as if nothing had happened, on one process. With
another number of processes it goes on too: what all had seen together is kept once.
"""

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from abstain.training.loop.evaluation import no_sums
from abstain.training.processes import gather
from abstain.training.saving.checkpoint import Checkpoint
from abstain.training.saving.history import Average, History
from abstain.training.saving.packing import pack_optimizer, pack_rng, unpack_optimizer, unpack_rng

if TYPE_CHECKING:
    from abstain.training.loop.loop import Loop


@dataclass
class Position:
    """How far the training has come."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    smoothed: Average = field(default_factory=Average)
    totals: list[float] = field(default_factory=no_sums)
    """Sums over the steps of this epoch that were looked at."""
    outcome: str = ""
    """Why the training ended; empty while it goes on."""


def pack_loop(loop: "Loop") -> Checkpoint:
    """All of it; to be called by every process."""
    rng_tensors, rng_state = pack_rng()
    learner, trust = loop.learner, loop.objective.trust
    phase, stop = loop.judge.warm_up_phase, loop.judge.stop
    parts: dict[str, Any] = {}
    if learner.averaged is not None:
        averaged = learner.averaged
        parts["averaged"] = averaged.model.state_dict(), {"steps": averaged.steps}
    if trust is not None:
        parts["trust"] = trust.state_dict(), None
    if phase is not None:
        best = phase.warm_up.best_losses
        losses = {} if best is None else {"losses": best}
        parts["warm_up"] = {**phase.kept, **losses}, phase.warm_up.state_dict()
    return Checkpoint.join(
        {
            **parts,
            "model": (learner.plain_model.state_dict(), None),
            "optimizer": pack_optimizer(learner.optimizer),
            "schedule": ({}, learner.schedule.state_dict()),
            "scaler": ({}, learner.scaler.state_dict()),
            "ledger": (loop.whole_ledger().state_dict(), None),
            "rng": (
                {name: gather(loop.accelerator, x) for name, x in rng_tensors.items()},
                rng_state,
            ),
            "history": loop.history.packed(),
            "position": (loop.tally.packed(), asdict(loop.position)),
            "stop": ({}, None if stop is None else stop.state_dict()),
        }
    )


def unpack_loop(loop: "Loop", checkpoint: Checkpoint) -> None:
    """Put a loop where it was when it was packed."""
    is_main, learner = loop.accelerator.is_main_process, loop.learner
    learner.plain_model.load_state_dict(checkpoint.part("model")[0])
    unpack_optimizer(learner.optimizer, *checkpoint.part("optimizer"))
    learner.schedule.load_state_dict(_values(checkpoint, "schedule"))
    if learner.scaler.is_enabled():
        learner.scaler.load_state_dict(_values(checkpoint, "scaler"))
    loop.ledger.load_state_dict(checkpoint.part("ledger")[0])
    if not is_main:
        loop.ledger.clear()  # what all had seen together is kept once
    tensors, values = checkpoint.part("history")[0], _values(checkpoint, "history")
    loop.history = History.unpacked(tensors, values)
    position = _values(checkpoint, "position")
    loop.position = Position(**{**position, "smoothed": Average(**position["smoothed"])})
    # One process had seen these; now all look at them together.
    loop.tally.unpack(checkpoint.part("position")[0], mine=is_main)
    _unpack_rng(loop, *checkpoint.part("rng"))
    if learner.averaged is not None:
        learner.averaged.model.load_state_dict(checkpoint.part("averaged")[0])
        learner.averaged.steps = _values(checkpoint, "averaged")["steps"]
    if loop.objective.trust is not None:
        loop.objective.trust.load_state_dict(checkpoint.part("trust")[0])
    phase, stop = loop.judge.warm_up_phase, loop.judge.stop
    if phase is not None:
        phase.kept = checkpoint.part("warm_up")[0]
        losses = phase.kept.pop("losses", None)
        phase.warm_up.load_state_dict(_values(checkpoint, "warm_up"), losses)
    if stop is not None:
        stop.load_state_dict(_values(checkpoint, "stop"))


def _unpack_rng(loop: "Loop", tensors: dict[str, Tensor], state: Any) -> None:  # noqa: ANN401
    rank = loop.accelerator.process_index
    if all(rank < len(stacked) for stacked in tensors.values()):
        unpack_rng({name: stacked[rank] for name, stacked in tensors.items()}, state)
    else:
        loop.seed_epoch()  # more processes than before: the new ones have no state to take up


def _values(checkpoint: Checkpoint, part: str) -> dict[str, Any]:
    values = checkpoint.part(part)[1]
    assert isinstance(values, dict)
    return values
