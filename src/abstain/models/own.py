"""The user's own network, named as `PATH.py:NAME`."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from abstain.errors import AbstainError
from abstain.models.abstention import with_abstention
from abstain.support.wording import did_you_mean


def is_own(name: str) -> bool:
    """Whether a model's name has the form `PATH.py:NAME`.

    >>> is_own("nets/mine.py:Net"), is_own("mnist-cnn")
    (True, False)
    """
    return name.rpartition(":")[0].endswith(".py")


def build_own(name: str, num_outputs: int, others: Mapping[str, object]) -> nn.Module:
    r"""Load `PATH.py:NAME` and call it with what it has parameters for.

    Loading runs the file: it is the user's own code, named by the user.

    Args:
        name: The file and, after the colon, a class or function in it that makes a Module.
        num_outputs: One for each class and one to abstain. A class or function without a
            parameter of that name makes one output per class; the abstention output is added.
        others: What else can be passed on, where the signature has a parameter of that name.
            `**kwargs` does not count, since such a function often hands them to another library
            that knows none of them.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.py"
    >>> _ = path.write_text("import torch\ndef net(num_outputs): return torch.nn.Linear(2, 3)")
    >>> build_own(f"{path}:net", 3, {"input_shape": (2,)})
    Linear(in_features=2, out_features=3, bias=True)
    >>> _ = path.write_text("import torch\ndef net(): return torch.nn.Linear(2, 2)")
    >>> build_own(f"{path}:net", 3, {"input_shape": (2,)})
    Linear(in_features=2, out_features=3, bias=True)
    """
    path, _, attribute = name.rpartition(":")
    make = _find(_load(Path(path), "model"), attribute, name, "model")
    arguments = _arguments(make, {"num_outputs": num_outputs, **others}, name)
    model = _made(make, arguments, name, "model")
    if "num_outputs" not in arguments:
        return with_abstention(model, num_classes=num_outputs - 1)
    return model


def make_own(name: str, argument: str) -> nn.Module:
    """Load `PATH.py:NAME`, which an argument names, and call it without arguments.

    Weights that it draws at random are the same each time.
    """
    path, _, attribute = name.rpartition(":")
    with torch.random.fork_rng(devices=[]):  # lent out and put back, as in build_model
        torch.default_generator.manual_seed(0)
        make = _find(_load(Path(path), argument), attribute, name, argument)
        return _made(make, {}, name, argument)


def _made(
    make: Callable[..., object], arguments: Mapping[str, object], name: str, argument: str
) -> nn.Module:
    try:
        model = make(**arguments)
    except Exception as error:
        raise AbstainError(
            f"{name} raised {type(error).__name__}: {error}", argument=argument
        ) from error
    if not isinstance(model, nn.Module):
        raise AbstainError(
            f"{name} must return a torch.nn.Module, got {type(model).__name__}", argument=argument
        )
    return model


def _load(path: Path, argument: str) -> ModuleType:
    if not path.is_file():
        raise AbstainError(f"must name a Python file that exists, got {path}", argument=argument)
    module_name = f"abstain_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise AbstainError(f"must name a Python file, got {path}", argument=argument)
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.modules[module_name] = module  # dataclasses look their module up there
    sys.path.insert(0, folder)  # as when Python runs the file: it may import its neighbours
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script may end with sys.exit(main())
        del sys.modules[module_name]
        raise AbstainError(
            f"must name a file that can be imported, got {path}, which raised "
            f"{type(error).__name__}: {error}",
            argument=argument,
        ) from error
    finally:
        with suppress(ValueError):  # the file may have changed the path itself
            sys.path.remove(folder)
    return module


def _find(module: ModuleType, attribute: str, name: str, argument: str) -> Callable[..., object]:
    if not hasattr(module, attribute):
        own = sorted(
            key
            for key, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", None) == module.__name__
        )
        raise AbstainError(
            f"must name a class or function of its file, got {name}: the file defines "
            f"{', '.join(own) or 'none'}{did_you_mean(attribute, own)}",
            argument=argument,
        )
    make = getattr(module, attribute)
    if isinstance(make, nn.Module):
        raise AbstainError(
            f"must name a class or a function that builds the network, so that every run can start "
            f"from its own seed, got {name}, which is built already",
            argument=argument,
        )
    if not callable(make):
        raise AbstainError(
            f"must name a class or a function, got {name}, which is {type(make).__name__}",
            argument=argument,
        )
    function: Callable[..., object] = make
    return function


def _arguments(
    make: Callable[..., object], offered: Mapping[str, object], name: str
) -> dict[str, object]:
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError) as error:  # some functions written in C have no signature
        raise AbstainError(f"{name} has no signature to read; wrap it in a function") from error
    by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    unknown = {
        p.name
        for p in parameters
        if p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and (p.name not in offered or p.kind is p.POSITIONAL_ONLY)
    }
    if unknown:
        raise AbstainError(
            f"{name} needs {_listed(unknown)}, and only {_listed(set(offered))} can be passed; "
            "give the rest default values"
        )
    if takes_any:
        by_name.add("num_outputs")
    return {key: value for key, value in offered.items() if key in by_name}


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
