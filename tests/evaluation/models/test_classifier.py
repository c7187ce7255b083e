"""The text classifier: features, scores, answers that depend on nothing else, a net and checkpoints that learn."""

import math

import kit
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from intent_toy import toy
from kit import SEED, raised
from multiwoz_corpus import write_corpus
from tiny_checkpoints import save_bert, save_roberta

from parapet.evaluation.models import classifier, saving
from parapet.evaluation.models.configs import ClassifierConfig
from parapet.evaluation.models.saving import MODEL
from parapet.evaluation.models.training import train
from parapet.evaluation.models.turns import INTENT, read_turns
from parapet.schemas.errors import InputError
from parapet.transforms.core.checkpoints import inspect

FINE_TUNING = {"learning_rate": 0.003, "schedule": "linear", "warmup": 0.06, "clip": 1.0}


def config_of(**changed):
    net = {"size": 16, "buckets": 4096, "max_length": 32, "batch_size": 16, "learning_rate": 0.02}
    plain = {"task": "intent", "score": "msp", "epochs": 30, "patience": 30, "seed": str(SEED), "threads": 1}
    return ClassifierConfig(**{**plain, **net, "device": "cpu", **changed})


def trained(config, corpus, out, checkpoint=None):
    return train(config, lambda: classifier.ClassifierLearner(config, corpus, checkpoint), str(out), {})


def write(folder, made):
    for relative, data in made.files.items():
        kit.write(folder / relative, data)
    return str(folder)


@given(st.lists(st.text(st.characters()), max_size=4), st.integers(1, 50))
def test_any_text_has_features(texts, length):
    rows, long = classifier.Hashed(7, length).encode(texts)
    assert all(1 <= number <= 7 for row in rows for number in row)
    assert [bool(row) for row in rows] == [bool(classifier.words_of(text)) for text in texts]
    assert long == sum(len(classifier.words_of(text)) > length for text in texts)


def test_pieces_lose_their_beginning(tmp_path):
    folder = save_bert(tmp_path / "bert", ["find me a ferry to the island"], positions=16)
    from transformers import AutoTokenizer

    encoder = classifier.Pieces(AutoTokenizer.from_pretrained(folder), 6)
    rows, long = encoder.encode(["find me a ferry to the island", "a ferry \ud800"])
    assert (encoder.tokenizer.decode(rows[0]), long) == ("[CLS] ferry to the island [SEP]", 1)
    assert encoder.encode([]) == ([], 0)


@given(st.lists(st.lists(st.floats(-30, 30), min_size=3, max_size=3), min_size=1, max_size=4))
def test_scores_as_their_formulas(rows):
    logits = torch.tensor(rows, dtype=torch.float64)
    sums = [math.fsum(map(math.exp, row)) for row in rows]
    msp = [1 - math.exp(max(row)) / total for row, total in zip(rows, sums, strict=True)]
    assert classifier.foreign(logits, ["a", "b", "c"], "msp").tolist() == pytest.approx(msp, abs=1e-12)
    energy = [-math.log(total) for total in sums]
    assert classifier.foreign(logits, ["a", "b", "c"], "energy").tolist() == pytest.approx(energy, abs=1e-9)
    known = [math.exp(row[1]) / total for row, total in zip(rows, sums, strict=True)]
    assert classifier.foreign(logits, ["in_domain", "ood", "x"], "msp").tolist() == pytest.approx(known, abs=1e-12)


def test_a_bert_learns_a_toy_set_and_answers_alone_as_in_a_crowd(tmp_path):
    turns = toy()
    bert = save_bert(tmp_path / "bert", [turn.utterance for turn in turns])
    config = config_of(checkpoint=str(bert), **FINE_TUNING, epochs=8)
    corpus = classifier.Corpus(turns, turns[::3], [], [])
    made = trained(config, corpus, tmp_path / "out", inspect(str(bert), saving.BY_MODEL["classifier"]))
    folder = write(tmp_path / "model", made)
    card, model = classifier.load(folder, "cpu", 64)
    assert card.labels == sorted({turn.label for turn in turns})
    answers, _ = model.answers([turn.utterance for turn in turns])
    right = sum(one.label == turn.label for one, turn in zip(answers, turns, strict=True))
    assert right / len(turns) > 0.6  # a quarter is of each intent
    texts = [turn.utterance for turn in turns[:40]] + ["", "a" * 500, "find find find " * 12]
    many, long = model.answers(texts)
    _, alone = classifier.load(folder, "cpu", 1)
    each = [alone.answers([text]) for text in texts]
    assert [answer for answers, _ in each for answer in answers] == many
    assert long == len({text for text, (_, of_one) in zip(texts, each, strict=True) if of_one}) > 0
    model.batch = 8
    assert model.answers(texts[::-1]) == (many[::-1], long)
    (tmp_path / "model" / MODEL).write_bytes((tmp_path / "model" / MODEL).read_bytes().replace(b'"Alarm"', b'"A", "B"'))
    raised(InputError, classifier.load, folder, "cpu", 1, match=r"has 4 classes, but .* beside it has 5")


def test_a_roberta_with_another_head_and_fewer_positions(tmp_path):
    checkpoint = inspect(str(save_roberta(tmp_path / "nli")), saving.BY_MODEL["classifier"], "--checkpoint")
    corpus = classifier.Corpus(toy()[:24], toy()[:6], [], [])
    long = config_of(checkpoint="nli", max_length=65), corpus, tmp_path / "o", checkpoint
    raised(InputError, trained, *long, match="--max_length: 65: must be at most 64, the number of positions")
    made = trained(config_of(checkpoint="nli", epochs=1, max_length=64), corpus, tmp_path / "o", checkpoint)
    card, model = classifier.load(write(tmp_path / "model", made), "cpu", 8)
    assert {one.label for one in model.answers(["find a bus", "set it"])[0]} <= set(card.labels)


def test_folders_that_do_not_fit(tmp_path):
    made = trained(config_of(epochs=1), classifier.Corpus(toy(), toy(), [], []), tmp_path / "o")
    folder = write(tmp_path / "model", made)
    assert isinstance(saving.read_card(folder, classifier.Card), classifier.Card)
    place = tmp_path / "model" / MODEL
    good = place.read_bytes()
    for old, new, told in (
        (b'"format": 1', b'"format": 9', "has format 9"),
        (b'"size": 16', b'"size": 8', "does not match model.json"),
        (b"}", b"", "is damaged"),
    ):
        place.write_bytes(good.replace(old, new))
        raised(InputError, classifier.load, folder, "cpu", 1, match=told)


def test_intents_of_a_corpus_with_frames_of_every_service(tmp_path):
    """As MultiWOZ 2.2 is: intents of earlier services persist, and are not the turn's."""
    write_corpus(tmp_path / "mw", {"train": [["police"], ["hotel", "taxi", "attraction"]]})  # odd ones persist
    labels = [turn.label for turn in read_turns(str(tmp_path / "mw"), "train", INTENT)]
    of_hotel = ["find_hotel", "find_hotel", "book_hotel"]
    assert labels == ["find_police", "NONE", *of_hotel, "find_taxi", *["find_attraction"] * 3]
