"""The user turns of a corpus beside those of its sets, the values each has to say, and which people compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from parapet.evaluation.intent import acts_of, user_turns
from parapet.evaluation.sets import SetRoot, Sources, find_sets, read_dialogues
from parapet.schemas.dialogue import Dialogue, State, Turn
from parapet.schemas.errors import InputError
from parapet.transforms.hits.kept_values import KeptValue, marks, speakable
from parapet.transforms.hits.records import CHECK, VariedItem
from parapet.transforms.seeding import stable_digest

BEFORE = 3  # turns of the dialogue that are shown before a user turn

Place = tuple[str, int]  # dialogue id, position of the turn


class Original(msgspec.Struct, frozen=True):
    """A user turn of the reference.

    Attributes:
      before: the turns before it, at most ``BEFORE``: (speaker, utterance).
      values: those of its slots that the utterance says. ``bad_span``: a span is not inside it, and there are none.
      states: service to state.
      services: those with a frame in which something happens, joined by ``+``.
      intent: the active one, ``NONE`` for none; empty where the turn has no state. ``acts`` as one label.
    """

    utterance: str
    before: tuple[tuple[str, str], ...]
    values: tuple[KeptValue, ...]
    bad_span: bool
    states: dict[str, State]
    services: str
    intent: str
    acts: str


class Wanted(msgspec.Struct, frozen=True):
    """A value that a turn of a set has to say: one of ``texts``, or nothing that it could say where there are none."""

    slot: str
    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """Slot and value in words."""
        return f"{self.slot}: {' or '.join(self.texts) or 'no value'}"


class Pair(msgspec.Struct, frozen=True):
    """A user turn of a set beside the original.

    Attributes:
      set: the name of the set.
      utterance: as the set has it.
      wanted: the values of the turn; of a turn that is unchanged none.
      other_states: the services whose state is another than the original's.
    """

    set: str
    dialogue_id: str
    turn: int
    original: Original
    utterance: str
    wanted: tuple[Wanted, ...]
    other_states: tuple[str, ...]

    @property
    def place(self) -> Place:
        """The turn in its set."""
        return self.dialogue_id, self.turn

    @property
    def changed(self) -> bool:
        """Whether its text is another one."""
        return self.utterance != self.original.utterance


class Pairs(msgspec.Struct, frozen=True):
    """All user turns of all sets.

    Attributes:
      pairs: in the order of sets, dialogues and turns.
      missing: by set, how many dialogues of the reference it lacks.
      bad_spans: how many turns of the reference have a span outside their text.
    """

    pairs: list[Pair]
    missing: dict[str, int]
    bad_spans: int

    @property
    def sets(self) -> list[str]:
        """The names of the sets."""
        return list(self.missing)


def read_pairs(sources: Sources) -> Pairs:
    """Reads the reference and its sets.

    Raises:
      InputError: one cannot be read; no set is given; a set has a dialogue that the reference lacks, or other turns.
    """
    reference, *roots = (root for root in find_sets(sources) if root.kind != "variant")
    if not roots:
        raise InputError("name the sets to be checked, such as typos=varied/typos", "--sets")
    originals: dict[str, dict[int, Original]] = {}
    length: dict[str, int] = {}
    for _, dialogue in read_dialogues(reference.path, sources.split):
        originals[dialogue.dialogue_id] = dict(_originals(dialogue))
        length[dialogue.dialogue_id] = len(dialogue.turns)
    pairs: list[Pair] = []
    missing = {}
    for root in roots:
        of_set: dict[str, list[Pair]] = {}
        for path, dialogue in read_dialogues(root.path, sources.split):
            of_set[dialogue.dialogue_id] = _pairs(root, path, dialogue, originals, length)
        missing[root.name] = len(originals) - len(of_set)
        pairs += (pair for _, of_dialogue in sorted(of_set.items()) for pair in of_dialogue)
    bad_spans = sum(turn.bad_span for turns in originals.values() for turn in turns.values())
    return Pairs(pairs, missing, bad_spans)


def _originals(dialogue: Dialogue) -> Iterator[tuple[int, Original]]:
    before: Turn | None = None
    for user_turn in user_turns(dialogue, {}):
        position, turn = user_turn.turn, dialogue.turns[user_turn.turn]
        try:
            values, bad_span = tuple(dict.fromkeys(mark.kept for mark in marks(turn, before))), False
        except ValueError:
            values, bad_span = (), True
        earlier = dialogue.turns[max(0, position - BEFORE) : position]
        services = [frame.service for frame in turn.frames if frame.actions or frame.slots]
        yield (
            position,
            Original(
                turn.utterance,
                tuple((one.speaker, one.utterance) for one in earlier),
                values,
                bad_span,
                _states(turn),
                "+".join(services or [user_turn.service]),
                user_turn.intent,
                acts_of(turn),
            ),
        )
        before = turn


def _states(turn: Turn) -> dict[str, State]:
    return {frame.service: frame.state for frame in turn.frames if frame.state}


def _pairs(
    root: SetRoot,
    path: str,
    dialogue: Dialogue,
    originals: Mapping[str, Mapping[int, Original]],
    length: Mapping[str, int],
) -> list[Pair]:
    name = dialogue.dialogue_id
    if name not in originals:
        raise InputError(f"the reference has no dialogue {name!r}", path, f"--sets {root.name}")
    users = {position for position, turn in enumerate(dialogue.turns) if turn.speaker == "USER"}
    if len(dialogue.turns) != length[name] or users != originals[name].keys():
        reason = f"dialogue {name!r} has other turns than the reference, and is compared with it turn by turn"
        raise InputError(reason, path, f"--sets {root.name}")
    pairs = []
    for position, original in originals[name].items():
        turn = dialogue.turns[position]
        states = _states(turn)
        services = [*dict.fromkeys((*original.states, *states))]
        other = tuple(one for one in services if states.get(one) != original.states.get(one))
        wanted: tuple[Wanted, ...] = ()
        if turn.utterance != original.utterance:
            wanted = tuple(_wanted(value, original.states, states) for value in original.values)
        pairs.append(Pair(root.name, name, position, original, turn.utterance, wanted, other))
    return pairs


def _wanted(kept: KeptValue, states: Mapping[str, State], others: Mapping[str, State]) -> Wanted:
    """What a set has to say for a value of the original: the same; where its state has another value, that."""
    before, after = (
        of[kept.service].slot_values.get(kept.slot, []) if kept.service in of else [] for of in (states, others)
    )
    texts = (kept.value,) if before == after else tuple(map(speakable, after))
    return Wanted(kept.slot, texts)


def draw_sample(pairs: Pairs, size: int, seed: int) -> tuple[list[VariedItem], dict[str, dict[str, int]]]:
    """Draws turns of each set at random, without replacement, of those that have changed and mean to say the same.

    A turn is drawn by a hash of seed, set, dialogue and turn: a larger sample contains the smaller one. Turns with
    another state than the original's, as of unseen entities, do not mean to say the same.

    Args:
      pairs: of all sets.
      size: how many of each set; fewer are drawn where there are fewer.
      seed: of the draw.

    Returns:
      The turns, and by set how many were ``drawn`` of how many ``turns``.

    Raises:
      InputError: a set has no turn that can be drawn, or a reserved name.
    """
    items: list[VariedItem] = []
    drawn = {}
    for name in pairs.sets:
        if name == CHECK:
            raise InputError(f"a set cannot be called {CHECK!r} here", name, "--sets")
        found = [pair for pair in pairs.pairs if pair.set == name and pair.changed and not pair.other_states]
        if not found:
            raise InputError("no user turn has another text and the same state: nothing to compare", name, "--sets")
        found.sort(key=lambda pair: stable_digest(str(seed), "pair", pair.set, pair.dialogue_id, str(pair.turn)))
        items += map(item_of, found[:size])
        drawn[name] = {"drawn": len(found[:size]), "turns": len(found)}
    return items, drawn


def item_of(pair: Pair) -> VariedItem:
    """A pair as its page shows it."""
    original = pair.original
    values = tuple(dict.fromkeys(value.value for value in original.values))
    return VariedItem(
        pair.dialogue_id,
        pair.turn,
        pair.set,
        original.services,
        original.before,
        original.utterance,
        values,
        pair.utterance,
    )
