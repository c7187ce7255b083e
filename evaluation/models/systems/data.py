"""What the model reads and writes: after each user turn the belief state, the database's, and the response.

Each is a sequence of parts: a mark and the text behind it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from parapet.evaluation.dst import frames as state_frames
from parapet.evaluation.dst.frames import State
from parapet.evaluation.models import inference
from parapet.evaluation.models.examples import Examples
from parapet.evaluation.models.inference import Answers, Dialogues
from parapet.evaluation.response.goals import Knowledge, plain_name, read_entities, reference_of, satisfies
from parapet.schemas.dialogue import Action, Dialogue, Frame, Turn, parse_dialogues, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_root, services_by_name
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.schemas.service import Service
from parapet.transforms.perturbation.corpora import read_corpus, touched_in_turns
from parapet.transforms.storage.compressed import read_input


class Database:
    """Counts what :meth:`Knowledge.find` finds, without a walk through all entities for each new belief state.

    An entity satisfies constraints if it satisfies each. So the entities that satisfy one are kept as the bits of a
    number, and those of several are what these numbers have in common.

    Args:
      knowledge: the entities.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self._columns: dict[tuple[str, str], dict[str | None, int]] = {}
        self._bits: dict[tuple[str, str, tuple[str, ...]], int] = {}

    def has(self, service: str) -> bool:
        """Whether there are entities of a service."""
        return bool(self.knowledge.entities.get(service))

    def matches(self, service: str, slot_values: Mapping[str, Sequence[str]]) -> int:
        """How many entities satisfy the slots of a state, whose values are as they were said."""
        found = (1 << len(self.knowledge.entities.get(service, ()))) - 1
        for slot, values in slot_values.items():
            found &= self._satisfying(service, slot, self.knowledge.meant(service, slot, values))
        return found.bit_count()

    def _satisfying(self, service: str, slot: str, values: tuple[str, ...]) -> int:
        key = service, slot, values
        if key not in self._bits:
            column, wanted = self._column(service, slot), {slot: values}
            these = (bits for have, bits in column.items() if satisfies({} if have is None else {slot: have}, wanted))
            self._bits[key] = sum(these)  # no entity has two values
        return self._bits[key]

    def _column(self, service: str, slot: str) -> dict[str | None, int]:
        """Each value that entities have for a slot, None for none, to the entities."""
        if (service, slot) not in self._columns:
            rows: dict[str | None, list[int]] = {}
            for number, entity in enumerate(self.knowledge.entities.get(service, ())):
                rows.setdefault(entity.get(slot), []).append(number)
            self._columns[service, slot] = {have: sum(1 << one for one in numbers) for have, numbers in rows.items()}
        return self._columns[service, slot]


_NO_VALUES = frozenset({"true", "false", "dontcare"})


def delexicalised(turn: Turn) -> str:
    """A response whose values are placeholders: ``[hotels_2_price]``, as ``parapet evaluate --task response`` has them.

    Values with a span are replaced there, others of the turn's acts where they stand once as words of their own. Of
    places that overlap the longest is taken, and of equal ones the first.
    """
    text = turn.utterance
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
            # Small letters of another length would move all places.
            if not action.slot or action.slot in {slot for slot, *_ in spans} or len(text) != len(turn.utterance):
                continue
            for value in {value.casefold() for value in action.values if value} - _NO_VALUES:
                found = list(re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text))
                if len(found) == 1:
                    yield *found[0].span(), plain_name(f"{frame.service}_{action.slot}")


USER, SYSTEM = "<|user|>", "<|system|>"
BELIEF, SERVICE, INTENT, SLOT, VALUE, ASKED = (
    "<|belief|>", "<|service|>", "<|intent|>", "<|slot|>", "<|value|>", "<|asked|>"
)  # fmt: skip
DATABASE, RESPONSE, END = "<|database|>", "<|response|>", "<|end|>"
ACT = "<|act|>"
MARKS = (USER, SYSTEM, BELIEF, SERVICE, INTENT, SLOT, VALUE, ASKED, DATABASE, RESPONSE, END)

NONE = "NONE"
INTENT_SLOT = "intent"  # the slot of acts that offer an intent

Part = tuple[str, str]
Belief = dict[str, State]  # service to its state


def history_parts(turns: Iterable[tuple[str, str]]) -> tuple[Part, ...]:
    """What was said, of (speaker, utterance)."""
    return tuple((USER if speaker == "USER" else SYSTEM, text) for speaker, text in turns)


def belief_parts(belief: Mapping[str, State], said: str) -> tuple[Part, ...]:
    """A belief state. Of values that mean the same the one that was said last, else the first, is taken.

    Args:
      belief: the states.
      said: all that was said, in small letters.
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
    """The states that parts tell, of which a model may have written any: what makes no sense is passed over."""
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
    """The acts of a system turn without values, but for the intents that it offers; each act once, with its slots."""
    parts: list[Part] = []
    for frame in turn.frames:
        slots: dict[str, dict[Part, None]] = {}
        for action in frame.actions or ():
            of = slots.setdefault(action.act, {})
            if action.slot == INTENT_SLOT:
                of |= dict.fromkeys((INTENT, value) for value in action.values)
            elif action.slot:
                of[SLOT, action.slot] = None
        if slots:
            parts.append((SERVICE, frame.service))
        for act, of in slots.items():
            parts += [(ACT, act), *of]
    return tuple(parts)


def acts_of(parts: Sequence[Part]) -> dict[str, list[Action]]:
    """The acts by service that parts tell, of which a model may have written any; other values are left empty."""
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


def user_acts(turn: Turn) -> tuple[str, ...]:
    """The kinds of a user turn's acts, those that request with what they request, in alphabetical order."""
    actions = [action for frame in turn.frames for action in frame.actions or ()]
    return tuple(sorted({f"{one.act}({one.slot})" if one.act == "REQUEST" else one.act for one in actions}))


def database_parts(belief: Mapping[str, State], database: Database) -> tuple[Part, ...]:
    """How many entities satisfy the belief state, for each of its services that has entities."""
    parts: list[Part] = []
    for service, state in belief.items():
        if database.has(service):
            parts += [(SERVICE, service), (VALUE, how_many(database.matches(service, state.slot_values)))]
    return tuple(parts)


def how_many(matches: int) -> str:
    """A number of entities in the words of the model."""
    return "none" if not matches else "one" if matches == 1 else "few" if matches <= 5 else "many"


class Step(msgspec.Struct, frozen=True):
    """A user turn of a dialogue, and what follows it.

    Attributes:
      turn: the position of the user turn, from 0.
      history: what was said so far.
      belief: the true one; empty where it is not known.
      database: how many entities satisfy the true belief state.
      response: of the system, delexicalised; None where it says nothing more.
      before: the true belief state after the user's previous turn.
      acts: of the system's response.
      user_acts: see :func:`user_acts`.
    """

    dialogue_id: str
    turn: int
    history: tuple[Part, ...]
    belief: tuple[Part, ...] = ()
    database: tuple[Part, ...] = ()
    response: str | None = None
    before: tuple[Part, ...] = ()
    acts: tuple[Part, ...] = ()
    user_acts: tuple[str, ...] = ()


class Reply(msgspec.Struct, frozen=True):
    """What a model answers after a user turn.

    Attributes:
      belief: the belief state; ``response`` the response.
      long: whether the history was longer than what it can read, for either.
      acts: of the response, by service; None of a model that predicts none.
    """

    belief: Belief
    response: str
    long: bool
    acts: dict[str, list[Action]] | None = None


class Source(msgspec.Struct, frozen=True):
    """Dialogues of a split, with the database that their annotation makes; ``paths`` are those that were read."""

    dialogues: list[Dialogue]
    database: Database
    paths: list[str]


def read_source(root: str, split: str, knowledge_base: str | None = None) -> Source:
    """Reads a corpus.

    Args:
      root: of the corpus.
      split: of its dialogues.
      knowledge_base: entities besides those that its searches returned.

    Raises:
      InputError: a file that cannot be read, no such split, dialogues that do not fit the schema.
    """
    paths = sorted(file.path for file in read_corpus(root, [split]).files)
    here = [one for one in read_root(root, leave_out_bad=True) if one.split in (split, "schema")]
    if not any(service.slots for one in here for service in one.services):
        raise InputError("no service of the schema has a slot, so there is nothing to learn", root)
    dialogues = [dialogue for path in paths for dialogue in parse_dialogues(read_input(path, MAX_DIALOGUE_FILE), path)]
    entities = read_entities(knowledge_base) if knowledge_base else None
    try:
        knowledge = reference_of(dialogues, services_by_name(here), entities).knowledge
    except InputError as error:
        raise InputError(error.reason, root, error.where) from None
    return Source(dialogues, Database(knowledge), [*(one.path for one in here), *paths])


def read_steps(root: str, split: str, knowledge_base: str | None = None) -> Examples[Step]:
    """The user turns of a corpus that have a state. Raises InputError as :func:`read_source`, and where none has."""
    source = read_source(root, split, knowledge_base)
    steps = [step for dialogue in source.dialogues for step in steps_of(dialogue, source.database)]
    if not steps:
        raise InputError(f"no user turn of {split!r} has a state, so there is nothing to learn", root)
    return Examples(steps, source.paths)


def reader_of(root: str, split: str, knowledge_base: str | None = None) -> Callable[[dict[str, Any]], list[Step]]:
    """What gives the steps of a dialogue in the SGD format, with the database of a split. Raises InputError."""
    database = read_source(root, split, knowledge_base).database
    return lambda raw: list(steps_of(typed(raw), database))


def steps_of(dialogue: Dialogue, database: Database) -> Iterator[Step]:
    """The user turns of a dialogue that have a state, with all that is to be learned of them."""
    belief: Belief = {}
    before: tuple[Part, ...] = ()
    said: list[tuple[str, str]] = []
    touched: set[str] = set()
    for position, (turn, services) in enumerate(zip(dialogue.turns, touched_in_turns(dialogue), strict=True)):
        said.append((turn.speaker, turn.utterance))
        touched.update(services)
        if turn.speaker != "USER" or not any(frame.state for frame in turn.frames):
            continue
        belief = after(belief, [frame for frame in turn.frames if frame.service in touched])
        following = dialogue.turns[position + 1 : position + 2]
        answered = following and following[0].speaker == "SYSTEM"
        parts = belief_parts(belief, " ".join(text for _, text in said).casefold())
        yield Step(
            dialogue.dialogue_id,
            position,
            history_parts(said),
            parts,
            database_parts(belief, database),
            delexicalised(following[0]) if answered else None,
            before,
            act_parts(following[0]) if answered else (),
            user_acts(turn),
        )
        before = parts


def asked_of(dialogue_id: str, turns: Sequence[tuple[str, str]]) -> Iterator[Step]:
    """The user turns of a dialogue, of (speaker, utterance), with nothing that is to be predicted."""
    for position, (speaker, _) in enumerate(turns):
        if speaker == "USER":
            yield Step(dialogue_id, position, history_parts(turns[: position + 1]))


def after(belief: Mapping[str, State], frames: Sequence[Frame]) -> Belief:
    """The belief state after the frames of a user turn. Services stay; what is asked for is of one turn alone."""
    found = {name: State(state.active_intent, [], state.slot_values) for name, state in belief.items()}
    for frame in frames:
        if frame.state:
            told = frame.state
            found[frame.service] = State(told.active_intent, list(told.requested_slots), dict(told.slot_values))
    return found


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
            inference.Part(file.predictions, (file.predictions, chunk.number), states),
            inference.Part(
                f"{RESPONSES}/{file.set}/{self.split}/{RESPONSES}.jsonl", (file.predictions, chunk.number), responses
            ),
        ]
        return Answers(parts, {f"{kind}/{file.set}": n for kind, n in sorted(counts.items()) if n})


def answered(
    dialogues: Sequence[state_frames.Dialogue], services: Mapping[str, Service], model: System
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
            frames: list[state_frames.Frame] = []
            if turn.speaker == "USER":
                reply = next(replies)
                counts["answered"] += 1
                counts["too_long"] += reply.long
                frames = [_frame(frame.service, reply, services.get(frame.service), counts) for frame in turn.frames]
                if position + 1 < len(dialogue.turns) and dialogue.turns[position + 1].speaker == "SYSTEM":
                    lines.append(_line(dialogue.dialogue_id, position + 1, reply))
            turns.append(state_frames.Turn(turn.speaker, frames, turn.utterance))
        found.append(msgspec.json.encode(state_frames.Dialogue(dialogue.dialogue_id, turns, dialogue.services)))
    return b",\n".join(found), b"".join(lines), counts


def _texts(dialogue: state_frames.Dialogue) -> list[tuple[str, str]]:
    return [(turn.speaker, turn.utterance if isinstance(turn.utterance, str) else "") for turn in dialogue.turns]


def _frame(name: str, reply: Reply, service: Service | None, counts: Counter[str]) -> state_frames.Frame:
    """The state of a service. The model may name slots that its schema, perhaps a variant's, does not have."""
    state = reply.belief.get(name, State(NONE, [], {}))
    slots = {slot.name for slot in service.slots} if service else set()
    unknown = {*state.slot_values, *state.requested_slots} - slots
    counts["frames"] += 1
    counts["unknown_slots"] += len(unknown)
    values = {slot: values for slot, values in sorted(state.slot_values.items()) if slot in slots}
    return state_frames.Frame(
        name, State(state.active_intent, [one for one in sorted(state.requested_slots) if one in slots], values)
    )


def _line(dialogue_id: str, turn: int, reply: Reply) -> bytes:
    state = {name: of.slot_values for name, of in sorted(reply.belief.items())}
    row = {"dialogue_id": dialogue_id, "turn": turn, "response": reply.response, "state": state}
    if reply.acts is not None:
        row["acts"] = reply.acts
    return msgspec.json.encode(row) + b"\n"
