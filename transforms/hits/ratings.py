"""Pages on which workers judge generated utterances: which stand together on one, the checks among them, the HTML.

SGSAcc (Chen, Lin and Byrne 2023, section 2.2) has three workers say of each utterance whether it is faithful to its
dialogue acts. What the metric says of an utterance decides nothing here, so that no page can reveal it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from parapet.transforms.hits.markup import shown
from parapet.transforms.hits.page import TOO_LARGE, capacity, make_page, one_line
from parapet.transforms.hits.questions import NotAsked
from parapet.transforms.hits.records import TURNS_OF_ITEM, Hits, Page, RatedItem, Settings
from parapet.transforms.hits.render_service import split
from parapet.transforms.hits.terms import RATINGS
from parapet.transforms.pages import render
from parapet.transforms.seeding import stable_digest, stable_hash

FAITHFUL, NATURAL = "faithful", "natural"
YES, NO = "yes", "no"
POINTS = ("1", "2", "3", "4", "5")  # of naturalness, 5 is best
FIELD = re.compile(rf"({FAITHFUL}|{NATURAL})_(0|[1-9][0-9]{{0,5}})")

_LEAST_LETTERS = 3  # of a value that cannot be part of another utterance by chance
_QUESTIONS = {
    FAITHFUL: ("Does the reply say everything on the list, and say it correctly?", [(YES, "Yes"), (NO, "No")], None),
    NATURAL: ("How natural does it sound?", [(point, point) for point in POINTS], ("not at all", "like a person")),
}


def names_of(naturalness: bool) -> tuple[str, ...]:
    """The questions about each utterance, by the first part of their form fields."""
    return (FAITHFUL, NATURAL) if naturalness else (FAITHFUL,)


def group_items(items: Sequence[RatedItem], per_page: int, checks: int, seed: int) -> list[list[RatedItem]]:
    """The utterances in random order, as evenly over pages as can be, and with checks among them.

    Neither order nor checks depend on the verdicts of the metric.

    Args:
      items: the utterances, no two of one turn.
      per_page: at most so many on a page, checks aside.
      checks: so many on each page, where there are any that are certain to be wrong.
      seed: of order and checks.
    """
    ordered = sorted(items, key=lambda item: _digest(seed, "order", item))
    pages = -(-len(ordered) // per_page)
    groups = [ordered[len(ordered) * i // pages : len(ordered) * (i + 1) // pages] for i in range(pages)]
    used: set[tuple[str, int]] = set()
    for number, group in enumerate(groups):
        for check in check_items(ordered, group, checks, seed, number, used):
            used.add((check.dialogue_id, check.turn))
            place = stable_hash(str(seed), "place", str(number), check.dialogue_id, str(check.turn))
            group.insert(place % (len(group) + 1), check)
    return groups


def check_items(
    items: Sequence[RatedItem],
    group: Sequence[RatedItem],
    checks: int,
    seed: int,
    page: int,
    used: set[tuple[str, int]],
) -> list[RatedItem]:
    """Turns beside the utterance of another one, which says none of their values; of another service where it can be.

    Args:
      items: all utterances, from which turn and utterance are taken.
      group: those of the page, whose turns are not taken.
      checks: how many are wanted.
      seed: of the choice.
      page: the number of the page.
      used: turns that checks of other pages have; they are taken again only where there are no others.
    """
    on_page = {(item.dialogue_id, item.turn) for item in group}
    ordered = sorted(
        (item for item in items if (item.dialogue_id, item.turn) not in on_page),
        key=lambda item: ((item.dialogue_id, item.turn) in used, _digest(seed, f"check {page}", item)),
    )
    found: list[RatedItem] = []
    for item in ordered:
        if len(found) == checks:
            break
        values = [act.value.casefold() for act in item.acts if len(act.value) >= _LEAST_LETTERS and act.value != YES]
        others = [other for other in reversed(ordered) if _says_none(other, values)]
        if values and others:
            # Of equals the first: one of another service, where the corpus has several.
            other = min(others, key=lambda other: other.service_name == item.service_name)
            check = msgspec.structs.replace(item, stratum="check", faithful=False, utterance=other.utterance)
            found.append(check)
    return found


def _says_none(other: RatedItem, values: Sequence[str]) -> bool:
    utterance = other.utterance.casefold()
    return bool(utterance) and not any(value in utterance for value in values)


def render_ratings(position: int, items: Sequence[RatedItem], settings: Settings) -> Hits:
    """Renders the page of a group, in parts where it would be too large; an utterance too large for any is not asked.

    Args:
      position: of the group among the others, from 0.
      items: the utterances of the group.
      settings: what shapes the page.
    """
    names = names_of(settings.naturalness)
    rendered = [item_html(i, item, names) for i, item in enumerate(items)]
    room = capacity(RATINGS) - len(ratings_body([]).encode())
    fits = [i for i, html in enumerate(rendered) if len(html.encode()) <= room]
    runs = split([len(rendered[i].encode()) for i in fits], room)
    # By the hash, answers to the pages of another sample are recognised; within a sample the number is enough.
    page_id = f"{position + 1:03}-{stable_digest(*rendered)[:8]}"
    task_id = f"{page_id}:{RATINGS}"
    large = set(range(len(items))) - set(fits)
    hits = Hits(position, [], [NotAsked(task_id, f"{items[i].dialogue_id}:{items[i].turn}", TOO_LARGE) for i in large])
    for part, run in enumerate(runs, 1):
        chosen = [fits[i] for i in run]
        body = ratings_body([rendered[i] for i in chosen])
        hits.pages.append(_page(task_id, part, len(runs), chosen, items, body, names, settings))
    return hits


def item_html(i: int, item: RatedItem, names: Sequence[str]) -> str:
    """One utterance with its questions, on one line. Of the item nothing is shown but acts, turn before, utterance."""
    visible = {
        "previous": shown(item.previous),
        "acts": [{"does": act.does, "about": shown(act.about), "value": shown(act.value)} for act in item.acts],
        "utterance": shown(item.utterance),
    }
    questions = [(name, *_QUESTIONS[name]) for name in names]
    return one_line(render("hit_ratings_item.html.jinja", i=i, item=visible, questions=questions))


def ratings_body(items: Sequence[str]) -> str:
    """The body of a page, on one line; ``items`` are of :func:`item_html`."""
    return one_line(f"<fieldset disabled><legend>The replies</legend><ol>{''.join(items)}</ol></fieldset>")


def _page(
    task_id: str,
    part: int,
    parts: int,
    chosen: Sequence[int],
    items: Sequence[RatedItem],
    body: str,
    names: Sequence[str],
    settings: Settings,
) -> Page:
    page_id = task_id.partition(":")[0]
    return make_page(
        RATINGS,
        f"pages/{page_id}.{RATINGS}" + (f".{part}" if part > 1 else ""),
        body,
        settings,
        task_id=task_id,
        fields=[f"{name}_{i}" for i in chosen for name in names],
        turns=TURNS_OF_ITEM * len(chosen),
        service_name="+".join(sorted({name for i in chosen for name in items[i].service_name.split("+")})),
        part=part,
        parts=parts,
        element_ids=[],
        ambiguous=[],
        items=[items[i] for i in chosen],
    )


def _digest(seed: int, what: str, item: RatedItem) -> str:
    return stable_digest(str(seed), what, item.dialogue_id, str(item.turn))
