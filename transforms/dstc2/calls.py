"""A call of DSTC2 (Henderson et al. 2014): the system's log and the label beside it, read as one record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import parse_json
from parapet.transforms.files import join, read_bytes

DONTCARE = "dontcare"
LOG, LABEL = "log.json", "label.json"

Slots = tuple[tuple[str, str], ...]


class Act(msgspec.Struct, frozen=True):
    """A dialogue act with its slots and values: ``inform(food=thai)``, ``request(slot=phone)``."""

    act: str
    slots: Slots = ()


class CallTurn(msgspec.Struct, frozen=True):
    """A turn of DSTC2: the system speaks, then the caller.

    Attributes:
      system: the prompt, as the log's transcript has it.
      system_acts: of the prompt.
      user: what the caller said, one line without surplus white space; nothing where the caller was silent.
      user_acts: the label's semantics.
      goals: slot to value: the label's state after the turn.
      method: how the caller asks: ``byconstraints``, ``byname``, ``byalternatives``, ``finished``, ``none``.
      requested: slots the caller asks for.
    """

    system: str
    system_acts: tuple[Act, ...]
    user: str
    user_acts: tuple[Act, ...]
    goals: Slots
    method: str
    requested: tuple[str, ...]


class Call(msgspec.Struct, frozen=True):
    """A call: its folder's name as the list has it, and its turns."""

    name: str
    turns: tuple[CallTurn, ...]


class _RawAct(msgspec.Struct):
    act: str
    slots: list[tuple[Any, Any]] = []


class _Output(msgspec.Struct):
    transcript: str
    acts: list[_RawAct] = msgspec.field(name="dialog-acts")


class _Hypothesis(msgspec.Struct):
    text: str = msgspec.field(name="asr-hyp")


class _Live(msgspec.Struct):
    hypotheses: list[_Hypothesis] = msgspec.field(name="asr-hyps")


class _Input(msgspec.Struct):
    live: _Live


class _LogTurn(msgspec.Struct):
    output: _Output
    input: _Input | None = None


class _Log(msgspec.Struct):
    session: str = msgspec.field(name="session-id")
    turns: list[_LogTurn] = []


class _Semantics(msgspec.Struct):
    json: list[_RawAct] = []


class _LabelTurn(msgspec.Struct):
    transcription: str
    goals: dict[str, str] = msgspec.field(name="goal-labels")
    method: str = msgspec.field(name="method-label", default="none")
    requested: list[str] = msgspec.field(name="requested-slots", default_factory=list)
    semantics: _Semantics = msgspec.field(default_factory=_Semantics)


class _Label(msgspec.Struct):
    session: str = msgspec.field(name="session-id")
    turns: list[_LabelTurn] = []


def read_call(folder: str, name: str, recognised: bool = False) -> Call:
    """Reads a call.

    Args:
      folder: where the calls are.
      name: the call's folder below it.
      recognised: whether the caller's words are what the recogniser heard first, not the transcription.

    Raises:
      InputError: a path that leaves the folder, a file missing or broken, log and label that do not fit each other.
    """
    try:
        place = join(folder, name)
    except ValueError:
        raise InputError(f"bad_path: {name!r} is no folder below {folder}") from None
    log = _converted(_parsed(place, LOG), _Log, LOG)
    label = _converted(_parsed(place, LABEL), _Label, LABEL)
    if log.session != label.session:
        raise InputError(f"mismatch: the log is of session {log.session!r}, the label of {label.session!r}", LABEL)
    if len(log.turns) != len(label.turns):
        raise InputError(f"mismatch: the log has {len(log.turns)} turns, the label {len(label.turns)}", LABEL)
    if not log.turns:
        raise InputError("no_turns: nothing is said", LOG)
    turns = [
        _turn(said, meant, recognised, f"turns[{t}]")
        for t, (said, meant) in enumerate(zip(log.turns, label.turns, strict=True))
    ]
    return Call(name, tuple(turns))


def _parsed(place: str, file: str) -> Any:
    try:
        data = read_bytes(f"{place}/{file}")
    except FileNotFoundError:
        raise InputError(f"missing: there is no {file}", file) from None
    except OSError as error:
        if error.strerror is None:  # of the network: the runner tries again
            raise
        raise InputError(f"cannot_be_read: {error.strerror}", file) from None
    try:
        return parse_json(data, file)
    except InputError as error:
        raise InputError(f"not_json: {error.reason}", file, error.where) from None


def _converted(read: Any, kind: Any, file: str) -> Any:
    try:
        return msgspec.convert(read, kind)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(f"not_dstc2: {reason}", file, at) from None


def _turn(said: _LogTurn, meant: _LabelTurn, recognised: bool, where: str) -> CallTurn:
    user = meant.transcription
    if recognised:
        if said.input is None:
            raise InputError("not_dstc2: has no input, so nothing was recognised", LOG, where)
        user = said.input.live.hypotheses[0].text if said.input.live.hypotheses else ""
    return CallTurn(
        system=one_line(said.output.transcript),
        system_acts=_acts(said.output.acts),
        user=one_line(user),
        user_acts=_acts(meant.semantics.json),
        goals=tuple(sorted((slot, one_line(value)) for slot, value in meant.goals.items())),
        method=meant.method,
        requested=tuple(sorted(set(meant.requested))),
    )


def _acts(acts: Sequence[_RawAct]) -> tuple[Act, ...]:
    # A value may be a number: a count of restaurants.
    return tuple(Act(one.act, tuple((one_line(str(a)), one_line(str(b))) for a, b in one.slots)) for one in acts)


def one_line(text: str) -> str:
    """A text without tabs, line breaks and half surrogates, none of which a line of a file can have."""
    return " ".join(text.encode("utf-8", "backslashreplace").decode().split())
