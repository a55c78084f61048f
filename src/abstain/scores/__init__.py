"""Scores of samples and answers: the ledger of a training, and when to abstain."""
