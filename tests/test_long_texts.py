"""What is done to one record takes time in proportion to its text, whatever the text is.

Twice the text, twice the time. An answer may have 20,000 characters, a turn has no limit.
"""

import time

import pytest
from fuzzing.functions import OF_TEXTS
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, corpus, sample_dialogues

import parapet
from parapet.transforms.perturb.edits import Ranges
from parapet.transforms.variants import distance

LENGTH = 20_000
QUICK = 0.03  # seconds of CPU: what takes no longer is not looked at again
MOST = 2.7  # times as long for twice the text; a quadratic function takes four times as long
ROUNDS = 4

PIECES = [
    *("a", "A1", "@", "a A", "_A", "the ", "é", "1,", "I'm ", "<a", "%41", "not "),
    *("A", "1", " ", ".", "'", '"', "中", "&", "-", "a.", "a@", "aA", "a_", "1:", "1.", "Ab ", "one ", "Mr. ", "&#1;"),
    *("\n", "\r\n", "\u200b", "e\u0301", "=", "qwerty ", "twenty ", "$1 ", "12:30 ", "http://a.b ", "a@b.c "),
    *("can you ", "please ", "London ", "👍", "(", "|", "\\", "**", "`", "...", "?! ", "\0"),
    *("[worker id]", "A2ZX81QWERT3KV "),
]


FUNCTIONS = {**OF_TEXTS, "tokens": lambda written: distance._tokens(written, distance._tokenizer())}


def seconds(run, of):
    began = time.process_time()
    run(of)
    return time.process_time() - began


def grows(run, twice):
    """Whether twice the text takes clearly more than twice the time, in every one of several tries."""
    return all(twice() > max(QUICK, MOST * run()) for _ in range(ROUNDS))


@pytest.mark.thorough
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_time_in_proportion_to_the_text(name):
    run = FUNCTIONS[name]
    run("warm up, please")

    def of(part, length):
        return lambda: seconds(run, (part * (length // len(part) + 1))[:length] + "!")

    for part in PIECES:
        once, twice = of(part, LENGTH), of(part, 2 * LENGTH)
        assert once() < QUICK or not grows(once, twice), part


TURNS = [
    *("a", "A ", ". ", "the ", "one ", "not ", "I'm ", "can you ", "I want to ", "please ", "and ", "12:30 ", "?! "),
    *("is it ", "it is good ", "very ", "don't ", "é ", "Alamo Square Seafood Grill ", "I would like a table. ", "a, "),
]


def long_corpus(folder, parts, length):
    """A corpus of dialogues whose first turn of the user begins with so much of each part."""
    dialogues = []
    for n, part in enumerate(parts):
        dialogue = sample_dialogues()[0] | {"dialogue_id": f"1_{n:05d}"}
        turn = next(turn for turn in dialogue["turns"] if turn["speaker"] == "USER")
        before = (part * (length // len(part) + 1))[:length].strip() + " "
        turn["utterance"] = before + turn["utterance"]
        for frame in turn["frames"]:
            for span in frame["slots"]:
                span["start"] += len(before)
                span["exclusive_end"] += len(before)
            # A value that the turn says a thousand times.
            frame["state"]["slot_values"] |= {"city": [part.strip() or "x"]} if n % 2 else {}
        dialogues.append(dialogue)
    return parapet.load_corpus(str(corpus(folder, test=dialogues)))


@cases(
    "name length",
    ("verbose", 5_000),
    ("simple", 20_000),
    pytest.param("typos", 5_000, marks=pytest.mark.thorough),
    pytest.param("paraphrase", 5_000, marks=pytest.mark.thorough),
)
def test_perturbations_take_time_in_proportion_to_the_turn(name, length, tmp_path):
    def perturbed(of):
        assert list(parapet.perturb(of, name, seed=1).dialogues("test"))

    once, twice = (long_corpus(tmp_path / str(n), TURNS, n * length) for n in (1, 2))
    perturbed(long_corpus(tmp_path / "warm", ["a "], 10))
    assert not grows(lambda: seconds(perturbed, once), lambda: seconds(perturbed, twice))


RANGE = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted).map(tuple)


@given(st.lists(RANGE, max_size=8), RANGE)
def test_ranges_know_what_overlaps_and_touches_as_looking_at_each_does(every, one):
    start, end = one
    ranges = Ranges(every)
    assert ranges.overlap(start, end) == any(s < end and start < e for s, e in every)
    assert ranges.touch(start, end) == any(s <= end and start <= e for s, e in every)
