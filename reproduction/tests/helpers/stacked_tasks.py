"""Small tasks for stacks, learnable in a few steps."""

import torch

from abstain.training.recipe import plan_of
from reproduction.stacked.trainer import StackedTask

CLASSES = 4


def make_text_task(network, samples=22, words=12, length=7, seed=0):
    """Texts of any length, some of none, whose commonest word tells the class."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (2 * samples,), generator=rng)
    tokens = torch.randint(1, words, (2 * samples, length), generator=rng, dtype=torch.int32)
    tokens[:, ::2] = 1 + labels[:, None]
    lengths = torch.randint(0, length + 1, (2 * samples, 1), generator=rng)
    tokens[torch.arange(length) >= lengths] = 0
    vectors = torch.randn(words, 5, generator=rng)
    vectors[0] = 0
    return StackedTask(
        inputs=tokens[:samples],
        true=labels[:samples],
        test_inputs=tokens[samples:],
        test_labels=labels[samples:],
        num_classes=CLASSES,
        network=network,
        vectors=vectors,
    )


def make_task(network="mnist-cnn", samples=22, seed=0):
    """Blobs at a place that tells the class; learnable in a few steps."""
    if network.startswith("lstm"):
        return make_text_task(network, samples, seed=seed)
    rng = torch.Generator().manual_seed(seed)
    shape = {"cifar-cnn": (3, 18, 17), "mnist-cnn": (1, 16, 17)}.get(network, (1, 4, 4))
    images = torch.randint(0, 60, (2 * samples, *shape), dtype=torch.uint8, generator=rng)
    labels = torch.randint(0, CLASSES, (2 * samples,), generator=rng)
    for image, label in zip(images, labels, strict=True):
        image[:, label * 4 : label * 4 + 4] += 150
        if shape[-1] == 4:
            image[:, label] += 150
    return StackedTask(
        inputs=images[:samples],
        true=labels[:samples],
        test_inputs=images[samples:],
        test_labels=labels[samples:],
        num_classes=CLASSES,
        network=network,
    )


def resolved(method, task, **changes):
    changes = {"epochs": 3, "batch": 5, "flip": 0.4, "seed_noise": 3, **changes}
    recipe = plan_of(method, **changes)
    return recipe.resolved(num_samples=len(task.true), num_classes=CLASSES)
