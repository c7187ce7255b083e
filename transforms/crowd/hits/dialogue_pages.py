"""Pages on turns of dialogues: workers rewrite user turns, or judge generated utterances.

SGSAcc (Chen, Lin and Byrne 2023, section 2.2) asks three workers whether each generated utterance is faithful to its
dialogue acts. The metric's verdict on an utterance does not affect the pages, so that no page can reveal it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import groupby, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from parapet.schemas.dialogue import Dialogue, DialogueFile, Frame, Turn, dialogue_ids
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, TEST, as_path, dialogue_files
from parapet.transforms.core.seeding import stable_digest, stable_hash
from parapet.transforms.crowd.hits import page, terms
from parapet.transforms.crowd.hits.page import Hits, NotAsked, Part, Place, RatedItem, Settings, add_pages, render_part
from parapet.transforms.perturb.corpora import services_in_turns

FIELDS = ("paraphrase", "typos", "verbose", "simplified")

# Most file systems allow 255 bytes; the turn, the extension and the suffix of temporary files are still added. MTurk
# allows 255 characters for the task id.
MAX_NAME = 150

_WORD = re.compile(r"[^\W_]")


def page_name(dialogue_id: str) -> str:
    """Converts a dialogue id to a part of a file name: all but letters, digits and ``_-~.`` is percent-encoded."""
    name = quote(dialogue_id, safe="", errors="surrogatepass")
    return f"%2E{name[1:]}" if name.startswith(".") else name


# Actions with these "slots" have no slot: an offered intent, the number of results.
_NO_SLOTS = frozenset({"", "intent", "count"})

# Inside a word or number: the 2 in 12, 2nd, 2:30 and 2.50 is not a separate number.
_INSIDE_WORD = re.compile(r"(?<=[^\W_])(?=[^\W_])|(?<=\d)(?=[:.,/]\d)|(?<=\d[:.,/])(?=\d)")


class Mark(msgspec.Struct, frozen=True):
    """A kept value and its position: characters ``start`` to ``end`` of the utterance as the page shows it."""

    kept: page.KeptValue
    start: int
    end: int


def marks(turn: Turn, before: Turn | None = None) -> list[Mark]:
    """Finds the values to keep, in the order of the utterance.

    These are the texts of slot spans, and values of slots without a span (categorical ones) that occur verbatim in the
    utterance. The latter come from the turn's actions or, if a corpus has none, from changes of the state.

    Args:
      turn: the user's turn.
      before: the previous user turn.

    Raises:
      ValueError: a span has no text in the utterance.
    """
    kept = list(_of_spans(turn))
    text = speakable(turn.utterance)
    for frame in turn.frames:
        spanned = {span.slot for span in frame.slots} | _NO_SLOTS
        for slot, values in _values_of(frame, before):
            for value in dict.fromkeys(map(speakable, values)) if slot not in spanned else ():
                if (start := find_word(text, value, [(mark.start, mark.end) for mark in kept])) is not None:
                    kept.append(Mark(page.KeptValue(slot, frame.service, value), start, start + len(value)))
    return sorted(kept, key=lambda mark: (mark.start, mark.end, mark.kept.service, mark.kept.slot))


def speakable(text: str) -> str:
    """Cleans a text of a dialogue as :func:`shown` does, and removes byte order marks, which forms trim, too."""
    return page.shown(text.replace("\ufeff", " "))


def find_word(text: str, value: str, taken: Sequence[tuple[int, int]] = (), whole: bool = True) -> int | None:
    """Finds the first ``value`` in ``text`` outside the ``taken`` ranges; None if absent.

    Unless ``whole`` is False, only whole words count.
    """
    start = text.find(value) if value else -1
    while start >= 0:
        end = start + len(value)
        is_cut = whole and any(_INSIDE_WORD.match(text, at) for at in (start, end))
        if not is_cut and not any(start < other_end and other_start < end for other_start, other_end in taken):
            return start
        start = text.find(value, start + 1)
    return None


def bold_pieces(text: str, marks: Iterable[Mark]) -> list[tuple[str, bool]]:
    """Splits a text where bold begins or ends; marks that overlap or touch become one bold piece."""
    is_bold = [False] * len(text)
    for mark in marks:
        is_bold[mark.start : mark.end] = [True] * (mark.end - mark.start)
    pieces = groupby(zip(text, is_bold, strict=True), key=lambda pair: pair[1])
    return [("".join(letter for letter, _ in piece), bold) for bold, piece in pieces]


def _of_spans(turn: Turn) -> Iterator[Mark]:
    raw = turn.utterance
    for frame in turn.frames:
        for span in frame.slots:
            if not isinstance(span.start, int) or not isinstance(span.exclusive_end, int):
                continue  # copied from another slot, so not in this utterance
            value = speakable(raw[span.start : span.exclusive_end])
            if not (0 <= span.start < span.exclusive_end <= len(raw) and value):
                raise ValueError(f"slot {span.slot!r}: {span.start}-{span.exclusive_end} has no text in the utterance")
            # A letter is appended so that the space before the value is not stripped.
            first = raw[span.start : span.exclusive_end].find(value[0])
            start = len(speakable(raw[: span.start + first] + "x")) - 1
            yield Mark(page.KeptValue(span.slot, frame.service, value), start, start + len(value))


def _values_of(frame: Frame, before: Turn | None) -> list[tuple[str, list[str]]]:
    if frame.actions is not UNSET:
        return [(action.slot, action.values) for action in frame.actions]
    frames = [other for other in (before.frames if before else ()) if other.service == frame.service]
    earlier = [other.state.slot_values for other in frames if other.state]
    state = frame.state.slot_values if frame.state else {}
    return [(slot, values) for slot, values in state.items() if not earlier or earlier[-1].get(slot) != values]


class Rewriting(msgspec.Struct, frozen=True):
    """A user's utterance with the values that every answer must keep."""

    utterance: str
    marks: list[Mark]


def turn_task_id(dialogue_id: str, turn: int) -> str:
    """Returns ``1_00003:4:rewrites``; the number is the turn's position in the dialogue, from 0."""
    return f"{dialogue_id}:{turn}:{terms.REWRITES}"


def user_turns(dialogue: Dialogue) -> list[int]:
    """Returns the positions of the user's turns."""
    return [i for i, turn in enumerate(dialogue.turns) if turn.speaker == "USER"]


def rewriting_of(dialogue: Dialogue, position: int) -> Rewriting | str:
    """Returns what a worker rewrites of the user turn at ``position``, or the reason why it cannot be asked."""
    name = dialogue.dialogue_id
    # MTurk refuses four-byte characters in a question, and ids, unlike text, cannot be escaped.
    if not name or page.shown(name) != name or not all(c.isprintable() and ord(c) < 0x10000 for c in name):
        return "bad_id: the dialogue id is blank, or contains characters that MTurk does not accept"
    if len(page_name(name)) > MAX_NAME:
        return "long_id: the dialogue id is too long for a file name"
    turn = dialogue.turns[position]
    utterance = speakable(turn.utterance)
    before = next((turn for turn in reversed(dialogue.turns[:position]) if turn.speaker == "USER"), None)
    try:
        kept = marks(turn, before) if utterance else []
    except ValueError as error:
        return f"bad_span: {error}"
    # A typo needs a letter or digit outside of the values.
    if any(_WORD.search(text) for text, bold in bold_pieces(utterance, kept) if not bold):
        return Rewriting(utterance, kept)
    if kept:
        return "only_values: the utterance consists only of slot values, which must stay unchanged"
    return "no_text: the utterance has no words"


def draw_keys(dialogues: Iterable[Dialogue], seed: int) -> Iterator[str]:
    """Yields the sort key of each user turn that can be asked."""
    for dialogue in dialogues:
        for turn in user_turns(dialogue):
            if isinstance(rewriting_of(dialogue, turn), Rewriting):
                yield stable_digest(str(seed), turn_task_id(dialogue.dialogue_id, turn))


def dialogue_paths(places: Iterable[str | Path], split: str | None = None) -> list[DialogueFile]:
    """Lists the dialogue files of corpora, splits' folders and single files, without duplicates, in this order.

    Args:
      places: ``ROOT`` with ``{train,dev,test}/dialogues_NNN.json``, a folder with ``dialogues_NNN.json``, or files.
      split: the split of a corpus; ``test`` by default. Must be None for a split's folder.

    Raises:
      InputError: a place has no dialogue files, or two files have dialogues with the same id.
    """
    paths = {path.resolve(): path for place in places for path in _files_of(as_path(place), split)}
    first: dict[str, Path] = {}
    for path in paths.values():
        for position, dialogue_id in enumerate(dialogue_ids(path)):
            if (other := first.setdefault(dialogue_id, path)) != path:
                reason = f"duplicate_id: dialogue {dialogue_id!r} is in {other}, too: give each its own id"
                raise InputError(f"{reason}, or give one split at a time", path, f"[{position}]")
    # Names have no paths of this machine.
    return [DialogueFile(full.parent.name, full.name, str(path), path.stat().st_size) for full, path in paths.items()]


def _files_of(place: Path, split: str | None) -> list[Path]:
    if place.is_file():
        if split is not None:
            raise InputError("is a file: --split requires the folder of a corpus", place)
        return [place]
    files = dialogue_files(place, split or TEST) or (dialogue_files(place, "") if split is None else [])
    if not files:
        splits = [f"--split {each}" for each in SPLITS if dialogue_files(place, each)]
        advice = f"; there are some with {' or '.join(splits)}" if splits else ""
        raise InputError(f"contains no dialogues: expected {split or TEST}/dialogues_001.json and so on{advice}", place)
    return files


def render_dialogues(file: str, dialogues: Iterable[Dialogue], last: str | None, settings: Settings) -> Hits:
    """Renders a file; each user turn has a page, is in ``not_asked`` with the reason, or is not drawn.

    Args:
      file: the file's name in the manifest.
      dialogues: its dialogues.
      last: the last of the drawn :func:`draw_keys`, of all files; None for all turns.
      settings: the settings of the pages.
    """
    hits = Hits(Counter(files=1))
    for dialogue in dialogues:
        history: list[str] = []
        services, turns = services_in_turns(dialogue), user_turns(dialogue)
        hits.counts["user_turns"] += len(turns)
        for turn in turns:
            task_id = turn_task_id(dialogue.dialogue_id, turn)
            rewriting = rewriting_of(dialogue, turn)
            if isinstance(rewriting, str):
                hits.not_asked.append(NotAsked(task_id, "", rewriting))
            elif last is not None and stable_digest(str(settings.seed), task_id) > last:
                hits.counts["not_drawn"] += 1
            else:
                history += map(_turn_html, dialogue.turns[len(history) : turn])
                about = {"dialogue_id": dialogue.dialogue_id, "turn": turn, "file": file}
                about["service_name"] = "+".join(services[turn])
                _add_page(hits, rewriting, "".join(history), about, settings)
    return hits


def _turn_html(turn: Turn) -> str:
    speaker = "User" if turn.speaker == "USER" else "Assistant"
    return render_part("hit_rewrites_turn.html.jinja", speaker=speaker, text=speakable(turn.utterance))


def _add_page(hits: Hits, rewriting: Rewriting, history: str, about: dict[str, Any], settings: Settings) -> None:
    """Adds the page of a turn, unless it is too large.

    Args:
      hits: the page is added here.
      rewriting: the sentence.
      history: the earlier turns as HTML.
      about: the dialogue and the turn, as fields of the page's record.
      settings: the settings of the pages.
    """
    kept = [mark.kept for mark in rewriting.marks]
    pieces = bold_pieces(rewriting.utterance, rewriting.marks)
    values = list(dict.fromkeys(each.value for each in kept))
    html = render_part("hit_rewrites_body.html.jinja", heard=history, pieces=pieces, values=values)
    dialogue_id, turn = about["dialogue_id"], about["turn"]
    part = Part(html, "", FIELDS, turns=turn + 1)
    task_id, name = turn_task_id(dialogue_id, turn), f"{page_name(dialogue_id)}.{turn}"
    record = {**about, "utterance": rewriting.utterance, "values": kept}
    add_pages(hits, terms.REWRITES, task_id, name, [part], lambda parts: parts[0].html, lambda _: record, settings)


FAITHFUL, NATURAL = "faithful", "natural"
YES, NO = "yes", "no"
POINTS = ("1", "2", "3", "4", "5")  # naturalness, 5 is best
FIELD = re.compile(rf"({FAITHFUL}|{NATURAL})_(0|[1-9][0-9]{{0,5}})")

_ACT_NOTE = "Each list has one entry, and a reply may say more than that. Judge only what is on the list."
_LEAST_LETTERS = 3  # shorter values may be part of another utterance by chance
_OF_ACT = "Does the reply do this, and do it correctly?"  # in place of the question about all acts
_QUESTIONS = {
    FAITHFUL: ("Does the reply say everything on the list, and say it correctly?", [(YES, "Yes"), (NO, "No")], None),
    NATURAL: ("How natural does it sound?", [(point, point) for point in POINTS], ("not at all", "like a person")),
}


def group_items(items: Sequence[RatedItem], per_page: int, checks: int, seed: int) -> list[list[RatedItem]]:
    """Shuffles the utterances, distributes them evenly over pages, and inserts checks.

    Neither order nor checks depend on the metric's verdicts.

    Args:
      items: the utterances, at most one for each turn or act.
      per_page: maximum number of utterances on a page, not counting checks.
      checks: number of checks on each page, if there are enough that are certainly wrong.
      seed: the seed of order and checks.
    """
    ordered = sorted(items, key=lambda item: stable_digest(str(seed), "order", *map(str, item.place)))
    pages = -(-len(ordered) // per_page)
    groups = [ordered[len(ordered) * i // pages : len(ordered) * (i + 1) // pages] for i in range(pages)]
    used: set[Place] = set()
    for number, group in enumerate(groups):
        for check in islice(_checks(ordered, group, seed, number, used), checks):
            used.add(check.place)
            group.insert(stable_hash(str(seed), "place", str(number), *map(str, check.place)) % (len(group) + 1), check)
    return groups


def _checks(
    items: Sequence[RatedItem], group: Sequence[RatedItem], seed: int, number: int, used: Set[Place]
) -> Iterator[RatedItem]:
    """Combines turns with another turn's utterance without their values, if possible of another service.

    Args:
      items: all utterances, from which turn and utterance are taken.
      group: the utterances of the page, whose turns are excluded.
      seed: the seed of the choice.
      number: the number of the page.
      used: turns in checks of other pages; they are reused only if there are no others.
    """
    on_page = {item.place for item in group}
    ordered = sorted(
        (item for item in items if item.place not in on_page),
        key=lambda item: (item.place in used, stable_digest(str(seed), f"check {number}", *map(str, item.place))),
    )
    for item in ordered:
        values = [act.value.casefold() for act in item.acts if len(act.value) >= _LEAST_LETTERS and act.value != "yes"]
        others = [other for other in reversed(ordered) if other.utterance not in ("", item.utterance)]
        others = [other for other in others if not any(value in other.utterance.casefold() for value in values)]
        if values and others:
            # Prefer another service; ties go to the first.
            other = min(others, key=lambda other: other.service_name == item.service_name)
            changes = {"stratum": "check", "faithful": False, "utterance": other.utterance}
            yield msgspec.structs.replace(item, **changes)


def render_judged(items: Sequence[RatedItem], position: int, settings: Settings) -> Hits:
    """Renders the page of the group at a position, in parts if it is too large; too large utterances are left out."""
    names = [FAITHFUL, NATURAL] if settings.naturalness else [FAITHFUL]
    parts = []
    for i, item in enumerate(items):
        fields = [f"{name}_{i}" for name in names]
        # The turn before, the acts (about as long as a turn), and the utterance.
        parts.append(Part(_item_html(i, item, names), ":".join(map(str, item.place)), fields, item, turns=3))
    # The hash identifies answers to the pages of another sample; within a sample, the number suffices.
    page_id = f"{position + 1:03}-{stable_digest(*(part.html for part in parts))[:8]}"
    hits = Hits({"items": len(items)})
    add_pages(hits, terms.RATINGS, f"{page_id}:{terms.RATINGS}", page_id, parts, _body, _about, settings)
    hits.counts["items"] -= len(hits.not_asked)
    return hits


def _item_html(i: int, item: RatedItem, names: Sequence[str]) -> str:
    """Renders an utterance with its questions, without the verdict on it."""
    acts = [{"does": act.does, "about": page.shown(act.about), "value": page.shown(act.value)} for act in item.acts]
    visible = {"utterance": page.shown(item.utterance), "previous": page.shown(item.previous), "acts": acts}
    questions = [(name, *_QUESTIONS[name]) for name in names]
    if item.act is not None:
        questions[0] = (FAITHFUL, _OF_ACT, *questions[0][2:])
    return render_part("hit_judged_item.html.jinja", i=i, item=visible, questions=questions)


def _body(parts: Sequence[Part]) -> str:
    items = "".join(part.html for part in parts)
    note = "" if parts[0].source.act is None else f'<p class="what">{_ACT_NOTE}</p>'
    return f"<fieldset disabled><legend>The replies</legend>{note}<ol>{items}</ol></fieldset>"


def _about(parts: Sequence[Part]) -> dict[str, object]:
    items = [part.source for part in parts]
    services = {name for item in items for name in item.service_name.split("+")}
    return {"service_name": "+".join(sorted(services)), "items": items}
