"""Which training sets are made: ``none``, ``backtrans``, ``oracle``, ``corrupted``, and mixes such as ``a+b``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, get_args

from parapet.schemas.errors import InputError
from parapet.transforms.augment.corrupt import OPERATIONS, Operation

Kind = Literal["backtrans", "oracle", "corrupted"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NONE = "none"  # the original dialogues alone


def parse_sets(text: str) -> dict[str, tuple[Kind, ...]]:
    """The sets of a comma list, by name, with the kinds of variants in them.

    Raises:
      InputError: no set, an unknown one, one that stands twice (``a+b`` is ``b+a``), or a mix with ``none``.
    """
    found: dict[str, tuple[Kind, ...]] = {}
    for name in (part.strip() for part in text.split(",")):
        if not name:
            continue
        words = name.split("+")
        if words == [NONE]:
            kinds: tuple[Kind, ...] = ()
        else:
            for word in words:
                if word == NONE:
                    raise InputError(
                        f"{name!r}: every set has the original dialogues, {NONE!r} is them alone", "--sets"
                    )
                if word not in KINDS or words.count(word) > 1:
                    what = "stands twice" if word in KINDS else "is no set"
                    raise InputError(f"{word!r} of {name!r} {what}: {NONE}, {', '.join(KINDS)}, or a+b", "--sets")
            kinds = tuple(kind for kind in KINDS if kind in words)
        if kinds in found.values():
            raise InputError(f"{name!r} stands twice", "--sets")
        found[name] = kinds
    if not found:
        raise InputError(f"names no set: {NONE}, {', '.join(KINDS)}, or a+b", "--sets")
    return found


def default_sets(given: Collection[str]) -> str:
    """One set of each kind that there is something for, given the flags that name folders."""
    return ",".join([NONE, *(kind for kind in KINDS if kind == "corrupted" or kind in given)])


def check_folders(sets: Mapping[str, tuple[Kind, ...]], given: Collection[str]) -> None:
    """Raises InputError where a set needs a folder that was not given, or a folder is in no set."""
    for name, kinds in sets.items():
        for kind in kinds:
            if kind != "corrupted" and kind not in given:
                raise InputError(f"the set {name!r} needs --{kind} DIR", "--sets")
    for folder in sorted(given):
        if not any(folder in kinds for kinds in sets.values()):
            raise InputError(f"no set of --sets has it ({', '.join(sets)})", f"--{folder}")


def parse_operations(text: str) -> list[Operation]:
    """The corruptions of a comma list, in their own order. Raises InputError for an unknown one, or none."""
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    known = ", ".join(OPERATIONS)
    for name in wanted:
        if name not in OPERATIONS:
            raise InputError(f"there is no corruption {name!r} (of {known})", "--corruptions")
    if not wanted:
        raise InputError(f"names no corruption of {known}", "--corruptions")
    return [operation for operation in OPERATIONS if operation in wanted]
