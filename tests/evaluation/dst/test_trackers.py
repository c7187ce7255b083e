"""The trackers without training: the values that they find, offers, confirmations, and the words of schemas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, intent, service, slot

import parapet
from parapet.evaluation.dst.model import Context, Example, Set
from parapet.evaluation.dst.trackers import Meaning, Names, values_in
from parapet.evaluation.models import dst
from parapet.evaluation.models.inference import DialogueFile, _Handler
from parapet.schemas import layout
from parapet.schemas.dialogue import Action
from parapet.schemas.service import Service, parse_service

VISIT = ("shop_name", "visit_date", "visit_time")
SLOTS = [
    slot("shop_name", "Name of the shop"),
    slot("city", "City where the shop is"),
    slot("visit_date", "Day of the visit"),
    slot("visit_time", "Time of the visit"),
    slot("number_of_guests", "How many people come", "1", "2", "3", "4"),
    slot("goods", "What is sold", "hats", "shoes"),
    slot("has_parking", "Whether there is parking", "True", "False"),
]
FIND = intent("FindShop", "Search for a shop", "city", goods="dontcare", has_parking="dontcare")
BOOK = intent("BookVisit", "Reserve a visit to a shop", *VISIT, transactional=True, number_of_guests="1")
SHOPS = parse_service(service("Shops_1", SLOTS, [FIND, BOOK]))
OTHER_SLOTS = [slot("where_one_lives", "Town or city of the shop"), slot("day_for_it", "Day of the visit")]
DISCOVER = intent("Discover", "Search for a shop", "where_one_lives", "day_for_it")
REWORDED = parse_service(service("Shops_12", OTHER_SLOTS, [DISCOVER]))
BOTH = pytest.mark.parametrize("tracker", [Names(), Meaning()], ids=["names", "meaning"])


def state(tracker: Names, *turns: str | tuple[str, list[Action]], schema: Service = SHOPS) -> dict[str, object]:
    """Returns a tracker's state after turns of the user, which are texts, and of the system, which have actions."""
    history = tuple(("USER", turn) if isinstance(turn, str) else ("SYSTEM", turn[0]) for turn in turns)
    frames = tuple((Context(schema, () if isinstance(turn, str) else tuple(turn[1])),) for turn in turns)
    (predicted,) = tracker.predict([Example("1", len(turns) - 1, schema, history, frames)])
    return predicted


def values(tracker: Names, *turns: str | tuple[str, list[Action]], schema: Service = SHOPS) -> dict[str, str]:
    predicted = state(tracker, *turns, schema=schema)["slot_values"]
    assert isinstance(predicted, dict)
    return {name: value for name, (value,) in predicted.items()}


@cases(
    "text expected",
    ("At 5:30 pm on Friday.", [("5:30 pm", "time"), ("Friday", "date")]),
    ("half past six in the evening, please", [("half past six in the evening", "time")]),
    ("How about 11 in the morning?", [("11 in the morning", "time")]),
    ("the 20th of May", [("20th of May", "date")]),
    ("on the 11th", [("the 11th", "date")]),
    ("the day after tomorrow", [("the day after tomorrow", "date")]),
    ("March 3rd for two people", [("March 3rd", "date"), ("two", "number")]),
    ("It is $12 or 555-0142.", [("$12", "money"), ("555-0142", "phone")]),
    ("Not one, five!", [("five", "number")]),
    ("The one at 7:30 pm.", [("7:30 pm", "time")]),
    ("I want to go from Port Elm to Dunwick.", [("Port Elm", "name"), ("Dunwick", "name")]),
    ("To Port Elm on May 3rd", [("Port Elm", "name"), ("May 3rd", "date")]),
    ("Do you have A Spoon for the Judge?", [("A Spoon for the Judge", "name")]),
    ("Thanks. Great, please do.", []),
)
def test_values_by_their_form(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(value.text, value.kind) for value in values_in(text)] == expected


PIECES = st.sampled_from(["on", "the", "3rd", "May", "5", "pm", "Elm", "of", "$9", "one", "not", "?", "."])


@given(st.text(max_size=80) | st.lists(PIECES).map(" ".join))
def test_values_are_in_the_text_in_order_and_apart(text: str) -> None:
    place = 0
    for value in values_in(text):
        assert value.text
        place = text.index(value.text, place) + len(value.text)


@BOTH
@given(st.lists(st.text(max_size=60) | st.text(st.sampled_from("ab A. ?!"), max_size=20), min_size=1, max_size=3))
def test_any_text_gives_a_state(tracker: Names, texts: list[str]) -> None:
    assert state(tracker, *texts)["active_intent"] in {"FindShop", "BookVisit"}
    assert values(tracker, *texts).keys() <= {slot.name for slot in SHOPS.slots}


@BOTH
def test_values_go_to_the_slots_of_the_request(tracker: Names) -> None:
    text = "Find me a shop in Dunwick that sells hats."
    assert values(tracker, text) == {"city": "Dunwick", "goods": "hats"}
    assert state(tracker, text)["active_intent"] == "FindShop"
    booked = {"number_of_guests": "2", "visit_date": "Friday", "visit_time": "5 pm"}
    assert values(tracker, "Book a visit for two people on Friday at 5 pm.") == booked


OFFER = ("How about Elm Store?", [Action("OFFER", "shop_name", ["Elm Store"])])


@BOTH
@cases(
    "answer is_accepted",
    ("That sounds great.", True),
    ("I'll take it. What is the address?", True),
    ("Is it expensive?", False),
    ("No, show me another.", False),
    ("Not my taste, do you have something else?", False),
    ("Just what we need.", True),
    ("Can you book a visit on Friday?", True),
    ("We come by bus. Is it far?", False),
    ("Tell me the address.", False),
    ("I would rather see the Elm Store.", True),
)
def test_an_offer_counts_once_it_is_accepted(tracker: Names, answer: str, is_accepted: bool) -> None:
    assert ("shop_name" in values(tracker, "Any shops in Dunwick?", OFFER, answer)) == is_accepted


CONFIRMED = [Action("CONFIRM", "visit_date", ["Friday"]), Action("CONFIRM", "number_of_guests", ["1"])]
CONFIRM = ("Elm Store on Friday for 1?", CONFIRMED)


@BOTH
def test_a_confirmation_adds_what_the_user_did_not_say(tracker: Names) -> None:
    start, again = "Book a visit on Friday.", ("No, another.", ("Hm.", []), "Great.")
    assert "shop_name" not in values(tracker, "Any shops in Dunwick?", OFFER, *again)  # a rejected offer is forgotten
    assert values(tracker, start, CONFIRM, "Yes.")["number_of_guests"] == "1"
    assert values(tracker, start, CONFIRM, "No, there are three of us.")["number_of_guests"] == "3"
    assert values(tracker, start, CONFIRM, "Actually, make that Sunday.") == {"visit_date": "Sunday"}


@BOTH
def test_negated_booleans_no_preference_and_questions(tracker: Names) -> None:
    assert values(tracker, "I need a shop with parking.") == {"has_parking": "True"}
    assert values(tracker, "I need no parking.") == {"has_parking": "False"}
    assert values(tracker, "A shop in Dunwick.", ("Do you need parking?", []), "Yes.")["has_parking"] == "True"
    # No preference.
    question = ("In which city?", [Action("REQUEST", "city", [])])
    assert values(tracker, "I need shoes.", question, "I don't care.")["city"] == "dontcare"
    assert values(tracker, "Shoes. Parking is not important.") == {"goods": "shoes", "has_parking": "dontcare"}
    # A question requests slots.
    assert "has_parking" in state(tracker, "Do they have parking?")["requested_slots"]
    assert state(tracker, "I need parking.")["requested_slots"] == []


def test_reworded_slots_cost_names_more_than_meaning() -> None:
    text = "Find me a shop in Dunwick on Friday."
    assert values(Names(), text, schema=REWORDED) == {}
    assert values(Meaning(), text, schema=REWORDED) == {"where_one_lives": "Dunwick", "day_for_it": "Friday"}


def test_slot_names_of_acts_are_not_read_for_what_the_user_says() -> None:
    question = ("Well?", [Action("REQUEST", "where_one_lives", [])])
    assert values(Names(), "Hello.", question, "Dunwick.", schema=REWORDED) == {}


def test_both_are_right_for_three_of_five_states() -> None:
    sample = parapet.load_corpus()
    for tracker in (Names(), Meaning()):
        assert parapet.score_states(sample, tracker, split="train").joint_goal_accuracy > 0.6


def test_progress_counts_each_dialogue_of_a_prediction_once(monkeypatch):
    (here,) = [splits for splits in layout.read_root(layout.sample_root()) if splits.split == "test"]
    sets = {"original": Set("original", "original", {each.service_name: each for each in here.services}, frozenset())}
    path = str(layout.sample_root() / "test" / "dialogues_001.json")
    job = dst.Job(output="", model="names", sets=sets, inputs=(DialogueFile("original", path, "predictions"),))
    chunks, counted = list(job.chunks(job.inputs[0])), []
    monkeypatch.setattr("parapet.evaluation.dst.model.advance", lambda n, _: counted.append(n))
    monkeypatch.setattr("parapet.transforms.core.progress.advance", lambda n, _: counted.append(n))
    assert len(list(_Handler(job).run_inference(chunks, Names()))) == len(chunks)
    assert sum(counted) == sum(len(chunk.dialogues) for chunk in chunks) > 0
