"""Packages that only some sources need."""

import importlib
from types import ModuleType

from abstain.errors import DataError

_PACKAGES = {"PIL": "pillow", "sklearn": "scikit-learn"}


def require(module: str, what: str) -> ModuleType:
    """Import a module that is not always installed, or raise which package to install.

    >>> require("json", "JSON").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        package = _PACKAGES.get(name, name)
        raise DataError(
            f"{what} needs the package {package}, which is not installed; "
            f"run: pip install {package}"
        ) from None
