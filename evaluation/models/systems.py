"""The data of models of whole systems: after each user turn the belief state, the database's, and the response.

Each is a sequence of parts: a mark and its text.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from parapet.evaluation.dst import frames as state_frames
from parapet.evaluation.dst.frames import State
from parapet.evaluation.models import inference, saving
from parapet.evaluation.models.inference import Answers, Dialogues, Examples
from parapet.evaluation.response.goals import Knowledge, plain_name, read_entities, reference_of, satisfies
from parapet.schemas.dialogue import Action, Dialogue, Frame, Turn, parse_dialogues
from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_root, services_by_name
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.schemas.service import Service
from parapet.transforms.core.inputs import read_input
from parapet.transforms.perturb.corpora import read_corpus, touched_in_turns
from parapet.transforms.perturb.ood.plan import FALLBACK, FALLBACKS


class Database:
    """Counts the results of :meth:`Knowledge.find` without visiting all entities for each new belief state.

    An entity must satisfy each constraint by itself. The entities that satisfy a constraint are therefore stored as
    bits of an integer, and those that satisfy several are the bitwise AND.

    Args:
      knowledge: the entities.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self._bits: dict[tuple[str, str, tuple[str, ...]], int] = {}

    def has(self, service: str) -> bool:
        """Whether there are entities of a service."""
        return bool(self.knowledge.entities.get(service))

    def matches(self, service: str, slot_values: Mapping[str, Sequence[str]]) -> int:
        """Counts the entities that satisfy a state, given its values as spelled in the dialogue."""
        matching = (1 << len(self.knowledge.entities.get(service, ()))) - 1
        for slot, values in slot_values.items():
            matching &= self._satisfying(service, slot, self.knowledge.meant(service, slot, values))
        return matching.bit_count()

    def _satisfying(self, service: str, slot: str, values: tuple[str, ...]) -> int:
        key = service, slot, values
        if key not in self._bits:
            entities = self.knowledge.entities.get(service, ())
            self._bits[key] = sum(satisfies(entity, {slot: values}) << i for i, entity in enumerate(entities))
        return self._bits[key]


_NO_VALUES = frozenset({"true", "false", "dontcare"})


def delexicalised(turn: Turn) -> str:
    """Replaces a response's values by placeholders, ``[hotels_2_price]``, as ``parapet evaluate --task response`` does.

    Values with a span are replaced there, other values of the turn's acts where they occur once as whole words. Of
    overlapping places, the longest is used, and of equally long ones the first. A fallback that ``parapet ood`` wrote
    is replaced as a whole, so that a model learns one answer to all out-of-domain turns.
    """
    text = turn.utterance
    if text in FALLBACKS:
        return FALLBACK
    taken: list[tuple[int, int, str]] = []
    for start, end, name in sorted(_places(turn), key=lambda place: (place[0] - place[1], place)):
        if all(end <= first or last <= start for first, last, _ in taken):
            taken.append((start, end, name))
    for start, end, name in sorted(taken, reverse=True):
        text = f"{text[:start]}[{name}]{text[end:]}"
    return text


def _places(turn: Turn) -> Iterator[tuple[int, int, str]]:
    text = turn.utterance.casefold()
    for frame in turn.frames:
        spans = [(span.slot, span.start, span.exclusive_end) for span in frame.slots]
        for slot, start, end in spans:
            if isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(turn.utterance):
                yield start, end, plain_name(f"{frame.service}_{slot}")
        for action in frame.actions or ():
            # Lower-casing that changes the length would move all positions.
            if not action.slot or action.slot in {slot for slot, *_ in spans} or len(text) != len(turn.utterance):
                continue
            for value in {value.casefold() for value in action.values if value} - _NO_VALUES:
                matches = list(re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text))
                if len(matches) == 1:
                    yield *matches[0].span(), plain_name(f"{frame.service}_{action.slot}")


USER, SYSTEM = "<|user|>", "<|system|>"
BELIEF, SERVICE, INTENT, SLOT, VALUE, ASKED = (
    "<|belief|>", "<|service|>", "<|intent|>", "<|slot|>", "<|value|>", "<|asked|>"
)  # fmt: skip
DATABASE, RESPONSE, END = "<|database|>", "<|response|>", "<|end|>"
ACT = "<|act|>"
MARKS = (USER, SYSTEM, BELIEF, SERVICE, INTENT, SLOT, VALUE, ASKED, DATABASE, RESPONSE, END, ACT)

NONE = "NONE"
INTENT_SLOT = "intent"  # the slot of acts that offer an intent

Part = tuple[str, str]
Belief = dict[str, State]  # service to its state


def history_parts(turns: Iterable[tuple[str, str]]) -> tuple[Part, ...]:
    """Makes the parts of a history, from (speaker, utterance)."""
    return tuple((USER if speaker == "USER" else SYSTEM, text) for speaker, text in turns)


def belief_parts(belief: Mapping[str, State], said: str) -> tuple[Part, ...]:
    """Makes the parts of a belief state. Of equivalent values, the one mentioned last is used, or else the first.

    Args:
      belief: the states.
      said: all utterances so far, in lower case.
    """
    parts: list[Part] = []
    for service, state in belief.items():
        parts += [(SERVICE, service), (INTENT, state.active_intent or NONE)]
        for slot, values in sorted(state.slot_values.items()):
            if values:
                parts += [(SLOT, slot), (VALUE, max(values, key=lambda value: said.rfind(value.casefold())))]
        parts += [(ASKED, slot) for slot in sorted(state.requested_slots)]
    return tuple(parts)


def belief_of(parts: Sequence[Part]) -> Belief:
    """Parses the belief state from parts that a model generated; ignores parts that make no sense."""
    belief: Belief = {}
    state = slot = None
    for mark, text in parts:
        if mark == SERVICE:
            state, slot = belief.setdefault(text, State(NONE, [], {})) if text else None, None
        elif state is None or not text:
            continue
        elif mark == INTENT:
            state.active_intent = text
        elif mark == SLOT:
            slot = text
        elif mark == VALUE and slot is not None:
            state.slot_values[slot], slot = [text], None
        elif mark == ASKED and text not in state.requested_slots:
            state.requested_slots.append(text)
    return belief


def act_parts(turn: Turn) -> tuple[Part, ...]:
    """Makes the parts of a system turn's distinct acts with their slots, without values except for offered intents."""
    parts: list[Part] = []
    for frame in turn.frames:
        slots: dict[str, dict[Part, None]] = {}
        for action in frame.actions or ():
            slots_of_act = slots.setdefault(action.act, {})
            if action.slot == INTENT_SLOT:
                slots_of_act |= dict.fromkeys((INTENT, value) for value in action.values)
            elif action.slot:
                slots_of_act[SLOT, action.slot] = None
        if slots:
            parts.append((SERVICE, frame.service))
        for act, slots_of_act in slots.items():
            parts += [(ACT, act), *slots_of_act]
    return tuple(parts)


def acts_of(parts: Sequence[Part]) -> dict[str, list[Action]]:
    """Parses acts by service from parts that a model generated; their values are empty, except for intents."""
    acts: dict[str, list[Action]] = {}
    actions: list[Action] | None = None
    for mark, text in parts:
        if mark == SERVICE:
            actions = acts.setdefault(text, [])
        elif actions is None:
            continue
        elif mark == ACT:
            actions.append(Action(text, "", []))
        elif mark in (SLOT, INTENT) and actions:
            act, slot, values = actions[-1].act, *((INTENT_SLOT, [text]) if mark == INTENT else (text, []))
            if not actions[-1].slot:
                actions.pop()
            actions.append(Action(act, slot, values))
    return acts


def database_parts(belief: Mapping[str, State], database: Database) -> tuple[Part, ...]:
    """Makes the parts with the number of entities that satisfy the belief state, for each service that has entities."""
    parts: list[Part] = []
    for service, state in belief.items():
        if database.has(service):
            parts += [(SERVICE, service), (VALUE, how_many(database.matches(service, state.slot_values)))]
    return tuple(parts)


def how_many(matches: int) -> str:
    """Returns the model's word for a number of entities."""
    return "none" if not matches else "one" if matches == 1 else "few" if matches <= 5 else "many"


class Step(msgspec.Struct, frozen=True):
    """A user turn of a dialogue, and what follows it.

    Attributes:
      turn: the position of the user turn, from 0.
      history: the utterances so far.
      belief: the true belief state; empty if unknown.
      database: the number of entities that satisfy the true belief state.
      response: the system's response, delexicalised; None if there is none.
      before: the true belief state after the user's previous turn.
      acts: the acts of the system's response.
    """

    dialogue_id: str
    turn: int
    history: tuple[Part, ...]
    belief: tuple[Part, ...] = ()
    database: tuple[Part, ...] = ()
    response: str | None = None
    before: tuple[Part, ...] = ()
    acts: tuple[Part, ...] = ()


class Reply(msgspec.Struct, frozen=True):
    """A model's reply to a user turn.

    Attributes:
      belief: the belief state; ``response`` the response.
      long: whether the history was too long for the model.
      acts: the acts of the response, by service; None for a model that predicts none.
    """

    belief: Belief
    response: str
    long: bool
    acts: dict[str, list[Action]] | None = None


class Source(msgspec.Struct, frozen=True):
    """Dialogues of a split, with the database from their annotation; ``paths`` are the files read."""

    dialogues: list[Dialogue]
    database: Database
    paths: list[str]


def read_source(root: str, split: str, knowledge_base: str | None = None) -> Source:
    """Reads a corpus.

    Args:
      root: the corpus.
      split: the split.
      knowledge_base: entities in addition to those in the corpus's search results.

    Raises:
      InputError: a file cannot be read, the split does not exist, or dialogues do not fit the schema.
    """
    paths = read_corpus(root, [split]).paths()
    here = [schemas for schemas in read_root(root, leave_out_bad=True) if schemas.split in (split, "schema")]
    if not any(service.slots for schemas in here for service in schemas.services):
        raise InputError("no service of the schema has a slot, so there is nothing to learn", root)
    dialogues = [dialogue for path in paths for dialogue in parse_dialogues(read_input(path, MAX_DIALOGUE_FILE), path)]
    entities = read_entities(knowledge_base) if knowledge_base else None
    try:
        knowledge = reference_of(dialogues, services_by_name(here), entities).knowledge
    except InputError as error:
        raise InputError(error.reason, root, error.where) from None
    return Source(dialogues, Database(knowledge), [*(schemas.path for schemas in here), *paths])


def read_steps(root: str, split: str, knowledge_base: str | None = None) -> Examples[Step]:
    """Reads the user turns of a corpus that have a state.

    Raises InputError as :func:`read_source`, or if there are none.
    """
    source = read_source(root, split, knowledge_base)
    steps = [step for dialogue in source.dialogues for step in steps_of(dialogue, source.database)]
    if not steps:
        raise InputError(f"no user turn of {split!r} has a state, so there is nothing to learn", root)
    return Examples(steps, source.paths)


def steps_of(dialogue: Dialogue, database: Database) -> Iterator[Step]:
    """Yields the user turns of a dialogue that have a state, with all outputs to learn."""
    belief: Belief = {}
    before: tuple[Part, ...] = ()
    turns: list[tuple[str, str]] = []
    touched: set[str] = set()
    for position, (turn, services) in enumerate(zip(dialogue.turns, touched_in_turns(dialogue), strict=True)):
        turns.append((turn.speaker, turn.utterance))
        touched.update(services)
        if turn.speaker != "USER" or not any(frame.state for frame in turn.frames):
            continue
        belief = after(belief, [frame for frame in turn.frames if frame.service in touched])
        following = dialogue.turns[position + 1 : position + 2]
        answered = following and following[0].speaker == "SYSTEM"
        parts = belief_parts(belief, " ".join(text for _, text in turns).casefold())
        yield Step(
            dialogue.dialogue_id,
            position,
            history_parts(turns),
            parts,
            database_parts(belief, database),
            delexicalised(following[0]) if answered else None,
            before,
            act_parts(following[0]) if answered else (),
        )
        before = parts


def asked_of(dialogue: state_frames.Dialogue) -> Iterator[Step]:
    """Yields the user turns of a dialogue, without outputs."""
    turns = [(turn.speaker, turn.utterance if isinstance(turn.utterance, str) else "") for turn in dialogue.turns]
    for position, (speaker, _) in enumerate(turns):
        if speaker == "USER":
            yield Step(dialogue.dialogue_id, position, history_parts(turns[: position + 1]))


def after(belief: Mapping[str, State], frames: Sequence[Frame]) -> Belief:
    """Updates the belief state by the frames of a user turn.

    Services remain; requested slots only hold for the turn.
    """
    states = {name: State(state.active_intent, [], state.slot_values) for name, state in belief.items()}
    for frame in frames:
        if state := frame.state:
            requested, values = list(state.requested_slots), dict(state.slot_values)
            states[frame.service] = State(state.active_intent, requested, values)
    return states


CHUNK = 8  # dialogues
RESPONSES = "responses"


class System(Protocol):
    """The interface of a model of a whole system."""

    def answers(self, steps: Sequence[Step]) -> list[Reply]:
        """Replies to each user turn. The turns of a dialogue must be adjacent and in order."""


class Job(inference.DialoguesJob[System], frozen=True, kw_only=True):
    """A prediction by a model of a whole system.

    Attributes:
      reference: the corpus whose search results are the knowledge base, its ``split``, and an additional
        ``knowledge_base``.
    """

    chunk_size = CHUNK

    reference: str
    split: str
    knowledge_base: str | None

    def asked(self, chunk: Dialogues) -> dict[str, int]:
        """Counts the user turns."""
        turns = sum(turn.speaker == "USER" for dialogue in chunk.dialogues for turn in dialogue.turns)
        return {f"asked/{chunk.file.set}": turns}

    def load(self) -> System:
        """Loads the model, with the database of the reference."""
        database = read_source(self.reference, self.split, self.knowledge_base).database
        system: System = saving.module_of(self.model).load(self.folder, database, self.device, self.batch_size)
        return system

    def answer(self, model: System, chunk: Dialogues) -> Answers:
        """Encodes dialogues with states, and responses as JSON lines."""
        file = chunk.file
        states, responses, counts = answered(chunk.dialogues, self.sets[file.set].services, model)
        order, path = (file.predictions, chunk.number), f"{RESPONSES}/{file.set}/{self.split}/{RESPONSES}.jsonl"
        parts = [inference.Part(file.predictions, order, states), inference.Part(path, order, responses)]
        return Answers(parts, {f"{kind}/{file.set}": n for kind, n in sorted(counts.items()) if n})


def answered(
    dialogues: Sequence[state_frames.Dialogue], services: Mapping[str, Service], model: System
) -> tuple[bytes, bytes, Counter[str]]:
    """Runs the model on dialogues; returns the encoded dialogues with states, the responses, and counts.

    Args:
      dialogues: the dialogues of a chunk.
      services: the services of the set's schema, by name.
      model: the model.
    """
    steps = [step for dialogue in dialogues for step in asked_of(dialogue)]
    replies = iter(model.answers(steps))
    counts: Counter[str] = Counter()
    lines, encoded = [], []
    for dialogue in dialogues:
        turns = []
        for position, turn in enumerate(dialogue.turns):
            frames: list[state_frames.Frame] = []
            if turn.speaker == "USER":
                reply = next(replies)
                counts["answered"] += 1
                counts["too_long"] += reply.long
                frames = [_frame(frame.service, reply, services.get(frame.service), counts) for frame in turn.frames]
                if position + 1 < len(dialogue.turns) and dialogue.turns[position + 1].speaker == "SYSTEM":
                    lines.append(_line(dialogue.dialogue_id, position + 1, reply))
            turns.append(state_frames.Turn(turn.speaker, frames, turn.utterance))
        encoded.append(msgspec.json.encode(state_frames.Dialogue(dialogue.dialogue_id, turns, dialogue.services)))
    return b",\n".join(encoded), b"".join(lines), counts


def _frame(name: str, reply: Reply, service: Service | None, counts: Counter[str]) -> state_frames.Frame:
    """Makes the state of a service. The model may predict slots that the schema, perhaps a variant's, does not have."""
    state = reply.belief.get(name, State(NONE, [], {}))
    slots = {slot.name for slot in service.slots} if service else set()
    counts["frames"] += 1
    counts["unknown_slots"] += len({*state.slot_values, *state.requested_slots} - slots)
    values = {slot: values for slot, values in sorted(state.slot_values.items()) if slot in slots}
    requested = [slot for slot in sorted(state.requested_slots) if slot in slots]
    return state_frames.Frame(name, State(state.active_intent, requested, values))


def _line(dialogue_id: str, turn: int, reply: Reply) -> bytes:
    state = {name: state_of_service.slot_values for name, state_of_service in sorted(reply.belief.items())}
    row = {"dialogue_id": dialogue_id, "turn": turn, "response": reply.response, "state": state}
    if reply.acts is not None:
        row["acts"] = reply.acts
    return msgspec.json.encode(row) + b"\n"
