"""A system's responses, read and held against the turns that there are."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from parapet.evaluation.lines import read_lines
from parapet.evaluation.response.goals import Said
from parapet.schemas.errors import InputError


class Row(msgspec.Struct):
    """A row of the predictions."""

    dialogue_id: str
    turn: int
    response: str
    state: dict[str, dict[str, str | list[str]]] = {}
    domains: list[str] | None = None


def read_responses(path: str, turns: Mapping[str, Mapping[int, str]]) -> dict[str, list[Said]]:
    """The responses of each dialogue, by turn.

    Args:
      path: JSON lines.
      turns: the reference's responses, which say what turns there are.

    Raises:
      InputError: responses missing, twice, or to no turn of the system's.
    """
    found: dict[str, dict[int, Said]] = {}
    for number, row in read_lines(path, Row):
        of = found.setdefault(row.dialogue_id, {})
        where = f"line {number}"
        if row.dialogue_id not in turns:
            raise InputError(f"the reference has no dialogue {row.dialogue_id!r}", path, where)
        if row.turn not in turns[row.dialogue_id]:
            there = [str(turn) for turn in sorted(turns[row.dialogue_id])]
            told = ", ".join([*there[:6], "..."] if len(there) > 6 else there)
            reason = f"turn {row.turn} of {row.dialogue_id!r} is none of the system's, which has {told}"
            raise InputError(reason, path, where)
        if row.turn in of:
            raise InputError(f"dialogue {row.dialogue_id!r} turn {row.turn} stands twice", path, where)
        of[row.turn] = Said(row.turn, row.response, _state(row), None if row.domains is None else tuple(row.domains))
    missing = sorted((name, t) for name, of in turns.items() for t in of if t not in found.get(name, {}))
    if missing:
        (name, t), n = missing[0], len(missing)
        more = f"; {n:,} are missing in all" if n > 1 else ""
        raise InputError(f"there is no response of dialogue {name!r} turn {t}{more}", path)
    return {name: [of[t] for t in sorted(of)] for name, of in found.items()}


def own_responses(turns: Mapping[str, Mapping[int, str]]) -> dict[str, list[Said]]:
    """The reference's own responses as if they were a system's."""
    return {name: [Said(t, of[t]) for t in sorted(of)] for name, of in turns.items()}


def _state(row: Row) -> dict[str, dict[str, tuple[str, ...]]]:
    return {
        service: {slot: (value,) if isinstance(value, str) else tuple(value) for slot, value in of.items()}
        for service, of in row.state.items()
    }
