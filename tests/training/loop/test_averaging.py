"""Averages of weights, against a plain loop; counters are not averaged."""

import torch
from torch import nn

from abstain.training.loop.step import Averaged


def test_weights_and_figures_are_averaged_and_counters_are_not():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).double()
    averaged = Averaged(model, horizon=4)
    names = ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"]
    expected = {name: model.state_dict()[name].clone() for name in names}
    for step in range(1, 41):
        model(torch.randn(5, 2, dtype=torch.float64))  # which moves the running figures
        with torch.no_grad():
            model[0].weight.add_(torch.randn(3, 2, dtype=torch.float64))
        averaged.update()
        share = max(1 / 4, 9 / (10 + step))
        for name, old in expected.items():
            expected[name] = (1 - share) * old + share * model.state_dict()[name]
    settled = averaged.settle(model).state_dict()
    for name, value in expected.items():
        torch.testing.assert_close(settled[name], value)
    assert settled["1.num_batches_tracked"] == 40
    averaged.restart(model)
    assert averaged.steps == 0
    assert torch.equal(averaged.model[0].weight, model[0].weight)
