"""Plug-ins: what other distributions add by entry points. They are listed by name; one is imported when it is chosen.

A flag names a plug-in as ``NAME``, or as ``NAME=ARGUMENT``: what stands behind the sign is given to it, as a text.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec

from parapet.schemas.distribution import DISTRIBUTION
from parapet.schemas.errors import InputError

TRANSLATION_ENGINES = "parapet.translation_engines"
SPEECH_ENGINES = "parapet.speech_engines"
OOD_SOURCES = "parapet.ood_sources"
METRICS = "parapet.metrics"
MODELS = "parapet.models"
PERTURBATIONS = "parapet.perturbations"

# The groups of entry points, and what one of each is called.
GROUPS = {
    TRANSLATION_ENGINES: "translation engine",
    SPEECH_ENGINES: "speech engine",
    OOD_SOURCES: "source of utterances",
    METRICS: "metric",
    MODELS: "model",
    PERTURBATIONS: "perturbation",
}


class Plugin(msgspec.Struct, frozen=True, order=True):
    """A plug-in that is installed.

    Attributes:
      target: ``module:attribute`` of its entry point.
      distribution: that brings it, with its ``version``.
    """

    group: str
    name: str
    target: str
    distribution: str
    version: str


class Chosen(msgspec.Struct, frozen=True):
    """A plug-in that a flag names.

    Attributes:
      argument: what stood behind ``NAME=``; None where there was none.
      flag: for messages.
    """

    plugin: Plugin
    argument: str | None
    flag: str

    def refused(self, reason: str) -> InputError:
        """An error about the plug-in, with where it is from."""
        one = self.plugin
        return InputError(f"the plug-in {one.name!r} ({one.distribution} {one.version}) {reason}", self.flag)


class Names:
    """The names that a flag takes, as ``choices`` of argparse: looked up when they are asked for, not before.

    Args:
      group: the entry points.
      built_in: the names that need none; a plug-in of such a name is not seen.
    """

    def __init__(self, group: str, built_in: Sequence[str]) -> None:
        self.group, self.built_in = group, tuple(built_in)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.built_in, *names(self.group))))

    def __contains__(self, given: object) -> bool:
        return given in self.built_in or (isinstance(given, str) and _split(given)[0] in names(self.group))


def installed(group: str) -> list[Plugin]:
    """The plug-ins of a group, sorted; nothing of them is imported."""
    return sorted(_plugin(one) for one in entry_points(group=group))


def _plugin(one: EntryPoint) -> Plugin:
    told = (one.dist.name, one.dist.version) if one.dist is not None else ("", "")
    return Plugin(one.group, one.name, one.value, *told)


def names(group: str) -> list[str]:
    """The names of a group's plug-ins, each once, sorted."""
    return sorted({one.name for one in installed(group)})


def _split(given: str) -> tuple[str, str | None]:
    name, equals, argument = given.partition("=")
    return name, argument if equals else None


def find(group: str, given: str, flag: str) -> Chosen | None:
    """The plug-in that a flag names, if there is one.

    Args:
      group: the entry points.
      given: ``NAME`` or ``NAME=ARGUMENT``.
      flag: that has it.

    Raises:
      InputError: two distributions bring one of that name.
    """
    name, argument = _split(given)
    found = [one for one in installed(group) if one.name == name]
    found = [one for one in found if one.distribution == DISTRIBUTION] or found  # what is built in goes first
    if len(found) > 1:
        told = " and ".join(f"{one.distribution} {one.version}" for one in found)
        raise InputError(f"two plug-ins are called {name!r}, of {told}: uninstall one", flag)
    return Chosen(found[0], argument, flag) if found else None


def choose(group: str, given: str, flag: str) -> Chosen:
    """As :func:`find`. Raises InputError, which says what there is, where there is no such plug-in."""
    found = find(group, given, flag)
    if found is None:
        raise InputError(f"there is no {GROUPS[group]} {_split(given)[0]!r}: {told(group)}", flag)
    return found


def told(group: str) -> str:
    """What plug-ins of a group there are, for messages."""
    return f"installed plug-ins: {', '.join(names(group)) or 'none'} ('parapet doctor' lists those of all groups)"


def make(chosen: Chosen, wanted: Sequence[str] = (), part: str = "") -> Any:
    """Imports a plug-in, and calls it with its argument if it was given one.

    Args:
      chosen: the plug-in.
      wanted: the attributes that what it gives must have.
      part: of what the entry point names, the attribute to call.

    Returns:
      What it gave.

    Raises:
      InputError: it cannot be imported or called so, or what it gives lacks something.
    """
    target: Any = load(chosen)
    if part:
        if not hasattr(target, part):
            raise chosen.refused(f"has no {part}: it is not made for this flag; name another")
        target = getattr(target, part)
    made = _called(chosen, target)
    lacking = [name for name in wanted if not hasattr(made, name)]
    if lacking:
        raise chosen.refused(f"gives a {type(made).__name__} without {', '.join(lacking)}: see docs/plugins.md")
    return made


def load(chosen: Chosen) -> Any:
    """What the entry point names, imported. Raises InputError where that fails, whatever the error."""
    plugin = chosen.plugin
    try:
        return EntryPoint(plugin.name, plugin.target, plugin.group).load()
    except Exception as error:  # a stranger's module may raise anything
        logging.debug("", exc_info=True)
        raise chosen.refused(f"cannot be imported: {_said(error)} (PARAPET_DEBUG=1 shows the traceback)") from None


def _called(chosen: Chosen, target: Callable[..., Any]) -> Any:
    given = () if chosen.argument is None else (chosen.argument,)
    name = chosen.plugin.name
    if not callable(target):
        raise chosen.refused(f"is a {type(target).__name__}, which cannot be called: see docs/plugins.md")
    if not _takes(target, given):
        hint = f"takes no argument: give {name} alone" if given else f"needs an argument: give {name}=ARGUMENT"
        raise chosen.refused(hint)
    try:
        return target(*given)
    except InputError as error:
        raise chosen.refused(str(error)) from None
    except Exception as error:
        logging.debug("", exc_info=True)
        raise chosen.refused(f"failed: {_said(error)} (PARAPET_DEBUG=1 shows the traceback)") from None


def _takes(target: Callable[..., Any], given: Sequence[str]) -> bool:
    try:
        inspect.signature(target).bind(*given)
    except TypeError:
        return False
    except ValueError:  # of what is written in C nothing is known
        return True
    return True


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def members(protocol: type) -> list[str]:
    """The attributes and methods of a protocol, for :func:`make`."""
    classes = [one for one in reversed(protocol.__mro__) if one.__module__ not in ("builtins", "typing")]
    named = [name for one in classes for name in (*inspect.get_annotations(one), *vars(one))]
    return [name for name in dict.fromkeys(named) if not name.startswith("_")]


def recorded(*chosen: Chosen | None) -> dict[str, Any]:
    """What ``run.json`` says of the plug-ins of a run: where they are from. Nothing where there were none.

    Arguments are left out: a place on this machine tells nobody anything, and engines name their model anyway.
    """
    used = sorted({one.plugin for one in chosen if one is not None})
    told_of = [{name: getattr(one, name) for name in ("group", "name", "distribution", "version")} for one in used]
    return {"plugins": told_of} if used else {}
