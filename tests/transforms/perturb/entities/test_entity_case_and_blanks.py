"""Utterances written otherwise than their annotation: in another case or with other blanks."""

import copy
import json
from pathlib import Path

import msgspec
import pytest
from multiwoz_corpus import write_corpus

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.transforms.perturb.apply import fitted
from parapet.transforms.perturb.corpora import read_corpus
from parapet.transforms.perturb.entities.choosing import replaced
from parapet.transforms.perturb.entities.perturbation import UnseenEntities

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
