from itertools import combinations, pairwise, permutations, product

from hypothesis import example, given
from hypothesis import strategies as st

from parapet.transforms.crowd.compose import Candidates, assign_names, ranked
from parapet.transforms.variants.distance import levenshtein

TEXTS = "abcd"


@st.composite
def services(draw):
    """Few texts, few distances, so that names collide and tie; one distance for a text within an element."""
    n = draw(st.integers(2, 3))
    elements = []
    for i in range(draw(st.integers(1, 4))):
        texts = draw(st.lists(st.sampled_from(TEXTS), max_size=4, unique=True))
        elements.append(Candidates(f"e{i}", texts, [float(draw(st.integers(1, 2))) for _ in texts]))
    return elements, n


def arrangements(element, n, texts=None):
    """Every way to use n of the texts from near to far."""
    distance = dict(zip(element.texts, element.distances, strict=True))
    texts = element.texts if texts is None else texts
    return [names for names in permutations(texts, n) if all(distance[a] <= distance[b] for a, b in pairwise(names))]


def solvable(elements, n):
    """Whether some choice of arrangements has no name twice in a variant: by trying all of them."""
    first_drawn = [arrangements(element, n, element.texts[:n]) for element in elements]
    return any(
        all(len(set(variant)) == len(variant) for variant in zip(*choice, strict=True))
        for choice in product(*first_drawn)
    )


def check(elements, n, given_names):
    by_key = {element.key: element for element in elements}
    for key, names in given_names.items():
        distance = dict(zip(by_key[key].texts, by_key[key].distances, strict=True))
        assert len(names) == len(set(names)) == n
        assert all(distance[a] <= distance[b] for a, b in pairwise(names))
    for k in range(n):
        of_variant = [names[k] for names in given_names.values()]
        assert len(set(of_variant)) == len(of_variant)


TIGHT = (  # only one pair of arrangements fits, and neither is the first of its element
    [Candidates("e0", ["x", "y", "z"], [1.0, 2.0, 2.0]), Candidates("e1", ["x", "y", "z"], [1.0, 1.0, 2.0])],
    3,
)


@given(services())
@example(TIGHT)
def test_names_are_unique_in_a_variant_and_ordered(case):
    elements, n = case
    check(elements, n, assign_names(elements, n))


@given(services())
@example(TIGHT)
def test_a_valid_assignment_of_the_first_drawn_is_found_if_there_is_one(case):
    elements, n = case
    if all(len(element.texts) >= n for element in elements) and solvable(elements, n):
        assert assign_names(elements, n).keys() == {element.key for element in elements}


@given(services())
def test_who_is_left_out_could_not_have_been_served_beside_the_others(case):
    elements, n = case
    given_names = assign_names(elements, n)
    for element in elements:
        if element.key not in given_names:
            for names in arrangements(element, n):
                assert any(name == other[k] for other in given_names.values() for k, name in enumerate(names))


@given(st.lists(st.lists(st.text(st.sampled_from("abc"), min_size=1, max_size=3), min_size=5, max_size=9, unique=True)))
def test_without_collisions_everyone_gets_the_first_five(texts):
    elements = []
    for i, drawn in enumerate(texts):
        own = [f"{text}{i}" for text in drawn]
        elements.append(Candidates(f"e{i}", own, [float(levenshtein("abc", text)) for text in own]))
    for element, names in zip(elements, assign_names(elements, 5).values(), strict=True):
        assert names == ranked(element.texts[:5], element.distances[:5])


@given(services(), st.randoms(use_true_random=False))
def test_the_same_elements_give_the_same_names(case, random):
    elements, n = case
    assert assign_names(elements, n) == assign_names(list(elements), n)


@given(st.lists(st.tuples(st.text(max_size=4), st.integers(0, 3)), unique_by=lambda pair: pair[0]))
def test_ranked(pairs):
    found = ranked([text for text, _ in pairs], [float(d) for _, d in pairs])
    distance = dict(pairs)
    assert sorted(found) == sorted(distance)
    assert all((distance[a], a) < (distance[b], b) for a, b in combinations(found, 2))


def test_equal_distances_change_places_before_another_answer_is_drawn():
    one = Candidates("one", ["a", "b", "c"], [1, 1, 2])
    other = Candidates("other", ["a", "b", "c"], [1, 1, 2])
    assert assign_names([one], 2) == {"one": ["a", "b"]}
    assert assign_names([one, other], 2) == {"one": ["a", "b"], "other": ["b", "a"]}


def test_two_that_cannot_both_be_served():
    one, other = Candidates("one", ["a", "b"], [1, 2]), Candidates("other", ["a", "b"], [1, 2])
    assert list(assign_names([one, other], 2).values()) == [["a", "b"]]
