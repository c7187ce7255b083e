"""Pages on which workers judge utterances: the grouping of utterances, the checks among them, and the HTML.

SGSAcc (Chen, Lin and Byrne 2023, section 2.2) asks three workers whether each generated utterance is faithful to its
dialogue acts. The metric's verdict on an utterance does not affect the pages, so that no page can reveal it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from itertools import islice

import msgspec

from parapet.transforms.core.seeding import stable_digest, stable_hash
from parapet.transforms.crowd.hits import markup, terms
from parapet.transforms.crowd.hits.page import CHECK, Hits, Part, Place, RatedItem, Settings, add_pages, render_part

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
            changes = {"stratum": CHECK, "faithful": False, "utterance": other.utterance}
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
