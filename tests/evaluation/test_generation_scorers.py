"""Judgements that are remembered: during a run, and in a file that a killed run may have left."""

import json
from pathlib import Path

import pytest
from kit import raised

from parapet.evaluation.generation.scoring import Cached, Pair
from parapet.schemas.errors import InputError


class Counting:
    name, joint = "counting", " "

    def __init__(self, model="1"):
        self.model, self.asked = model, list[Pair]()

    def entailment(self, pairs):
        self.asked += pairs
        return [(len(a) / 100, len(b) / 100, 1 / 3) for a, b in pairs]


PAIRS = [("premise one", "a"), ("p", "hypothesis"), ("premise one", "a"), ("p", "é\ud800")]


def test_the_file_serves_the_next_run_to_the_last_bit(tmp_path):
    path = str(tmp_path / "judgements.jsonl")
    first = Cached(Counting(), path).entailment(PAIRS)
    inner = Counting()
    assert (Cached(inner, path).entailment(PAIRS), inner.asked) == (first, [])


def test_what_a_kill_cut_off_is_asked_again(tmp_path):
    path = tmp_path / "judgements.jsonl"
    first = Cached(Counting(), str(path)).entailment(PAIRS)
    whole = path.read_text()
    for cut in (whole[:-1], whole[:-20]):
        path.write_text(cut)
        for _ in range(2):  # the line that was cut off stays, and what follows is whole
            assert Cached(Counting(), str(path)).entailment(PAIRS) == first
        kept = Counting()
        Cached(kept, str(path)).entailment(PAIRS)
        assert kept.asked == []


@pytest.mark.parametrize("line", ['{"dialogue_id": "1"}', "key,0.1,0.2,0.3", "[NaN", '"text"'])
def test_a_file_of_something_else_is_left_alone(tmp_path, line):
    path = tmp_path / "said.jsonl"
    good = json.dumps(["k", 0.1, 0.2, 0.7])
    path.write_text(f"{good}\n{line}\n")
    if line.startswith("["):
        Cached(Counting(), str(path))
        return
    raised(InputError, Cached, Counting(), str(path), match="line 2: is not a line of a cache of judgements")
    assert path.read_text() == f"{good}\n{line}\n"


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="cannot be read and written"):
        Cached(Counting(), str(tmp_path / "none" / "judgements.jsonl"))
    raised(InputError, Cached, Counting(), str(tmp_path), match="cannot be read and written")


def test_another_model_is_asked_itself(tmp_path):
    path = str(tmp_path / "judgements.jsonl")
    Cached(Counting("1"), path).entailment(PAIRS)
    other = Counting("2")
    Cached(other, path).entailment(PAIRS)
    assert (len(other.asked), len(Path(path).read_text().splitlines())) == (3, 6)
