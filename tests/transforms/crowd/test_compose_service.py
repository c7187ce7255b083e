"""Composing a service, against slow plain references and case by case: the draw, the names, what gets lost."""

import hashlib
from collections import defaultdict
from itertools import combinations, pairwise, permutations, product

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kit import cases, intent, run, service, slot

from parapet.schemas.decisions import Decision
from parapet.schemas.layout import SINGLE, parse_services
from parapet.schemas.rows import Assignment
from parapet.transforms.crowd import schema_task, vet
from parapet.transforms.crowd.compose import Candidates, assign_names, draw, most_diverse, ranked
from parapet.transforms.crowd.schema_task import Options, SchemaTask
from parapet.transforms.crowd.vet import Vetting, canonical_form
from parapet.transforms.report.text import Convention
from parapet.transforms.variants.distance import levenshtein


@pytest.fixture(autouse=True, scope="module")
def any_meaning():
    """These answers are few and short: what they mean is test_meaning.py's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vet, "_judge_meaning", lambda *_: None)
        yield


SERVICE = service(
    "Parks_1",
    [slot("park_name", "Name of the park"), slot("city", "City where the park lies")],
    [intent("FindPark", "Look for a park in a city", "city", results=["park_name", "city"], park_name="dontcare")],
    "Find green places in a town",
)

NAMES = {
    "intent_0": ["SearchParks", "LocatePark", "DiscoverGreenery", "GetParkList", "SeekGreenSpace"],
    "slot_0": ["name_of_place", "park_title", "green_area", "called", "known_as"],
    "slot_1": ["town", "location", "municipality", "place", "where_it_is"],
}
DESCRIPTIONS = {
    "intent_0": "Find parks nearby, List parks in town, Search a park by city, Discover green areas, Which parks exist",
    "slot_0": "What the park is called, Title of the park, The green area's name, Label on the map, How people call it",
    "slot_1": "Town of the park, Where the park is, Municipality around it, Location by city, The city it belongs to",
    "service": "Look up parks, Green places near you, Engine for parks, Town parks at hand, A guide to public gardens",
}
DESCRIPTIONS = {field: texts.split(", ") for field, texts in DESCRIPTIONS.items()}


def assignments(names=NAMES, descriptions=DESCRIPTIONS, **extra):
    """One worker a column: the w-th worker gives the w-th text for every field."""
    found = []
    for task, fields in (("names", names), ("descriptions", descriptions)):
        for w in range(max(map(len, fields.values()))):
            answers = {field: texts[w] for field, texts in fields.items() if w < len(texts)}
            who = f"worker-{task}-{w}"
            found.append(Assignment(f"{task}{w}", "Parks_1", task, who, answers, True, 0, 300, 300, **extra))
    return found


def compose(answers, *decisions, **options):
    task = SchemaTask([parse_services([SERVICE], "", SINGLE)], Options(**options))
    return task.compose(answers, decisions, [])


def fates(batch):
    return {answer.response_id: (answer.disposition, answer.reason, answer.variant) for answer in batch.answers}


def more(field, *texts, task="names", start=5):
    """Further workers who answer a single field."""
    return [
        Assignment(f"{task}{start + i}", "Parks_1", task, f"more-{task}-{i}", {field: text}, True, 0, 300, 300)
        for i, text in enumerate(texts)
    ]


def textbook_levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, before = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
    return row[-1]


def plain_reference(texts, seed):
    """The names of the city in all variants by brute force: draw by hash, all orders by distance."""
    drawn = sorted(
        {canonical_form(text, "names", Convention.SNAKE, "")[0] for text in texts},
        key=lambda text: hashlib.sha256(f"{seed}\0Parks_1/slot/city\0names\0{text}".encode()).hexdigest(),
    )
    distance = {text: textbook_levenshtein("city", text) for text in drawn}
    return [order for order in permutations(drawn[:5]) if sorted(order, key=distance.get) == list(order)]


PLACES = (
    "green place/town name/area/region/title/spot/garden/label/county/quarter/district/street/square/map point/corner/"
    "village/landmark/zone/address line/borough"
)


@settings(max_examples=30)
@given(st.lists(st.sampled_from(PLACES.split("/")), min_size=5, max_size=8, unique=True), st.integers(0, 3))
def test_names_are_those_of_a_plain_reference(texts, seed):
    batch = compose(assignments({**NAMES, "slot_1": texts}), seed=seed)
    ours = [variant["slots"][1]["name"] for variant in batch.variants["Parks_1"]]
    assert tuple(ours) in plain_reference(texts, seed)
    fate = [of for key, of in fates(batch).items() if key[0] == "n" and key.endswith("slot_1")]
    surplus = [of for of in fate if of[0] == "surplus"]
    assert ([of[0] for of in fate].count("used"), surplus) == (5, [("surplus", "not_drawn", None)] * (len(texts) - 5))


def test_a_reviewers_rejection_holds_for_all_who_gave_the_same_words_unless_one_is_accepted():
    extra = more("slot_1", "hamlet", "Hamlet", "HAMLET")
    reject = Decision("names5:slot_1", "reject")
    fate = fates(compose(assignments() + extra, reject))
    assert {fate[f"names{w}:slot_1"][0] for w in (5, 6, 7)} == {"rejected"}
    fate = fates(compose(assignments() + extra, reject, Decision("names6:slot_1", "accept")))
    assert fate["names5:slot_1"][0] == "rejected"
    assert fate["names6:slot_1"][0] in ("used", "surplus")
    assert fate["names7:slot_1"][0] == "duplicate"


def test_partial_does_not_make_up_what_nobody_has_answered():
    batch = compose(assignments(NAMES, {**DESCRIPTIONS, "service": []}), allow_partial=True)
    short = [(short.place, short.have, short.filled) for short in batch.outcomes[0].short]
    assert (batch.variants, short) == ({}, [("service", 0, ())])


def test_a_decision_that_leaves_no_word_is_void_and_told():
    fix = Decision("names0:slot_1", "fix", "\u65e5\u672c\u8a9e", source="d.csv: row 2")
    batch = compose(assignments(), fix)
    assert (fates(batch)["names0:slot_1"][0], batch.outcomes[0].decisions) == ("used", {})
    (letter,) = batch.dead
    assert (letter.stage, letter.key, letter.source) == ("decisions", "names0:slot_1", "d.csv: row 2")
    assert letter.reason.startswith("bad_decision: the text contains no word")


def test_blank_cells_that_may_be_no_fields_do_not_make_a_worker_too_fast():
    answers = {"slot_1": "hamlet", "slot_0": "", "intent_0": ""}
    for asked, expected in ((False, "surplus"), (True, "rejected")):
        top_up = Assignment("3T", "Parks_1", "names", "t", answers, asked, 0, 6, 6)
        assert fates(compose([top_up]))["3T:slot_1"][0] == expected


@given(st.lists(st.tuples(st.sampled_from(["intent_0", "slot_0", "slot_1"]), st.text(max_size=30)), max_size=12))
def test_whatever_is_typed_every_answer_has_one_fate_and_variants_stay_valid(typed):
    odd = [Assignment(f"3X{i}", "Parks_1", "names", f"w{i}", {f: t}, True) for i, (f, t) in enumerate(typed)]
    batch = compose([*assignments(), *odd])
    given_ids = {f"{a.assignment_id}:{field}" for a in [*assignments(), *odd] for field in a.answers}
    assert sorted(answer.response_id for answer in batch.answers) == sorted(given_ids)
    by_variant = defaultdict(list)
    for answer in batch.answers:
        assert (answer.variant is not None) == (answer.disposition == "used")
        if answer.variant and answer.task == "names":
            by_variant[answer.variant].append(answer.canonical)
    assert len(batch.variants["Parks_1"]) == 5
    for names in by_variant.values():
        assert len(names) == 3 == len(set(names))


def test_an_answer_for_a_position_that_does_not_exist_is_a_dead_letter():
    odd = Assignment("3X", "Parks_1", "names", "w", {"slot_9": "something", "service": "", "slot_1": "hamlet"}, False)
    batch = compose([*assignments(), odd])
    (letter,) = batch.dead
    told = (letter.key, letter.reason.partition(":")[0], letter.payload)
    assert told == ("3X:slot_9", "unknown_position", "something")
    assert "3X:service" not in fates(batch)
    assert fates(batch)["3X:slot_1"][0] in ("used", "surplus")


def held(n, task="names", field="slot_1"):
    """Answers that are held: with a word that is in no text."""
    return more(field, *[f"zorbtown {word}" for word in ("one", "two", "three", "four")[:n]], task=task)


@cases("have in_review to_accept", (4, 0, 0), (4, 1, 1), (3, 4, 2), (3, 1, 0))
def test_how_many_held_answers_would_complete_a_service(have, in_review, to_accept):
    answers = assignments({**NAMES, "slot_1": NAMES["slot_1"][:have]}) + held(in_review)
    batch = compose(answers)
    (outcome,) = batch.outcomes
    assert ([short.in_review for short in outcome.short], outcome.to_accept) == ([in_review], to_accept)
    ids = [answer.response_id for answer in batch.answers if answer.disposition == "review"][:to_accept]
    again = compose(answers, *(Decision(key, "accept") for key in ids))
    assert bool(again.variants) == bool(to_accept)
    assert again.outcomes[0].to_accept == (0 if to_accept else outcome.to_accept)


def test_what_is_missing_in_assignments_is_told():
    first, *others = assignments()
    first = msgspec.structs.replace(first, source="names.csv: row 2", unread=("AcceptTime 'soon' is not a time",))
    last = msgspec.structs.replace(others.pop(), worker_hash="", source="names.csv: row 11")
    times, workers = compose([first, *others, last]).notes.warnings()
    assert times == "1 time could not be read, so left empty: names.csv: row 2: AcceptTime 'soon' is not a time"
    assert workers.startswith("1 assignment without a WorkerId (first names.csv: row 11): ")


@st.composite
def services(draw):
    """Few texts, few distances, so that names collide and tie; one distance for a text within an element."""
    n = draw(st.integers(2, 3))
    elements = []
    for i in range(draw(st.integers(1, 4))):
        texts = draw(st.lists(st.sampled_from("abcd"), max_size=4, unique=True))
        elements.append(Candidates(f"e{i}", texts, [float(draw(st.integers(1, 2))) for _ in texts]))
    return elements, n


def arrangements(element, n, texts=None):
    """Every way to use n of the texts from near to far."""
    distance = dict(zip(element.texts, element.distances, strict=True))
    texts = element.texts if texts is None else texts
    return [names for names in permutations(texts, n) if all(distance[a] <= distance[b] for a, b in pairwise(names))]


def solvable(elements, n):
    """Whether some choice of arrangements has no name twice in a variant: by trying all of them."""
    return any(map(differ, product(*(arrangements(element, n, element.texts[:n]) for element in elements))))


def differ(names_of_elements):
    """Whether no variant has a name twice."""
    return all(len(set(variant)) == len(variant) for variant in zip(*names_of_elements, strict=True))


TIGHT = (  # only one pair of arrangements fits, and neither is the first of its element
    [Candidates("e0", ["x", "y", "z"], [1.0, 2.0, 2.0]), Candidates("e1", ["x", "y", "z"], [1.0, 1.0, 2.0])],
    3,
)


@given(services())
@example(TIGHT)
def test_names_are_unique_in_a_variant_and_ordered(case):
    elements, n = case
    assigned = assign_names(elements, n)
    for element in elements:
        assert assigned.get(element.key) in (None, *map(list, arrangements(element, n)))
    assert differ(assigned.values())


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


TEXTS = st.lists(st.text(st.sampled_from("abcd"), max_size=5), max_size=9, unique=True)


def spread(texts):
    return sum(levenshtein(a, b) for a, b in combinations(texts, 2))


@given(TEXTS, st.integers(1, 6))
def test_most_diverse_is_the_best_of_all_subsets(texts, n):
    found = most_diverse(texts, n, levenshtein)
    assert sorted(found) == sorted(texts)
    best = max((spread(subset) for subset in combinations(texts, min(n, len(texts)))), default=0)
    assert spread(found[:n]) == best
    # Both parts keep the order of the draw.
    assert (found[:n], found[n:]) == (sorted(found[:n], key=texts.index), sorted(found[n:], key=texts.index))


def test_many_texts_are_approached_one_by_one():
    texts = [f"{i:03}" for i in range(40)] + ["x" * 9, "y" * 9, "z" * 9]
    found = most_diverse(texts, 5, levenshtein)
    assert (found[2:5], sorted(found)) == (["x" * 9, "y" * 9, "z" * 9], sorted(texts))
    assert most_diverse(texts, 5, levenshtein) == found


def test_each_text_is_compared_with_500_at_most():
    calls = []
    texts = [f"{i:04}" for i in range(2_000)]
    found = most_diverse(texts, 5, lambda a, b: calls.append((a, b)) or levenshtein(a, b))
    assert (len(calls), sorted(found)) == (500 * 499 / 2, texts)
    assert set(found[:5]) < set(texts[:500])


@given(TEXTS, st.integers(), st.randoms(use_true_random=False))
def test_the_draw_knows_no_order_of_arrival(texts, seed, random):
    drawn = draw(texts, seed, "Taxi_1/slot/to", "names")
    shuffled = list(texts)
    random.shuffle(shuffled)
    assert (draw(shuffled, seed, "Taxi_1/slot/to", "names"), sorted(drawn)) == (drawn, sorted(texts))


@given(TEXTS.filter(bool), st.data())
def test_other_answers_do_not_move_a_text(texts, data):
    gone = data.draw(st.sampled_from(texts))
    drawn = draw(texts, 7, "e", "names")
    drawn.remove(gone)
    assert draw([text for text in texts if text != gone], 7, "e", "names") == drawn


def test_ties_go_to_the_earlier_texts():
    assert most_diverse(["a", "b", "c", "d"], 2, levenshtein) == ["a", "b", "c", "d"]
    assert most_diverse(["aa", "b", "c", "dddd"], 2, levenshtein) == ["aa", "dddd", "b", "c"]


vet_service, conclude_service = Vetting.vet_service, schema_task.conclude_service


@cases(
    "holder name lossy balance",
    (Vetting, "vet_service", lambda *args: vet_service(*args)[1:], "answers_given"),
    (schema_task, "conclude_service", lambda raw, found, *args: conclude_service(raw, found[1:], *args), "answers: "),
)
def test_what_gets_lost_fails_the_run(holder, name, lossy, balance, tmp_path, monkeypatch):
    monkeypatch.setattr(holder, name, lossy)
    result = run("compose", output=tmp_path / "out", status=1)
    assert f"balance for {balance}" in result.errors
    assert not {"run.json", "responses.parquet"} & result.files.keys()
