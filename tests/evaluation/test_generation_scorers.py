"""Judgements that are remembered: during a run, and in a file that an interrupted run may have left."""

import pytest
from kit import raised, write

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
    path = str(tmp_path / "judgements")
    first = Cached(Counting(), path).entailment(PAIRS)
    inner = Counting()
    assert (Cached(inner, path).entailment(PAIRS), inner.asked) == (first, [])


def test_what_was_judged_before_an_interruption_is_kept(tmp_path):
    class Stopping(Counting):
        def entailment(self, pairs):
            if self.asked:
                raise KeyboardInterrupt
            return super().entailment(pairs)

    path, pairs = str(tmp_path / "judgements"), [("premise", str(i)) for i in range(300)]
    with pytest.raises(KeyboardInterrupt):
        Cached(Stopping(), path).entailment(pairs)
    rest = Counting()
    assert Cached(rest, path).entailment(pairs) == Counting().entailment(pairs)
    assert len(rest.asked) == 300 - 256


def test_a_file_of_something_else_is_left_alone(tmp_path):
    path = write(tmp_path / "said.jsonl", '{"dialogue_id": "1"}\n' * 100)
    raised(InputError, Cached, Counting(), str(path), match="--cache: cannot be used to keep judgements")
    assert path.read_text() == '{"dialogue_id": "1"}\n' * 100
    raised(InputError, Cached, Counting(), str(tmp_path / "none" / "judgements"), match="unable to open")


def test_another_model_is_asked_itself(tmp_path):
    path = str(tmp_path / "judgements")
    Cached(Counting("1"), path).entailment(PAIRS)
    other = Counting("2")
    Cached(other, path).entailment(PAIRS)
    assert len(other.asked) == 3
