"""Turns as they were heard: spans found again or gone, and everything else of the turn as it was."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("jiwer")

from parapet.schemas.dialogue import Turn
from parapet.transforms.perturbations.speech.replacing import Replaced, recognised_turn, unchanged_turn, write_into
from parapet.transforms.perturbations.speech.spoken import SpokenTurn, load_normalisation, spoken_words
from parapet.transforms.perturbations.speech.transcribing import Transcript

RULES = load_normalisation()
SOUND = {"voice": "klatt4", "noise": "pink", "snr": 9.0}
UTTERANCE = "At 7:30 pm, in San Jose please."


def span(utterance: str, value: str, slot: str = "s", **more: Any) -> dict[str, Any]:
    start = utterance.index(value)
    return {"slot": slot, "start": start, "exclusive_end": start + len(value), **more}


def turn_of(utterance: str, *frames: dict[str, Any]) -> dict[str, Any]:
    return {"speaker": "USER", "utterance": utterance, "frames": list(frames), "mine": {"kept": [1, None]}}


def typed(raw: dict[str, Any], position: int = 4) -> SpokenTurn:
    return SpokenTurn(position, msgspec.convert(raw, Turn), spoken_words(raw["utterance"], RULES), "")


def heard(raw: dict[str, Any], words: str, form: Any = "heard") -> tuple[dict[str, Any], Replaced]:
    """The turn as it is then, and what is known of it."""
    before = copy.deepcopy(raw)
    found = recognised_turn(typed(raw), Transcript(words, "abc", 1.5), form, SOUND)
    assert raw == before
    after = copy.deepcopy(raw)
    write_into(after, found)
    return after, found


RAW = turn_of(
    UTTERANCE,
    {
        "service": "Restaurants_2",
        "slots": [span(UTTERANCE, "7:30 pm", "time"), span(UTTERANCE, "San Jose", "city")],
        "state": {"active_intent": "Find", "requested_slots": [], "slot_values": {"time": ["7:30 pm"]}},
        "actions": [{"act": "INFORM", "slot": "time", "values": ["7:30 pm"], "canonical_values": ["19:30"]}],
    },
)


def values_of(raw: dict[str, Any]) -> dict[str, str]:
    return {
        one["slot"]: raw["utterance"][one["start"] : one["exclusive_end"]]
        for frame in raw["frames"]
        for one in frame["slots"]
    }


@pytest.mark.parametrize(
    ("words", "form", "utterance", "values"),
    [
        (
            "at seven thirty p m in san jose please",
            "heard",
            "at seven thirty p m in san jose please",
            {"time": "seven thirty p m", "city": "san jose"},
        ),
        ("at seven thirty p m in san jose please", "restored", UTTERANCE, {"time": "7:30 pm", "city": "San Jose"}),
        (
            "at seven thirteen p m in san jose trees",
            "heard",
            "at seven thirteen p m in san jose trees",
            {"city": "san jose"},
        ),
        (
            "oh at seven thirty p m in san jose",
            "heard",
            "oh at seven thirty p m in san jose",
            {"time": "seven thirty p m", "city": "san jose"},
        ),
        (
            "at seven thirty p m in san a jose please",
            "heard",
            "at seven thirty p m in san a jose please",
            {"time": "seven thirty p m"},
        ),
        ("", "heard", "", {}),
        ("", "restored", "", {}),
        ("uh", "restored", "uh", {}),
    ],
)
def test_the_new_utterance_and_its_spans(words, form, utterance, values):
    after, found = heard(RAW, words, form)
    assert after["utterance"] == found.row["utterance"] == utterance
    assert values_of(after) == values
    rows = {row["slot"]: row for row in found.row["slots"]}
    assert {slot: row["status"] for slot, row in rows.items()} == {
        slot: "kept" if slot in values else "lost" for slot in ("time", "city")
    }
    for slot, row in rows.items():
        assert row["service"] == "Restaurants_2"
        assert (
            UTTERANCE[row["start"] : row["exclusive_end"]]
            == row["value"]
            == {"time": "7:30 pm", "city": "San Jose"}[slot]
        )
        if slot in values:
            assert utterance[row["heard_start"] : row["heard_exclusive_end"]] == values[slot]
        else:
            assert (row["heard_start"], row["heard_exclusive_end"]) == (None, None)


def test_restored_words_heard_wrong_are_as_they_were_heard():
    after, _ = heard(RAW, "at seven thirteen p m in san jose trees", "restored")
    assert after["utterance"].startswith("At seven thirteen p")
    assert "in San Jose trees" in after["utterance"]
    assert values_of(after) == {"city": "San Jose"}


def test_the_row_says_all_of_it():
    _, found = heard(RAW, "at seven thirteen p m in in san please")
    row = found.row
    assert {name: value for name, value in row.items() if name != "slots"} == {
        "turn": 4,
        "status": "heard",
        "reason": "",
        "original": UTTERANCE,
        "utterance": "at seven thirteen p m in in san please",
        "spoken": "at seven thirty p m in san jose please",
        "hypothesis": "at seven thirteen p m in in san please",
        "alignment": row["alignment"],
        "words": 9,
        "substitutions": row["substitutions"],
        "deletions": row["deletions"],
        "insertions": row["insertions"],
        "wer": 3 / 9,
        "voice": "klatt4",
        "noise": "pink",
        "snr": 9.0,
        "audio_sha256": "abc",
        "seconds": 1.5,
    }
    assert row["substitutions"] + row["deletions"] + row["insertions"] == 3
    assert row["substitutions"] + row["deletions"] == sum(
        pair.partition(">")[1:] != ("", "") and bool(pair.partition(">")[0]) for pair in row["alignment"].split(" ")
    )


def test_what_is_no_span_stays():
    """Copied values have no place in the utterance, and some frames have no list of slots at all."""
    copied = {"slot": "city", "copy_from": "hotel-city", "value": ["san jose"], "mine": 1}
    raw = turn_of(
        UTTERANCE,
        {"service": "A", "state": {"active_intent": "x", "requested_slots": [], "slot_values": {}}},
        {"service": "B", "slots": [copied, span(UTTERANCE, "7:30 pm"), {"slot": "half", "start": 3}]},
        {"service": "C", "slots": []},
    )
    for words in ("at seven thirty p m", "something else"):
        after, found = heard(raw, words)
        assert after["frames"][0] == raw["frames"][0]
        assert after["frames"][2] == raw["frames"][2]
        kept = after["frames"][1]["slots"]
        assert [one for one in kept if "exclusive_end" not in one] == [copied, {"slot": "half", "start": 3}]
        assert kept[0] == copied
        assert len(found.row["slots"]) == 1
        assert len(kept) == (3 if words.startswith("at") else 2)


def test_spans_keep_what_else_they_have():
    raw = turn_of(
        UTTERANCE, {"service": "hotel", "slots": [{**span(UTTERANCE, "San Jose"), "value": "San Jose", "mine": [1]}]}
    )
    after, _ = heard(raw, "in san jose")
    assert after["frames"][0]["slots"] == [
        {"slot": "s", "start": 3, "exclusive_end": 11, "value": "San Jose", "mine": [1]}
    ]


def test_spans_that_are_not_in_the_utterance_are_lost():
    slots = [{"slot": "s", "start": a, "exclusive_end": b} for a, b in ((40, 50), (5, 5), (7, 3), (-9, -1), (10, 11))]
    after, found = heard(turn_of(UTTERANCE, {"service": "A", "slots": slots}), "at seven thirty p m in san jose please")
    assert after["frames"][0]["slots"] == []
    assert [row["status"] for row in found.row["slots"]] == ["lost"] * 5


def test_everything_else_is_left_alone():
    after, _ = heard(RAW, "nothing at all")
    expected = copy.deepcopy(RAW)
    expected["utterance"] = "nothing at all"
    expected["frames"][0]["slots"] = []
    assert after == expected


def test_a_turn_that_is_not_heard_stays_as_it_was():
    odd = {"slot": "odd", "start": 90, "exclusive_end": 95}
    copied = {"slot": "city", "copy_from": "x", "value": "y"}
    raw = turn_of(UTTERANCE, {"service": "A", "slots": [span(UTTERANCE, "San Jose"), copied, odd]}, {"service": "B"})
    found = unchanged_turn(typed(raw), "failed", "quota: used up", "klatt4", "pink")
    after = copy.deepcopy(raw)
    write_into(after, found)
    assert after == raw
    row = found.row
    assert (row["status"], row["reason"], row["voice"], row["noise"]) == ("failed", "quota: used up", "klatt4", "pink")
    assert row["original"] == row["utterance"] == UTTERANCE
    assert row["spoken"] == "at seven thirty p m in san jose please"
    assert (row["words"], row["wer"], row["snr"], row["seconds"], row["hypothesis"]) == (0, None, None, None, "")
    assert [(one["value"], one["status"], one["heard_start"]) for one in row["slots"]] == [
        ("San Jose", "kept", UTTERANCE.index("San Jose")),
        ("", "kept", 90),
    ]
    assert set(row) == set(heard(RAW, "at")[1].row)


PARTS = [
    "At",
    "7:30 pm",
    "San Jose,",
    "please.",
    "(two)",
    "$5.50",
    "I'd",
    "like",
    "the",
    "the",
    "drop-off",
    "21st",
    "A",
]
BLANKS = st.sampled_from([" ", "  ", ", ", " - "])


@st.composite
def turns_heard(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A sentence with some of its parts as values, and its words with some wrong, lost or more."""
    utterance, slots = "", []
    for i, part in enumerate(draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=7))):
        utterance += draw(BLANKS) if utterance else ""
        if draw(st.booleans()):
            value = part.strip(",.()")
            start = len(utterance) + part.index(value)
            slots.append({"slot": f"s{i}", "start": start, "exclusive_end": start + len(value)})
        utterance += part
    words = []
    for word in spoken_words(utterance, RULES):
        what = draw(st.sampled_from(["right"] * 7 + ["lost", "other", "more"]))
        words += {
            "right": [word.text],
            "lost": [],
            "other": ["uh"],
            "more": [draw(st.sampled_from(["uh", "the"])), word.text],
        }[what]
    return turn_of(utterance, {"service": "A", "slots": slots}), " ".join(words)


@settings(deadline=None, max_examples=150)
@given(turns_heard(), st.sampled_from(["heard", "restored"]))
def test_each_span_that_is_left_is_its_value(turn, form):
    raw, words = turn
    after, found = heard(raw, words, form)
    before = {one["slot"]: one for one in raw["frames"][0]["slots"]}
    kept = after["frames"][0]["slots"]
    assert [one["slot"] for one in kept] == [row["slot"] for row in found.row["slots"] if row["status"] == "kept"]
    for one in kept:
        value = raw["utterance"][before[one["slot"]]["start"] : before[one["slot"]]["exclusive_end"]]
        text = after["utterance"][one["start"] : one["exclusive_end"]]
        if form == "heard":
            assert text.split() == [word.text for word in spoken_words(value, RULES)]
        else:
            assert text == value
    if words == found.row["spoken"]:
        assert len(kept) == len(before)
        assert after["utterance"] == (raw["utterance"] if form == "restored" else words)
    # By an own look: a value whose words stand nowhere together in what was heard cannot be kept.
    for row in found.row["slots"]:
        said = " ".join(word.text for word in spoken_words(row["value"], RULES))
        if f" {said} " not in f" {words} ":
            assert row["status"] == "lost"
