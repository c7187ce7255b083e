"""Pages on which workers judge utterances: the grouping of utterances, the checks among them, and the HTML.

SGSAcc (Chen, Lin and Byrne 2023, section 2.2) asks three workers whether each generated utterance is faithful to its
dialogue acts. The metric's verdict on an utterance does not affect the pages, so that no page can reveal it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from parapet.transforms.crowd.hits.markup import shown
from parapet.transforms.crowd.hits.page import (
    CHECK,
    TOO_LARGE,
    Hits,
    NotAsked,
    Place,
    RatedItem,
    Settings,
    capacity,
    fit,
    make_page,
    render_part,
)
from parapet.transforms.crowd.hits.terms import RATINGS
from parapet.transforms.running.seeding import stable_digest, stable_hash

FAITHFUL, NATURAL = "faithful", "natural"
YES, NO = "yes", "no"
POINTS = ("1", "2", "3", "4", "5")  # naturalness, 5 is best
FIELD = re.compile(rf"({FAITHFUL}|{NATURAL})_(0|[1-9][0-9]{{0,5}})")

_TURNS_OF_ITEM = 3  # the turn before, the acts (about as long as a turn), and the utterance
_LEAST_LETTERS = 3  # shorter values may be part of another utterance by chance
_QUESTIONS = {
    FAITHFUL: ("Does the reply say everything on the list, and say it correctly?", [(YES, "Yes"), (NO, "No")], None),
    NATURAL: ("How natural does it sound?", [(point, point) for point in POINTS], ("not at all", "like a person")),
}


def group_items(items: Sequence[RatedItem], per_page: int, checks: int, seed: int) -> list[list[RatedItem]]:
    """Shuffle the utterances, distribute them evenly over pages, and insert checks.

    Neither order nor checks depend on the metric's verdicts.

    Args:
      items: the utterances, at most one for each turn.
      per_page: maximum number of utterances on a page, not counting checks.
      checks: number of checks on each page, if there are enough that are certainly wrong.
      seed: the seed of order and checks.
    """
    ordered = sorted(items, key=lambda item: _digest(seed, "order", item))
    pages = -(-len(ordered) // per_page)
    groups = [ordered[len(ordered) * i // pages : len(ordered) * (i + 1) // pages] for i in range(pages)]
    used: set[Place] = set()
    for number, group in enumerate(groups):
        for check in _checks(ordered, group, checks, seed, number, used):
            used.add(check.place)
            place = stable_hash(str(seed), "place", str(number), check.dialogue_id, str(check.turn))
            group.insert(place % (len(group) + 1), check)
    return groups


def _checks(
    items: Sequence[RatedItem], group: Sequence[RatedItem], checks: int, seed: int, page: int, used: set[Place]
) -> list[RatedItem]:
    """Combine turns with another turn's utterance without their values, if possible of another service.

    Args:
      items: all utterances, from which turn and utterance are taken.
      group: the utterances of the page, whose turns are excluded.
      checks: the number of checks to create.
      seed: the seed of the choice.
      page: the number of the page.
      used: turns in checks of other pages; they are reused only if there are no others.
    """
    on_page = {item.place for item in group}
    ordered = sorted(
        (item for item in items if item.place not in on_page),
        key=lambda item: (item.place in used, _digest(seed, f"check {page}", item)),
    )
    chosen: list[RatedItem] = []
    for item in ordered:
        if len(chosen) == checks:
            break
        values = [act.value.casefold() for act in item.acts if len(act.value) >= _LEAST_LETTERS and act.value != "yes"]
        others = [other for other in reversed(ordered) if other is not item and _says_none(other, values)]
        if values and others:
            # Prefer another service; ties go to the first.
            other = min(others, key=lambda other: other.service_name == item.service_name)
            changes = {"stratum": CHECK, "faithful": False, "utterance": other.utterance}
            chosen.append(msgspec.structs.replace(item, **changes))
    return chosen


def _says_none(other: RatedItem, values: Sequence[str]) -> bool:
    utterance = other.utterance.casefold()
    return bool(utterance) and not any(value in utterance for value in values)


def render_judged(items: Sequence[RatedItem], position: int, settings: Settings) -> Hits:
    """Render the page of the group at a position, in parts if it is too large; too large utterances are left out."""
    parts = [_item_html(i, item, settings.naturalness) for i, item in enumerate(items)]
    runs, large = fit(parts, capacity(RATINGS) - len(_body([]).encode()))
    # The hash identifies answers to the pages of another sample; within a sample, the number suffices.
    page_id = f"{position + 1:03}-{stable_digest(*parts)[:8]}"
    task_id = f"{page_id}:{RATINGS}"
    pages = [
        make_page(
            RATINGS,
            page_id,
            _body([parts[i] for i in run]),
            settings,
            task_id=task_id,
            fields=[f"{name}_{i}" for i in run for name in _questions(settings.naturalness)],
            turns=_TURNS_OF_ITEM * len(run),
            service_name="+".join(sorted({name for i in run for name in items[i].service_name.split("+")})),
            part=part,
            parts=len(runs),
            items=[items[i] for i in run],
        )
        for part, run in enumerate(runs, 1)
    ]
    not_asked = [NotAsked(task_id, f"{items[i].dialogue_id}:{items[i].turn}", TOO_LARGE) for i in large]
    return Hits(pages, not_asked, {"items": len(items) - len(large)})


def _questions(naturalness: bool) -> list[str]:
    """Return the questions about an utterance, as the first part of the names of their form fields."""
    return [FAITHFUL, NATURAL] if naturalness else [FAITHFUL]


def _item_html(i: int, item: RatedItem, naturalness: bool) -> str:
    """Render an utterance with its questions, without the verdict on it."""
    acts = [{"does": act.does, "about": shown(act.about), "value": shown(act.value)} for act in item.acts]
    visible = {"utterance": shown(item.utterance), "previous": shown(item.previous), "acts": acts}
    questions = [(name, *_QUESTIONS[name]) for name in _questions(naturalness)]
    return render_part("hit_judged_item.html.jinja", i=i, item=visible, questions=questions)


def _body(items: Sequence[str]) -> str:
    return f"<fieldset disabled><legend>The replies</legend><ol>{''.join(items)}</ol></fieldset>"


def _digest(seed: int, what: str, item: RatedItem) -> str:
    return stable_digest(str(seed), what, item.dialogue_id, str(item.turn))
