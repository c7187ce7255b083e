"""One dialogue file's pages: the work unit of the rewrites, and a pure function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parapet.schemas.dialogue import Dialogue
from parapet.transforms.hits.kept_values import speakable
from parapet.transforms.hits.markup import page_name
from parapet.transforms.hits.page import TOO_LARGE, capacity, make_page, one_line
from parapet.transforms.hits.questions import NotAsked
from parapet.transforms.hits.records import Hits, Page, Settings
from parapet.transforms.hits.rewriting import FIELDS, Choice, Rewriting, ask_turn, services_of, turn_task_id, user_turns
from parapet.transforms.hits.terms import REWRITES
from parapet.transforms.pages import render

DUPLICATE_ID = (
    "duplicate_id: {here} has the id of a dialogue of {there} (letter case aside), which is asked; "
    "where splits share ids, ask one --split at a time"
)


def render_dialogues(
    position: int, name: str, dialogues: Iterable[Dialogue], choice: Choice, settings: Settings
) -> Hits:
    """Renders a file; each of its user turns has a page, is in ``not_asked`` with the reason, or is not drawn.

    Args:
      position: the file's place among the others.
      name: what the file is called in the manifest and in reasons.
      dialogues: its dialogues.
      choice: which turns of which are asked.
      settings: what shapes the pages.
    """
    pages: list[Page] = []
    not_asked: list[NotAsked] = []
    not_drawn = 0
    for i, dialogue in enumerate(dialogues):
        there = choice.elsewhere.get((position, i))
        heard: list[str] = []
        for turn in user_turns(dialogue):
            task_id = turn_task_id(dialogue.dialogue_id, turn)
            asked = DUPLICATE_ID.format(here=name, there=there) if there else ask_turn(dialogue, turn)
            if isinstance(asked, str):
                not_asked.append(NotAsked(task_id, "", asked))
            elif not choice.draws(settings.seed, task_id):
                not_drawn += 1
            else:
                heard += [turn_html(*_said(dialogue, t)) for t in range(len(heard), turn)]
                if page := _page(dialogue, turn, asked, heard, name, settings):
                    pages.append(page)
                else:
                    not_asked.append(NotAsked(task_id, "", TOO_LARGE))
    return Hits(position, pages, not_asked, not_drawn)


def turn_html(speaker: str, text: str) -> str:
    """One turn of what has been said so far."""
    return one_line(render("hit_rewrites_turn.html.jinja", speaker=speaker, text=text))


def rewrites_body(heard: Sequence[str], asked: Rewriting) -> str:
    """The body of a page, on one line: the dialogue so far, each turn a :func:`turn_html`, and the sentence."""
    pieces, values = asked.pieces(), asked.values()
    return one_line(render("hit_rewrites_body.html.jinja", heard="".join(heard), pieces=pieces, values=values))


def _said(dialogue: Dialogue, turn: int) -> tuple[str, str]:
    said = dialogue.turns[turn]
    return ("User" if said.speaker == "USER" else "Assistant"), speakable(said.utterance)


def _page(
    dialogue: Dialogue, turn: int, asked: Rewriting, heard: Sequence[str], file: str, settings: Settings
) -> Page | None:
    """The page; None where it would be too large."""
    room = capacity(REWRITES)
    # The sum first: with thousands of turns, each page would be long in the making and then refused.
    if sum(map(len, heard)) > room or len((body := rewrites_body(heard, asked)).encode()) > room:
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
        utterance=asked.utterance,
        values=[mark.kept for mark in asked.marks],
    )
