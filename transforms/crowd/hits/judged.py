"""Pages on which workers judge utterances: the grouping of utterances, the checks among them, and the HTML.

SGSAcc (Chen, Lin and Byrne 2023, section 2.2) asks three workers whether each generated utterance is faithful to its
dialogue acts; turns of perturbed sets are compared with the original in the same way. Neither the metric's verdict on
an utterance nor its set affects the pages, so that no page can reveal it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from parapet.transforms.crowd.hits.markup import KeptValue, Mark, bold_pieces, find_word, shown
from parapet.transforms.crowd.hits.page import (
    TOO_LARGE,
    Hits,
    NotAsked,
    RatedItem,
    Settings,
    VariedItem,
    capacity,
    fit,
    make_page,
    one_line,
)
from parapet.transforms.crowd.hits.terms import RATINGS, VALIDITY, HitTask
from parapet.transforms.reports.report import render
from parapet.transforms.running.seeding import stable_digest, stable_hash

FAITHFUL, NATURAL, SAME, VALUES = "faithful", "natural", "same", "values"
YES, NO = "yes", "no"
POINTS = ("1", "2", "3", "4", "5")  # naturalness, 5 is best
FIELD = re.compile(rf"({FAITHFUL}|{NATURAL}|{SAME}|{VALUES})_(0|[1-9][0-9]{{0,5}})")

# The first question about an utterance; no attentive worker answers it with yes for a check.
DECISIVE = {RATINGS: FAITHFUL, VALIDITY: SAME}

_LEAST_LETTERS = 3  # shorter values may be part of another utterance by chance
_QUESTIONS = {
    FAITHFUL: ("Does the reply say everything on the list, and say it correctly?", [(YES, "Yes"), (NO, "No")], None),
    SAME: ("Does version B say the same as version A?", [(YES, "Yes"), (NO, "No")], None),
    VALUES: (
        "Is everything that is bold in A still in B, in whatever spelling?",
        [(YES, "Yes"), (NO, "No")],
        None,
    ),
    NATURAL: ("How natural does {it} sound?", [(point, point) for point in POINTS], ("not at all", "like a person")),
}


Item = TypeVar("Item", RatedItem, VariedItem)


def names_of(item: RatedItem | VariedItem, naturalness: bool) -> list[str]:
    """Return the questions about an utterance, as the first part of the names of their form fields."""
    names = [FAITHFUL] if isinstance(item, RatedItem) else [SAME, *([VALUES] if item.values else [])]
    return [*names, *([NATURAL] if naturalness else [])]


def group_items(items: Sequence[Item], per_page: int, checks: int, seed: int) -> list[list[Item]]:
    """Shuffle the utterances, distribute them evenly over pages, and insert checks.

    Neither order nor checks depend on the metric's verdicts.

    Args:
      items: the utterances, at most one for each turn and set.
      per_page: maximum number of utterances on a page, not counting checks.
      checks: number of checks on each page, if there are enough that are certainly wrong.
      seed: the seed of order and checks.
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
    items: Sequence[Item],
    group: Sequence[Item],
    checks: int,
    seed: int,
    page: int,
    used: set[tuple[str, int]],
) -> list[Item]:
    """Combine turns with another turn's utterance without their values, if possible of another service.

    Args:
      items: all utterances, from which turn and utterance are taken.
      group: the utterances of the page, whose turns are excluded.
      checks: the number of checks to create.
      seed: the seed of the choice.
      page: the number of the page.
      used: turns in checks of other pages; they are reused only if there are no others.
    """
    on_page = {(item.dialogue_id, item.turn) for item in group}
    ordered = sorted(
        (item for item in items if (item.dialogue_id, item.turn) not in on_page),
        key=lambda item: ((item.dialogue_id, item.turn) in used, _digest(seed, f"check {page}", item)),
    )
    checks_here: list[Item] = []
    for item in ordered:
        if len(checks_here) == checks:
            break
        values = [value.casefold() for value in item.values if len(value) >= _LEAST_LETTERS]
        others = [other for other in reversed(ordered) if _says_none(other, values) and not _same_turn(other, item)]
        if values and others:
            # Prefer another service; ties go to the first.
            other = min(others, key=lambda other: other.service_name == item.service_name)
            checks_here.append(item.as_check(other.utterance))
    return checks_here


def _same_turn(one: RatedItem | VariedItem, other: RatedItem | VariedItem) -> bool:
    """Whether both are the same turn in two sets, so that one's utterance fits the other's context."""
    return (one.dialogue_id, one.turn) == (other.dialogue_id, other.turn)


def _says_none(other: RatedItem | VariedItem, values: Sequence[str]) -> bool:
    utterance = other.utterance.casefold()
    return bool(utterance) and not any(value in utterance for value in values)


def render_judged(position: int, items: Sequence[RatedItem | VariedItem], settings: Settings) -> Hits:
    """Render the page of a group, split into parts if it is too large; an utterance too large for any page is left out.

    Args:
      position: the position of the group, from 0.
      items: the utterances of the group.
      settings: the settings of the pages.
    """
    task = RATINGS if isinstance(items[0], RatedItem) else VALIDITY
    rendered = [item_html(i, item, settings.naturalness) for i, item in enumerate(items)]
    room = capacity(task) - len(judged_body(task, []).encode())
    runs, large = fit(rendered, room)
    # The hash identifies answers to the pages of another sample; within a sample, the number suffices.
    page_id = f"{position + 1:03}-{stable_digest(*rendered)[:8]}"
    task_id = f"{page_id}:{task}"
    hits = Hits(position, [], [NotAsked(task_id, f"{items[i].dialogue_id}:{items[i].turn}", TOO_LARGE) for i in large])
    for part, run in enumerate(runs, 1):
        chosen = [items[i] for i in run]
        page = make_page(
            task,
            f"pages/{page_id}.{task}" + (f".{part}" if part > 1 else ""),
            judged_body(task, [rendered[i] for i in run]),
            settings,
            task_id=task_id,
            fields=[f"{name}_{i}" for i in run for name in names_of(items[i], settings.naturalness)],
            turns=sum(item.turns for item in chosen),
            service_name="+".join(sorted({name for item in chosen for name in item.service_name.split("+")})),
            part=part,
            parts=len(runs),
            element_ids=[],
            ambiguous=[],
            **{"items" if task == RATINGS else "pairs": chosen},
        )
        hits.pages.append(page)
    return hits


def item_html(i: int, item: RatedItem | VariedItem, naturalness: bool) -> str:
    """Render an utterance with its questions on one line, without the verdict on it or its set."""
    visible: dict[str, object] = {"utterance": shown(item.utterance)}
    if isinstance(item, RatedItem):
        acts = [{"does": act.does, "about": shown(act.about), "value": shown(act.value)} for act in item.acts]
        visible |= {"previous": shown(item.previous), "acts": acts}
    else:
        before = [("User" if speaker == "USER" else "Assistant", shown(text)) for speaker, text in item.before]
        visible |= {"before": before, "original": _bold_values(shown(item.original), item.values)}
    it = "it" if isinstance(item, RatedItem) else "B"
    questions = [
        (name, question.format(it=it), choices, ends)
        for name in names_of(item, naturalness)
        for question, choices, ends in [_QUESTIONS[name]]
    ]
    return one_line(render("hit_judged_item.html.jinja", i=i, item=visible, questions=questions))


def _bold_values(text: str, values: Sequence[str]) -> list[tuple[str, bool]]:
    places = [(value, find_word(text, value)) for value in values]
    marks = [Mark(KeptValue("", "", value), at, at + len(value)) for value, at in places if at is not None]
    return bold_pieces(text, marks)


def judged_body(task: HitTask, items: Sequence[str]) -> str:
    """Render the body of a page on one line; ``items`` are the results of :func:`item_html`."""
    legend = "The replies" if task == RATINGS else "The sentences"
    return one_line(f"<fieldset disabled><legend>{legend}</legend><ol>{''.join(items)}</ol></fieldset>")


def _digest(seed: int, what: str, item: RatedItem | VariedItem) -> str:
    name, dialogue_id, turn = item.place
    return stable_digest(str(seed), what, dialogue_id, str(turn), *([name] if name else []))
