"""Turns configuration classes into flags: each annotated field of a ``msgspec.Struct`` becomes a flag of its name.

The class's docstring has the help of each flag::

    class Config(msgspec.Struct, frozen=True, kw_only=True):
        # Attributes:
        #   epochs: maximum number of epochs.
        #   train: corpora to train on (default: the bundled sample).
        epochs: Annotated[int, Meta(ge=1)] = 20
        train: Annotated[list[str], Meta(extra={"group": INPUT, "reads": True})] = []
        schedule: Annotated[Literal["constant", "linear"], Meta(description="...", extra={"rare": True})] = "linear"

The type is that of the values: ``str``, ``int``, ``float``, a ``Literal`` of choices, a list or tuple for several
values after one flag, ``bool`` for a flag without a value; each may be ``None``, too. ``ge``, ``gt``, ``le`` and ``lt``
are checked when the flags are read. A field without a default is a required flag. ``{unit}`` in a help text is replaced
by the class variable of this name. A subclass may change a field's default (``epochs: int = 3``), and lists the flags
that it does not have in the class variable ``without``. Keys of ``extra``:

``group``: the help section that shows the flag. ``rare``: only ``--help-all`` shows it. ``metavar``: the name of the
value in the help. ``either``: a name shared by flags that exclude each other. ``reads``: the value is a file or folder
that must exist; ``path``: a path that is checked elsewhere. ``completes``: values that the shell proposes.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta

from parapet.pipelines.flags import Add, StrictParser
from parapet.schemas.errors import InputError

Config = TypeVar("Config", bound=msgspec.Struct)
Option = str | int | float | bool | None

MOST = 2**31  # upper bound of numbers that declare none
_METAVARS = {int: "N", float: "X", str: "TEXT"}


class Flag(NamedTuple):
    """A field of a configuration class that has a flag.

    Attributes:
      name: the name of the field.
      kind: the type of one value: ``str``, ``int``, ``float`` or ``bool``.
      many: whether the flag takes several values.
      choices: the allowed values; empty for any.
      default: the field's default; ``NODEFAULT`` if it has none.
      text: the help text.
      meta: its range; ``extra`` is ``meta.extra``.
    """

    name: str
    kind: type
    many: bool
    choices: tuple[Any, ...]
    default: Any
    text: str
    meta: Meta
    extra: Mapping[str, Any]

    @property
    def is_path(self) -> bool:
        """Whether the values are files or folders."""
        return bool(self.extra.get("reads") or self.extra.get("path"))


def config_flags(config: type[msgspec.Struct]) -> list[Flag]:
    """Lists the flags of a configuration class, those of base classes first."""
    fields = {field.name: field for field in msgspec.structs.fields(config)}
    flags: dict[str, Flag] = {}
    texts: dict[str, str] = {}
    for base in reversed(config.__mro__[:-1]):
        texts |= _attributes(base.__doc__ or "")
        for name, hint in get_type_hints(base, include_extras=True).items():
            if (meta := _meta(hint)) is not None:  # without it, the field only changes the default of a base class
                text = meta.description or texts.get(name, "")
                flags[name] = Flag(name, *_value_type(hint), _default(fields[name]), text, meta, meta.extra or {})
    without = getattr(config, "without", ())
    return [flag for name, flag in flags.items() if name not in without]


def _meta(hint: Any) -> Meta | None:
    """Finds the Meta of an annotation, also inside a union such as ``Annotated[int, Meta(ge=1)] | None``."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else [hint]
    return next((item for part in parts for item in getattr(part, "__metadata__", ()) if isinstance(item, Meta)), None)


def _attributes(docstring: str) -> dict[str, str]:
    """Parses the section "Attributes" of a docstring to the text of each attribute."""
    section = inspect.cleandoc(docstring).partition("Attributes:\n")[2].partition("\n\n")[0]
    items = re.findall(r"^  (\w+): (.*(?:\n    .*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).removesuffix(".") for name, text in items}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def _value_type(hint: Any) -> tuple[type, bool, tuple[Any, ...]]:
    """Returns the type of a single value, whether the flag takes several, and the choices."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _value_type(arguments[0])
    if origin in (Union, UnionType):
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return _value_type(inner)
    if origin in (list, tuple):
        kind, _, choices = _value_type(arguments[0])
        return kind, True, choices
    if origin is Literal:
        return type(arguments[0]), False, arguments
    return hint, False, ()


def add_flags(parser: StrictParser, config: type[msgspec.Struct], group: str, **words: str) -> None:
    """Adds the flags of a configuration class to a parser.

    Args:
      parser: the command's parser.
      config: the class.
      group: the help section of flags that name none.
      words: replacements of ``{NAME}`` in help texts, besides class variables.
    """
    exclusive: dict[str, Add] = {}
    for flag in config_flags(config):
        extra, title = flag.extra, flag.extra.get("group", group)
        add = parser.group(title)
        if either := extra.get("either"):
            add = exclusive.setdefault(either, parser.group(title, exclusive=True))
        text = re.sub(r"\{(\w+)\}", lambda match: words.get(match[1]) or getattr(config, match[1]), flag.text)
        options: dict[str, Any] = {"help": text.replace("%", "%%"), "rare": extra.get("rare", False)}
        if flag.kind is bool:
            options["action"] = "store_true"
        elif flag.choices:
            options["choices"] = flag.choices
        else:
            options |= {"type": flag.kind, "metavar": extra.get("metavar", _METAVARS[flag.kind])}
        if flag.many:
            options["nargs"] = "+"
        if flag.default is NODEFAULT:
            options["required"] = True
        elif flag.kind is not bool:
            options["default"] = list(flag.default) if isinstance(flag.default, tuple) else flag.default
        action = add(f"--{flag.name}", reads=extra.get("reads", False), apart=flag.is_path, **options)
        if completes := extra.get("completes"):
            action.completer = lambda completes=completes, **_: completes  # type: ignore[attr-defined]


def read_config(config: type[Config], args: argparse.Namespace, **own: object) -> Config:
    """Reads a configuration from parsed flags.

    Args:
      config: its class.
      args: the flags; missing ones keep their defaults.
      own: fields without flags, or whose value differs from that of their flag.

    Raises:
      InputError: a number is out of range.
    """
    values = {name: getattr(args, name) for name in config.__struct_fields__ if hasattr(args, name)} | own
    for flag in config_flags(config):
        value = values.get(flag.name)
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, int | float) and (reason := out_of_range(item, flag.meta)):
                raise InputError(f"{item}: {reason}", f"--{flag.name}")
    return config(**values)


def out_of_range(number: float, meta: Meta) -> str:
    """Describes the allowed range if a number lies outside; empty if it lies inside."""
    least, above, most, below = meta.ge, meta.gt, meta.le, meta.lt
    inside = (least is None or number >= least) and (above is None or number > above)
    if inside and (number <= most if most is not None else number < below if below is not None else number <= MOST):
        return ""
    if below is not None and below <= 1:
        return f"must be above {above:g} and below {below:g}"
    if most is not None:
        return f"must be a number from {least:g} to {most:g}"
    return f"must be a number above {above:g}" if above is not None else f"must be {least or 0:g} or more"


def input_paths(config: msgspec.Struct) -> list[tuple[str, str]]:
    """Lists (flag, path) of all files and folders that a configuration names."""
    values = [(flag.name, getattr(config, flag.name)) for flag in config_flags(type(config)) if flag.is_path]
    return [(name, path) for name, value in values if value for path in (value if isinstance(value, list) else [value])]


def content_options(config: msgspec.Struct) -> dict[str, Option]:
    """Lists the flags that determine the content of an output, for ``run.json``: all except files and folders."""
    names = sorted(flag.name for flag in config_flags(type(config)) if not flag.is_path)
    return {name: getattr(config, name) for name in names}
