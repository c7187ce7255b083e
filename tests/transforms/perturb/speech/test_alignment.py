"""Turns as they were heard: aligned with what was said, with other spellings, and spans; and the level of a set."""

import copy
import re

import kit
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised
from plain_distance import edit_distance

pytest.importorskip("num2words")

from parapet.schemas.dialogue import Turn
from parapet.schemas.errors import InputError
from parapet.transforms.perturb.speech import alignment
from parapet.transforms.perturb.speech.perturbation import recognised_turn, unchanged_turn, write_into
from parapet.transforms.perturb.speech.spoken import DRAWS, SpokenTurn, spoken_words
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
    assert row["spoken"] == RIGHT
    assert (row["words"], row["wer"], row["snr"], row["seconds"], row["hypothesis"]) == (0, None, None, None, "")
    kept = [("San Jose", "kept", UTTERANCE.index("San Jose")), ("", "kept", 90)]
    assert [(one["value"], one["status"], one["heard_start"]) for one in row["slots"]] == kept
    assert set(row) == set(heard(RAW, "at")[1].row)


PARTS = ["At", "7:30 pm", "San Jose,", "please.", "(two)", "$5.50", "I'd", "like", "the", "drop-off", "21st", "A"]


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
        utterance += draw(st.sampled_from([" ", "  ", ", ", " - "])) if utterance else ""
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
        assert letters(after["utterance"][one["start"] : one["exclusive_end"]]) == letters(value)
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


def heard_right(aligned):
    """The words said that were heard right, and where."""
    equal = [chunk for chunk in aligned if chunk.tag == "equal"]
    return {i: i - start + heard_start for _, start, end, heard_start, _ in equal for i in range(start, end)}


@given(SAID, SAID)
def test_fewest_errors_and_all_words_once(reference, heard):
    aligned = alignment.align(reference, heard)
    assert alignment.word_errors(aligned).total() == edit_distance(reference, heard)
    at = (0, 0)
    for kind, start, end, heard_start, heard_end in aligned:
        assert (start, heard_start) == at
        at = (end, heard_end)
        assert (reference[start:end] == heard[heard_start:heard_end]) == (kind == "equal")
        assert (end > start, heard_end > heard_start) == (kind != "insert", kind != "delete")
    assert at == (len(reference), len(heard))


def test_the_text():
    reference, heard = ["i", "want", "three", "a", "b", "c"], ["i", "want", "tree", "b", "c", "the"]
    aligned = alignment.align(reference, heard)
    assert alignment.alignment_text(reference, heard, aligned) == "i want three>tree a> b c >the"


@given(st.one_of(st.text(max_size=30), st.lists(st.sampled_from(PIECES), max_size=14).map("".join)), st.data())
def test_what_is_found_is_what_was_said(utterance, data):
    heard = misheard(data.draw, utterance)
    start = data.draw(st.integers(0, len(utterance)))
    end = data.draw(st.integers(start, len(utterance)))
    words = spoken_words(utterance)
    aligned = alignment.align([word.text for word in words], heard)
    positions = alignment.recognised_positions(aligned)
    own = [word for word in words if word.start < end and start < word.end] if start < end else []
    text, ranges = alignment.written(utterance, words, positions, heard, ())
    span = alignment.find_span(start, end, words, positions, ranges)
    assert text == " ".join(heard)
    if span is not None:
        assert text[span.start : span.end].split(" ") == [word.text for word in own]
    right = heard_right(aligned)
    places = [right.get(i, -1) for i, word in enumerate(words) if word in own]
    there = bool(own) and -1 not in places and places == list(range(places[0], places[0] + len(places)))
    assert there == (span is not None)


PAIRS = [("okay", "ok"), ("that'll", "that will"), ("a m", "am"), ("i do not", "i don't"), ("round trip", "roundtrip")]
PAIRS += [("can't", "cannot"), ("its", "it's"), ("theatre", "theater"), ("wanna", "want to"), ("johns", "john's")]
OTHERS = st.sampled_from(["yes", "to", "the", "trip", "will", "i'll", "am", "not", "don't", "it's"])


@given(st.lists(st.one_of(st.sampled_from(PAIRS), OTHERS.map(lambda word: (word, word)))), st.booleans())
def test_only_the_spelling_differs(pairs, other_way):
    reference, hypothesis = (" ".join(pair[side] for pair in pairs).split() for side in (other_way, not other_way))
    assert alignment.respelled(reference, hypothesis) == reference


@given(*[st.lists(OTHERS | st.sampled_from([word for pair in PAIRS for word in pair[0].split()]), max_size=6)] * 2)
def test_never_more_errors_and_nothing_invented(reference, hypothesis):
    found = alignment.respelled(reference, hypothesis)
    assert edit_distance(reference, found) <= edit_distance(reference, hypothesis)
    assert set(found) <= {*reference, *hypothesis}


@cases(
    "reference hypothesis found",
    ("i'll be late", "it'll be late", "it'll be late"),
    ("that's it", "that is it bye", "that's it bye"),
    ("i can", "i can't", "i can't"),
)
def test_other_words_stay(reference, hypothesis, found):
    assert alignment.respelled(reference.split(), hypothesis.split()) == found.split()


def test_initials_are_said_letter_by_letter_in_capitals_only():
    said = " ".join(word.text for word in spoken_words("LA, CA or la la land: a TV, NYC"))
    assert said == "l a c a or la la land a t v n y c"


RATIOS = (20.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0)
SETS = alignment.Calibration(RATIOS, (0.1, 0.2, 0.3))

DRAW = st.one_of(st.integers(0, DRAWS - 1), st.sampled_from([0, DRAWS // 2 - 1, DRAWS // 2, DRAWS - 1]))


def plain_share(draw, level):
    """The quantile of the triangular distribution by bisection of its cumulative distribution function."""
    half = min(level, 1 - level)
    low, high = level - half, level + half
    for _ in range(80):
        x = (low + high) / 2
        part = (x - (level - half)) / half if half else 1
        below = part**2 / 2 if part < 1 else 1 - (2 - part) ** 2 / 2
        low, high = (x, high) if below < (draw + 0.5) / DRAWS else (low, x)
    return low


@given(DRAW, st.integers(1, alignment.LEVELS - 1))
def test_shares_are_of_a_triangular_distribution(draw, level):
    assert alignment.share(draw, level) == pytest.approx(plain_share(draw, level / alignment.LEVELS), abs=1e-6)


# What a text was heard as: errors by ratio, of some words; a recogniser may hear better through a louder noise.
ERRORS = {words: st.lists(st.integers(0, words + 2), min_size=7, max_size=7) for words in range(1, 13)}
HEARD = st.integers(1, 12).flatmap(lambda words: st.tuples(st.just(words), ERRORS[words]))
TURNS = st.lists(st.tuples(HEARD, DRAW), min_size=1, max_size=12)


def searched(errors, words, *draws):
    """What a text is heard through, and as."""
    heard = {}
    while (snr := SETS.next_ratio(heard, words, draws)) is not None:
        assert snr not in heard
        heard[snr] = errors[RATIOS.index(snr)]
    return heard


def plain_choice(heard, words, draw, level):
    """The ratio whose errors are nearest to the turn's share: the fewest of equals, then the highest."""
    wanted = alignment.share(draw, level) * words
    return min((abs(errors - wanted), errors, -snr, snr) for snr, errors in heard.items())[-1]


@given(HEARD, DRAW, st.integers(0, alignment.LEVELS))
def test_the_choice_is_that_of_a_plain_search(heard, draw, level):
    words, errors = heard
    known = dict(zip(RATIOS, errors, strict=True))
    assert alignment.choose_ratio(known, words, draw, level) == plain_choice(known, words, draw, level)


@given(HEARD, DRAW, st.lists(st.integers(0, alignment.LEVELS), min_size=2, max_size=4))
def test_a_turn_has_no_fewer_errors_in_the_set_of_a_higher_rate(heard, draw, levels):
    words, errors = heard
    known = searched(errors, words, draw)
    chosen = [alignment.choose_ratio(known, words, draw, level) for level in sorted(levels)]
    assert [known[snr] for snr in chosen] == sorted(known[snr] for snr in chosen)
    # As many errors are the same errors: nothing else is heard where a rate asks for no more.
    assert len(set(chosen)) == len({known[snr] for snr in chosen})


@given(HEARD, st.lists(DRAW, min_size=1, max_size=3))
def test_where_noise_makes_errors_the_search_finds_what_all_ratios_would_give(heard, draws):
    """Up to the levels that are sought; with fewer ratios heard where not all are needed."""
    words, errors = heard
    errors = sorted(errors)
    known, every = searched(errors, words, *draws), dict(zip(RATIOS, errors, strict=True))
    for draw in draws:
        for level in (500, 1000, 2000, 3500, 4800):
            ratio = alignment.choose_ratio(known, words, draw, level)
            assert known[ratio] == every[alignment.choose_ratio(every, words, draw, level)]
    assert [snr for snr in RATIOS if snr in known] == sorted(known, reverse=True)
    at = [RATIOS.index(snr) for snr in known]
    assert max(at) - min(at) + 1 == len(at), "no ratio between two is passed over"


@given(TURNS, st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.5, 0.9]), st.randoms(use_true_random=False))
def test_the_level_is_the_nearest_of_all(turns, target, drawn):
    known = [(dict(zip(RATIOS, errors, strict=True)), words, draw) for (words, errors), draw in turns]
    bins = {}
    for errors, words, draw in known:
        for level, more in alignment.steps(errors, words, draw):
            before = bins.get(level, (0, 0))
            bins[level] = (before[0] + (0 if level else words), before[1] + more)
    given = list(bins.items())
    drawn.shuffle(given)
    # A level only matters where some turn changes, which all bins name: those are all that a plain search need try.
    totals = {}
    for level in sorted({0, *bins, *(level - 1 for level in bins if level)}):
        totals[level] = sum(errors[plain_choice(errors, words, draw, level)] for errors, words, draw in known)
    assert list(totals.values()) == sorted(totals.values())
    wanted = target * sum(words for _, words, _ in known)
    best = min(abs(errors - wanted) for errors in totals.values())
    plan = alignment.Calibration(RATIOS, (target,))
    every = max(sum(words for _, words, _ in known), 1)
    if not min(totals.values()) <= wanted <= max(totals.values()) and best > alignment.CLOSE * every:
        raised(InputError, alignment.with_levels, plan, given, match=f"{alignment.set_name(target)}: ")
        return
    (found,) = alignment.with_levels(plan, given).levels
    reached = sum(errors[plain_choice(errors, words, draw, found)] for errors, words, draw in known)
    assert abs(reached - wanted) == pytest.approx(best, abs=1e-9)


@given(st.integers(1, 9999))
def test_each_hundredth_of_a_percent_has_its_own_name(n):
    assert float(alignment.set_name(n / 10000).removeprefix("SR-")) == pytest.approx(n / 100, rel=1e-9)
    assert len(alignment.set_name(n / 10000)) <= len("SR-99.99")


@cases("target", 0.1, 0.6)
def test_a_target_that_the_whole_does_not_have(target):
    bins = [(0, (10_000, 2000)), (400, (0, 1000)), (700, (0, 2000))]
    hint = "a higher --snr" if target == 0.1 else "a lower --snr"
    said = f"the word error rate is 20.0% to 50.0%, but the target is {target:.1%}; {hint} causes "
    raised(InputError, alignment.with_levels, alignment.Calibration(RATIOS, (target,)), bins, match=re.escape(said))
    assert alignment.with_levels(alignment.Calibration(RATIOS, (0.29,)), iter(bins)).levels == (400,)
