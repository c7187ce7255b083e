"""Which language model ``auto`` takes, by the perplexity of the split train alone on the turns that are heard."""

import json
import math
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pocketsphinx")

from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.corpora import read_corpus, train_files
from parapet.transforms.perturbations.speech import language_model as ngram
from parapet.transforms.perturbations.speech.language_model import SEEN, LanguageModel, choose_model, limit_of
from parapet.transforms.perturbations.speech.spoken import Speakers, load_normalisation

SPEAKERS = Speakers(("klatt4",), "0", load_normalisation(), 1000)


def corpus(place: Path, schema: Path, **said: list[str]) -> Path:
    """A corpus whose splits say these sentences."""
    for split, sentences in said.items():
        turns = [{"speaker": "USER", "utterance": sentence, "frames": []} for sentence in sentences]
        (place / split).mkdir(parents=True)
        (place / split / "dialogues_001.json").write_text(
            json.dumps([{"dialogue_id": split, "services": [], "turns": turns}])
        )
        shutil.copy(schema, place / split)
    return place


def choose(named: str, root: Path, lowest: float = 0.1) -> LanguageModel:
    train = train_files(read_corpus(root, None))
    return choose_model(named, train, read_corpus(root, ["test"]).files, SPEAKERS, lowest)


@pytest.fixture
def schema(sample):
    return sample / "test" / "schema.json"


ALIKE = ["I want a table for two", "I want a room for two", "I want a table for seven", "a table for two please"]
ODD = ["zebras juggle purple anvils nightly", "seldom do walruses quarrel over marzipan"]


def test_train_alone_is_taken_where_it_expects_the_turns(tmp_path, schema):
    said = ["I want a room for seven", "a room for two please"]
    root = corpus(tmp_path, schema, train=ALIKE * 50, test=said)
    found = choose("auto", root)
    assert found.kind == "train"
    heard = [sentence.lower().split() for sentence in said]
    assert found.perplexity == round(ngram.perplexity(found.model.arpa, heard), 1)
    assert found.perplexity < limit_of(0.1)
    assert found == LanguageModel(choose("train", root).model, "train", found.sentences, found.perplexity)


def test_else_the_turns_that_are_heard_are_added_and_it_is_said(tmp_path, schema):
    root = corpus(tmp_path, schema, train=ALIKE * 50, test=ODD)
    found = choose("auto", root)
    assert found.kind == "mixed"
    assert found.kind in SEEN
    assert found.perplexity > limit_of(0.9)
    assert found.model == choose("mixed", root).model
    assert {"walruses", "table"} <= set(ngram.words_of(found.model.arpa))
    assert "walruses" not in ngram.words_of(choose("train", root).model.arpa)
    # The higher the lowest rate, the less a model must know.
    lowest = found.perplexity / limit_of(1)
    assert choose("auto", root, lowest * 1.01).kind == "train"
    assert choose("auto", root, lowest * 0.99).kind == "mixed"


def test_without_a_split_train_it_is_their_own_text(tmp_path, schema):
    root = corpus(tmp_path / "sgd", schema, test=ODD)
    assert choose("auto", root) == choose("own", root)
    assert choose("own", root).kind == "own"
    for named in ("train", "mixed"):
        with pytest.raises(InputError, match=r"the language model needs a split train .*give --language_model own"):
            choose(named, root)
    # A split's folder has no other: what is read in place of train are the turns themselves, and that is no secret.
    alone = read_corpus(root / "test", ["test"])
    for named in ("auto", "train"):
        found = choose_model(named, train_files(alone), alone.files, SPEAKERS, 0.1)
        assert found.kind == "own"
        assert found.model == choose("own", root).model


def test_on_sgd_one_file_of_train_will_not_do(real_data):
    files = read_corpus(real_data / "sgd", ["dev"]).files
    found = choose_model("auto", train_files(read_corpus(real_data / "sgd", None)), files, SPEAKERS, 0.1)
    assert found.kind == "mixed"
    assert found.perplexity > 100
    again = ngram.perplexity(found.model.arpa, found.sentences[-2000:])
    assert again < limit_of(0.1)


def test_perplexity_is_that_of_the_probabilities():
    """Of a model whose probabilities can be counted on fingers."""
    text = ngram.arpa([["a"], ["a"], ["b"]])
    # Witten-Bell: P(a|<s>) = (2 + 2 P(a)) / 5 with P(a) = (2 + 3/3) / 9; the end is certain but for what is left.
    p_a = (2 + 3 / 3) / 9
    first = (2 + 2 * p_a) / 5
    p_end = (3 + 3 / 3) / 9
    after_a = (2 + 1 * p_end) / 3
    after_start_a = (2 + 1 * after_a) / 3
    expected = (first * after_start_a) ** -0.5
    assert ngram.perplexity(text, [["a"]]) == pytest.approx(expected, rel=1e-3)
    assert ngram.perplexity(text, [["c"]]) > 100
    assert ngram.perplexity(text, []) == 1
    assert math.isfinite(ngram.perplexity(text, [["b", "c", "a"]] * 3))
