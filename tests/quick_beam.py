"""Beam looks up the same three things thousands of times for each pipeline; here it remembers them.

What a function's arguments are, which options a group of flags has, and which state a DoFn keeps make up half the time
of a small pipeline that runs in this process. None changes what a pipeline does. Other processes (workers, commands
that tests start, but not those of ``killed``) have Beam as it is, and so has all of ``make test-all``, which sets
PARAPET_THOROUGH.
"""

from __future__ import annotations

import inspect
import os
import sys
from functools import cache, wraps
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary


def wanted() -> bool:
    """Whether Beam is loaded, and nobody asked for it as it is."""
    return "apache_beam.pipeline" in sys.modules and not os.environ.get("PARAPET_THOROUGH")


@cache
def install() -> None:
    """Once a process."""
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import core, userstate

    core.get_function_args_defaults = remembering_arguments(core.get_function_args_defaults)
    PipelineOptions.view_as = remembering_options(PipelineOptions.view_as)
    userstate.get_dofn_specs = remembering_specs(userstate.get_dofn_specs)


def remembering_arguments(look_up: Any) -> Any:
    """Beam's ``get_function_args_defaults``: (names, defaults) of a function, or of a method without its ``self``."""
    known: WeakKeyDictionary[Any, dict[bool, tuple[list[str], list[Any]]]] = WeakKeyDictionary()

    @wraps(look_up)
    def get_function_args_defaults(f: Any) -> tuple[list[str], list[Any]]:
        bound = inspect.ismethod(f)
        try:
            of = known.setdefault(f.__func__ if bound else f, {})
        except TypeError:  # nothing that can be remembered
            return look_up(f)
        if bound not in of:
            of[bound] = look_up(f)
        names, defaults = of[bound]
        return list(names), list(defaults)

    return get_function_args_defaults


def remembering_options(view_as: Any) -> Any:
    """Beam's ``PipelineOptions.view_as``, which parses all flags anew though all views share what was parsed."""
    names: dict[type, Any] = {}  # a view looks into its parsed flags for their names alone

    @wraps(view_as)
    def view(self: Any, cls: type) -> Any:
        parsed = names.get(cls)
        if parsed is None or not vars(parsed).keys() <= self._all_options.keys():
            made = view_as(self, cls)
            names[cls] = made._visible_options
            return made
        made = cls.__new__(cls)
        made._flags, made._all_options, made._visible_options = self._flags, self._all_options, parsed
        return made

    return view


def remembering_specs(look_up: Any) -> Any:
    """Beam's ``get_dofn_specs``: the state and the timers of a DoFn, as the arguments of its methods name them."""
    known: WeakKeyDictionary[type, dict[frozenset[str], tuple[set[Any], set[Any]]]] = WeakKeyDictionary()

    @wraps(look_up)
    def get_dofn_specs(dofn: Any) -> tuple[set[Any], set[Any]]:
        own = vars(dofn)  # what stands here hides a method of the class
        if any(isinstance(value, MethodType) for value in own.values()):
            return look_up(dofn)
        of, hidden = known.setdefault(type(dofn), {}), frozenset(own)
        if hidden not in of:
            of[hidden] = look_up(dofn)
        states, timers = of[hidden]
        return set(states), set(timers)

    return get_dofn_specs
