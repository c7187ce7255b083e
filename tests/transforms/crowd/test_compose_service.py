"""Composing a service, against a slow plain reading of SGD-X's method, and case by case."""

import hashlib
from collections import defaultdict
from itertools import permutations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import cases, intent, service, slot

from parapet.schemas.decisions import Decision
from parapet.schemas.layout import SINGLE, parse_services
from parapet.schemas.rows import Assignment
from parapet.transforms.crowd import vet
from parapet.transforms.crowd.schema_task import Options, SchemaTask
from parapet.transforms.crowd.vet import canonical_form
from parapet.transforms.report.text import Convention


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
    "intent_0": "Find parks nearby, Get a list of parks in town, Search a park by city, Discover green areas, "
    "Which parks there are",
    "slot_0": "What the park is called, Title of the park, The green area's name, Label on the map, How people call it",
    "slot_1": "Town of the park, Where the park is found, Municipality around the park, Location by city, "
    "The city it belongs to",
    "service": "Look up parks, Green places near you, Search engine for parks, Town parks at hand, "
    "A guide to public gardens",
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


def plain_reference(names, seed):
    """The names of each variant by brute force: draw by hash, order by distance, all orders of ties tried."""
    originals = {"intent_0": "FindPark", "slot_0": "park_name", "slot_1": "city"}
    ids = {"intent_0": "intent/FindPark", "slot_0": "slot/park_name", "slot_1": "slot/city"}
    of_field = {}
    for field, texts in names.items():
        convention = Convention.CAMEL if "intent" in field else Convention.SNAKE
        drawn = sorted(
            {canonical_form(text, "names", convention, "")[0] for text in texts},
            key=lambda text, f=field: hashlib.sha256(f"{seed}\0Parks_1/{ids[f]}\0names\0{text}".encode()).hexdigest(),
        )
        of_field[field] = [
            order
            for order in permutations(drawn[:5])
            if [textbook_levenshtein(originals[field], t) for t in order]
            == sorted(textbook_levenshtein(originals[field], t) for t in order)
        ]
    return of_field


PLACES = (
    "green place/town name/area/region/title/spot/garden/label/county/quarter/district/street/square/map point/corner/"
    "village/landmark/zone/address line/borough"
)
COMMON = st.sampled_from(PLACES.split("/"))


@settings(max_examples=30)
@given(st.lists(COMMON, min_size=5, max_size=8, unique=True), st.integers(0, 3))
def test_names_are_those_of_a_plain_reference(texts, seed):
    batch = compose(assignments({**NAMES, "slot_1": texts}), seed=seed)
    ours = [variant["slots"][1]["name"] for variant in batch.variants["Parks_1"]]
    assert tuple(ours) in plain_reference({"slot_1": texts}, seed)["slot_1"]
    fate = fates(batch)
    used = sorted(
        r for r, (disposition, _, _) in fate.items() if disposition == "used" and r.endswith("slot_1") and r[0] == "n"
    )
    surplus = [f for f in fate.values() if f[0] == "surplus"]
    assert (len(used), surplus) == (5, [("surplus", "not_drawn", None)] * (len(texts) - 5))


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
    answers = assignments(NAMES, {**DESCRIPTIONS, "service": []})
    batch = compose(answers, allow_partial=True)
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


@cases(
    "have in_review to_accept",
    (4, 0, 0),
    (4, 1, 1),
    (3, 4, 2),
    (3, 1, 0),
)
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
