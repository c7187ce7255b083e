"""Predictions of a whole system: dialogues of all sets, to states in the SGD format and to responses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from parapet.evaluation.dst.frames import Dialogue, Frame, State, Turn
from parapet.evaluation.models import inference
from parapet.evaluation.models.inference import Answers, Dialogues, Part
from parapet.evaluation.models.systems.data import NONE, Database, Reply, Step, asked_of, read_source
from parapet.schemas.service import Service

CHUNK = 8  # dialogues
RESPONSES = "responses"


class System(Protocol):
    """A model of a whole system, ready to answer."""

    def answers(self, steps: Sequence[Step]) -> list[Reply]:
        """The reply to each user turn; those of a dialogue stand together, in their order."""


class Job(inference.DialoguesJob[System], frozen=True, kw_only=True):
    """What is predicted; a model's own job loads it.

    Attributes:
      reference: the corpus whose searches are the knowledge base, its ``split``, and a ``knowledge_base`` besides.
    """

    chunk_size = CHUNK

    reference: str
    split: str
    knowledge_base: str | None

    def asked(self, chunk: Dialogues) -> dict[str, int]:
        """The user turns."""
        turns = sum(turn.speaker == "USER" for dialogue in chunk.dialogues for turn in dialogue.turns)
        return {f"asked/{chunk.file.set}": turns}

    def database(self) -> Database:
        """That of the reference."""
        return read_source(self.reference, self.split, self.knowledge_base).database

    def answer(self, model: System, chunk: Dialogues) -> Answers:
        """Dialogues with states, and responses as JSON lines."""
        file = chunk.file
        states, responses, counts = answered(chunk.dialogues, self.sets[file.set].services, model)
        parts = [
            Part(file.predictions, (file.predictions, chunk.number), states),
            Part(f"{RESPONSES}/{file.set}/{self.split}/{RESPONSES}.jsonl", (file.predictions, chunk.number), responses),
        ]
        return Answers(parts, {f"{kind}/{file.set}": n for kind, n in sorted(counts.items()) if n})


def answered(
    dialogues: Sequence[Dialogue], services: Mapping[str, Service], model: System
) -> tuple[bytes, bytes, Counter[str]]:
    """What the model answers in dialogues: the dialogues with states, responses, and counts.

    Args:
      dialogues: of a chunk.
      services: of the set's schema, by name.
      model: ready to answer.
    """
    steps = [step for dialogue in dialogues for step in asked_of(dialogue.dialogue_id, _texts(dialogue))]
    replies = iter(model.answers(steps))
    counts: Counter[str] = Counter()
    lines, found = [], []
    for dialogue in dialogues:
        turns = []
        for position, turn in enumerate(dialogue.turns):
            frames: list[Frame] = []
            if turn.speaker == "USER":
                reply = next(replies)
                counts["answered"] += 1
                counts["too_long"] += reply.long
                frames = [_frame(frame.service, reply, services.get(frame.service), counts) for frame in turn.frames]
                if position + 1 < len(dialogue.turns) and dialogue.turns[position + 1].speaker == "SYSTEM":
                    lines.append(_line(dialogue.dialogue_id, position + 1, reply))
            turns.append(Turn(turn.speaker, frames, turn.utterance))
        found.append(msgspec.json.encode(Dialogue(dialogue.dialogue_id, turns, dialogue.services)))
    return b",\n".join(found), b"".join(lines), counts


def _texts(dialogue: Dialogue) -> list[tuple[str, str]]:
    return [(turn.speaker, turn.utterance if isinstance(turn.utterance, str) else "") for turn in dialogue.turns]


def _frame(name: str, reply: Reply, service: Service | None, counts: Counter[str]) -> Frame:
    """The state of a service. The model may name slots that its schema, perhaps a variant's, does not have."""
    state = reply.belief.get(name, State(NONE, [], {}))
    slots = {slot.name for slot in service.slots} if service else set()
    unknown = {*state.slot_values, *state.requested_slots} - slots
    counts["frames"] += 1
    counts["unknown_slots"] += len(unknown)
    values = {slot: values for slot, values in sorted(state.slot_values.items()) if slot in slots}
    return Frame(
        name, State(state.active_intent, [one for one in sorted(state.requested_slots) if one in slots], values)
    )


def _line(dialogue_id: str, turn: int, reply: Reply) -> bytes:
    state = {name: of.slot_values for name, of in sorted(reply.belief.items())}
    row = {"dialogue_id": dialogue_id, "turn": turn, "response": reply.response, "state": state}
    if reply.acts is not None:
        row["acts"] = reply.acts
    return msgspec.json.encode(row) + b"\n"
