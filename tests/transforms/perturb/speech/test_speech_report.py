"""The report of the sets: every number of ``statistics.json`` that a reader needs, in the page and in the card."""

import pytest

pytest.importorskip("scipy")

from parapet.transforms.core.counts import Counts
from parapet.transforms.perturb.page import Changed, example_of, report_of
from parapet.transforms.perturb.speech.alignment import set_name
from parapet.transforms.perturb.speech.perturbation import SpeechErrors, set_statistics
from parapet.transforms.report.report import Dots, Table, card, page

MADE_WITH = {
    "synthesiser": "hibari",
    "recogniser": "moonshine tiny-en",
    "noise": "recordings:aaaabbbbcccc",
    "voices": ["heart", "fenrir"],
    "normalisation": "1",
    "samples_a_second": 16000,
}
TARGETS = [0.1, 0.125, 0.2]
SUMS = {"heard": 600, "words": 12345, "substitutions": 700, "deletions": 80, "insertions": 90, "slots": 400}
SUMS |= {"perfect_turns": 300}


def numbers(**made_with):
    counts = Counts()
    for i, target in enumerate(TARGETS, 1):
        for name, n in {**SUMS, "substitutions": 700 * i, "slots_kept": 400 - 50 * i}.items():
            counts.add(name, 2 * n, set=set_name(target))
    return {"sets": sets_of(counts), "made_with": {**MADE_WITH, **made_with}}


def sets_of(counts):
    return {set_name(target): set_statistics(target, counts) for target in TARGETS}


def report(found, examples=None, **options):
    return report_of(SpeechErrors(), found, examples or {}, options)


def section(of, title):
    (found,) = [one for one in of.sections if one.title == title and isinstance(one, Table)]
    return found


def test_every_set_is_there():
    made = report(numbers())
    first, *others = section(made, "Word error rate by set").rows
    assert first == [
        *("SR-10", f"{100 * 1740 / 24690:.2f}%", "10.0%"),
        *("24,690", "1,200", "1,400", "160", "180", "87.5%", "50.0%"),
    ]
    assert [(cells[0], cells[2]) for cells in others] == [("SR-12.5", "12.5%"), ("SR-20", "20.0%")]
    dots = next(one for one in made.sections if isinstance(one, Dots)).dots
    assert (dots[0].label, dots[0].low) == ("SR-10", None)
    assert [tile.label for tile in made.tiles][:3] == [f"word error rate, SR-{rate}" for rate in ("10", "12.5", "20")]


def test_the_page_and_the_card_have_it():
    turn = Changed("1_00001", 4, "", "At 7:30 in San Jose", "at seven thirteen in san please")
    made = report(numbers(), {"SR-20": [example_of(turn)]}, seed="a`b")
    text, html = card(made), page(made)
    assert "| SR-10 | 7.05% | " in text
    assert all(made in text for made in ("hibari", "heart, fenrir", "recordings:aaaa", "moonshine tiny-en", "a\\`b"))
    assert all(part in html for part in ("SR-12.5", "7.05%", "thirteen"))
    assert "None" not in text + html


def test_sets_without_a_transcript():
    made = report({"sets": sets_of(Counts()), "made_with": MADE_WITH})
    rows = section(made, "Word error rate by set").rows
    assert [cells[0] for cells in rows] == ["SR-10", "SR-12.5", "SR-20"]
    assert all((cells[1], cells[3], cells[-1]) == ("–", "0", "–") for cells in rows)
    assert "None" not in page(made) + card(made)
