"""Pages on which workers rewrite user turns: drawing turns, checking whether they can be asked, and rendering."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from parapet.schemas.dialogue import Dialogue, Turn, check_no_id_twice, list_files
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, TEST, as_path, dialogue_files, is_there
from parapet.transforms.crowd.hits.markup import Mark, bold_pieces, marks, page_name, shown, speakable
from parapet.transforms.crowd.hits.page import TOO_LARGE, Hits, NotAsked, Page, Settings, capacity, make_page, one_line
from parapet.transforms.crowd.hits.terms import MAX_ANNOTATION, REWRITES
from parapet.transforms.perturbation.corpora import services_in_turns
from parapet.transforms.reports.report import render
from parapet.transforms.running.seeding import stable_digest

FIELDS = ("paraphrase", "typos", "verbose", "simplified")

NO_TEXT = "no_text: the utterance has no words"
ONLY_VALUES = "only_values: the utterance consists only of slot values, which must stay unchanged"
BAD_ID = "bad_id: the dialogue id is blank, or contains characters that MTurk does not accept"
LONG_ID = f"long_id: the task id exceeds the {MAX_ANNOTATION} characters of a RequesterAnnotation"
BAD_SPAN = "bad_span"

_WORD = re.compile(r"[^\W_]")


class Rewriting(msgspec.Struct, frozen=True):
    """A user's utterance with the values that every answer must keep."""

    utterance: str
    marks: list[Mark]

    def pieces(self) -> list[tuple[str, bool]]:
        """Return the utterance in pieces with a flag for bold."""
        return bold_pieces(self.utterance, self.marks)

    def values(self) -> list[str]:
        """Return the texts to keep, without duplicates."""
        return list(dict.fromkeys(mark.kept.value for mark in self.marks))


def turn_task_id(dialogue_id: str, turn: int) -> str:
    """Return ``1_00003:4:rewrites``; the number is the turn's position in the dialogue, from 0."""
    return f"{dialogue_id}:{turn}:{REWRITES}"


def user_turns(dialogue: Dialogue) -> list[int]:
    """Return the positions of the user's turns."""
    return [i for i, turn in enumerate(dialogue.turns) if turn.speaker == "USER"]


def rewriting_of(dialogue: Dialogue, position: int) -> Rewriting | str:
    """Return what a worker rewrites of the user turn at ``position``, or the reason why it cannot be asked."""
    task_id = turn_task_id(dialogue.dialogue_id, position)
    if not dialogue.dialogue_id or not _carried(dialogue.dialogue_id):
        return BAD_ID
    if len(task_id) > MAX_ANNOTATION:
        return LONG_ID
    turn = dialogue.turns[position]
    utterance = speakable(turn.utterance)
    if not utterance:
        return NO_TEXT
    try:
        marks_here = marks(turn, _before(dialogue.turns, position))
    except ValueError as error:
        return f"{BAD_SPAN}: {error}"
    rewriting = Rewriting(utterance, marks_here)
    # A typo needs a letter or digit outside of the values.
    if not any(_WORD.search(text) for text, bold in rewriting.pieces() if not bold):
        return ONLY_VALUES if marks_here else NO_TEXT
    return rewriting


def services_of(dialogue: Dialogue, position: int) -> str:
    """Return the services of a turn, joined."""
    return "+".join(services_in_turns(dialogue)[position])


def _before(turns: Sequence[Turn], position: int) -> Turn | None:
    return next((turn for turn in reversed(turns[:position]) if turn.speaker == "USER"), None)


def _carried(text: str) -> bool:
    # MTurk refuses four-byte characters in a question, and ids, unlike text, cannot be escaped.
    return shown(text) == text and all(c.isprintable() and ord(c) < 0x10000 for c in text)


class Scan(msgspec.Struct, frozen=True):
    """The data about a dialogue file that drawing turns needs.

    Attributes:
      position: the file's position among the inputs. ``name`` is its name in reasons.
      names: the lower-case :func:`page_name` of each dialogue, since some file systems ignore case.
      keys: the sort keys of the turns that can be drawn; empty if all turns are taken.
      user_turns: the number of user turns.
    """

    position: int
    name: str
    names: list[str]
    keys: list[str]
    user_turns: int


def scan(position: int, name: str, dialogues: Iterable[Dialogue], turns: int | None, seed: int) -> Scan:
    """Scan a dialogue file; its turns are only examined if ``turns`` limits their number."""
    scanned = Scan(position, name, [], [], 0)
    count = 0
    for dialogue in dialogues:
        positions = user_turns(dialogue)
        count += len(positions)
        scanned.names.append(page_name(dialogue.dialogue_id).lower())
        scanned.keys.extend(
            stable_digest(str(seed), turn_task_id(dialogue.dialogue_id, turn))
            for turn in (positions if turns is not None else ())
            if isinstance(rewriting_of(dialogue, turn), Rewriting)
        )
    return msgspec.structs.replace(scanned, user_turns=count)


def choose(scans: Iterable[Scan], turns: int | None) -> str | None:
    """Draw turns from all files, whose scans may be in any order.

    Returns:
      The last sort key that is drawn; None for all turns, ``""`` for none.

    Raises:
      InputError: two files have dialogues with the same id, ignoring case.
    """
    first: dict[str, str] = {}
    keys: list[str] = []
    for file in sorted(scans, key=lambda each: each.position):
        for name in file.names:
            if (other := first.setdefault(name, file.name)) != file.name:
                reason = f"a dialogue has the same id, {name!r}, as one of {other}: give one split at a time"
                raise InputError(reason, file.name, "--dialogues")
        keys += file.keys
    return None if turns is None else max(heapq.nsmallest(turns, keys), default="")


class DialoguePath(msgspec.Struct, frozen=True):
    """A dialogue file. ``name`` is its parent folder and file name, without paths of this machine."""

    position: int
    path: str
    name: str


def dialogue_paths(places: Iterable[str | Path], split: str | None = None) -> list[DialoguePath]:
    """List the dialogue files of corpora, splits' folders and single files, without duplicates, in this order.

    Args:
      places: ``ROOT`` with ``{train,dev,test}/dialogues_NNN.json``, a folder with ``dialogues_NNN.json``, or files.
      split: the split of a corpus; ``test`` by default. Must be None for a split's folder.

    Raises:
      InputError: a place does not exist or has no dialogue files.
    """
    paths = {path.resolve(): path for place in places for path in _files_of(as_path(place), split)}
    return [
        DialoguePath(position, str(path), f"{resolved.parent.name}/{resolved.name}")
        for position, (resolved, path) in enumerate(paths.items())
    ]


def _files_of(place: Path, split: str | None) -> list[Path]:
    if not is_there(place):
        raise InputError("there is no such file or folder", place)
    if place.is_file():
        if split is not None:
            raise InputError("is a file: --split requires the folder of a corpus", place)
        return [place]
    files = dialogue_files(place, split or TEST) or (dialogue_files(place, "") if split is None else [])
    if not files:
        present = [each for each in SPLITS if dialogue_files(place, each)]
        if present:
            raise InputError(
                f"there are no dialogues in {split or TEST!r}; these splits have some: {', '.join(present)}",
                place,
                "--split",
            )
        raise InputError(f"contains no dialogues: expected {split or TEST}/dialogues_001.json and so on", place)
    check_no_id_twice(list_files(place, [split or TEST if files[0].parent != place else ""]))
    return files


def render_dialogues(
    position: int, name: str, dialogues: Iterable[Dialogue], last: str | None, settings: Settings
) -> Hits:
    """Render a file; each user turn has a page, is in ``not_asked`` with the reason, or is not drawn.

    Args:
      position: the file's position among the inputs.
      name: the file's name in the manifest and in reasons.
      dialogues: its dialogues.
      last: the result of :func:`choose`.
      settings: the settings of the pages.
    """
    pages: list[Page] = []
    not_asked: list[NotAsked] = []
    not_drawn = 0
    for dialogue in dialogues:
        history: list[str] = []
        for turn in user_turns(dialogue):
            task_id = turn_task_id(dialogue.dialogue_id, turn)
            rewriting = rewriting_of(dialogue, turn)
            if isinstance(rewriting, str):
                not_asked.append(NotAsked(task_id, "", rewriting))
            elif last is not None and stable_digest(str(settings.seed), task_id) > last:
                not_drawn += 1
            else:
                history += [turn_html(*_shown(dialogue, t)) for t in range(len(history), turn)]
                if page := _page(dialogue, turn, rewriting, history, name, settings):
                    pages.append(page)
                else:
                    not_asked.append(NotAsked(task_id, "", TOO_LARGE))
    return Hits(position, pages, not_asked, not_drawn)


def turn_html(speaker: str, text: str) -> str:
    """Render one turn of the conversation so far."""
    return one_line(render("hit_rewrites_turn.html.jinja", speaker=speaker, text=text))


def rewrites_body(history: Sequence[str], rewriting: Rewriting) -> str:
    """Render the body of a page on one line: the dialogue so far (results of :func:`turn_html`) and the sentence."""
    pieces, values = rewriting.pieces(), rewriting.values()
    return one_line(render("hit_rewrites_body.html.jinja", heard="".join(history), pieces=pieces, values=values))


def _shown(dialogue: Dialogue, turn: int) -> tuple[str, str]:
    source = dialogue.turns[turn]
    return ("User" if source.speaker == "USER" else "Assistant"), speakable(source.utterance)


def _page(
    dialogue: Dialogue, turn: int, rewriting: Rewriting, history: Sequence[str], file: str, settings: Settings
) -> Page | None:
    """Return the page, or None if it is too large."""
    room = capacity(REWRITES)
    # The sum is checked first because rendering a page that is then refused takes long with thousands of turns.
    if sum(map(len, history)) > room or len((body := rewrites_body(history, rewriting)).encode()) > room:
        return None
    return make_page(
        REWRITES,
        f"pages/{page_name(dialogue.dialogue_id)}.{turn}.{REWRITES}",
        body,
        settings,
        task_id=turn_task_id(dialogue.dialogue_id, turn),
        fields=FIELDS,
        turns=turn + 1,
        service_name=services_of(dialogue, turn),
        part=1,
        parts=1,
        element_ids=[],
        ambiguous=[],
        dialogue_id=dialogue.dialogue_id,
        turn=turn,
        file=file,
        utterance=rewriting.utterance,
        values=[mark.kept for mark in rewriting.marks],
    )
