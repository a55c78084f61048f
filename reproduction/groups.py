"""Which runs train together, and in which order."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from reproduction.authors_plan import quirk
from reproduction.runs import Run

_APART = ("exact", "beta1", "beta2", "rises", "ends_by_epoch")
# More of these at once are no faster, and an interrupt would lose more.
_MOST = {"resnet18": 1, "lstm": 30, "lstm-attention": 30}


@dataclass(frozen=True)
class Group:
    """Runs that can be stacked: one network, one batch, one optimiser."""

    runs: tuple[Run, ...]

    @property
    def data(self) -> str:
        """Their data set."""
        return self.runs[0].data

    @property
    def network(self) -> str:
        """Their network."""
        return self.runs[0].network

    def cells(self) -> list["Group"]:
        """Its cells, each with its seeds, in order."""
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.cell, []).append(run)
        return [Group(tuple(runs)) for runs in found.values()]

    def halves(self) -> list["Group"]:
        """Two groups of it, for a device that cannot hold it whole; itself if it is one run."""
        if len(self.runs) == 1:
            return [self]
        middle = len(self.runs) // 2
        return [Group(self.runs[:middle]), Group(self.runs[middle:])]

    def fitting(self, fits: Callable[["Group"], bool]) -> "Group | None":
        """As many of its first cells as fit; None if not even one does."""
        taken: tuple[Run, ...] = ()
        for cell in self.cells():
            if not fits(Group(taken + cell.runs)):
                break
            taken += cell.runs
        return Group(taken) if taken else None


def make_groups(runs: Iterable[Run], most: int) -> list[Group]:
    """Runs stacked, at most so many together, in the order in which they were asked for.

    The seeds of a cell stay together: what a budget has time for is whole cells. Only a cell with
    more seeds than fit is split.
    """
    alike: dict[object, list[Run]] = {}
    for run in runs:
        alike.setdefault(_stackable(run), []).append(run)
    groups = []
    for members in alike.values():
        limit = min(most, _MOST.get(members[0].network, most))
        taken: tuple[Run, ...] = ()
        for cell in Group(tuple(members)).cells():
            if taken and len(taken) + len(cell.runs) > limit:
                groups.append(Group(taken))
                taken = ()
            taken += cell.runs
            while len(taken) > limit:
                groups.append(Group(taken[:limit]))
                taken = taken[limit:]
        if taken:
            groups.append(Group(taken))
    return groups


def _stackable(run: Run) -> tuple[object, ...]:
    recipe = run.recipe
    return (
        run.data,
        run.network,
        recipe.epochs,
        recipe.batch,
        recipe.optimizer,
        recipe.learning_rate,
        recipe.weight_decay,
        recipe.schedule,
        recipe.clip,
        recipe.precision,
        # A run that stops early is not held up by one that does not.
        recipe.stop,
        recipe.method.startswith("coteaching"),
        *(quirk(recipe, name) for name in _APART),
    )
