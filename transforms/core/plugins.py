"""Plug-ins: entry points of installed distributions, including our own.

They are listed by name and imported when chosen.

A flag names a plug-in as ``NAME`` or ``NAME=ARGUMENT``, and passes it the argument as a string. Built-in ones are
registered in ``setup.py`` and loaded in the same way; only errors and records do not call them plug-ins.
"""

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

TRANSLATION_ENGINES = "parapet.translation_engines"
SPEECH_ENGINES = "parapet.speech_engines"
METRICS = "parapet.metrics"
MODELS = "parapet.models"
PERTURBATIONS = "parapet.perturbations"
DISTANCES = "parapet.distances"
VETTING_RULES = "parapet.vetting_rules"

# The groups of entry points, and the words for their members.
GROUPS = {
    TRANSLATION_ENGINES: "translation engine",
    SPEECH_ENGINES: "speech engine",
    METRICS: "metric",
    MODELS: "model",
    PERTURBATIONS: "perturbation",
    DISTANCES: "distance",
    VETTING_RULES: "vetting rule",
}


# The groups with built-in members: if these are missing, the checkout is newer than its installation.
BUILT_IN = {TRANSLATION_ENGINES, SPEECH_ENGINES, MODELS, PERTURBATIONS, DISTANCES}


class Plugin(msgspec.Struct, frozen=True, order=True):
    """An installed plug-in.

    Attributes:
      target: ``module:attribute`` of its entry point.
      distribution: the name of its distribution, with its ``version``.
    """

    group: str
    name: str
    target: str
    distribution: str
    version: str

    @property
    def built_in(self) -> bool:
        """Whether it is built in."""
        return self.distribution == DISTRIBUTION

    @property
    def extras(self) -> list[str]:
        """Returns the extras of its distribution that it requires."""
        return EntryPoint(self.name, self.target, self.group).extras


class Chosen(msgspec.Struct, frozen=True):
    """A plug-in chosen by a flag.

    Attributes:
      argument: the text after ``NAME=``, or None.
      flag: the flag for messages.
    """

    plugin: Plugin
    argument: str | None
    flag: str

    def refused(self, reason: str) -> InputError:
        """Returns an error about the plug-in that names its distribution."""
        plugin = self.plugin
        if plugin.built_in:
            return InputError(f"{plugin.name} {reason}", self.flag)
        return InputError(f"the plug-in {plugin.name!r} ({plugin.distribution} {plugin.version}) {reason}", self.flag)


class Names:
    """The names that a flag accepts, as ``choices`` of argparse, looked up on first use.

    Args:
      group: the group of entry points.
      others: further names without entry points.
    """

    def __init__(self, group: str, *others: str) -> None:
        self.group, self.others = group, others

    def __iter__(self) -> Iterator[str]:
        return iter((*self.others, *names(self.group)))

    def __contains__(self, given: object) -> bool:
        return given in self.others or (isinstance(given, str) and _split(given)[0] in names(self.group))


def installed(group: str) -> list[Plugin]:
    """Lists the plug-ins of a group, built-in ones first, without importing any."""
    return list(_installed(group, tuple((place, *_stamp(place)) for place in sys.path)))


def _stamp(place: str) -> tuple[int, int]:
    """Returns the inode of a folder on the path, and the time of the last installation in it."""
    try:
        status = os.stat(place or ".")
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


@functools.lru_cache(maxsize=64)
def _installed(group: str, path: tuple[tuple[str, int, int], ...]) -> list[Plugin]:
    """Reads the metadata of every distribution on the path, which takes some ten milliseconds."""
    # cached, since a distribution reads its metadata on every access
    sources: dict[Distribution | None, tuple[str, str]] = {None: ("", "")}
    plugins = []
    for point in entry_points(group=group):
        if point.dist is not None and point.dist not in sources:
            sources[point.dist] = point.dist.name, point.dist.version
        plugins.append(Plugin(point.group, point.name, point.value, *sources[point.dist]))
    return sorted(plugins, key=lambda plugin: (not plugin.built_in, plugin))


def names(group: str) -> list[str]:
    """Returns the distinct names of a group's plug-ins, built-in ones first."""
    return list(dict.fromkeys(plugin.name for plugin in installed(group)))


def _split(given: str) -> tuple[str, str | None]:
    name, equals, argument = given.partition("=")
    return name, argument if equals else None


def find(group: str, given: str, flag: str) -> Chosen | None:
    """Finds the plug-in named by a flag, or return None. Built-in ones have priority.

    Args:
      group: the group of entry points.
      given: ``NAME`` or ``NAME=ARGUMENT``.
      flag: the flag for messages.

    Raises:
      InputError: two distributions have a plug-in with this name.
    """
    name, argument = _split(given)
    matching = [plugin for plugin in installed(group) if plugin.name == name]
    if len(matching) > 1 and not matching[0].built_in:
        sources = " and ".join(f"{plugin.distribution} {plugin.version}" for plugin in matching)
        raise InputError(f"two plug-ins are called {name!r}, from {sources}: uninstall one of them", flag)
    return Chosen(matching[0], argument, flag) if matching else None


def choose(group: str, given: str, flag: str) -> Chosen:
    """Returns the result of :func:`find`. Raises InputError with the available names if the plug-in does not exist."""
    if (chosen := find(group, given, flag)) is None:
        raise InputError(f"there is no {GROUPS[group]} {_split(given)[0]!r}: {told(group)}", flag)
    return chosen


def told(group: str) -> str:
    """Describes the plug-ins of a group, for messages."""
    available = installed(group)
    if group in BUILT_IN and not any(plugin.built_in for plugin in available):
        return f"not even the built-in ones are registered: install Parapet again with {install_line()}"
    ours = ", ".join(plugin.name for plugin in available if plugin.built_in)
    others = ", ".join(dict.fromkeys(plugin.name for plugin in available if not plugin.built_in)) or "none"
    built_in = f"built in: {ours}; " if ours else ""
    return f"{built_in}installed plug-ins: {others} ('parapet doctor' lists those of all groups)"


def make(chosen: Chosen, wanted: Sequence[str] = (), part: str = "", options: Mapping[str, Any] | None = None) -> Any:
    """Imports a plug-in, and calls it with its argument, if any.

    Args:
      chosen: the plug-in.
      wanted: the attributes that the result must have.
      part: the attribute of the entry point to call.
      options: the command's flags. A class with ``from_options`` is created by that method from them.

    Returns:
      The plug-in's result.

    Raises:
      InputError: it cannot be imported or called, or the result lacks an attribute.
    """
    target = load(chosen)
    if part and not hasattr(target, part):
        raise chosen.refused(f"has no {part}: name another")
    target = getattr(target, part) if part else target
    from_options = getattr(target, "from_options", None) if options is not None else None
    if from_options is not None and chosen.argument is not None:
        raise chosen.refused(f"takes no argument: give {chosen.plugin.name} alone")
    plugin = _called(chosen, target if from_options is None else from_options, options if from_options else None)
    if lacking := [name for name in wanted if not hasattr(plugin, name)]:
        raise chosen.refused(f"returned a {type(plugin).__name__} without {', '.join(lacking)}: see docs/plugins.md")
    return plugin


def parallel_calls(options: Mapping[str, Any]) -> int:
    """Returns ``parallel_calls`` of the options, by default 4. Raises InputError unless it is between 1 and 32."""
    calls = int(options.get("parallel_calls", 4))
    if not 1 <= calls <= 32:
        raise InputError(f"{calls} must be from 1 to 32", "--parallel_calls")
    return calls


def load(chosen: Chosen) -> Any:
    """Imports the entry point's object. Raises InputError for any exception."""
    plugin = chosen.plugin
    try:
        return EntryPoint(plugin.name, plugin.target, plugin.group).load()
    except Exception as error:  # a plug-in's module may raise anything
        raise _blamed(chosen, error, "cannot be imported") from None


def _blamed(chosen: Chosen, error: Exception, what: str) -> InputError:
    if isinstance(error, InputError):
        return error if chosen.plugin.built_in else chosen.refused(str(error))
    logging.debug("", exc_info=True)
    return chosen.refused(f"{what}: {_summary(error)} (PARAPET_DEBUG=1 shows the traceback)")


def _called(chosen: Chosen, target: Callable[..., Any], options: Mapping[str, Any] | None) -> Any:
    arguments = (options,) if options is not None else () if chosen.argument is None else (chosen.argument,)
    if not callable(target):
        raise chosen.refused(f"is a {type(target).__name__}, which cannot be called: see docs/plugins.md")
    if not _takes(target, arguments):
        name = chosen.plugin.name
        hint = f"takes no argument: give {name} alone" if arguments else f"requires an argument: give {name}=ARGUMENT"
        raise chosen.refused(hint)
    return call(chosen, target, *arguments)


def call(chosen: Chosen, function: Callable[..., Any], *given: Any) -> Any:
    """Calls a plug-in's function. Raises InputError, naming the plug-in, for any exception."""
    try:
        return function(*given)
    except Exception as error:
        raise _blamed(chosen, error, "failed") from None


def _takes(target: Callable[..., Any], given: Sequence[Any]) -> bool:
    try:
        inspect.signature(target).bind(*given)
    except TypeError:
        return False
    except ValueError:  # functions written in C have no signature
        return True
    return True


def _summary(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def members(protocol: type) -> list[str]:
    """Returns the attributes and methods of a protocol, for :func:`make`."""
    classes = [base for base in reversed(protocol.__mro__) if base.__module__ not in ("builtins", "typing")]
    named = [name for base in classes for name in (*inspect.get_annotations(base), *vars(base))]
    return [name for name in dict.fromkeys(named) if not name.startswith("_")]


def recorded(*chosen: Chosen | None) -> dict[str, Any]:
    """Returns the origin of a run's plug-ins for ``run.json``; empty if all are built in.

    Arguments are left out: a path on this machine is useless elsewhere, and engines record their model separately.
    """
    used = sorted({choice.plugin for choice in chosen if choice is not None and not choice.plugin.built_in})
    facts = ("group", "name", "distribution", "version")
    return {"plugins": [{fact: getattr(plugin, fact) for fact in facts} for plugin in used]} if used else {}
