"""The candidates of a domain, more than memory holds as objects.

They wait in a file of the staging folder for each dialogue file. Of each only what decides between them is read again,
some 45 bytes; and of those that are chosen all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from parapet.schemas.dialogue import Dialogue, Frame, is_marker
from parapet.transforms.compressed import open_plain
from parapet.transforms.corpora import domain_of
from parapet.transforms.digests import digest_of
from parapet.transforms.files import STAGING, join, write_staged
from parapet.transforms.seeding import stable_hash
from parapet.transforms.touching import Used

TRAIN, TEST = "train", "test"

_ROW = np.dtype(
    [
        ("draw", "<u8"),
        ("digest", "<u8"),
        ("id", "<u8"),
        ("start", "<u8"),
        ("size", "<u4"),
        ("slots", "<u4"),
        ("position", "<u4"),
        ("alone", "?"),
        ("test", "?"),
    ]
)

Rows = np.ndarray[Any, Any]  # of the fields of a row
Found = Iterable[tuple[str, "Candidate"]]  # (train or test, candidate)


class Candidate(msgspec.Struct, frozen=True, order=True):
    """A dialogue that a domain may have. Candidates sort in a random order that the seed fixes.

    Attributes:
      draw: 64 bits of seed, domain and dialogue id.
      dialogue_id: its id.
      file: its file, below the root.
      position: its position there.
      digest: of all utterances; dialogues with the same digest are the same.
      services: those that it touches, lists, or has idle frames of: the schema of its set needs them.
      slots: element ids (``Restaurants_1/slot/city``) of the domain's slots that occur in it.
      turns: number of user turns.
      alone: whether it touches no other domain.
    """

    draw: int
    dialogue_id: str
    file: str
    position: int
    digest: bytes
    services: tuple[str, ...]
    slots: tuple[str, ...]
    turns: int
    alone: bool


def candidates_of(
    dialogue: Dialogue, used: Used, domains: Sequence[str], seed: str, file: str, position: int
) -> list[tuple[str, Candidate]]:
    """(domain, candidate) of a dialogue, for each of the requested domains that it touches.

    Args:
      dialogue: the dialogue.
      used: its services.
      domains: those requested.
      seed: of the random order.
      file: its file, below the root.
      position: its position there.
    """
    touched = {domain_of(service) for service in used.touched}
    return [
        (domain, _candidate(dialogue, domain, used, len(touched) == 1, file, position, seed))
        for domain in sorted(touched.intersection(domains))
    ]


def _candidate(
    dialogue: Dialogue, domain: str, used: Used, alone: bool, file: str, position: int, seed: str
) -> Candidate:
    frames = [frame for turn in dialogue.turns for frame in turn.frames if domain_of(frame.service) == domain]
    return Candidate(
        draw=stable_hash(seed, "few_shot", domain, dialogue.dialogue_id),
        dialogue_id=dialogue.dialogue_id,
        file=file,
        position=position,
        digest=digest_of("\0".join(turn.utterance for turn in dialogue.turns)),
        services=tuple(used.all),
        slots=tuple(sorted({slot for frame in frames for slot in slots_of(frame)})),
        turns=sum(turn.speaker == "USER" for turn in dialogue.turns),
        alone=alone,
    )


def slots_of(frame: Frame) -> set[str]:
    """Element ids of the slots in a frame: in spans, actions, the state, a service call."""
    names = {span.slot for span in frame.slots}
    names |= {action.slot for action in frame.actions or [] if action.slot and not is_marker(action.act, action.slot)}
    if frame.state:
        names |= {*frame.state.slot_values, *frame.state.requested_slots}
    if frame.service_call:
        names |= set(frame.service_call.parameters)
    return {f"{frame.service}/slot/{name}" for name in names}


class Part(msgspec.Struct, frozen=True, order=True):
    """The candidates of one dialogue file for one domain, in a file of the staging folder.

    Attributes:
      file: the dialogue file, below the root.
      start: where they begin: first the candidates, then the rows, then the combinations of slots.
      rows: where the rows begin.
      slots: where the combinations of slots begin.
      end: where these end.
    """

    file: str
    start: int
    rows: int
    slots: int
    end: int


def write_parts(output: str, file: str, found: Mapping[str, Found]) -> list[tuple[str, Part]]:
    """Writes the candidates of a dialogue file into staging. Gives (domain, part) of each domain that has any.

    Args:
      output: the output folder.
      file: the dialogue file, below the root.
      found: the candidates of each domain.
    """
    content = bytearray()
    parts = []
    for domain, candidates in found.items():
        start = len(content)
        combinations: dict[tuple[str, ...], int] = {}
        rows = []
        for part, one in candidates:
            packed = _encode(one)
            slots = combinations.setdefault(one.slots, len(combinations))
            digests = (int.from_bytes(digest, "little") for digest in (one.digest, digest_of(one.dialogue_id)))
            place = (len(content), len(packed), slots, one.position)
            rows.append((one.draw, *digests, *place, one.alone, part == TEST))
            content += packed
        of_rows = len(content)
        content += np.array(rows, _ROW).tobytes()
        of_slots = len(content)
        content += _encode(list(combinations))
        parts.append((domain, Part(file, start, of_rows, of_slots, len(content))))
    if parts:
        write_staged(output, _path(file), bytes(content))
    return parts


def _encode(value: Any) -> bytes:
    """As JSON in ASCII: names may have half surrogate pairs, which no encoder of msgspec takes."""
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def _decode(data: bytes, kind: Any) -> Any:
    return msgspec.convert(json.loads(data), kind)


def _path(file: str) -> str:
    return f"candidates/{file}"


class Candidates:
    """The candidates of a domain, in random order: those of the test, then those of the training split.

    Args:
      parts: where they are.
      output: the output folder.

    Attributes:
      rows: what decides between them.
      combinations: the slots that ``rows["slots"]`` numbers.
    """

    def __init__(self, parts: Iterable[Part], output: str) -> None:
        self.parts, self.output = sorted(parts), output
        self.combinations: list[tuple[str, ...]] = []
        known: dict[tuple[str, ...], int] = {}
        every = [np.empty(0, _ROW)]
        for part in self.parts:
            data = self._read(part, part.rows, part.end)
            rows = np.frombuffer(data, _ROW, (part.slots - part.rows) // _ROW.itemsize).copy()
            combinations = _decode(data[part.slots - part.rows :], list[tuple[str, ...]])
            numbers = [known.setdefault(slots, len(known)) for slots in combinations]
            rows["slots"] = np.array(numbers, np.uint32)[rows["slots"]]
            every.append(rows)
        self.combinations = list(known)
        rows = np.concatenate(every)
        files = np.repeat(np.arange(len(every)), [len(of_part) for of_part in every])
        # Those of one draw have one id.
        order = np.lexsort((rows["position"], files, rows["draw"], ~rows["test"]))
        self.rows: Rows = rows[order]
        self._files = files[order]

    def candidate(self, i: int) -> Candidate:
        """A candidate, by its row."""
        part, start = self.parts[int(self._files[i]) - 1], int(self.rows[i]["start"])
        data = self._read(part, start, start + int(self.rows[i]["size"]))
        candidate: Candidate = _decode(data, Candidate)
        return candidate

    def _read(self, part: Part, start: int, end: int) -> bytes:
        with open_plain(join(self.output, f"{STAGING}/{_path(part.file)}")) as handle:
            handle.seek(start)
            return handle.read(end - start)
