"""How the changed turns of a set read: which are drawn, and what is measured of them."""

import kit
import pytest
from kit import frame, run, span, turn

from parapet.transforms.perturb import page
from parapet.transforms.perturb.page import Changed, drawn_turns, quality_of
from parapet.transforms.report import meaning

SETS = (("typos", "1"), ("verbose", "2"))
HELLO = [turn("SYSTEM", "What do you need?"), turn("USER", "A bus to Fresno.")]


@pytest.fixture
def no_nets(monkeypatch):
    monkeypatch.setattr(meaning, "has_model", lambda: False)


def changed(before, after):
    return [one for _, one in drawn_turns("a", kit.dialogue("1", *before), kit.dialogue("1", *after))]


def test_changed_and_new_turns_are_drawn():
    other = [HELLO[0], turn("USER", "I'd like a bus to Fresno.")]
    more = [*HELLO, turn("SYSTEM", "Sure."), turn("USER", "Who won?"), *HELLO]
    assert changed(HELLO, HELLO) == []
    assert changed(HELLO, other) == [Changed("1", 1, "", "A bus to Fresno.", "I'd like a bus to Fresno.")]
    assert changed(HELLO, more)[0] == Changed("1", 3, "Sure.", "", "Who won?")
    assert changed(HELLO, [turn("SYSTEM", "Yes?"), HELLO[1]]) == []  # no user said that


def test_similarity_is_summed_up(no_nets):
    same, other = Changed("1", 0, "", "a bus", "A bus!"), Changed("1", 0, "", "a bus", "who won")
    assert (quality_of([same]), quality_of([same, other])["similarity"]) == ({"turns": 1, "similarity": 1}, 0.5)
    assert quality_of([Changed("1", 0, "", "", "new")]) == {"turns": 1, "similarity": None}


def test_values_are_kept_where_the_text_or_the_annotation_has_them(no_nets):
    def with_city(text, *spans):
        return [turn("USER", text, frame("Bus_1", slots=spans))]

    before = with_city("A bus to Fresno.", span("city", "A bus to Fresno.", "Fresno"))
    lower, lost = with_city("bus to fresno"), with_city("A bus to Fresnoville.")
    replaced = with_city("A bus to Reno.", span("city", "A bus to Reno.", "Reno"))
    assert [changed(before, after)[0].kept for after in (lower, lost, replaced)] == [(True,), (False,), (True,)]
    assert quality_of([changed(before, after)[0] for after in (lower, lost)])["values_kept"] == 0.5


def test_page_and_card_say_it(no_nets, tmp_path):
    made = run("language_variations", kinds="verbose,typos", env="0.5", output=tmp_path / "out")
    found = made.json("statistics.json")["quality"]
    assert sorted(found) == ["typos", "verbose"]  # a mix has no turns of its own
    assert 0 < found["verbose"]["turns"] <= page.DRAWN
    cell = f"| verbose | {found['verbose']['turns']} | {found['verbose']['similarity']:g} |"
    assert cell in made.text("README.md")
    assert "How the changed user turns read" in made.text("report.html")
    for part in made.text("README.md").split("## Examples of ")[1:]:
        assert part.partition("\n## ")[0].count("| dialogue ") == 12


def test_cards_of_all_sets_show_the_same_turns(no_nets, tmp_path):
    cards = [run("perturb", name, seed=seed, output=tmp_path / name).text("README.md") for name, seed in SETS]
    shown, of_verbose = ([line.split(" | ")[0] for line in card.split("\n") if "| dialogue " in line] for card in cards)
    assert len(shown) == len(of_verbose) == 12
    # verbose leaves some turns as they are: the next ones take their places
    in_both = [place for place in of_verbose if place in shown]
    assert in_both == [place for place in shown if place in of_verbose]
    assert len(in_both) >= 9
