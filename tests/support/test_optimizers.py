import subprocess
import sys

import numpy as np
import pytest
import small_runs as small
import torch

from abstain.support import optimizers


def test_an_optimiser_whose_methods_torch_wraps_in_another_way_stays_as_it_is(monkeypatch):
    def step(self, closure=None):
        return closure

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    assert optimizers._uncompiled(torch.optim.Adam) is torch.optim.Adam


def test_an_audit_of_labels_loads_neither_the_compiler_of_torch_nor_what_it_brings(tmp_path):
    program = (
        "import sys; from abstain import audit, Recipe\n"
        "recipe = Recipe.of('auto', epochs=1)\n"
        "audit(sys.argv[1], recipe, check=['labels'], folder=sys.argv[2])\n"
        "print(*({'torch._dynamo', 'torch._inductor', 'torch.distributed.tensor',\n"
        "         'sympy', 'scipy.stats'} & sys.modules.keys()))"
    )
    assert printed(program, small.save_blobs(tmp_path, 60), tmp_path / "audit") == ""


def test_nor_do_augmentation_and_out_of_sample_probabilities(tmp_path):
    program = (
        "import sys; from abstain import audit, Recipe, train\n"
        "train(sys.argv[1], Recipe.of('auto', epochs=1, augment=True), backbone='none')\n"
        "audit(sys.argv[2], Recipe.of('auto', epochs=1), check=['labels']).probabilities\n"
        "print(*({'torch._dynamo', 'sympy'} & sys.modules.keys()))"
    )
    x = np.random.default_rng(0).integers(0, 255, (60, 3, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", x=x, label=np.arange(60) % 3)
    assert printed(program, tmp_path / "images.npz", small.save_blobs(tmp_path, 60)) == ""


def printed(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


def test_laprop_steps_as_it_is_defined():
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(4, generator=generator).double())
    optimizer = optimizers.LaProp([weight], 0.01, weight_decay=0.1)
    expected, mean, square, rates = weight.detach().tolist(), [0.0] * 4, [0.0] * 4, 0.0
    for step in range(1, 6):
        lr = 0.01 / step  # as a schedule would change it
        optimizer.param_groups[0]["lr"] = lr
        slopes = torch.randn(4, generator=generator).double()
        weight.grad = slopes.clone()
        optimizer.step()
        rates = 0.9 * rates + 0.1 * lr
        for k, slope in enumerate(slopes.tolist()):
            square[k] = 0.9 * square[k] + 0.1 * slope**2
            unit = slope / ((square[k] ** 0.5 + 1e-15) / (1 - 0.9**step) ** 0.5)
            mean[k] = 0.9 * mean[k] + 0.1 * lr * unit
            expected[k] = expected[k] * (1 - lr * 0.1) - mean[k] * lr / rates
    assert weight.tolist() == pytest.approx(expected, rel=1e-12)


def test_laprop_leaves_a_weight_without_a_gradient():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizers.LaProp([weight], 0.1).step()
    assert weight.tolist() == [1, 1]
