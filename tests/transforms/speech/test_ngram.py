"""The language model: probabilities that add up to one, against a plain reader of ARPA files and the plain formula."""

import itertools
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parapet.transforms.perturbations.speech.language_model import arpa, words_of

Tables = dict[tuple[str, ...], tuple[float, float]]  # to the probability's logarithm and that of what is left

SENTENCES = st.lists(st.lists(st.sampled_from(["a", "b", "c", "o'clock"]), max_size=5), min_size=1, max_size=6).filter(
    any
)
BASES = st.none() | st.dictionaries(st.sampled_from(["a", "b", "d", "e"]), st.floats(1e-6, 1), min_size=1)
ROUNDED = {"rel": 1e-3}  # four decimals of a logarithm, of up to three factors


def read_arpa(text: str) -> Tables:
    """As the format's description has it, line by line."""
    tables: Tables = {}
    order = 0
    told: dict[int, int] = {}
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


def probability(tables: Tables, history: tuple[str, ...], word: str) -> float:
    """Backed off where the whole is not there."""
    if (*history, word) in tables:
        return float(10 ** tables[*history, word][0])
    assert history, word
    rest = float(10 ** tables.get(history, (0.0, 0.0))[1])
    return rest * probability(tables, history[1:], word)


def plain_probability(
    sentences: Sequence[Sequence[str]], base: Mapping[str, float], history: tuple[str, ...], word: str
) -> float:
    """Interpolated Witten-Bell, counted anew for every question."""
    after = []
    for sentence in sentences:
        said = ["<s>", *sentence, "</s>"]
        after += [
            said[i] for i in range(max(1, len(history)), len(said)) if tuple(said[i - len(history) : i]) == history
        ]
    shorter = plain_probability(sentences, base, history[1:], word) if history else base[word]
    kinds = len(set(after))
    return (after.count(word) + kinds * shorter) / (len(after) + kinds) if after else shorter


def plain_base(sentences: Sequence[Sequence[str]], base: Mapping[str, float] | None) -> dict[str, float]:
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


def test_words_that_nobody_says_are_shared_out_by_how_often_they_are_said_in_general():
    tables = read_arpa(arpa([["a"], ["a"]], {"rare": 0.001, "common": 0.1, "a": 0.01}))
    rare, common = (probability(tables, (), word) for word in ("rare", "common"))
    assert common / rare == pytest.approx(100, rel=1e-3)
    # What is said and stands in no list of frequencies counts as the rarest that does.
    tables = read_arpa(arpa([["unheard-of"]], {"rare": 0.001, "common": 0.1}))
    assert probability(tables, ("rare",), "common") / probability(tables, ("rare",), "rare") == pytest.approx(100, 1e-3)
    evenly = read_arpa(arpa([["a", "b"]], {"c": 0.5, "d": 0.5}))
    assert probability(evenly, (), "c") == probability(evenly, (), "d")


@settings(deadline=None)
@given(SENTENCES, BASES)
def test_the_words_of_a_model_are_read_back(sentences, base):
    said = {word for sentence in sentences for word in sentence} | set(base or {})
    assert words_of(arpa(sentences, base)) == sorted(said)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello there",
        "\\1-grams:\n-1 a\n\n\\end\\\n",  # no head
        "\\data\\\nngram 1=1\n\n",  # no words
        "\\data\\\nngram 1=1\n\n\\1-grams:\n-1 a\n",  # cut off
        "\\1-grams:\n-1 a\n\n\\data\\\n",
    ],
)
def test_what_is_no_model(text):
    with pytest.raises(ValueError, match="no language model in the ARPA format"):
        words_of(text)


@settings(deadline=None)
@given(st.text(st.sampled_from("\\1-grams:\ndataen 2"), max_size=80))
def test_any_text_is_a_model_or_is_said_to_be_none(text):
    said = "ARPA"
    try:
        assert all(word and not word.startswith("<") for word in words_of(text))
    except ValueError as error:
        said = str(error)
    assert "ARPA" in said


def test_models_of_others_may_have_tabs_windows_lines_and_fewer_orders(tmp_path):
    text = "made by hand\n\\data\\\nngram 1=3\n\n\\1-grams:\n-1.0\thello\t-0.3\n-1 </s>\n-99\t<s> 0\n\n\\end\\\n"
    assert words_of(text) == ["hello"]
    (tmp_path / "windows.arpa").write_bytes(text.replace("\n", "\r\n").encode())
    assert words_of((tmp_path / "windows.arpa").read_text()) == ["hello"]


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
