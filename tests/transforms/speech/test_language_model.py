"""The language model: probabilities that add up to one, against a plain reader of ARPA files and the plain formula."""

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kit import corpus, dialogue, turn

pytest.importorskip("pocketsphinx")

from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.corpora import read_corpus, train_files
from parapet.transforms.perturbations.speech import language_model as ngram
from parapet.transforms.perturbations.speech.language_model import (
    SEEN,
    LanguageModel,
    arpa,
    choose_model,
    limit_of,
    words_of,
)
from parapet.transforms.perturbations.speech.spoken import Speakers, load_normalisation

SENTENCE = st.lists(st.sampled_from(["a", "b", "c", "o'clock"]), max_size=5)
SENTENCES = st.lists(SENTENCE, min_size=1, max_size=6).filter(any)
BASES = st.none() | st.dictionaries(st.sampled_from(["a", "b", "d", "e"]), st.floats(1e-6, 1), min_size=1)
ROUNDED = {"rel": 1e-3}  # four decimals of a logarithm, of up to three factors


def read_arpa(text):
    """As the format's description has it, line by line."""
    tables = {}
    order = 0
    told = {}
    for line in text.splitlines():
        if line.startswith("ngram "):
            n, _, many = line.removeprefix("ngram ").partition("=")
            told[int(n)] = int(many)
        elif line.endswith("-grams:"):
            order = int(line[1])
        elif line.strip() and not line.startswith("\\"):
            first, *gram = line.split()
            rest = float(gram.pop()) if len(gram) > order else 0.0
            assert len(gram) == order
            assert tuple(gram) not in tables
            tables[tuple(gram)] = float(first), rest
    assert told == {n: sum(len(gram) == n for gram in tables) for n in (1, 2, 3)}
    return tables


def probability(tables, history, word):
    """Backed off where the whole is not there."""
    if (*history, word) in tables:
        return float(10 ** tables[*history, word][0])
    assert history, word
    rest = float(10 ** tables.get(history, (0.0, 0.0))[1])
    return rest * probability(tables, history[1:], word)


def plain_probability(sentences, base, history, word):
    """Interpolated Witten-Bell, counted anew for every question."""
    after, n = [], len(history)
    for sentence in sentences:
        said = ["<s>", *sentence, "</s>"]
        after += [said[i] for i in range(max(1, n), len(said)) if tuple(said[i - n : i]) == history]
    shorter = plain_probability(sentences, base, history[1:], word) if history else base[word]
    kinds = len(set(after))
    return (after.count(word) + kinds * shorter) / (len(after) + kinds) if after else shorter


def plain_base(sentences, base):
    words = {word for sentence in sentences for word in sentence} | {"</s>"} | set(base or {})
    weights = {word: (base or {}).get(word, min(base.values()) if base else 1.0) for word in words}
    return {word: weight / sum(weights.values()) for word, weight in weights.items()}


@settings(deadline=None, max_examples=40)
@given(SENTENCES, BASES)
@example([["a"]], None)
@example([["a", "a", "a"], ["a"]], {"a": 1.0})
def test_every_history_is_followed_by_something_and_as_often_as_the_formula_says(sentences, base):
    tables = read_arpa(arpa(sentences, base))
    filled = [sentence for sentence in sentences if sentence]
    plain = plain_base(filled, base)
    assert {gram[0] for gram in tables if len(gram) == 1} == {*plain, "<s>"}
    words = sorted(set(plain) - {"</s>"})
    histories = [(), ("<s>",), *((word,) for word in words), *itertools.product([*words, "<s>"], words)]
    for history in histories:
        found = {word: probability(tables, history, word) for word in plain}
        assert sum(found.values()) == pytest.approx(1, **ROUNDED)
        for word, value in found.items():
            assert value == pytest.approx(plain_probability(filled, plain, history, word), **ROUNDED)
    assert probability(tables, (), "<s>") < 1e-90


@settings(deadline=None, max_examples=40)
@given(SENTENCES, BASES, st.randoms(use_true_random=False))
def test_the_same_sentences_in_any_order_give_the_same_text(sentences, base, drawn):
    shuffled = drawn.sample(sentences, len(sentences))
    backwards = dict(reversed(base.items())) if base else base
    assert arpa(shuffled, backwards) == arpa(iter(sentences), base)
    assert arpa([*sentences, []], base) == arpa(sentences, base)
    said = {word for sentence in sentences for word in sentence} | set(base or {})
    assert words_of(arpa(sentences, base)) == sorted(said)


def test_words_that_nobody_says_are_shared_out_by_how_often_they_are_said_in_general():
    tables = read_arpa(arpa([["a"], ["a"]], {"rare": 0.001, "common": 0.1, "a": 0.01}))
    rare, common = (probability(tables, (), word) for word in ("rare", "common"))
    assert common / rare == pytest.approx(100, rel=1e-3)


HEAD, WORDS = "\\data\\\nngram 1=1\n\n", "\\1-grams:\n-1 a\n\n"


@pytest.mark.parametrize("text", ["", WORDS + "\\end\\\n", HEAD, HEAD + WORDS.strip(), WORDS + HEAD])
def test_what_is_no_model(text):
    with pytest.raises(ValueError, match="no language model in the ARPA format"):
        words_of(text)


def test_models_of_others_may_have_tabs_and_fewer_orders():
    text = "made by hand\n\\data\\\nngram 1=3\n\n\\1-grams:\n-1.0\thello\t-0.3\n-1 </s>\n-99\t<s> 0\n\n\\end\\\n"
    assert words_of(text) == ["hello"]


@settings(deadline=None)
@given(st.text(st.sampled_from("\\1-grams:\ndataen 2"), max_size=80))
def test_any_text_is_a_model_or_is_said_to_be_none(text):
    try:
        assert all(word and not word.startswith("<") for word in words_of(text))
    except ValueError as error:
        assert "ARPA" in str(error)  # noqa: PT017


def test_pocketsphinx_reads_the_same_probabilities(tmp_path):
    pocketsphinx = pytest.importorskip("pocketsphinx")
    sentences = [["a", "b", "o'clock"], ["a", "c", "a"], ["b"], ["a", "b", "c"]]
    base = {"d": 0.2, "a": 0.1}
    path = tmp_path / "model.arpa"
    path.write_text(arpa(sentences, base))
    log = pocketsphinx.LogMath(1.0001, 0, 0)
    model = pocketsphinx.NGramModel(pocketsphinx.Config(), log, str(path))
    assert model.size() == 3
    tables = read_arpa(path.read_text())
    for *history, word in itertools.product(["<s>", "a", "b", "c"], ["a", "b", "d"], ["a", "d", "o'clock", "</s>"]):
        found = model.prob([word, *reversed(history)])  # the newest first
        assert 10 ** log.log_to_log10(found) == pytest.approx(probability(tables, tuple(history), word), rel=0.01)


SPEAKERS = Speakers(("klatt4",), "0", load_normalisation(), 1000)


def choose(named, root, lowest=0.1):
    train = train_files(read_corpus(root, None))
    return choose_model(named, train, read_corpus(root, ["test"]).files, SPEAKERS, lowest)


def saying(place, **said):
    """A corpus whose splits say these sentences."""
    return corpus(place, **{split: [dialogue(split, *(turn("USER", one) for one in of))] for split, of in said.items()})


ALIKE = ["I want a table for two", "I want a room for two", "I want a table for seven", "a table for two please"]
ODD = ["zebras juggle purple anvils nightly", "seldom do walruses quarrel over marzipan"]


def test_train_alone_is_taken_where_it_expects_the_turns(tmp_path):
    said = ["I want a room for seven", "a room for two please"]
    root = saying(tmp_path, train=ALIKE * 50, test=said)
    found = choose("auto", root)
    assert found.kind == "train"
    heard = [sentence.lower().split() for sentence in said]
    assert found.perplexity == round(ngram.perplexity(found.model.arpa, heard), 1)
    assert found.perplexity < limit_of(0.1)
    assert found == LanguageModel(choose("train", root).model, "train", found.sentences, found.perplexity)


def test_else_the_turns_that_are_heard_are_added_and_it_is_said(tmp_path):
    root = saying(tmp_path, train=ALIKE * 50, test=ODD)
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


def test_without_a_split_train_it_is_their_own_text(tmp_path):
    root = saying(tmp_path / "sgd", test=ODD)
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


@pytest.mark.thorough
def test_on_sgd_one_file_of_train_will_not_do(real_data):
    files = read_corpus(real_data / "sgd", ["dev"]).files
    found = choose_model("auto", train_files(read_corpus(real_data / "sgd", None)), files, SPEAKERS, 0.1)
    assert found.kind == "mixed"
    assert found.perplexity > 100
    again = ngram.perplexity(found.model.arpa, found.sentences[-2000:])
    assert again < limit_of(0.1)
