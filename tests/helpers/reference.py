"""Slow, obvious versions to compare with: each says what is meant, not how to get it fast."""

import math

import mpmath
import numpy as np
import torch
from scipy.optimize import minimize, minimize_scalar

# ---------------------------------------------------------------- theory


def bet_loss(probabilities, payoff, classes, abstention):
    """Equation (3), expected over the given label: −Σ p_j log(f_j + f_0/λ)."""
    return -sum(
        p * np.log(bet + abstention / payoff)
        for p, bet in zip(probabilities, classes, strict=True)
        if p > 0
    )


def least_loss_bet(probabilities, payoff):
    """Minimise `bet_loss` over the simplex with SciPy's SLSQP, which knows nothing of the problem.

    The logarithm is continued below p_j/4 by its second-order expansion: else the search runs into
    log 0 on the boundary, where the optimum lies. The continued problem is convex too, so that a
    minimum on which the continuation is not used is a minimum of the true problem.
    """
    p = np.asarray(probabilities, dtype=float)
    possible = p > 0
    weight = p[possible]
    # income[j] = f_j + f_0/λ, the abstention last
    income_of = np.hstack([np.eye(len(p)), np.full((len(p), 1), 1 / payoff)])[possible]
    knee = weight / 4
    # The curvature along f_j is about 1/p_j: in these units it is about 1, and the search is short.
    unit = np.append(np.sqrt(np.maximum(p, 1e-6)), 1.0)

    def continued(scaled):
        income = income_of @ (unit * scaled)
        above = np.maximum(income, knee)
        below = np.minimum(income - knee, 0) / knee
        loss = -weight @ (np.log(above) + below - below**2 / 2)
        slope = -income_of.T @ (weight * (1 - below) / above)
        return loss, slope * unit

    found = minimize(
        continued,
        np.full(len(unit), 1 / len(unit)) / unit,
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * len(unit),
        constraints={"type": "eq", "fun": lambda s: unit @ s - 1, "jac": lambda s: unit},
        options={"ftol": 1e-13, "maxiter": 300},
    )
    bet = np.maximum(found.x * unit, 0)
    bet /= bet.sum()
    assert np.all(income_of @ bet > knee)
    return bet[:-1], bet[-1]


def optimality_gap(probabilities, payoff, classes, abstention):
    """Bound the gain of any other bet over this one.

    With g the income of this bet and h that of another, Jensen's inequality gives
    Σ p_j log(h_j/g_j) ≤ log Σ p_j h_j/g_j, which is linear in the other bet and thus largest
    where all is staked on one thing: a class j, or the abstention.
    """
    income = [bet + abstention / payoff for bet in classes]
    ratio = [p / g if p > 0 else 0.0 for p, g in zip(probabilities, income, strict=True)]
    return np.log(max(*ratio, sum(ratio) / payoff))


def least_mean_field_loss(clean_rate, payoff):
    """Theorem 4.1's loss in the one bet p̂ on the true class, minimised: (p̂, loss)."""

    def loss(bet):
        held = (1 - bet) / payoff
        return -clean_rate * np.log(bet + held) - (1 - clean_rate) * np.log(held)

    found = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-12})
    return found.x, found.fun


def generalisation_error(smoothing, clean_rate, prediction):
    """Equation (9): cross-entropy of (f, 1 − f) with smoothed, partly flipped labels."""
    right, wrong = np.log(prediction), np.log1p(-prediction)
    as_given = -smoothing * right - (1 - smoothing) * wrong
    as_flipped = -smoothing * wrong - (1 - smoothing) * right
    return clean_rate * as_given + (1 - clean_rate) * as_flipped


def transition_matrix(clean_rate, num_classes, noise):
    """T[i, j] = P(given = j | true = i), entry by entry."""
    matrix = np.zeros((num_classes, num_classes))
    for true in range(num_classes):
        for given in range(num_classes):
            if given == true:
                matrix[true, given] = clean_rate
            elif noise == "symmetric":
                matrix[true, given] = (1 - clean_rate) / (num_classes - 1)
            elif given == (true + 1) % num_classes:
                matrix[true, given] = 1 - clean_rate
    return matrix


def gamblers_loss_of_one_sample(logits, label, payoff):
    """−log(f_y + f_0/λ) of one row, in arbitrary precision."""
    powers = [mpmath.exp(z) for z in logits]
    return float(-mpmath.log((powers[label] + powers[-1] / payoff) / sum(powers)))


def payoff_by_rule(rule, logits, guard):
    """The payoff rules as METHOD and paper write them, on one row, clamped as documented."""
    powers = [mpmath.exp(z) for z in logits]
    *classes, _ = [power / sum(powers) for power in powers]
    stake, squares = sum(classes), sum(f * f for f in classes)
    if rule == "euc":
        return (stake**2 + guard) / squares
    if rule == "mid":
        payoff = stake / squares
    else:
        payoff = mpmath.exp(-sum(f * mpmath.log(f) for f in classes) / stake)
    return min(max(payoff, 1), len(classes))


# ---------------------------------------------------------------- co-teaching


def co_teach(pair, epochs, plan):
    """Train two networks in place, sample by sample as co-teaching+ is described.

    `epochs` has for each epoch its batches, as inputs and given labels; `plan` says what share of
    the candidates trains when, and with which learning rate and momentum.
    """
    optimizers = [torch.optim.Adam(model.parameters()) for model in pair]
    for epoch, batches in enumerate(epochs):
        for optimizer in optimizers:
            plan.set_for(optimizer, epoch)
        for inputs, given in batches:
            logits = [model(inputs) for model in pair]
            losses = [torch.nn.functional.cross_entropy(x, given, reduction="none") for x in logits]
            first, second = (x[:, :-1].argmax(-1).tolist() for x in logits)
            everyone = range(len(given))
            differing = [i for i in everyone if first[i] != second[i]]
            candidates = differing if plan.by_disagreement(epoch) and differing else everyone
            few = max(1, math.floor(plan.kept(epoch) * len(candidates) + 1e-6))
            chosen = [sorted(candidates, key=own.tolist().__getitem__)[:few] for own in losses]
            for model_losses, by_other, optimizer in zip(
                losses, reversed(chosen), optimizers, strict=True
            ):
                optimizer.zero_grad()
                model_losses[by_other].mean().backward()
                optimizer.step()
