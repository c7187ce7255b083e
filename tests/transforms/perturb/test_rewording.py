"""Turns in the words of others: where values are found again, and files of such turns."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.schemas.dialogue import Action, Frame, SlotSpan, Turn
from parapet.transforms.perturb.rewrites import Line, Rewritten, read_lines, reworded
from parapet.transforms.perturb.user_turns import Span as Place
from parapet.transforms.perturb.user_turns import UserTurn
from parapet.transforms.perturb.variations import KINDS, Verbose

WORDS = [
    *("a", "2", "2 pm", "pm", "Port", "Port Alder", "Alder", "I", "don't"),
    *("Cafe\u0301", "👍🏽", "ｗ", ",", ".", "no"),
]


class Lines(Rewritten):
    """Rewritten turns that are in no file."""

    def __init__(self, *lines):
        super().__init__(())
        self.lines = {line.key: line for line in lines}

    def get(self, key):
        return self.lines.get(key)


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)


def said(text, *values, at=(), **acts):
    """A turn with spans of the values, first occurrences, or at the places; acts have values without a span."""
    places = at or tuple((text.index(value), text.index(value) + len(value)) for value in values)
    spans = [SlotSpan(slot=f"slot{i}", start=start, exclusive_end=end) for i, (start, end) in enumerate(places)]
    actions = [Action(act="INFORM", slot=slot, values=[value]) for slot, value in acts.items()]
    turn = Turn(speaker="USER", utterance=text, frames=[Frame(service="S_1", slots=spans, actions=actions)])
    found = tuple(Place("S_1", f"slot{i}", *place) for i, place in enumerate(places))
    return UserTurn("1", 0, text, found, (), frozenset(), ("S_1",), (), turn)


@cases(
    "before values after found",
    ("For 2 at 2 pm", ("2", "2 pm"), "At 2 pm, for 2", ["2", "2 pm"]),
    ("For 2 at 2 pm", ("2", "2 pm"), "At 2 pm, for two", "value_lost: slot0"),
    ("For 2 people", ("2",), "For 12 people", "value_lost: slot0"),
    ("For 2 people", ("2",), "For 2.50 each", "value_lost: slot0"),
    ("For 2 people", ("2",), "2 tables for 2", "value_unclear: slot0"),
    ("For 2 people, 2 tables", ("2",), "A pair of 2 at 2 tables", ["2"]),
    ("For two people", ("two",), "The two of us at two tables", "value_unclear: slot0"),
    ("Go to Fresno", ("Fresno",), "Fresno is where I go, Fresno", ["Fresno"]),
    ("Go to Fresno", ("Fresno",), "Go to fresno now", "value_lost: slot0"),
    ("From Rome or Rome", ("Rome",), "Rome it is", ["Rome"]),
    ("Go to Fresno!", ("Fresno",), "go to Fresno", "copy"),
    ("In Port Alder now", ("Port Alder", "Alder"), "Now, Port Alder", ["Port Alder", "Alder"]),
)
def test_values_are_found_again(before, values, after, found):
    made = reworded(said(before, *values), after, "crowd")
    if isinstance(found, str):
        assert (made.reason, made.text) == (found, "")
    else:
        assert [after[slice(*place)] for place in made.places] == found
        assert made.text == after


def test_each_of_two_that_are_the_same_has_its_own_place():
    turn = said("From Rome to Rome", at=((5, 9), (13, 17)))
    assert reworded(turn, "To Rome I go, and from Rome", "crowd").places == [(3, 7), (23, 27)]
    assert reworded(turn, "Round and round in Rome", "crowd").reason == "value_lost: slot0, slot1"


@given(texts, texts, st.data())
def test_any_texts(before, after, data):
    """Spans stand where their values do; nothing is put where it was not."""
    ends = sorted(data.draw(st.sets(st.integers(0, len(before)), max_size=6)))
    places = tuple(data.draw(st.permutations(list(combinations(ends, 2))))[:3])
    lines = Lines(Line("1", 0, "verbose", after, "x"))
    (row,) = Verbose(rewritten=lines).rewrite_all([said(before, at=places)])
    if not row.text:
        assert row.reason
        return
    assert row.text == after
    for place, new in zip(places, row.places, strict=True):
        assert after[slice(*new)] == before[slice(*place)]
    if len({before[slice(*place)] for place in places}) == len(places) == len(set(row.places)):
        overlaps = [a[0] < b[1] and b[0] < a[1] for a, b in combinations(places, 2)]
        assert overlaps == [a[0] < b[1] and b[0] < a[1] for a, b in combinations(row.places, 2)]


def test_lines(tmp_path):
    path = tmp_path / "rewritten.jsonl"
    good = '{"dialogue_id": "1", "turn": 2, "kind": "typos", "utterance": " helo\\r\\n", "source": "w", "more": [1]}'
    bad = {
        good: "duplicate: rewritten.jsonl line 1 also has the typos of turn 2",
        "{": "not_json: ",
        "[]": "bad_line: Expected `object`, got `array`",
        good.replace("2", '"2"'): "bad_line: turn: Expected `int`, got `str`",
        good.replace("2", "-2"): "bad_line: turn: Expected `int` >= 0",
        good.replace('"turn": 2, ', ""): "bad_line: Object missing required field `turn`",
        good.replace("typos", "typo"): "unknown_kind: 'typo': must be one of paraphrase, typos, verbose, simple",
        good.replace("helo", ""): "no_text: the utterance is empty",
        '{"dialogue_id": "\\ud83d"': "not_json: ",
    }
    path.write_text("\ufeff" + "\n\n".join([good, *bad]) + "\n", encoding="utf-8")
    rewritten = Rewritten([path])
    assert rewritten.kinds() == {"typos"}
    letters = [letter for _, (letter,) in rewritten.unused((), ())]
    assert (rewritten.total(["typos"]), rewritten.total(["simple"])) == (len(bad) + 1, len(bad))
    assert next(iter(read_lines(str(path)))) == (1, Line("1", 2, "typos", "helo", "w"))
    assert [letter.where for letter in letters] == [f"line {2 * i + 1}" for i in range(1, len(bad) + 1)]
    for letter, reason in zip(letters, bad.values(), strict=True):
        assert letter.reason.startswith(reason)


def test_a_copy_has_the_same_words_and_a_typo_may():
    lines = Lines(*(Line("1", 0, kind, "Thats right", "x") for kind in ("typos", "paraphrase")))
    turn = said("That's right.")
    rewrites = {kind: KINDS[kind](rewritten=lines).rewrite_all([turn])[0] for kind in KINDS}
    assert rewrites["typos"].text == "Thats right"
    assert (rewrites["paraphrase"].reason, rewrites["simple"].reason) == ("copy", "not_rewritten")
