"""Fetching a data set from the Hugging Face hub, and one line on why it cannot be fetched."""

import errno
import functools
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from abstain.errors import DataError
from abstain.support.optional import require
from abstain.support.wording import did_you_mean, some

if TYPE_CHECKING:
    import datasets

_log = logging.getLogger(__name__)
_NAME = re.compile(r"(?!.*(--|\.\.))[\w.-]+/[\w.-]+")


def fetch(name: str) -> "datasets.DatasetDict":
    """All splits of `OWNER/NAME`, or of one configuration of it, `OWNER/NAME:CONFIG`.

    Where the hub does not answer, what was fetched before serves.
    """
    library = require("datasets", f"hf:{name}")
    path, _, config = name.partition(":")
    _check(name, path)
    offline = library.config.HF_HUB_OFFLINE
    silence = "HF_HUB_OFFLINE or HF_DATASETS_OFFLINE is set" if offline else _ask(name, path)
    with _quiet(), _offline(library, silence is not None):
        try:
            fetched: datasets.DatasetDict = library.load_dataset(_remote(path), config or None)
        except Exception as error:  # dozens of kinds, for one reason each
            if silence is not None:
                raise _unreachable(name, silence, error) from error
            raise _failed(name, error) from error
    if silence is not None and not offline:
        _warn_once(name, silence)
    return fetched


def _check(name: str, path: str) -> None:
    # A bare `csv` would make the library read the files of this folder.
    if not _NAME.fullmatch(path):
        raise DataError(
            "must be hf:OWNER/NAME or hf:OWNER/NAME:CONFIG, as in hf:ylecun/mnist, "
            f"got {f'hf:{name}'!r}",
            argument="source",
        )


def _ask(name: str, path: str) -> str | None:
    """The library's own first question, asked once: why there is no answer, or None.

    Left to itself, the library asks six times in half a minute.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
    )

    with _quiet():
        try:
            get_hf_file_metadata(hf_hub_url(path, "README.md", repo_type="dataset"))
        except EntryNotFoundError:
            return None  # a set without a card
        except GatedRepoError as error:
            raise _not_open(name, gated=True) from error
        except HfHubHTTPError as error:
            answer = error.response
            if isinstance(error, RepositoryNotFoundError) or answer.status_code == 401:
                raise _not_open(name, reason=answer.headers.get("X-Error-Message")) from error
            return _why(error)
        except Exception as error:
            if _is_of_disk(error):
                raise _not_stored(name, error) from error
            return _why(error)
    return None


def _remote(path: str) -> str:
    """The name under which the library does not take a folder of this machine instead."""
    return f"hf://datasets/{path}" if Path(path).exists() else path


@contextmanager
def _offline(library: ModuleType, wanted: bool) -> Iterator[None]:
    """The library's own way to take what it has on disk without asking the hub."""
    before = library.config.HF_HUB_OFFLINE
    library.config.HF_HUB_OFFLINE = wanted
    try:
        yield
    finally:
        library.config.HF_HUB_OFFLINE = before


@contextmanager
def _quiet() -> Iterator[None]:
    """The libraries warn of every attempt; one line at the end is enough."""
    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        if logger.level in (logging.NOTSET, logging.WARNING):  # or the user wants to know more
            logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@functools.cache
def _warn_once(name: str, silence: str) -> None:
    _log.warning("the hub cannot be reached (%s): taking hf:%s as last fetched", silence, name)


def _unreachable(name: str, silence: str, error: Exception) -> DataError:
    # Something was fetched before, but not this configuration, or more than one.
    kept = f"; of what was fetched before: {_first_line(error)}" if _is_choice(error) else ""
    return DataError(
        f"hf:{name} cannot be fetched: the hub cannot be reached ({silence}){kept}; connect "
        "to the network, or fetch it on another machine and give its Parquet files as the source",
        argument="source",
    )


def _not_open(name: str, *, gated: bool = False, reason: str | None = None) -> DataError:
    from huggingface_hub import constants

    log_in = "log in with `hf auth login`, or set HF_TOKEN"
    page = f"{constants.ENDPOINT}/datasets/{name.partition(':')[0]}"
    if gated:
        return DataError(
            f"hf:{name} is gated: accept its terms at {page} and {log_in}", argument="source"
        )
    because = f" (the hub says: {reason})" if reason else ""
    return DataError(
        f"must be a data set of the hub that you may read, got hf:{name}, which does not "
        f"exist or is private{because}; check {page}, or {log_in}",
        argument="source",
    )


def _failed(name: str, error: Exception) -> DataError:
    from datasets.exceptions import DatasetNotFoundError

    if isinstance(error, DatasetNotFoundError):
        return _not_open(name, gated="gated" in str(error))
    if _is_choice(error) and (unmade := _choice(name)):
        return unmade
    if _is_of_disk(error):
        return _not_stored(name, error)
    return DataError(
        f"hf:{name} cannot be fetched from the hub ({_why(error)}); try again if the "
        "connection broke, else download its files and give them as the source",
        argument="source",
    )


def _not_stored(name: str, error: Exception) -> DataError:
    return DataError(
        f"hf:{name} cannot be stored ({_why(error)}); make room there, or set HF_HOME to a "
        "folder that can be written to",
        argument="source",
    )


def _is_of_disk(error: Exception) -> bool:
    """Whether a file or the disk is at fault; errors of the network name no file."""
    return any(
        isinstance(e, OSError) and (e.filename or e.errno in (errno.ENOSPC, errno.EDQUOT))
        for e in _chain(error)
    )


def _is_choice(error: Exception) -> bool:
    """Whether a configuration is missing or unknown, for which the library has no own class."""
    return type(error) is ValueError


def _choice(name: str) -> DataError | None:
    """Name the configurations, where none was asked for or one that does not exist."""
    import datasets

    path, _, config = name.partition(":")
    try:
        known = list(datasets.get_dataset_config_names(_remote(path)))
    except Exception:  # something else is wrong
        return None
    if not config and len(known) > 1:
        return DataError(
            f"hf:{path} has several configurations ({some(known, 10)}); choose one, as in "
            f"hf:{path}:{known[0]}",
            argument="source",
        )
    if config and config not in known:
        return DataError(
            f"must name a configuration of hf:{path} ({some(known, 10)}), got {config!r}"
            f"{did_you_mean(config, known)}",
            argument="source",
        )
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what caused it."""
    while error is not None:
        yield error
        error = error.__cause__


def _why(error: Exception) -> str:
    """The first cause of an error, which the libraries wrap in general words."""
    return _first_line(list(_chain(error))[-1])


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
