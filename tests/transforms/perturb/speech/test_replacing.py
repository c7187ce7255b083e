"""Turns as they were heard: spans found again or gone, and everything else of the turn as it was."""

import copy

import kit
import msgspec
from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.schemas.dialogue import Turn
from parapet.transforms.perturb.speech.alignment import (
    align,
    alignment_text,
    find_span,
    recognised_positions,
    word_errors,
    written,
)
from parapet.transforms.perturb.speech.perturbation import recognised_turn, unchanged_turn, write_into
from parapet.transforms.perturb.speech.spoken import SpokenTurn, spoken_words
from parapet.transforms.perturb.speech.transcribing import Transcript

SOUND = {"voice": "heart", "noise": "pink", "snr": 9.0}
UTTERANCE = "At 7:30 pm, in San Jose please."


def span(utterance, value, slot="s", **more):
    return kit.span(slot, utterance, value, **more)


def turn_of(utterance, *frames):
    return {**kit.turn("USER", utterance, *frames), "mine": {"kept": [1, None]}}


def typed(raw, position=4):
    return SpokenTurn(position, msgspec.convert(raw, Turn), spoken_words(raw["utterance"]), "")


def heard(raw, words):
    """The turn as it is then, and what is known of it."""
    before = copy.deepcopy(raw)
    replaced = recognised_turn(typed(raw), Transcript(words, 0, "abc", 1.5), SOUND)
    assert raw == before
    after = copy.deepcopy(raw)
    write_into(after, replaced)
    return after, replaced


RAW = turn_of(
    UTTERANCE,
    kit.frame(
        "Restaurants_2",
        kit.act("INFORM", "time", "7:30 pm", canonical_values=["19:30"]),
        slots=[span(UTTERANCE, "7:30 pm", "time"), span(UTTERANCE, "San Jose", "city")],
        state=kit.state("Find", time=["7:30 pm"]),
    ),
)


RIGHT = "at seven thirty p m in san jose please"


def test_the_row_says_all_of_it():
    _, found = heard(RAW, "at seven thirteen p m in in san please")
    row = found.row
    counted = {name: row[name] for name in ("slots", "alignment", "substitutions", "deletions", "insertions")}
    assert row == {
        **{"turn": 4, "status": "heard", "reason": "", "original": UTTERANCE, "spoken": RIGHT, "words": 9},
        **{"utterance": "at seven thirteen pm in in san please"},
        **{"hypothesis": "at seven thirteen p m in in san please"},
        **{"wer": 3 / 9, "voice": "heart", "noise": "pink", "snr": 9.0, "audio_sha256": "abc", "seconds": 1.5},
        **counted,
    }
    pairs = [pair.partition(">") for pair in row["alignment"].split(" ") if ">" in pair]
    of = [bool(said) + 2 * bool(heard) for said, _, heard in pairs]
    assert [row["deletions"], row["insertions"], row["substitutions"]] == [of.count(n) for n in (1, 2, 3)]
    assert len(pairs) == 3


def test_a_turn_that_is_not_heard_stays_as_it_was():
    odd = {"slot": "odd", "start": 90, "exclusive_end": 95}
    copied = {"slot": "city", "copy_from": "x", "value": "y"}
    raw = turn_of(UTTERANCE, {"service": "A", "slots": [span(UTTERANCE, "San Jose"), copied, odd]}, {"service": "B"})
    found = unchanged_turn(typed(raw), "failed", "quota: used up", "heart", "pink")
    after = copy.deepcopy(raw)
    write_into(after, found)
    assert after == raw
    row = found.row
    assert (row["status"], row["reason"], row["voice"], row["noise"]) == ("failed", "quota: used up", "heart", "pink")
    assert row["original"] == row["utterance"] == UTTERANCE
    assert row["spoken"] == "at seven thirty p m in san jose please"
    assert (row["words"], row["wer"], row["snr"], row["seconds"], row["hypothesis"]) == (0, None, None, None, "")
    assert [(one["value"], one["status"], one["heard_start"]) for one in row["slots"]] == [
        ("San Jose", "kept", UTTERANCE.index("San Jose")),
        ("", "kept", 90),
    ]
    assert set(row) == set(heard(RAW, "at")[1].row)


PARTS = ["At", "7:30 pm", "San Jose,", "please.", "(two)", "$5.50", "I'd", "like", "the", "drop-off", "21st", "A"]
BLANKS = st.sampled_from([" ", "  ", ", ", " - "])


def misheard(draw, utterance):
    """The words of an utterance, of which some are dropped, some others, some more."""
    heard = []
    for word in spoken_words(utterance):
        kind = draw(st.sampled_from(["right"] * 7 + ["lost", "other", "more"]))
        more = draw(st.sampled_from(["uh", "the"]))
        heard += {"right": [word.text], "lost": [], "other": ["uh"], "more": [more, word.text]}[kind]
    return heard


@st.composite
def turns_heard(draw):
    """A sentence with some of its parts as values, and its words with some wrong, lost or more."""
    utterance, slots = "", []
    for i, part in enumerate(draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=7))):
        utterance += draw(BLANKS) if utterance else ""
        if draw(st.booleans()):
            value = part.strip(",.()")
            start = len(utterance) + part.index(value)
            slots.append({"slot": f"s{i}", "start": start, "exclusive_end": start + len(value)})
        utterance += part
    return turn_of(utterance, {"service": "A", "slots": slots}), " ".join(misheard(draw, utterance))


@given(turns_heard())
def test_each_span_that_is_left_is_its_value(turn):
    raw, words = turn
    after, replaced = heard(raw, words)
    before = {one["slot"]: one for one in raw["frames"][0]["slots"]}
    kept = after["frames"][0]["slots"]
    assert [one["slot"] for one in kept] == [row["slot"] for row in replaced.row["slots"] if row["status"] == "kept"]
    for one in kept:
        value = raw["utterance"][before[one["slot"]]["start"] : before[one["slot"]]["exclusive_end"]]
        text = after["utterance"][one["start"] : one["exclusive_end"]]
        assert letters(text) == letters(value)
    if words == replaced.row["spoken"]:
        assert len(kept) == len(before)
    # By an own look: a value whose words stand nowhere together in what was heard cannot be kept.
    for row in replaced.row["slots"]:
        said = " ".join(word.text for word in spoken_words(row["value"]))
        if f" {said} " not in f" {words} ":
            assert row["status"] == "lost"


def letters(text):
    return "".join(filter(str.isalnum, text.lower()))


@cases(
    "utterance value misheard written kept",
    ("On March 4th, March 4th", "March 4th", (), "on march 4th march fourth", True),
    ("At 7:30 pm, please", "7:30 pm", ("please", "peas"), "at 7:30 pm peas", True),
    ("At 7:30 pm, please", "7:30 pm", ("thirty", "thirteen"), "at seven thirteen pm please", False),
    ("In Anaheim, CA", "Anaheim, CA", (), "in anaheim ca", True),
    ("For $25!", "25", (), "for $25", True),
    ('At 5 o"clock', '5 o"clock', (), "at 5 o'clock", True),
)
def test_values_are_written_as_the_state_has_them(utterance, value, misheard, written, kept):
    raw = turn_of(utterance, kit.frame("A", slots=[span(utterance, value)]))
    words = " ".join(word.text for word in spoken_words(utterance))
    after, _ = heard(raw, words.replace(*misheard) if misheard else words)
    assert (after["utterance"], len(after["frames"][0]["slots"])) == (written, int(kept))


SAID = st.lists(st.sampled_from(["a", "b", "c", "o'clock"]), max_size=9)
PIECES = [
    *["At", "7:30", "pm", ",", " ", " ", " ", ". ", "(", ")", "-", "2-3", "$5.50", "café", "Mr.", "😀"],
    *["4star", "St. ", "I'm", "\n", "12", "o'clock", "ﬁ"],
]
UTTERANCES = st.one_of(st.text(max_size=30), st.lists(st.sampled_from(PIECES), max_size=14).map("".join))


def errors(reference, heard):
    """Levenshtein's distance as every textbook has it."""
    row = list(range(len(heard) + 1))
    for i, said in enumerate(reference, 1):
        above, row = row, [i]
        for j, got in enumerate(heard, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (said != got)))
    return row[-1]


@st.composite
def heard_wrong(draw):
    utterance = draw(UTTERANCES)
    return utterance, misheard(draw, utterance)


def heard_right(aligned):
    """The words said that were heard right, and where."""
    equal = [chunk for chunk in aligned if chunk.tag == "equal"]
    return {i: i - start + heard_start for _, start, end, heard_start, _ in equal for i in range(start, end)}


@given(SAID, SAID)
def test_fewest_errors_and_all_words_once(reference, heard):
    aligned = align(reference, heard)
    assert word_errors(aligned).total() == errors(reference, heard)
    at = (0, 0)
    for kind, start, end, heard_start, heard_end in aligned:
        assert (start, heard_start) == at
        at = (end, heard_end)
        assert (reference[start:end] == heard[heard_start:heard_end]) == (kind == "equal")
        assert (end > start, heard_end > heard_start) == (kind != "insert", kind != "delete")
    assert at == (len(reference), len(heard))


def test_the_text():
    reference, heard = ["i", "want", "three", "a", "b", "c"], ["i", "want", "tree", "b", "c", "the"]
    assert alignment_text(reference, heard, align(reference, heard)) == "i want three>tree a> b c >the"


@given(heard_wrong(), st.data())
def test_what_is_found_is_what_was_said(drawn, data):
    utterance, heard = drawn
    start = data.draw(st.integers(0, len(utterance)))
    end = data.draw(st.integers(start, len(utterance)))
    words = spoken_words(utterance)
    aligned = align([word.text for word in words], heard)
    positions = recognised_positions(aligned)
    own = [word for word in words if word.start < end and start < word.end] if start < end else []
    text, ranges = written(utterance, words, positions, heard, ())
    span = find_span(start, end, words, positions, ranges)
    assert text == " ".join(heard)
    if span is not None:
        assert text[span.start : span.end].split(" ") == [word.text for word in own]
    right = heard_right(aligned)
    places = [right.get(i, -1) for i, word in enumerate(words) if word in own]
    there = bool(own) and -1 not in places and places == list(range(places[0], places[0] + len(places)))
    assert there == (span is not None)
