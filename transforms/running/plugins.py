"""Plug-ins: what distributions add by entry points, ours too. They are listed by name; one is imported when chosen.

A flag names a plug-in as ``NAME``, or as ``NAME=ARGUMENT``: what stands behind the sign is given to it, as a text. What
is built in is registered in ``setup.py`` and comes this way too; only its errors and records do not call it a plug-in.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Any

import msgspec

from parapet.schemas.errors import DISTRIBUTION, InputError, install_line
from parapet.transforms.running.fence import calling

TRANSLATION_ENGINES = "parapet.translation_engines"
SPEECH_ENGINES = "parapet.speech_engines"
OOD_SOURCES = "parapet.ood_sources"
METRICS = "parapet.metrics"
MODELS = "parapet.models"
PERTURBATIONS = "parapet.perturbations"
DISTANCES = "parapet.distances"
VETTING_RULES = "parapet.vetting_rules"

# The groups of entry points, and what one of each is called.
GROUPS = {
    TRANSLATION_ENGINES: "translation engine",
    SPEECH_ENGINES: "speech engine",
    OOD_SOURCES: "source of utterances",
    METRICS: "metric",
    MODELS: "model",
    PERTURBATIONS: "perturbation",
    DISTANCES: "distance",
    VETTING_RULES: "vetting rule",
}


# The groups that have something built in: nothing there means that the checkout is newer than its installation.
BUILT_IN = {TRANSLATION_ENGINES, SPEECH_ENGINES, MODELS, PERTURBATIONS, DISTANCES}


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

    @property
    def built_in(self) -> bool:
        """Whether it is ours."""
        return self.distribution == DISTRIBUTION

    @property
    def extras(self) -> list[str]:
        """The extras of its distribution that it needs."""
        return EntryPoint(self.name, self.target, self.group).extras


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
        if one.built_in:
            return InputError(f"{one.name} {reason}", self.flag)
        return InputError(f"the plug-in {one.name!r} ({one.distribution} {one.version}) {reason}", self.flag)


class Names:
    """The names that a flag takes, as ``choices`` of argparse: looked up when they are asked for, not before.

    Args:
      group: the entry points.
      others: names that need none.
    """

    def __init__(self, group: str, *others: str) -> None:
        self.group, self.others = group, others

    def __iter__(self) -> Iterator[str]:
        return iter((*self.others, *names(self.group)))

    def __contains__(self, given: object) -> bool:
        return given in self.others or (isinstance(given, str) and _split(given)[0] in names(self.group))


def installed(group: str) -> list[Plugin]:
    """The plug-ins of a group, those that are built in first; nothing of them is imported."""
    return list(_installed(group, tuple((place, *_stamp(place)) for place in sys.path)))


def _stamp(place: str) -> tuple[int, int]:
    """Which folder a place on the path is, and when something was last installed in it."""
    try:
        found = os.stat(place or ".")
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


@functools.lru_cache(maxsize=64)
def _installed(group: str, path: tuple[tuple[str, int, int], ...]) -> list[Plugin]:
    """Reads the metadata of every distribution on the path, which takes some ten milliseconds."""
    # A distribution reads its metadata anew whenever it is asked.
    sources: dict[Distribution | None, tuple[str, str]] = {None: ("", "")}
    plugins = []
    for point in entry_points(group=group):
        if point.dist is not None and point.dist not in sources:
            sources[point.dist] = point.dist.name, point.dist.version
        plugins.append(Plugin(point.group, point.name, point.value, *sources[point.dist]))
    return sorted(plugins, key=lambda plugin: (not plugin.built_in, plugin))


def names(group: str) -> list[str]:
    """The names of a group's plug-ins, each once, those that are built in first."""
    return list(dict.fromkeys(one.name for one in installed(group)))


def _split(given: str) -> tuple[str, str | None]:
    name, equals, argument = given.partition("=")
    return name, argument if equals else None


def find(group: str, given: str, flag: str) -> Chosen | None:
    """The plug-in that a flag names, if there is one. What is built in goes before a plug-in of its name.

    Args:
      group: the entry points.
      given: ``NAME`` or ``NAME=ARGUMENT``.
      flag: that has it.

    Raises:
      InputError: two distributions bring one of that name.
    """
    name, argument = _split(given)
    found = [one for one in installed(group) if one.name == name]
    if len(found) > 1 and not found[0].built_in:
        told = " and ".join(f"{one.distribution} {one.version}" for one in found)
        raise InputError(f"two plug-ins are called {name!r}, from {told}: uninstall one of them", flag)
    return Chosen(found[0], argument, flag) if found else None


def choose(group: str, given: str, flag: str) -> Chosen:
    """As :func:`find`. Raises InputError, which says what there is, where there is no such plug-in."""
    found = find(group, given, flag)
    if found is None:
        raise InputError(f"there is no {GROUPS[group]} {_split(given)[0]!r}: {told(group)}", flag)
    return found


def told(group: str) -> str:
    """What there is of a group, for messages."""
    there = installed(group)
    if group in BUILT_IN and not any(one.built_in for one in there):
        return f"not even the built-in ones are registered: install Parapet again with {install_line()}"
    ours = ", ".join(one.name for one in there if one.built_in)
    others = ", ".join(dict.fromkeys(one.name for one in there if not one.built_in)) or "none"
    built_in = f"built in: {ours}; " if ours else ""
    return f"{built_in}installed plug-ins: {others} ('parapet doctor' lists those of all groups)"


def make(chosen: Chosen, wanted: Sequence[str] = (), part: str = "", options: Mapping[str, Any] | None = None) -> Any:
    """Imports a plug-in, and calls it with its argument if it was given one.

    Args:
      chosen: the plug-in.
      wanted: the attributes that what it gives must have.
      part: of what the entry point names, the attribute to call.
      options: what the flags of the command say. A class that has ``from_options`` is made by that, of these.

    Returns:
      What it gave.

    Raises:
      InputError: it cannot be imported or called so, or what it gives lacks something.
    """
    target = target_of(chosen, part)
    from_options = getattr(target, "from_options", None) if options is not None else None
    if from_options is not None and chosen.argument is not None:
        raise chosen.refused(f"takes no argument: give {chosen.plugin.name} alone")
    made = _called(chosen, target if from_options is None else from_options, options if from_options else None)
    lacking = [name for name in wanted if not hasattr(made, name)]
    if lacking:
        raise chosen.refused(f"returned a {type(made).__name__} without {', '.join(lacking)}: see docs/plugins.md")
    return made


def target_of(chosen: Chosen, part: str = "") -> Any:
    """What is called: what the entry point names, or a part of it. Raises InputError where there is none."""
    target = load(chosen)
    if part and not hasattr(target, part):
        raise chosen.refused(f"has no {part}: name another")
    return getattr(target, part) if part else target


def parallel_calls(options: Mapping[str, Any]) -> int:
    """The ``parallel_calls`` of options: requests at a time, 4 where nothing is said. Raises InputError beyond 32."""
    calls = int(options.get("parallel_calls", 4))
    if not 1 <= calls <= 32:
        raise InputError(f"{calls} must be from 1 to 32", "--parallel_calls")
    return calls


def load(chosen: Chosen) -> Any:
    """What the entry point names, imported. Raises InputError where that fails, whatever the error."""
    plugin = chosen.plugin
    try:
        with calling():
            return EntryPoint(plugin.name, plugin.target, plugin.group).load()
    except Exception as error:  # a stranger's module may raise anything
        raise _blamed(chosen, error, "cannot be imported") from None


def _blamed(chosen: Chosen, error: Exception, what: str) -> InputError:
    if isinstance(error, InputError):
        return error if chosen.plugin.built_in else chosen.refused(str(error))
    logging.debug("", exc_info=True)
    return chosen.refused(f"{what}: {_summary(error)} (PARAPET_DEBUG=1 shows the traceback)")


def _called(chosen: Chosen, target: Callable[..., Any], options: Mapping[str, Any] | None) -> Any:
    given = (options,) if options is not None else () if chosen.argument is None else (chosen.argument,)
    name = chosen.plugin.name
    if not callable(target):
        raise chosen.refused(f"is a {type(target).__name__}, which cannot be called: see docs/plugins.md")
    if not _takes(target, given):
        hint = f"takes no argument: give {name} alone" if given else f"requires an argument: give {name}=ARGUMENT"
        raise chosen.refused(hint)
    return call(chosen, target, *given)


def call(chosen: Chosen, function: Callable[..., Any], *given: Any) -> Any:
    """What a function of a plug-in gives. Raises InputError where it raises anything, which says where it is from."""
    try:
        with calling():
            return function(*given)
    except Exception as error:
        raise _blamed(chosen, error, "failed") from None


def _takes(target: Callable[..., Any], given: Sequence[Any]) -> bool:
    try:
        inspect.signature(target).bind(*given)
    except TypeError:
        return False
    except ValueError:  # of what is written in C nothing is known
        return True
    return True


def _summary(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def members(protocol: type) -> list[str]:
    """The attributes and methods of a protocol, for :func:`make`."""
    classes = [one for one in reversed(protocol.__mro__) if one.__module__ not in ("builtins", "typing")]
    named = [name for one in classes for name in (*inspect.get_annotations(one), *vars(one))]
    return [name for name in dict.fromkeys(named) if not name.startswith("_")]


def recorded(*chosen: Chosen | None) -> dict[str, Any]:
    """What ``run.json`` says of the plug-ins of a run: where they are from. Nothing where all was built in.

    Arguments are left out: a place on this machine tells nobody anything, and engines name their model anyway.
    """
    used = sorted({one.plugin for one in chosen if one is not None and not one.plugin.built_in})
    records = [{name: getattr(one, name) for name in ("group", "name", "distribution", "version")} for one in used]
    return {"plugins": records} if used else {}
