"""Pages on turns of dialogues: workers rewrite user turns, or judge generated utterances.

SGSAcc (Chen, Lin and Byrne 2023, section 2.2) asks three workers whether each generated utterance is faithful to its
dialogue acts. The metric's verdict on an utterance does not affect the pages, so that no page can reveal it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile, Turn, dialogue_ids
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, TEST, as_path, dialogue_files
from parapet.transforms.core.seeding import stable_digest, stable_hash
from parapet.transforms.crowd.hits import markup, terms
from parapet.transforms.crowd.hits.page import Hits, NotAsked, Part, Place, RatedItem, Settings, add_pages, render_part
from parapet.transforms.perturb.corpora import services_in_turns

FIELDS = ("paraphrase", "typos", "verbose", "simplified")

# Most file systems allow 255 bytes; the turn, the extension and the suffix of temporary files are still added. MTurk
# allows 255 characters for the task id.
MAX_NAME = 150

_WORD = re.compile(r"[^\W_]")


class Rewriting(msgspec.Struct, frozen=True):
    """A user's utterance with the values that every answer must keep."""

    utterance: str
    marks: list[markup.Mark]


def turn_task_id(dialogue_id: str, turn: int) -> str:
    """Return ``1_00003:4:rewrites``; the number is the turn's position in the dialogue, from 0."""
    return f"{dialogue_id}:{turn}:{terms.REWRITES}"


def user_turns(dialogue: Dialogue) -> list[int]:
    """Return the positions of the user's turns."""
    return [i for i, turn in enumerate(dialogue.turns) if turn.speaker == "USER"]


def rewriting_of(dialogue: Dialogue, position: int) -> Rewriting | str:
    """Return what a worker rewrites of the user turn at ``position``, or the reason why it cannot be asked."""
    name = dialogue.dialogue_id
    # MTurk refuses four-byte characters in a question, and ids, unlike text, cannot be escaped.
    if not name or markup.shown(name) != name or not all(c.isprintable() and ord(c) < 0x10000 for c in name):
        return "bad_id: the dialogue id is blank, or contains characters that MTurk does not accept"
    if len(markup.page_name(name)) > MAX_NAME:
        return "long_id: the dialogue id is too long for a file name"
    turn = dialogue.turns[position]
    utterance = markup.speakable(turn.utterance)
    before = next((turn for turn in reversed(dialogue.turns[:position]) if turn.speaker == "USER"), None)
    try:
        kept = markup.marks(turn, before) if utterance else []
    except ValueError as error:
        return f"bad_span: {error}"
    # A typo needs a letter or digit outside of the values.
    if any(_WORD.search(text) for text, bold in markup.bold_pieces(utterance, kept) if not bold):
        return Rewriting(utterance, kept)
    if kept:
        return "only_values: the utterance consists only of slot values, which must stay unchanged"
    return "no_text: the utterance has no words"


def draw_keys(dialogues: Iterable[Dialogue], seed: int) -> Iterator[str]:
    """Yield the sort key of each user turn that can be asked."""
    for dialogue in dialogues:
        for turn in user_turns(dialogue):
            if isinstance(rewriting_of(dialogue, turn), Rewriting):
                yield stable_digest(str(seed), turn_task_id(dialogue.dialogue_id, turn))


def dialogue_paths(places: Iterable[str | Path], split: str | None = None) -> list[DialogueFile]:
    """List the dialogue files of corpora, splits' folders and single files, without duplicates, in this order.

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
    """Render a file; each user turn has a page, is in ``not_asked`` with the reason, or is not drawn.

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
    return render_part("hit_rewrites_turn.html.jinja", speaker=speaker, text=markup.speakable(turn.utterance))


def _add_page(hits: Hits, rewriting: Rewriting, history: str, about: dict[str, Any], settings: Settings) -> None:
    """Add the page of a turn, unless it is too large.

    Args:
      hits: the page is added here.
      rewriting: the sentence.
      history: the earlier turns as HTML.
      about: the dialogue and the turn, as fields of the page's record.
      settings: the settings of the pages.
    """
    kept = [mark.kept for mark in rewriting.marks]
    pieces = markup.bold_pieces(rewriting.utterance, rewriting.marks)
    values = list(dict.fromkeys(each.value for each in kept))
    html = render_part("hit_rewrites_body.html.jinja", heard=history, pieces=pieces, values=values)
    dialogue_id, turn = about["dialogue_id"], about["turn"]
    part = Part(html, "", FIELDS, turns=turn + 1)
    task_id, name = turn_task_id(dialogue_id, turn), f"{markup.page_name(dialogue_id)}.{turn}"
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
    """Shuffle the utterances, distribute them evenly over pages, and insert checks.

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
            place = stable_hash(str(seed), "place", str(number), *map(str, check.place))
            group.insert(place % (len(group) + 1), check)
    return groups


def _checks(
    items: Sequence[RatedItem], group: Sequence[RatedItem], seed: int, page: int, used: Set[Place]
) -> Iterator[RatedItem]:
    """Combine turns with another turn's utterance without their values, if possible of another service.

    Args:
      items: all utterances, from which turn and utterance are taken.
      group: the utterances of the page, whose turns are excluded.
      seed: the seed of the choice.
      page: the number of the page.
      used: turns in checks of other pages; they are reused only if there are no others.
    """
    on_page = {item.place for item in group}
    ordered = sorted(
        (item for item in items if item.place not in on_page),
        key=lambda item: (item.place in used, stable_digest(str(seed), f"check {page}", *map(str, item.place))),
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
    """Render the page of the group at a position, in parts if it is too large; too large utterances are left out."""
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
    """Render an utterance with its questions, without the verdict on it."""
    acts = [{"does": act.does, "about": markup.shown(act.about), "value": markup.shown(act.value)} for act in item.acts]
    visible = {"utterance": markup.shown(item.utterance), "previous": markup.shown(item.previous), "acts": acts}
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
