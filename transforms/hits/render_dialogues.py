"""One dialogue file's pages: the work unit of the rewrites, and a pure function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parapet.schemas.dialogue import Dialogue
from parapet.transforms.fence import bad_record
from parapet.transforms.hits.kept_values import speakable
from parapet.transforms.hits.markup import page_name
from parapet.transforms.hits.page import TOO_LARGE, capacity, make_page, one_line
from parapet.transforms.hits.questions import NotAsked
from parapet.transforms.hits.records import Hits, Page, Settings
from parapet.transforms.hits.rewriting import (
    FIELDS,
    Choice,
    Rewriting,
    fenced_rewriting,
    services_of,
    turn_task_id,
    user_turns,
)
from parapet.transforms.hits.terms import REWRITES
from parapet.transforms.pages import render

DUPLICATE_ID = (
    "duplicate_id: {here} has the id of a dialogue of {there} (ignoring case), which has pages; "
    "where splits share ids, give one --split at a time"
)


def render_dialogues(
    position: int, name: str, dialogues: Iterable[Dialogue], choice: Choice, settings: Settings
) -> Hits:
    """Renders a file; each of its user turns has a page, is in ``not_asked`` with the reason, or is not drawn.

    Args:
      position: the file's place among the others.
      name: what the file is called in the manifest and in reasons.
      dialogues: its dialogues.
      choice: which turns have pages.
      settings: what shapes the pages.
    """
    pages: list[Page] = []
    not_asked: list[NotAsked] = []
    not_drawn = 0
    for i, dialogue in enumerate(dialogues):
        there = choice.elsewhere.get((position, i))
        history: list[str] = []
        for turn in user_turns(dialogue):
            task_id = turn_task_id(dialogue.dialogue_id, turn)
            rewriting = DUPLICATE_ID.format(here=name, there=there) if there else fenced_rewriting(dialogue, turn)
            if isinstance(rewriting, str):
                not_asked.append(NotAsked(task_id, "", rewriting))
            elif not choice.draws(settings.seed, task_id):
                not_drawn += 1
            else:
                try:
                    history += [turn_html(*_shown(dialogue, t)) for t in range(len(history), turn)]
                    page = _page(dialogue, turn, rewriting, history, name, settings)
                except Exception as error:
                    not_asked.append(NotAsked(task_id, "", bad_record(error).reason))
                    continue
                if page:
                    pages.append(page)
                else:
                    not_asked.append(NotAsked(task_id, "", TOO_LARGE))
    return Hits(position, pages, not_asked, not_drawn)


def turn_html(speaker: str, text: str) -> str:
    """One turn of the conversation so far."""
    return one_line(render("hit_rewrites_turn.html.jinja", speaker=speaker, text=text))


def rewrites_body(history: Sequence[str], rewriting: Rewriting) -> str:
    """The body of a page, on one line: the dialogue so far, each turn a :func:`turn_html`, and the sentence."""
    pieces, values = rewriting.pieces(), rewriting.values()
    return one_line(render("hit_rewrites_body.html.jinja", heard="".join(history), pieces=pieces, values=values))


def _shown(dialogue: Dialogue, turn: int) -> tuple[str, str]:
    source = dialogue.turns[turn]
    return ("User" if source.speaker == "USER" else "Assistant"), speakable(source.utterance)


def _page(
    dialogue: Dialogue, turn: int, rewriting: Rewriting, history: Sequence[str], file: str, settings: Settings
) -> Page | None:
    """The page; None where it would be too large."""
    room = capacity(REWRITES)
    # The sum first: with thousands of turns, rendering a page that is then refused takes long.
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
