"""Training: one loop for any device and any number of processes, and when to stop it.

Called, `abstain.train(source, …)` is `abstain.train.run.train`, whose help says what it takes.
"""

import inspect
import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """`abstain.train` is both the stage of the flow, a package, and the verb that users call.

    A function of that name in `abstain` would be replaced by this package as soon as anything
    imports a module of it, so the package itself takes the call.
    """

    def __call__(self, *arguments: Any, **settings: Any) -> Any:  # noqa: ANN401
        from abstain.train.run import train

        return train(*arguments, **settings)

    @property
    def __signature__(self) -> inspect.Signature:
        """For notebooks, which show it while one types."""
        from abstain.train.run import train

        return inspect.signature(train)


sys.modules[__name__].__class__ = _CallableModule
