"""Wrong labels, planted on purpose: transition matrices, drawing from them, a record of the flips.

Goes in: true labels, a kind of noise and a rate. Comes out: given labels, and a `NoiseManifest` of
the flips. Begin with `plant` in manifest.py; matrices.py has the kinds of noise.

Everywhere ``T[i, j] = P(given = j | true = i)``, so rows sum to 1. A *rate* is a share of labels;
each kind of noise defines which share.

>>> ids = ["a.png", "b.png", "c.png", "d.png"]
>>> manifest = plant([0, 1, 2, 0], ids, "pairflip", 0.5, seed=1, num_classes=3, exact=True)
>>> manifest.realised_rate
0.5
"""

from abstain.noise.corruption import InstanceNoise, corrupt, instance_dependent
from abstain.noise.manifest import KINDS, NoiseManifest, plant
from abstain.noise.matrices import (
    check_transition,
    pairflip,
    symmetric,
    symmetric_any,
    transition,
)

__all__ = [
    "KINDS",
    "InstanceNoise",
    "NoiseManifest",
    "check_transition",
    "corrupt",
    "instance_dependent",
    "pairflip",
    "plant",
    "symmetric",
    "symmetric_any",
    "transition",
]
