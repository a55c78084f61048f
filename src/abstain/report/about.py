"""Describe an audit so that it can be repeated, and suggest the next commands."""

from pathlib import Path
from shlex import quote

from abstain.auditing.result import Audit
from abstain.auditing.run import Run
from abstain.exporting.cleaned import command, default_suffix, reading_of_cleaned
from abstain.report.curves import warm_up_epochs
from abstain.report.numbers import percent
from abstain.support.wording import some


def what_was_done(audit: Audit) -> dict[str, object]:
    """Source, method, settings, seeds, versions and time."""
    facts: dict[str, object] = {"source": audit.sources.get("train") or "data in memory"}
    for name, value in audit.sources.get("options", {}).items():
        several = isinstance(value, list | tuple)
        facts[name.replace("_", " ")] = ", ".join(map(str, value)) if several else value
    if audit.labels.skipped:
        facts["left out as unreadable"] = some(audit.labels.skipped)
    if audit.run is None:
        facts["method"] = "from given probabilities; nothing was trained"
    else:
        facts |= _training(audit.run)
    facts["time"] = f"{audit.seconds:.1f} s in all"
    return facts


def next_steps(audit: Audit) -> dict[str, str]:
    """Commands by what they are for, in this order; none for an audit that was kept in memory."""
    if audit.folder is None:
        return {}
    place, source = quote(str(audit.folder)), audit.sources.get("train")
    steps = {}
    if not audit.measured and not audit.is_known:
        if source is not None:
            steps["Measure the noise rate: check a random sample, one key each"] = (
                f"abstain verify {place}"
            )
        size = min(200, len(audit.labels))
        steps |= {
            f"{'Or check' if steps else 'Measure the noise rate: check'} {size} labels in a "
            "table, …": f"abstain sample {place} --size {size} --out to-check.csv",
            "… and take the answers in": f"abstain audit --resume {place} --reviewed to-check.csv",
        }
    if source is not None and audit.flagged:
        clean = f"{Path(audit.folder).name}-clean{default_suffix(source, audit.labels.kind)}"
        steps |= {
            "Go through the flagged labels in the browser, worst first": f"abstain review {place}",
            "Or in Label Studio": (f"abstain export {place} --to label-studio --out tasks.json"),
            "Or take what is proposed, and leave out what is unsure": (
                f"abstain export {place} --to cleaned --fix relabel --unsure drop "
                f"--out {quote(clean)}"
            ),
            "Train on the repaired labels": command(
                "train", clean, reading_of_cleaned(audit.sources, clean)
            ),
        }
    elif source is not None:
        steps |= {
            "Look through all labels in Label Studio, worst first": (
                f"abstain export {place} --to label-studio --all --out tasks.json"
            )
        }
    if audit.run and audit.run.plan.model:
        by_file = audit.run.by_file
        steps["Use the model of this audit, which is robust to the wrong labels"] = (
            f"abstain predict {place} SOURCE {'--features NEW.npy ' if by_file else ''}"
            "--output predictions.csv"
        )
    return steps


def backbone_of(run: Run) -> str:
    """The backbone of images and texts, and why it was chosen."""
    return run.backbone or "its own network, from scratch"


def _training(run: Run) -> dict[str, object]:
    plan = run.plan
    payoff = plan.payoff if isinstance(plan.payoff, str) else f"{plan.payoff:g}"
    facts: dict[str, object] = {
        "method": plan.method,
        "loss": f"gambler’s, payoff {payoff}" if plan.loss == "gamblers" else plan.loss,
        "backbone": backbone_of(run),
        "model": plan.model or "a module of your own",
        "epochs": f"{run.epoch}, of which warm-up {warm_up_epochs(run)}",
        "batches": f"of {plan.batch}",
        "optimiser": f"{plan.optimizer}, learning rate {plan.learning_rate:g}",
        "seeds": f"weights {plan.seed_init}, order {plan.seed_order}",
    }
    if run.finetuning:
        facts["fine-tuning"] = run.finetuning
    if plan.augment:
        facts["augmentation"] = ", ".join(plan.augment)  # type: ignore[arg-type]
    if plan.flip:
        kind, seed = plan.flip_kind, plan.seed_noise
        facts["planted"] = f"{percent(plan.flip)} {kind}, seed {seed}"
    if run.folder is not None:
        metadata = run.folder.metadata()
        facts["device"] = metadata["machine"]["device"]
        facts["versions"] = ", ".join(f"{name} {v}" for name, v in metadata["versions"].items())
    return facts
