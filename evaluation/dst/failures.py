"""Single frames in the outputs: rows, and a page of wrong frames for each set."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from urllib.parse import quote

import msgspec
import pyarrow as pa

from parapet.evaluation import sets, task
from parapet.evaluation.dst.frames import JOINT, METRICS, Dialogue, Scored, State, Turn
from parapet.evaluation.dst.model import Plan
from parapet.transforms.core.seeding import stable_hash
from parapet.transforms.report.markdown import one_line
from parapet.transforms.report.report import Example, Examples, Line, Part, Report, Section, Table, Tile, page
from parapet.transforms.report.text import counted, percent

WRONG = pa.struct(
    [
        pa.field("slot", pa.string(), nullable=False),
        pa.field("reference", pa.list_(pa.field("item", pa.string(), nullable=False)), nullable=False),
        pa.field("predicted", pa.string(), nullable=False),  # empty if the slot was not predicted
        pa.field("score", pa.float64(), nullable=False),
    ]
)

# Rows are in the order of the reference's files.
FRAMES = pa.schema(
    [
        pa.field("set", pa.string(), nullable=False),  # original, v1, ...
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the dialogue, from 0
        pa.field("frame", pa.int32(), nullable=False),  # position in the turn, from 0
        pa.field("service", pa.string(), nullable=False),  # named as in the set
        pa.field("original_service", pa.string(), nullable=False),
        pa.field("seen", pa.bool_(), nullable=False),  # whether it is in the set's training schema
        *(pa.field(name, pa.float64()) for name in METRICS),  # null if the frame does not have it
        pa.field("wrong", pa.list_(pa.field("item", WRONG, nullable=False)), nullable=False),
    ]
)


def table(
    name: str, dialogues: Iterable[Sequence[Scored]], originals: Mapping[str, str], seen: frozenset[str]
) -> pa.Table:
    """Makes the rows of a file's frames in one set."""
    frames = [frame for dialogue in dialogues for frame in dialogue]
    columns: dict[str, list[object]] = {
        "set": [name] * len(frames),
        "dialogue_id": [frame.dialogue_id for frame in frames],
        "turn": [frame.turn for frame in frames],
        "frame": [frame.frame for frame in frames],
        "service": [frame.service for frame in frames],
        "original_service": [originals.get(frame.service, frame.service) for frame in frames],
        "seen": [frame.service in seen for frame in frames],
        "wrong": [
            [{"slot": w.slot, "reference": list(w.reference), "predicted": w.predicted, "score": w.score} for w in lost]
            for lost in (frame.wrong for frame in frames)
        ],
    }
    for i, metric in enumerate(METRICS):
        columns[metric] = [None if (value := frame.values[i]) != value else value for frame in frames]
    return pa.table(columns, schema=FRAMES)


# A variant's (service, slot) to the original's name of the slot.
SlotNames = Mapping[tuple[str, str], str]


def original_slots(plan: Plan, variant: str) -> SlotNames:
    """Maps the slots of a variant to those of the original, which have the same order."""
    originals = plan.sets[sets.ORIGINAL].services
    return {
        (name, slot.name): before.name
        for name, service in plan.sets[variant].services.items()
        if (original := originals.get(plan.originals[name])) is not None
        for before, slot in zip(original.slots, service.slots, strict=False)
    }


FOLDER = "failures"
SHOWN = 100  # frames shown for each set
TURNS = 30  # last turns shown of a history
VALUES = 5  # values shown of a slot
LONGEST = 1_000  # characters shown of a text


class Side(msgspec.Struct, frozen=True):
    """A frame in a set, with its prediction.

    Attributes:
      wrong: the slots that lower joint goal accuracy.
    """

    service: str
    utterance: str
    expected: State
    predicted: State
    wrong: list[str]
    joint_goal_accuracy: float


class Failure(msgspec.Struct, frozen=True):
    """A wrong frame of a set.

    Attributes:
      turn: its position in the set's dialogue, from 0.
      right_on_original: None for the original itself, and if the original lacks the frame.
      history: (speaker, utterance) of the preceding turns.
      here: the frame in the set.
      original: the same frame in the original.
      original_slots: for a variant, its names of slots to the original's.
    """

    dialogue_id: str
    turn: int
    right_on_original: bool | None
    history: list[tuple[str, str]]
    here: Side
    original: Side | None = None
    original_slots: dict[str, str] = {}


class ScoredFile(msgspec.Struct, frozen=True):
    """A dialogue file of a set, with the predictions for its dialogues and the scores of their frames."""

    dialogues: dict[str, Dialogue]
    predictions: Mapping[str, Dialogue]
    scored: Sequence[Sequence[Scored]]


# (is wrong on the original, too; number of preceding failures in its dialogue; change of accuracy; hash; ...)
Rank = tuple[bool, int, float, int, str, int, int]
Ranked = tuple[Rank, Failure]


def failures(
    here: ScoredFile, original: ScoredFile | None, originals: Mapping[str, str], names: SlotNames, seed: str
) -> tuple[list[Ranked], int, int]:
    """Collects the wrong frames of a file.

    Frames that are right on the original come first; among these, the first one of each dialogue.

    Args:
      here: the file.
      original: the same file of the original; None for the original itself, and if the original lacks the file.
      originals: names of services to the original's.
      names: a variant's slots, with the original's names.
      seed: the seed for breaking ties.

    Returns:
      The first SHOWN of them, their total number, and the number of those that are right on the original.
    """
    frames_before, turns_before = {}, {}
    if original is not None:
        frames_before = {
            (frame.dialogue_id, frame.turn, frame.service): frame
            for dialogue_frames in original.scored
            for frame in dialogue_frames
            if not frame.refused
        }
        turns_before = {name: dialogue.turns for name, dialogue in original.dialogues.items()}
    ranked: list[tuple[Rank, Scored, Scored | None]] = []
    for frames in here.scored:
        wrong = [frame for frame in frames if frame.wrong]
        if not wrong:
            continue
        name = wrong[0].dialogue_id
        positions = _original_positions(here.dialogues[name].turns, turns_before.get(name, []))
        earlier = {True: 0, False: 0}
        for frame in wrong:
            key = name, positions.get(frame.turn, -1), originals.get(frame.service, frame.service)
            before = frames_before.get(key)
            also_wrong = before is None or bool(before.wrong)
            change = frame.values[JOINT] - before.values[JOINT] if before is not None else 0.0
            order = change, stable_hash(seed, FOLDER, name), name, frame.turn, frame.frame
            ranked.append(((also_wrong, earlier[also_wrong], *order), frame, before))
            earlier[also_wrong] += 1
    ranked.sort(key=itemgetter(0))
    shown = [(rank, _failure(here, frame, original, before, names)) for rank, frame, before in ranked[:SHOWN]]
    return shown, len(ranked), sum(not rank[0] for rank, *_ in ranked)


def _original_positions(turns: Sequence[Turn], original: Sequence[Turn]) -> dict[int, int]:
    """Maps positions of turns to those in the original; a set may have inserted turns between the original's."""
    if len(turns) == len(original):
        return {i: i for i in range(len(turns))}
    positions: dict[int, int] = {}
    for i, turn in enumerate(turns):
        if len(positions) < len(original) and turn.utterance == original[len(positions)].utterance:
            positions[i] = len(positions)
    return positions


def _failure(
    here: ScoredFile, frame: Scored, original: ScoredFile | None, before: Scored | None, names: SlotNames
) -> Failure:
    side = _side(here, frame)
    slots = dict.fromkeys([*side.expected.slot_values, *side.predicted.slot_values])
    originals = {slot: names[frame.service, slot] for slot in slots if (frame.service, slot) in names}
    return Failure(
        dialogue_id=frame.dialogue_id,
        turn=frame.turn,
        right_on_original=None if before is None else not before.wrong,
        history=[
            (turn.speaker, _short(turn.utterance) if isinstance(turn.utterance, str) else "")
            for turn in here.dialogues[frame.dialogue_id].turns[max(frame.turn - TURNS, 0) : frame.turn]
        ],
        here=side,
        original=_side(original, before) if original is not None and before is not None else None,
        original_slots=originals,
    )


def _side(of: ScoredFile, frame: Scored) -> Side:
    expected, predicted = (_state(dialogues[frame.dialogue_id], frame) for dialogues in (of.dialogues, of.predictions))
    wrong = [wrong.slot for wrong in frame.wrong]
    return Side(frame.service, _short(frame.utterance), expected, predicted, wrong, frame.values[JOINT])


def _state(dialogue: Dialogue, frame: Scored) -> State:
    """Returns the state of a frame in the reference or the prediction, with long values shortened."""
    frames = dialogue.turns[frame.turn].frames
    state = next(
        other.state for other in reversed(frames) if other.service == frame.service and isinstance(other.state, State)
    )
    values = {slot: [*map(_short, values[:VALUES])] for slot, values in state.slot_values.items()}
    answer = _short(state.answer) if isinstance(state.answer, str) else state.answer
    return State(_short(state.active_intent), [*map(_short, state.requested_slots)], values, answer)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def first(lists: Iterable[Sequence[Ranked]]) -> list[Ranked]:
    """Selects the first failures from those of several files. Each dialogue is in one file."""
    return sorted((ranked for several in lists for ranked in several), key=itemgetter(0))[:SHOWN]


def page_place(set_name: str) -> str:
    """Returns the link to the page of a set, relative to the folder of the scores."""
    return f"{FOLDER}/{quote(set_name, safe='')}.html"


def failure_files(system: str, set_name: str, numbers: Mapping[str, int], ranked: Sequence[Ranked]) -> dict[str, bytes]:
    """Makes ``failures/SET.json`` and ``failures/SET.html``.

    Args:
      system: its name.
      set_name: the set.
      numbers: the numbers of ``frames``, of ``wrong`` ones, and of wrong ones that are ``right_on_original``.
      ranked: the first failures.
    """
    shown = [failure for _, failure in ranked]
    content = {"system": system, "set": set_name, **numbers, "shown": len(shown), "failures": shown}
    return {
        f"{FOLDER}/{set_name}.json": task.json_bytes(content),
        f"{FOLDER}/{set_name}.html": page(_report(system, set_name, numbers, shown)).encode(),
    }


def _report(system: str, set_name: str, numbers: Mapping[str, int], shown: Sequence[Failure]) -> Report:
    wrong, new = numbers["wrong"], numbers["right_on_original"]
    tiles = [Tile("frames scored", f"{numbers['frames']:,}"), Tile("wrong", f"{wrong:,}")]
    sections: list[Section] = []
    if set_name == sets.ORIGINAL:
        sections += _section("Wrong frames", set_name, shown, wrong)
    else:
        tiles.append(Tile("right on the original, wrong here", f"{new:,}"))
        changed = [failure for failure in shown if failure.right_on_original]
        others = [failure for failure in shown if not failure.right_on_original]
        sections += _section("Right on the original, wrong here", set_name, changed, new)
        sections += _section("Wrong on the original too, or not part of it", set_name, others, wrong - new)
    lead = (
        f"This page shows {len(shown):,} of {counted(wrong, 'wrong frame')}. A frame is one service in one user turn. "
        "It is wrong if its joint goal accuracy (JGA) is below 100%, that is, if not all slot values are right. JGA "
        "does not count the intent or the requested slots."
    )
    name = quote(set_name, safe="")
    return Report(
        command="evaluate",
        title=f"Wrong frames of {set_name}",
        headline=f"Where {system} is wrong on {set_name}",
        lead=lead if wrong else "No frame is wrong.",
        tiles=tiles,
        sections=sections,
        links={"../report.html": "the scores of all sets", f"{name}.json": "the same frames as JSON"},
    )


def _section(title: str, set_name: str, shown: Sequence[Failure], total: int) -> Iterator[Section]:
    if total:
        yield Examples(
            title=title,
            examples=[_example(set_name, failure) for failure in shown],
            note=f"{len(shown):,} of {total:,} are shown: the first of each dialogue, then the others. The cells show "
            "what was predicted. Wrong predictions are bold, with the expected value below. A dash (–) stands for no "
            "value.",
        )


def _example(set_name: str, failure: Failure) -> Example:
    sides = [side for side in (failure.original, failure.here) if side is not None]
    rows = [["user", *(one_line(side.utterance) for side in sides)]]
    best: list[tuple[int, int]] = []

    def add(label: str, cells: Iterable[tuple[str, str, bool]]) -> None:
        row = [label]
        for expected, predicted, is_wrong in cells:
            best.extend([(len(rows), len(row))] if is_wrong else [])
            small = f"\nexpected: {one_line(expected) or 'no value'}" if is_wrong else ""
            row.append(f"{one_line(predicted) or '–'}{small}")
        rows.append(row)

    states = [(side.expected, side.predicted) for side in sides]
    intents = [(expected.active_intent, predicted.active_intent) for expected, predicted in states]
    add("intent", [(*both, both[0] != both[1]) for both in intents])
    requested = [[", ".join(sorted(state.requested_slots)) for state in both] for both in states]
    add("requested slots", [(both[0], both[1], both[0] != both[1]) for both in requested])
    for names in _slots(failure):
        label = names[0] if names[0] == names[-1] else f"{names[0]}\nhere: {names[-1]}"
        add(label, [_values(side, name) for side, name in zip(sides, names, strict=True)])
    if any(isinstance(side.predicted.answer, str) for side in sides):
        rows.append(["the model's answer", *(one_line(side.predicted.answer or "–") for side in sides)])
    lines = [Line(speaker, [Part(text)]) for speaker, text in failure.history]
    columns = ["", set_name] if len(sides) == 1 else ["", sets.ORIGINAL, set_name]
    accuracy = " → ".join(percent(side.joint_goal_accuracy, 0) for side in sides)
    place = f"dialogue {failure.dialogue_id}, turn {failure.turn}, {failure.here.service}: JGA {accuracy}"
    return Example(
        place,
        lines,
        Table(title=place, columns=columns, rows=rows, best=best, text_columns=len(columns)),
        f"History: {counted(len(lines), 'turn')}" + (f" of {failure.turn:,}" if failure.turn > len(lines) else ""),
    )


def _slots(failure: Failure) -> list[list[str]]:
    """Lists the slots that have a value, as (name in the original, if any, name in the set); wrong slots first."""
    here, original, renamed = failure.here, failure.original, failure.original_slots
    slots = dict.fromkeys([*here.wrong, *here.expected.slot_values, *here.predicted.slot_values])
    if original is None:
        return [[slot] for slot in slots]
    pairs = [[renamed.get(slot, slot), slot] for slot in slots]
    names = {slot for slot, _ in pairs}
    others = dict.fromkeys([*original.expected.slot_values, *original.predicted.slot_values])
    return [*pairs, *([slot, slot] for slot in others if slot not in names)]


def _values(side: Side, slot: str) -> tuple[str, str, bool]:
    """Returns a slot's expected values, the predicted one, and whether it is wrong."""
    predicted = side.predicted.slot_values.get(slot) or [""]
    return " or ".join(side.expected.slot_values.get(slot, [])), predicted[0], slot in side.wrong
