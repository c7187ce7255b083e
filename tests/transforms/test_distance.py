from itertools import pairwise

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from parapet.schemas.errors import InputError
from parapet.transforms.variants import distance as distances
from parapet.transforms.variants.distance import Method, jaccard, lemma_set, levenshtein

SHORT = st.text(st.sampled_from("abé_😀"), max_size=8) | st.text(max_size=8)
SETS = st.frozensets(st.sampled_from("abcdef"))


def edits(first, second, substitution):
    """The textbook's table of edit costs."""
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        above = row
        row = [i]
        for j, b in enumerate(second, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (0 if a == b else substitution)))
    return row[-1]


@given(SHORT, SHORT)
def test_levenshtein_is_the_textbooks(first, second):
    assert levenshtein(first, second) == levenshtein(second, first) == edits(first, second, 1)


@given(SHORT, SHORT)
def test_ratio_counts_a_substitution_as_two(first, second):
    total = len(first) + len(second)
    ratio = 1 - edits(first, second, 2) / total if total else 1
    assert distances.levenshtein_ratio(first, second) == pytest.approx(ratio)


@given(SETS, SETS)
def test_jaccard_counts(first, second):
    both = sum(letter in first and letter in second for letter in "abcdef")
    either = sum(letter in first or letter in second for letter in "abcdef")
    assert jaccard(first, second) == pytest.approx(1 - both / either if either else 0)


@given(SETS, SETS, SETS)
def test_jaccard_is_a_distance(a, b, c):
    assert (jaccard(a, b), jaccard(a, b) == 0) == (jaccard(b, a), a == b)
    assert jaccard(a, c) <= jaccard(a, b) + jaccard(b, c) + 1e-12


def test_articles_are_left_out():
    assert lemma_set("The number of seats") == {"number", "of", "seat"}


def test_the_distance_of_the_paper_has_the_lemmas_and_stopwords_of_spacy(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("attribute_ruler").add([[{"LOWER": "seats"}]], {"LEMMA": "Chair"})
    for word in ("number", "chair", "chairs", "the", "of", "whereupon"):
        nlp.get_pipe("attribute_ruler").add([[{"LOWER": word}]], {"LEMMA": word})
    nlp.to_disk(tmp_path / "model")
    distance = distances.SpacyJaccard(str(tmp_path / "model"))
    assert distance("The number of seats.", "Number whereupon chair") == 0
    assert distance("The number of seats.", "The chairs") == 1
    assert distance("The number of seats.", "The seats") == 0.5


def test_the_model_of_the_paper_must_be_installed():
    with pytest.raises(InputError, match=r"^jaccard_spacy: spaCy model 'no_such' is not installed"):
        distances.SpacyJaccard("no_such")


@given(st.text(st.sampled_from("the city numbers of.,A-' "), max_size=20))
def test_a_description_is_at_no_distance_from_itself_or_its_shouted_self(text):
    metric = Method().metric("descriptions")
    assert metric(text, text) == 0
    assert 0 <= metric(text, "the city") <= 1


def test_names_of_the_release_are_ordered_by_raw_levenshtein(real_data):
    """This reproduces the published order for every element of the services at hand."""
    from parapet.schemas.layout import read_schema_file

    checked = 0
    for split in ("train", "dev"):
        originals = read_schema_file(real_data / f"sgd/{split}/schema.json", split).services
        paths = [real_data / f"sgd/sgd_x/data/v{k}/{split}/schema.json" for k in range(1, 6)]
        variants = [read_schema_file(path, split).services for path in paths]
        for service, *others in zip(originals, *variants, strict=True):
            for kind in ("slots", "intents"):
                of_variants = [getattr(other, kind) for other in others]
                for element, *given_names in zip(getattr(service, kind), *of_variants, strict=True):
                    found = [levenshtein(element.name, other.name) for other in given_names]
                    assert all(a <= b for a, b in pairwise(found)), (service.service_name, element.name)
                    checked += 1
    assert checked
