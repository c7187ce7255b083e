"""Pages on which workers judge utterances: which stand together on one, the checks among them, the HTML.

SGSAcc (Chen, Lin and Byrne 2023, section 2.2) has three workers say of each generated utterance whether it is faithful
to its dialogue acts; turns of perturbed sets are compared with the original in the same way. What the metric says of an
utterance, or of which set it is, decides nothing here, so that no page can reveal it.
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
POINTS = ("1", "2", "3", "4", "5")  # of naturalness, 5 is best
FIELD = re.compile(rf"({FAITHFUL}|{NATURAL}|{SAME}|{VALUES})_(0|[1-9][0-9]{{0,5}})")

# The first question about an utterance, which nobody attentive answers with yes of a check.
DECISIVE = {RATINGS: FAITHFUL, VALIDITY: SAME}

_LEAST_LETTERS = 3  # of a value that cannot be part of another utterance by chance
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
    """The questions about an utterance, by the first part of their form fields."""
    names = [FAITHFUL] if isinstance(item, RatedItem) else [SAME, *([VALUES] if item.values else [])]
    return [*names, *([NATURAL] if naturalness else [])]


def group_items(items: Sequence[Item], per_page: int, checks: int, seed: int) -> list[list[Item]]:
    """The utterances in random order, as evenly over pages as can be, and with checks among them.

    Neither order nor checks depend on the verdicts of the metric.

    Args:
      items: the utterances, no two of one turn and set.
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
    items: Sequence[Item],
    group: Sequence[Item],
    checks: int,
    seed: int,
    page: int,
    used: set[tuple[str, int]],
) -> list[Item]:
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
    found: list[Item] = []
    for item in ordered:
        if len(found) == checks:
            break
        values = [value.casefold() for value in item.values if len(value) >= _LEAST_LETTERS]
        others = [other for other in reversed(ordered) if _says_none(other, values) and not _same_turn(other, item)]
        if values and others:
            # Of equals the first: one of another service, where the corpus has several.
            other = min(others, key=lambda other: other.service_name == item.service_name)
            found.append(item.as_check(other.utterance))
    return found


def _same_turn(one: RatedItem | VariedItem, other: RatedItem | VariedItem) -> bool:
    """Whether they are of one turn, as two sets have it: what the other says then fits."""
    return (one.dialogue_id, one.turn) == (other.dialogue_id, other.turn)


def _says_none(other: RatedItem | VariedItem, values: Sequence[str]) -> bool:
    utterance = other.utterance.casefold()
    return bool(utterance) and not any(value in utterance for value in values)


def render_judged(position: int, items: Sequence[RatedItem | VariedItem], settings: Settings) -> Hits:
    """Renders the page of a group, in parts where it would be too large; an utterance too large for any is not asked.

    Args:
      position: of the group among the others, from 0.
      items: the utterances of the group.
      settings: what shapes the page.
    """
    task = RATINGS if isinstance(items[0], RatedItem) else VALIDITY
    rendered = [item_html(i, item, settings.naturalness) for i, item in enumerate(items)]
    room = capacity(task) - len(judged_body(task, []).encode())
    runs, large = fit(rendered, room)
    # By the hash, answers to the pages of another sample are recognised; within a sample the number is enough.
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
    """One utterance with its questions, on one line. Nothing is shown of the verdict on it, or of its set."""
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
    found = [Mark(KeptValue("", "", value), at, at + len(value)) for value, at in places if at is not None]
    return bold_pieces(text, found)


def judged_body(task: HitTask, items: Sequence[str]) -> str:
    """The body of a page, on one line; ``items`` are of :func:`item_html`."""
    legend = "The replies" if task == RATINGS else "The sentences"
    return one_line(f"<fieldset disabled><legend>{legend}</legend><ol>{''.join(items)}</ol></fieldset>")


def _digest(seed: int, what: str, item: RatedItem | VariedItem) -> str:
    name, dialogue_id, turn = item.place
    return stable_digest(str(seed), what, dialogue_id, str(turn), *([name] if name else []))
