"""Train on handwritten digits (scikit-learn's) with 40% of the labels wrong: `make compare`.

Two runs of the same network on the same labels: cross-entropy, and the gambler's loss that sets
its payoff by itself. Nothing but the last lines looks at a true label.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from abstain import GamblersLoss, belief, noise

CLASSES, EPOCHS, WARM_UP, FLIPPED = 10, 60, 2, 0.4


def load(seed):
    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    inputs = torch.tensor(images[order] / 16, dtype=torch.float32)
    true = torch.tensor(labels[order])
    given = torch.from_numpy(noise.corrupt(labels[order], noise.symmetric(CLASSES, FLIPPED), rng))
    return inputs, given, true


def train(loss_function, inputs, given, test_inputs, test_labels, seed, advance):
    """The network after the last epoch, and the test accuracy after each."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(),
        torch.nn.Linear(256, 256), torch.nn.ReLU(),
        torch.nn.Linear(256, CLASSES + 1),  # one output more than classes: the right to abstain
    )  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    cross_entropy = torch.nn.CrossEntropyLoss()
    accuracies = []
    for epoch in range(EPOCHS):
        loss = cross_entropy if epoch < WARM_UP else loss_function
        for batch in torch.randperm(len(given)).split(32):
            optimizer.zero_grad()
            loss(network(inputs[batch]), given[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            answers = network(test_inputs)[:, :CLASSES].argmax(-1)
        accuracies.append((answers == test_labels).float().mean().item())
        advance()
    return network, accuracies


def draw(path, runs, scores, wrong):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for (name, accuracies), color in zip(runs.items(), ("tab:red", "tab:blue"), strict=True):
        left.plot(range(1, EPOCHS + 1), np.array(accuracies) * 100, label=name, color=color)
    left.set(
        xlabel="epoch", ylabel="test accuracy (%)", title="40% of the training labels are wrong"
    )
    left.legend(frameon=False)
    bins = np.linspace(0, 1, 31)
    right.hist(scores[~wrong], bins, label="label is right", color="tab:blue", alpha=0.75)
    right.hist(scores[wrong], bins, label="label is wrong", color="tab:red", alpha=0.75)
    right.set(
        xlabel="belief in the given label, at the end",
        ylabel="training samples",
        title="…and the model knows which",
    )
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("demo-output/digits.png"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the batches are small: a second thread only waits
    inputs, given, true = load(arguments.seed)
    split = 1300
    runs, network = {}, None
    losses = {"cross-entropy": torch.nn.CrossEntropyLoss(), "abstain": GamblersLoss()}
    with Progress() as progress:
        task = progress.add_task("training twice", total=len(losses) * EPOCHS)
        for name, loss in losses.items():
            network, runs[name] = train(
                loss,
                inputs[:split],
                given[:split],
                inputs[split:],
                true[split:],
                arguments.seed,
                lambda: progress.advance(task),
            )
    with torch.no_grad():
        doubted = belief(network(inputs[:split]))[torch.arange(split), given[:split]].numpy()
    wrong = (given != true)[:split].numpy()
    draw(arguments.picture, runs, doubted, wrong)

    console = Console(highlight=False)
    console.print(
        f"\n{split} training images, [bold]{wrong.sum()} with a wrong label[/]; "
        f"test accuracy after {EPOCHS} epochs on {len(true) - split} images with right labels:"
    )
    for name, accuracies in runs.items():
        console.print(f"  {name:<14} [bold]{accuracies[-1]:6.1%}[/]")
    worst = np.argsort(doubted)[: wrong.sum()]
    console.print(
        f"Of the {len(worst)} labels that the second model believes least, "
        f"[bold]{wrong[worst].mean():.1%}[/] are wrong; AUROC {roc_auc_score(wrong, -doubted):.3f}."
    )
    console.print(f"Picture: {arguments.picture}")


if __name__ == "__main__":
    main()
