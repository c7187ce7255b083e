import pytest
from hits_dialogues import user
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import raised

from parapet.schemas.dialogue import Action, Frame, SlotSpan, State, Turn
from parapet.transforms.crowd.hits.markup import bold_pieces, marks, speakable


def kept(turn, before=None):
    return [(mark.kept.slot, mark.kept.value) for mark in marks(turn, before)]


def bold(turn):
    return [text for text, is_bold in bold_pieces(speakable(turn.utterance), marks(turn)) if is_bold]


def test_without_actions_what_the_turn_changes_in_the_state_is_kept():
    """MultiWOZ 2.2: no actions, and the state repeats what was said before."""

    def turn(text, values):
        return Turn("USER", text, [Frame("hotel", [], state=State("find_hotel", [], values))])

    first = turn("In the north", {"area": ["north"]})
    second = turn("A cheap one, north is fine", {"area": ["north"], "price": ["cheap", "low"]})
    assert (kept(first), kept(second, first)) == ([("area", "north")], [("price", "cheap")])


def test_copied_slots_have_no_place():
    turn = Turn("USER", "the same place", [Frame("taxi", [SlotSpan("to", copy_from="hotel-name", value="place")])])
    assert marks(turn) == []


@pytest.mark.parametrize("span", [(-1, 2), (0, 99), (3, 3), (4, 2), (2, 4)])
def test_a_span_that_points_nowhere_is_told(span):
    turn = Turn("USER", "ab  cd", [Frame("A", [SlotSpan("x", *span)])])
    raised(ValueError, marks, turn, match=f"slot 'x': {span[0]}-{span[1]}")


def test_overlapping_values_are_one_bold_piece_and_both_kept():
    turn = user("Palo Alto, California", ("city", "Palo Alto"), ("place", "Alto, California"))
    assert kept(turn) == [("city", "Palo Alto"), ("place", "Alto, California")]
    assert bold(turn) == ["Palo Alto, California"]


PIECES = st.text(st.sampled_from("ab2. \t\r\n\x00\x1f\u2028\ufeff\U0001f600<&\u0301"), max_size=12)


@settings(deadline=None)  # other tests may hold the machine
@given(PIECES, PIECES.filter(speakable), PIECES)
def test_bold_is_the_value_and_nothing_else(before, value, after):
    start = len(before)
    turn = Turn("USER", before + value + after, [Frame("A", [SlotSpan("x", start, start + len(value))])])
    assert kept(turn) == [("x", speakable(value))]
    pieces = bold_pieces(speakable(turn.utterance), marks(turn))
    assert "".join(text for text, _ in pieces) == speakable(turn.utterance)
    assert [text for text, is_bold in pieces if is_bold] == [speakable(value)]
    # What stands on either side is what is left of it.
    at = [is_bold for _, is_bold in pieces].index(True)
    assert "".join(text for text, _ in pieces[:at]).split() == speakable(before).split()
    assert "".join(text for text, _ in pieces[at + 1 :]).split() == speakable(after).split()


def test_values_without_a_span_are_kept_where_they_are_said_as_words_of_their_own():
    said = [Action("INFORM", "guests", ["2"]), Action("INFORM", "wifi", ["True"]), Action("INFORM", "kind", ["cheap"])]
    turn = user("True 12 and 2nd, cheaply: 2 at 2:30", actions=said[:1] + said[2:])
    assert [(mark.kept.value, mark.start) for mark in marks(turn)] == [("2", 26)]
    assert kept(user("Does it have wifi?", actions=said)) == []
    assert kept(user("A cheap one for 2", actions=said)) == [("kind", "cheap"), ("guests", "2")]
