"""Tickets of a help desk: numbers, dates and categories say little, texts say the team."""

import numpy as np
import pandas as pd

WORDS = {
    "billing": [
        "invoice",
        "payment",
        "card",
        "refund",
        "charge",
        "price",
        "bank",
        "paid",
        "money",
        "twice",
    ],
    "network": [
        "router",
        "wifi",
        "cable",
        "signal",
        "slow",
        "drops",
        "connection",
        "modem",
        "offline",
        "ping",
    ],
}
FILLER = [
    "the",
    "my",
    "is",
    "was",
    "please",
    "help",
    "since",
    "yesterday",
    "again",
    "with",
    "a",
    "problem",
    "we",
    "have",
]


def tickets(count=160, seed=0):
    """A table of tickets; every third has no comment, and every tenth no hours."""
    rng = np.random.default_rng(seed)
    team = rng.permutation(np.array([*WORDS])[np.arange(count) % 2])

    def text(of):
        chosen = [rng.choice(WORDS[of] if rng.random() < 0.5 else FILLER) for _ in range(12)]
        return " ".join(chosen)

    frame = pd.DataFrame(
        {
            "priority": rng.choice(["low", "high"], count),
            "created": pd.date_range("2024-01-01", periods=count).strftime("%Y-%m-%d"),
            "hours": rng.gamma(2, 3, count).round(2),
            "description": [text(of) for of in team],
            "comment": [text(of) if k % 3 else None for k, of in enumerate(team)],
            "label": team,
        }
    )
    frame.loc[::10, "hours"] = None
    return frame
