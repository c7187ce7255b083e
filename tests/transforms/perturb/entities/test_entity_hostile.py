"""Dialogues that nobody would write, and other cases and blanks than in the annotation: replaced or refused."""

import copy
import json
import random
from pathlib import Path

import msgspec
import pytest
from entity_corpora import SERVICE
from hypothesis import given
from hypothesis import strategies as st
from kit import THOROUGH, cases
from multiwoz_corpus import write_corpus

from parapet.schemas.dialogue import Dialogue, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas
from parapet.schemas.service import Service
from parapet.schemas.service import Slot as ServiceSlot
from parapet.transforms.perturb.apply import fitted
from parapet.transforms.perturb.corpora import read_corpus
from parapet.transforms.perturb.entities import mentions
from parapet.transforms.perturb.entities.choosing import replaced
from parapet.transforms.perturb.entities.perturbation import UnseenEntities, kinds_of

MUTATED = 12_000 if THOROUGH else 300
CHANGES = [
    *(str.lower, str.upper, str.swapcase, str.title, str.casefold, str.strip),
    *(lambda text, old=old, new=new: text.replace(old, new) for old, new in (
        (" ", "  "), (" ", "\u00a0"), (" ", "\n"), (" ", ""), ("i", "İ"), ("ss", "ß"), ("s", "ſ"), ("k", "\u212a"),
        ("fi", "ﬁ"), ("'", "’"), ("1", "１"), ("0", "٠"), ("e", "e\u0301"),
    )),
    *(lambda text: f" {text} ", lambda text: f"${text}", lambda text: text + text, lambda text: text[: len(text) // 2]),
]  # fmt: skip
ODD = (
    *("", " ", "\u200b", "ß", "SS", "İ", "ı", "ŉ", "ΐ", "🙂", "\x00", "\ud800", ".", "-", "$", "a", "an", "one"),
    *("9" * 40, "9" * 400, "9" * 5000, "1,2,3", "1.2.3", "1e5", "inf", "nan", "½", "²", "Ⅷ", "٣", "$.5", "+1", "(408)"),
    *("12:60", "25:00", "0 am", "13 pm", "１２:３０", "2019-02-30", "9999-12-31", "0001-01-01", "٢٠١٩-٠٣-٠٥"),
    *("today", "the 4th", "March", "5 pm", "dontcare", "None", "AB12", "cb1 3ef"),
)
VALUES = {"values", "canonical_values", "slot_values", "parameters", "service_results", "value"}


def strings_in(value, path=()):
    """The places of all strings."""
    if isinstance(value, str):
        yield path
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in below:
        yield from strings_in(child, (*path, key))


def mutated(raw, rng):
    """A dialogue of which some texts, the same in some places or in all, or some spans, are others."""
    made = copy.deepcopy(raw)
    for _ in range(rng.choice((1, 1, 2, 4))):
        turns = made["turns"]
        places = [path for path in strings_in(turns) if "utterance" in path or not VALUES.isdisjoint(path)]
        if rng.random() < 0.2:
            spans = [span for one in turns for frame in one["frames"] for span in frame["slots"]]
            span = rng.choice(spans or [{}])
            span[rng.choice(("start", "exclusive_end"))] = rng.randrange(-2, 40)
            continue
        odd = rng.choice(ODD)
        change = rng.choice(CHANGES) if rng.random() < 0.7 else lambda _, odd=odd: odd
        place = rng.choice(places)
        old = at(turns, place)
        everywhere = rng.random()
        for one in places:
            same_field = ("utterance" in one) == ("utterance" in place)
            if one == place or (everywhere < 0.4 and at(turns, one) == old) or (everywhere > 0.7 and same_field):
                at(turns, one[:-1])[one[-1]] = change(at(turns, one))
    return made


def at(value, path):
    for key in path:
        value = value[key]
    return value


def test_mutated_dialogues_are_replaced_or_refused(sample):
    """Nothing but InputError is raised, no value of training is taken; that slots' kinds are told from them as well."""
    corpus = read_corpus(sample, ["train", "dev", "test"])
    schemas = list(corpus.folders.values())
    perturbation = UnseenEntities(training=sample)
    replacer = fitted(perturbation, corpus).of((corpus.files[0].relative, 0))
    raws = [raw for file in corpus.files for raw in json.loads(Path(file.path).read_bytes())]
    rng, done = random.Random("generated"), 0
    for _ in range(MUTATED // 2):
        raw = mutated(rng.choice(raws), rng)
        try:
            dialogue = typed(raw)
            found = {}
            for slot, same, canonical in mentions.distinct_annotations(dialogue):
                found.setdefault(slot, (set(), set()))[0].update(same)
                found[slot][1].update({canonical} - {None})
            mentions.find_values(dialogue, kinds_of(found, schemas))
            assert replaced(raw, dialogue, replacer).leaks == 0
            done += 1
        except InputError:
            pass
    assert done > MUTATED // 6


@cases("value", " ", "\u3000", "9" * 400, ".", "\ud800")
@cases("slot usual", ("location", "Oakland;Novato;Fremont"), ("price", "$5;$20;$12.50"), ("time", "12:30;9:15;17:00"))
def test_one_odd_value_does_not_end_the_run(slot, usual, value):
    """The kind of a slot and its steps are told from the values of all dialogues: one tells no less than without."""
    service = Service("Trips_1", "", [ServiceSlot(slot, "where it is", False, [])], [])
    schemas = [SplitSchemas("test", "", [], [service])]
    said = ({*usual.split(";")}, {*usual.split(";"), value})
    usually, with_odd = (kinds_of({("Trips_1", slot): (set(), of)}, schemas) for of in said)
    assert with_odd == usually


WORD = st.sampled_from(["Elm", "elm", "Zorb", "Port", "port", "7", "5th", "x's", "é"])
WORDS = st.lists(WORD, min_size=1, max_size=6)


@given(utterance=WORDS, values=st.lists(WORDS, min_size=1, max_size=4))
def test_mentions_as_word_by_word(utterance, values):
    """From left to right, the longest value first: the plain reference compares words."""
    texts = sorted({" ".join(value) for value in values if len(value) > 1}) or ["Port b"]
    groups = [mentions.Group({text}, {(SERVICE, "city")}, canonical=text, kind="city") for text in texts]
    text = " ".join(utterance)
    words, wanted, place = mentions.words_of(text), [], 0
    by_words = sorted({mentions.words_of(text) for text in texts}, key=lambda one: -len(one))
    while place < len(words):
        size = next((len(one) for one in by_words if words[place : place + len(one)] == one), 0)
        if size:
            wanted.append(words[place : place + size])
        place += size or 1
    table = mentions.Table(mentions.DialogueValues(groups, set(), {}), {*words})
    unmarked = table.unmarked(text, mentions.located_words(text))
    assert [mentions.words_of(mention.text) for mention in unmarked] == wanted


CASES = {"lower": str.lower, "upper": str.upper, "swapped": str.swapcase}


def spaced(raw, number):
    """A dialogue with more blanks in its utterances; spans move along."""
    found = copy.deepcopy(raw)
    for one in found["turns"]:
        text, places = "", []
        for i, char in enumerate(one["utterance"]):
            places.append(len(text))
            text += char + " " * (char == " " and (i + number) % 3 == 0)
        places.append(len(text))
        one["utterance"] = text
        for span in (span for frame in one["frames"] for span in frame["slots"]):
            span["start"], span["exclusive_end"] = places[span["start"]], places[span["exclusive_end"]]
    return found


def varied(raw):
    yield raw
    for change in CASES.values():
        yield {**raw, "turns": [{**one, "utterance": change(one["utterance"])} for one in raw["turns"]]}
    for number in range(3):
        yield spaced(raw, number)


def check_varied(root, train, splits, dead):
    """Every dialogue, however its utterances are written, is replaced or refused, and few are refused."""
    corpus = read_corpus(root, splits)
    files = corpus.files
    replacer = fitted(UnseenEntities(training=train), corpus).of((files[0].relative, 0))
    refused = total = 0
    for raw in (raw for file in files for raw in json.loads(Path(file.path).read_bytes())[:40]):
        for one in varied(raw):
            total += 1
            try:
                made = replaced(one, msgspec.convert(one, Dialogue), replacer)
            except InputError:
                refused += 1
                continue
            assert made.leaks == 0
    assert total > 40
    assert refused <= dead * total


def test_the_sample_and_multiwoz_however_they_are_written(sample, tmp_path):
    check_varied(sample, sample, ["train", "dev", "test"], 0)
    parts = [["hotel", "restaurant", "taxi"], ["train", "attraction"], ["hospital", "police", "bus"]] * 3
    root = write_corpus(tmp_path / "mw", {"train": parts, "test": parts})
    check_varied(root, root, ["test"], 0)


@pytest.mark.thorough
def test_real_dialogues_however_they_are_written(real_dialogues):
    check_varied(real_dialogues, real_dialogues, ["train", "dev"], 0.01)
