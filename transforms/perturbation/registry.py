"""The perturbations that are installed, by name: ours and those of plug-ins; and objects made of their options."""

from __future__ import annotations

import copy
import difflib
import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from parapet.schemas.errors import InputError
from parapet.transforms import plugins
from parapet.transforms.perturbation.base import Perturbation

_FLAG = re.compile(r"(?<!\S)--(?=[a-z])")


class Registry(Mapping[str, type[Perturbation]]):
    """The perturbations that are installed, by name. A class is imported when it is looked up."""

    def __init__(self) -> None:
        self._names = plugins.names(plugins.PERTURBATIONS)

    def __getitem__(self, name: str) -> type[Perturbation]:
        if name not in self._names:
            raise KeyError(name)
        chosen = plugins.choose(plugins.PERTURBATIONS, name, "")
        found = plugins.load(chosen)
        if not (isinstance(found, type) and issubclass(found, Perturbation)):
            raise chosen.refused("is no subclass of parapet.Perturbation")
        if getattr(found, "name", None) != name:
            raise chosen.refused(f"has another name in its class: give {found.__name__} the line name = {name!r}")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<perturbations: {', '.join(self._names)}>"


def perturbation_of(
    which: str | type[Perturbation] | Perturbation, options: Mapping[str, Any], as_flags: bool = False
) -> Perturbation:
    """An object of a perturbation.

    Args:
      which: the name of one that is installed, a class, or an object.
      options: of the class.
      as_flags: whether messages call an option ``--seed``; else ``seed``.

    Raises:
      InputError: there is none of that name, or it does not take these options.
    """
    if isinstance(which, Perturbation):
        if options:
            raise InputError(f"{which.name} is made already: give its options where it is made ({', '.join(options)})")
        return _complete(copy.copy(which))  # what one corpus teaches it is not for another
    if isinstance(which, str):
        registry = Registry()
        if which not in registry:
            raise InputError(unknown(which))
        which = registry[which]
    if not (isinstance(which, type) and issubclass(which, Perturbation)):
        raise InputError(f"expected a name, a class or an object of a Perturbation, found {type(which).__name__}")
    _name_of(which)
    _check_options(which, options)
    with nullcontext() if as_flags else options_named():
        return _complete(which(**options))


def unknown(name: str) -> str:
    """The message for a name of which no perturbation is installed: the nearest one, or all there are."""
    registry = Registry()
    near = difflib.get_close_matches(name, registry, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(registry)}"
    return f"there is no perturbation {name!r}: {hint}"


@contextmanager
def options_named() -> Iterator[None]:
    """An option is no flag: in messages that were written for commands, ``--seed`` becomes ``seed``."""
    try:
        yield
    except InputError as error:
        error.args = tuple(_FLAG.sub("", part) for part in (error.reason, error.path, error.where))
        error.reason, error.path, error.where = error.args
        raise


def _complete(perturbation: Perturbation) -> Perturbation:
    """A perturbation. Raises InputError where its class lacks something."""
    its = type(perturbation)
    _name_of(its)
    if its.perturb is Perturbation.perturb:
        raise InputError(f"the class {its.__name__} has no method perturb(self, dialogue, set_name, state)")
    if not hasattr(perturbation, "seed"):
        raise InputError(f"{its.__name__}.__init__ must call super().__init__(seed=seed)")
    return perturbation


def _name_of(which: type[Perturbation]) -> str:
    name = getattr(which, "name", None)
    if not isinstance(name, str) or not name:
        raise InputError(f'the class {which.__name__} has no name: add a line such as name = "my_perturbation"')
    return name


def _check_options(which: type[Perturbation], options: Mapping[str, Any]) -> None:
    """Raises InputError where the class does not take one of the options, or needs another."""
    parameters = inspect.signature(which).parameters.values()
    named = {one.name: one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        for option in options:
            if option not in named:
                near = difflib.get_close_matches(option, named, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(named)}"
                raise InputError(f"{which.name} has no option {option!r}: {hint}")
    missing = [name for name, one in named.items() if one.default is one.empty and name not in options]
    if missing:
        raise InputError(f"{which.name} needs the option {missing[0]!r}")
