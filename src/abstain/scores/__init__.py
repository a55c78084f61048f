"""From a training to a verdict on each label: ledger, evidence, verdict, samples to check."""
