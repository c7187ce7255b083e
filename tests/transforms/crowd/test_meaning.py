"""What answers mean: of another element, of nothing, the opposite; and what no person writes."""

import os
from collections import defaultdict
from pathlib import Path

import pytest
from kit import cases, intent, rows_of, run, service, slot
from page_form import made_up

from benchmarks.meaning import doubts_of, services_of
from parapet.schemas.layout import SINGLE, parse_services
from parapet.schemas.rows import Assignment
from parapet.schemas.service import elements_of, parse_service
from parapet.transforms.crowd import lexicon, rules
from parapet.transforms.crowd.meaning import OTHERS, THRESHOLDS, Meaning
from parapet.transforms.crowd.schema_task import Options, SchemaTask
from parapet.transforms.report import meaning
from parapet.transforms.report.text import clean, name_words, words

DATA = os.environ.get("PARAPET_DATA")
real = pytest.mark.skipif(not DATA, reason="PARAPET_DATA is not set: the real SGD data are not at hand")
BAD = rows_of(Path(__file__).parent / "bad_answers.csv")
BUSES = service(
    "Buses_1",
    [
        slot("origin", "City where the bus starts"),
        slot("date", "Day of the journey"),
        slot("fare", "Price of a ticket"),
    ],
    [intent("FindBus", "Look for a bus")],
    "Bus tickets",
)


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    monkeypatch.setattr(meaning, "has_model", lambda: False)


def settled(*given, **options):
    """What became of answers: (worker, task, field, text) of each; by text."""
    assignments = [
        Assignment(f"3{i}", "Buses_1", task, worker, {field: text}, True, submit_time=i)
        for i, (worker, task, field, text) in enumerate(given)
    ]
    task = SchemaTask([parse_services([BUSES], "", SINGLE)], Options(**options))
    batch = task.compose(assignments, [], [])
    return {answer.text: answer.row() for answer in batch.answers}, batch.outcomes[0]


def test_another_elements_meaning_is_held_with_its_name():
    fate, outcome = settled(
        ("a", "names", "slot_1", "price of ticket"), ("b", "names", "slot_1", "journey day"),
        ("c", "names", "slot_1", "ticket fare"), ("d", "names", "slot_1", "fare of ticket"),
    )  # fmt: skip
    assert fate["price of ticket"]["reason"] == fate["ticket fare"]["reason"] == "other_element: fare"
    assert fate["journey day"]["disposition"] == "surplus"
    assert [item.doubt for item in outcome.reviews] == sorted(item.doubt for item in outcome.reviews)


def test_who_saw_the_other_task_is_held_unless_that_is_allowed():
    both = ("a", "names", "slot_1", "journey day"), ("a", "descriptions", "slot_1", "The day on which one travels")
    held, outcome = settled(*both)
    assert (held[both[1][3]]["reason"], outcome.not_blind) == ("not_blind", 1)
    taken, outcome = settled(*both, allow_not_blind=True)
    assert (taken[both[1][3]]["disposition"], outcome.not_blind) == ("surplus", 1)


def test_the_report_says_how_meaning_is_checked(tmp_path):
    made = run("compose", output=tmp_path / "out", allow_not_blind=True, allow_partial=True)
    assert made.json("statistics.json")["meaning"]["names"][3]["expected_false_alarms"] == 0.042
    assert "How meaning is checked" in made.text("report.html")
    assert "other_element: " in made.text("review.csv")
    review = made.text("review.html")
    assert review.count('<option value="other_element') == 1  # the filter has the check once, whatever it names
    assert review.count('data-flag="other_element"') > 1


@cases(
    "text held",
    ("departure_city: where the trip starts", True),
    ("Time: the hour at which it leaves", False),
    ("Departure city:", False),
)
def test_the_question_before_the_answer(text, held):
    answer = rules.AnswerText(clean(text), words(text), "descriptions", "departure_city", "City from which one travels")
    assert (rules.vet_answer(answer).reason == "labelled") == held


@cases(
    "text own found",
    ("whether pets are not allowed", "pets allowed", "negation"),
    ("non refundable", "refundable", "negation"),
    ("non refundable", "refundable whether the ticket is refundable or not", "negation"),
    ("is smoking allowed or not", "smoking allowed", ""),
    ("smoking yes no", "smoking allowed", ""),
    ("place of drop off", "pickup location where the car is picked up", "opposite"),
    ("arrival station", "from station where the bus departs", "opposite"),
    ("one way flight without a return", "one way flight", ""),
    ("phone no", "phone number", ""),
    ("address none if it is not known", "address of the place or none", ""),
    ("hour of arrival", "start time when the group meets", ""),
    ("end of the opening time", "closing time", ""),
)
def test_denied_or_turned_round(text, own, found):
    given, of = tuple(text.split()), tuple(own.split())
    denies, opposite = lexicon.denies_alone(given, of), lexicon.says_the_opposite(text, own, of_name=True)
    assert (denies, opposite) == (found == "negation", found == "opposite")


@cases(
    "text boilerplate kind",
    ("Sure! Here is a paraphrase: the date", True, False),
    ("Here are some options for the name", True, False),
    ("1. the day 2. the date", True, False),
    ("Surely the date of the trip", False, False),
    ("a string value", False, True),
    ("number of tickets", False, False),
)
def test_what_no_person_writes(text, boilerplate, kind):
    assert (bool(lexicon.BOILERPLATE.search(text)), lexicon.is_type(words(text))) == (boilerplate, kind)


@pytest.mark.thorough
@pytest.mark.skipif(not meaning.has_model(), reason="the extra meaning is not installed")
def test_names_that_have_nothing_to_do_with_their_element_are_held():
    texts = {"slot_0": ["starting city", "departure place"], "slot_1": ["travel day"], "slot_2": ["ticket price"]}
    elements = elements_of(parse_service(BUSES), "names")
    slots = [element for element in elements if element.kind == "slot"]
    judge = Meaning("names", slots, texts, "MiniLM")
    limits = THRESHOLDS["MiniLM", "names"]
    salad = {key: judge.doubt(slots[0], made_up(key, 4)).reason(limits) for key in map(str, range(20))}
    assert sum(map(bool, salad.values())) >= 19
    own = zip(slots, texts.values(), strict=True)
    assert not any(judge.doubt(element, text).reason(limits) for element, said in own for text in said)


@real
def test_most_bad_answers_are_found():
    sgd, sgd_x = Path(DATA) / "sgd", Path(DATA) / "sgd" / "sgd_x" / "data"
    originals, variants = services_of(sgd), [services_of(sgd_x / f"v{k}") for k in range(1, 6)]
    found = defaultdict(list)
    for row in BAD:
        name, task = row["element_id"].partition("/")[0], row["task"]
        elements = elements_of(parse_service(originals[name]), task)
        said = [elements_of(parse_service(of[f"{name}{k}"]), task) for k, of in enumerate(variants, 1)]
        own = next(one for one in elements if one.id == row["element_id"])
        texts = {one.field: [of[i].text(task) for of in said] for i, one in enumerate(elements)}
        judge = Meaning(task, [one for one in elements if one.kind == own.kind], texts, "n-grams")
        given = name_words(row["text"]) if task == "names" else words(row["text"])
        verdict = rules.vet_answer(rules.AnswerText(clean(row["text"]), given, task, own.name, own.description))
        doubt = judge.doubt(own, row["text"]).reason(THRESHOLDS["n-grams", task])
        found[row["half"]].append(bool(verdict.action or doubt))
    assert {half: len(of) for half, of in found.items()} == {"1": 30, "2": 30}
    assert all(sum(of) >= 0.75 * len(of) for of in found.values())


@pytest.mark.thorough
@real
def test_published_answers_pass_and_swapped_ones_do_not():
    sgd, shares = Path(DATA) / "sgd", defaultdict(list)
    for n, others in enumerate(OTHERS):
        for aside, task, what, doubt in doubts_of(sgd, sgd / "sgd_x" / "data", "n-grams", others):
            if aside:
                shares[task, what, n].append(bool(doubt.reason(THRESHOLDS["n-grams", task])))
    share = {key: sum(held) / len(held) for key, held in shares.items()}
    for task in ("names", "descriptions"):
        right = [share[task, "right", n] for n in range(len(OTHERS))]
        assert right == pytest.approx(THRESHOLDS["n-grams", task].false_alarms, abs=0.001)
        assert max(right) <= 0.08
    assert share["names", "wrong", 3] >= 0.95
    assert share["descriptions", "wrong", 3] >= 0.85
