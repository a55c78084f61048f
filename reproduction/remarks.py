"""Texts written by hand: captions, what was not tried, and what was tried where `auto` loses."""

from reproduction.auto_evidence import DEVELOPMENT, Place

CAPTIONS = {
    "table-symmetric": (
        "Co-teaching+ and AES are given the true rate; the others are not. *schedule* is the rule "
        "euc with a guard of 1e-8 after some epochs of cross-entropy (2 on MNIST, 10 elsewhere); "
        "*as released* is what the authors' code does: guard 1e-10, on MNIST from the first epoch. "
        "Training takes 50 epochs on MNIST and 100 elsewhere, where the gambler's loss begins with "
        "10 of cross-entropy. Co-teaching+ takes as many, with its own decay of the learning rate, "
        "and has the mean of its two networks; the last column has the 200 epochs of its paper."
    ),
    "table-stopping": (
        "The payoff is 9.99 on ten classes and 1.95 on two. The last column is an ablation: "
        "cross-entropy, stopped when its loss reaches the entropy of the labels."
    ),
    "table-pairflip": (
        "There is no AES here: the paper's threshold holds for symmetric noise only, and with "
        "pairflip noise it is reached in the first epoch."
    ),
    "figure-learnability": (
        "Training accuracy counts the given labels, wrong ones too: a model that learns only "
        "true labels ends on the dotted line. The paper does not say which payoff it draws."
    ),
    "figure-rejection": (
        "The abstention output on the training set of MNIST at a payoff of 9.99, by whether the "
        "label is right. It depends on "
        "the input alone, so it separates them only once labels are being memorised. Dotted: 0.5."
    ),
    "figure-robustness": "A network that freezes stays at the accuracy of guessing.",
    "figure-stages": (
        "Payoff 9.99. Dotted: the losses on the plateau by theory. Shaded: the gap stage, "
        "in which test accuracy is within a point of its best; before it the network learns fast "
        "what labels have in common, after it, it memorises single ones."
    ),
    "figure-stopping": (
        "Payoff 9.99, each run a line. Dotted: the predicted loss; dashed: the epoch that reaches "
        "it. A run that freezes abstains from everything: its loss stays at log 9.99. (The stop of "
        "the tables looks at a moving average after every batch, and so comes sooner.)"
    ),
    "figure-schedules": "The three rules, each after 2 epochs of cross-entropy, beside nll.",
    "differences": "",
    "searched": "",
    "auto": (
        "Lines are means over seeds, bands their range. Dashed: where the warm-up of `auto` ended "
        "and training went back to an earlier epoch; dotted: the best number that the paper prints."
    ),
    "figure-critical": (
        "Left: payoffs around the critical one, each run a line. Right: brackets of 0.01 by "
        "bisection, 10 epochs a run, one per seed. It is a matter of the start: whether the "
        "network abstains from everything before features form."
    ),
}

_TRIED = {
    Place("mnist", 0.45, "pairflip"): (
        "The exponent d was settled here: at a constant 0, wrong labels are memorised in the end."
    ),
    Place("cifar10", 0.8): (
        "The exponent d was settled here, and how a warm-up is taken back: at a constant 1, or "
        "from too early an epoch, undecided beliefs sharpen."
    ),
}


def tried(place: Place) -> str:
    """List what was done so that `auto` might win a row; one not looked at before is lost as it is.

    >>> tried(Place("cifar10", 0.65))
    'First seen in these runs: nothing was tried on it.'
    """
    if place in DEVELOPMENT:
        searched = "A development row: the candidates of the search (below) were tried on it."
        return f"{searched} {_TRIED.get(place, '')}".rstrip()
    return _TRIED.get(place, "First seen in these runs: nothing was tried on it.")
