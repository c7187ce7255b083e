"""What the model learns from and is asked: after each user turn the belief state, the database's, and the response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from parapet.evaluation.dst.frames import State
from parapet.evaluation.models.soloist.database import Database
from parapet.evaluation.models.soloist.delexicalising import delexicalised
from parapet.evaluation.models.soloist.parts import Belief, Part, belief_parts, database_parts, history_parts
from parapet.evaluation.response.multiwoz import read_entities
from parapet.evaluation.response.sgd import reference_of
from parapet.schemas.dialogue import Dialogue, Frame, parse_dialogues
from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_root, services_by_name
from parapet.transforms.corpora import read_corpus
from parapet.transforms.files import read_bytes
from parapet.transforms.touching import touched_in_turns


class Step(msgspec.Struct, frozen=True):
    """A user turn of a dialogue, and what follows it.

    Attributes:
      turn: the position of the user turn, from 0.
      history: what was said so far.
      belief: the true one; empty where it is not known.
      database: how many entities satisfy the true belief state.
      response: of the system, delexicalised; None where it says nothing more.
    """

    dialogue_id: str
    turn: int
    history: tuple[Part, ...]
    belief: tuple[Part, ...] = ()
    database: tuple[Part, ...] = ()
    response: str | None = None


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
        raise InputError("no service of the schema has a slot: there is nothing to learn", root)
    dialogues = [dialogue for path in paths for dialogue in parse_dialogues(read_bytes(path), path)]
    entities = read_entities(knowledge_base) if knowledge_base else None
    try:
        knowledge = reference_of(dialogues, services_by_name(here), entities).knowledge
    except InputError as error:
        raise InputError(error.reason, root, error.where) from None
    return Source(dialogues, Database(knowledge), [*(one.path for one in here), *paths])


def steps_of(dialogue: Dialogue, database: Database) -> Iterator[Step]:
    """The user turns of a dialogue that have a state, with all that is to be learned of them."""
    belief: Belief = {}
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
        yield Step(
            dialogue.dialogue_id,
            position,
            history_parts(said),
            belief_parts(belief, " ".join(text for _, text in said).casefold()),
            database_parts(belief, database),
            delexicalised(following[0]) if answered else None,
        )


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
