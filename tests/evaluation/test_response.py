"""Inform, Success, BLEU and Combined: what an offer is, what answers a request, goals of annotation and of files."""

import msgspec
import numpy as np
import pytest
from kit import act, cases, dialogue, frame, intent, raised, service, slot, state, turn, write

from parapet.evaluation import statistics
from parapet.evaluation.response import goals
from parapet.evaluation.response.task import METRICS, SetInputs, evaluate, own_responses, read_responses
from parapet.evaluation.sets import ALL, ORIGINAL
from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.schemas.service import parse_service

ROWS = [
    {"name": "Anchor", "city": "Rome", "price": "10", "phone": "123"},
    {"name": "Bell", "city": "Rome", "price": "20", "phone": "456"},
    {"name": "Castle", "city": "Bonn", "price": "10", "phone": "789"},
]
MEANT = [("Inns_1", "city", "Rome", "the eternal city"), ("Inns_1", "price", "10", "ten")]
KNOWN = goals.Knowledge({"Inns_1": ROWS}, MEANT)
ROMAN = goals.Search("Inns_1", {"city": ("Rome",)}, ("name",))


def met(search, *said):
    turns = [goals.Response(2 * i + 1, one) if isinstance(one, str) else one for i, one in enumerate(said)]
    return goals.judge(goals.Goal((search,)), turns, KNOWN).searches[0]


def test_an_offer_counts_in_its_turns_only():
    late = goals.Search("Inns_1", {"city": ("Rome",)}, ("name",), first=3, last=3)
    assert not met(late, "Anchor!", "Well.", "Anchor!")
    assert met(late, "Well.", "Anchor!", "Well.")


def test_placeholders_speak_of_the_entities_of_the_state():
    def said(text, city, *services):
        return goals.Response(1, text, {"Inns_1": {"city": (city,)}}, services or None)

    assert met(ROMAN, said("[name] is nice", "Rome"))
    assert met(ROMAN, said("[Inns-name] is nice", "the eternal city"))
    assert met(ROMAN, said("[value_name] is nice", "Rome", "Inns_1"))
    assert not met(ROMAN, said("[name] is nice", "Bonn"))
    assert not met(ROMAN, said("[name] is nice", "dontcare"))  # Castle might be meant
    assert not met(ROMAN, said("[name] is nice", "Rome", "Taxis_1"))
    assert not met(ROMAN, said("[taxi_name] is nice", "Rome"))
    assert not met(ROMAN, goals.Response(1, "[name] is nice"))


def test_the_last_offer_counts():
    def said(turn, text, **slots):
        return goals.Response(turn, text, {"Inns_1": {slot: (value,) for slot, value in slots.items()}})

    assert met(ROMAN, said(1, "[name]", city="Bonn"), said(3, "[name]", city="Rome"))
    assert not met(ROMAN, said(1, "[name]", city="Rome"), said(3, "[name]", city="Bonn"))
    # As in MultiWOZ's script: what was offered stays so where more is spoken of that includes it.
    assert met(ROMAN, said(1, "[name]", city="Rome"), said(3, "[name]"))


def test_what_needs_no_offer():
    assert met(goals.Search("Inns_1", {}, (), given=True), "Hello")
    optional = goals.Search("Inns_1", {"city": ("Rome",)}, ("name",), optional=True)
    assert met(optional, "Hello")
    assert not met(optional, goals.Response(1, "[name]", {"Inns_1": {"city": ("Bonn",)}}))


@cases(
    "text answered",
    ("Call 555-1.", True),
    ("Call 555-12.", False),
    ("Anchor has 123.", True),  # of what was offered
    ("Bell has 456.", True),
    ("Castle has 789.", False),
    ("[phone]", True),
    ("[inns_phone]", True),
    ("[inns_1_phone]", True),
    ("[taxi_phone]", False),
    ("phone", False),
)
def test_what_answers_a_request(text, answered):
    goal = goals.Goal((ROMAN,), (goals.Request("Inns_1", "phone", ("555-1",), 3),))
    found = goals.judge(goal, [goals.Response(1, "Anchor or Bell? 555-1"), goals.Response(3, text)], KNOWN)
    assert (found.requests, found.inform, found.success) == ((answered,), 1.0, float(answered))


def test_constraints():
    train = {"day": "monday", "leaveAt": "9:15", "arriveBy": "10:07"}
    assert goals.satisfies(train, {"day": ("MONDAY", "sunday"), "colour": ("red",), "leaveAt": ("dontcare",)})
    assert not goals.satisfies(train, {"day": ("sunday",)})
    assert goals.satisfies(train, {"leaveAt": ("09:15",), "arriveBy": ("10:30",)})
    assert not goals.satisfies(train, {"leaveAt": ("09:30",)})
    assert not goals.satisfies(train, {"arriveBy": ("10:00",)})


def test_an_offer_in_words():
    assert met(ROMAN, "How about ANCHOR?")
    assert not met(ROMAN, "How about Castle?")
    assert not met(ROMAN, "How about Anchorage?")
    assert not met(ROMAN)
    both = goals.Search("Inns_1", {"city": ("rome",)}, ("name", "price"))
    assert met(both, "Anchor, at ten.")
    assert not met(both, "Anchor, at 20.", "At 10!")


SLOTS = ["city", "stars", "inn_name", "fare", "phone", "has_bath"]
BOTH = {"FindInn": False, "BookInn": True}
INTENTS = [intent(name, name, "city", transactional=booked, results=SLOTS) for name, booked in BOTH.items()]
SERVICES = {"Inns_1": parse_service(service("Inns_1", [slot(name, name) for name in SLOTS], INTENTS, "Inns"))}


def user(text, *actions, intent="FindInn"):
    return turn("USER", text, frame("Inns_1", *actions, state=state(intent)))


def system(text, *actions, **more):
    return turn("SYSTEM", text, frame("Inns_1", *actions, **more))


def search(*rows, method="FindInn", **parameters):
    return {"service_call": {"method": method, "parameters": parameters}, "service_results": list(rows)}


ROW_ROME = {"city": "Rome", "inn_name": "Anchor", "fare": "10", "phone": "12", "has_bath": "True"}
ROW_BONN = {"city": "Bonn", "inn_name": "Castle", "fare": "20", "phone": "34", "has_bath": "False"}
TURNS = [
    user("an inn in the eternal city", act("INFORM", "city", "the eternal city", canonical_values=["Rome"])),
    system("Anchor?", act("OFFER", "inn_name", "Anchor"), act("OFFER", "fare", "ten", canonical_values=["10"]),
           **search(ROW_ROME, city="Rome")),
    user("phone? a bath?", act("REQUEST", "phone"), act("REQUEST", "has_bath"), act("REQUEST", "stars")),
    system("12, yes", act("INFORM", "phone", "12"), act("INFORM", "has_bath", "True")),
    user("and in Bonn?"),
    system("Castle", act("OFFER", "inn_name", "Castle"), **search(ROW_BONN, city="Bonn")),
    user("book it", intent="BookInn"),
    system("Your inn in Bonn is booked.", **search(ROW_BONN, method="BookInn", city="Bonn")),
]  # fmt: skip


def scored(reference, responses, tokenizer="13a"):
    return evaluate({"": SetInputs(reference, responses)}, tokenizer)


def read(path, reference):
    return read_responses(path, "test", {ORIGINAL: reference.responses})[ORIGINAL]


def dialogues(turns=TURNS, name="1_00000"):
    return msgspec.convert([{"dialogue_id": name, "services": ["Inns_1"], "turns": turns}], list[Dialogue])


def test_a_search_lasts_until_the_next_or_to_the_end():
    only = goals.reference_of(dialogues(TURNS[:2]), SERVICES).goals["1_00000"].searches
    assert [(one.first, one.last) for one in only] == [(1, goals.END)]
    twice = dialogues([*TURNS[:2], user("alternatives?"), TURNS[1]])
    again = goals.reference_of(twice, SERVICES).goals["1_00000"].searches
    assert [(one.first, one.last) for one in again] == [(1, 2), (3, goals.END)]


def test_what_the_schema_lacks():
    strange = [TURNS[0], system("?", **search(ROW_ROME, method="Fly"))]
    told = r"1_00000 turns\[1\]: the schema has no intent 'Fly' of service 'Inns_1'"
    raised(InputError, goals.reference_of, dialogues(strange), SERVICES, match=told)
    raised(InputError, goals.reference_of, dialogues() * 2, SERVICES, match="appears twice")


GOALS = {
    "mul1": {
        "hotel": {"informable": {"area": "north", "stars": ["4"]}, "requestable": ["phone", "post"]},
        "taxi": {"informable": {"leaveAt": "10:00"}, "requestable": ["phone"]},
    },
    "sng2": {"train": {"informable": {"leaveAt": "10:00"}, "requestable": []}},
}
HOTELS = [
    {"name": "a", "area": "north", "stars": "4", "phone": "1", "location": [1.0, 2.0], "id": 3},
    {"name": "b", "area": "south", "stars": "4", "phone": "2"},
]
TRAINS = [{"trainID": "TR1", "leaveAt": "11:00"}, {"trainID": "TR2", "leaveAt": "09:00"}]


def multiwoz(folder):
    rows = [("mul1", 0, "[hotel_name] is there"), ("mul1", 1, "bye"), ("sng2", 0, "which day ?")]
    said = [{"dialogue_id": name, "turn": t, "response": text} for name, t, text in rows]
    contents = {"db/hotel_db.json": HOTELS, "db/train_db.json": TRAINS, "goals.json": GOALS, "responses.jsonl": said}
    for name, content in contents.items():
        write(folder / name, content)
    files = {"goals": "goals.json", "knowledge": "db", "responses": "responses.jsonl"}
    return {name: str(folder / file) for name, file in files.items()}


def said(folder, state, first, second="bye", train="which day ?"):
    rows = [
        {"dialogue_id": "mul1", "turn": 0, "response": first, "state": {"hotel": state}},
        {"dialogue_id": "mul1", "turn": 1, "response": second},
        {"dialogue_id": "sng2", "turn": 0, "response": train, "state": {"train": {"leaveAt": "08:00"}}},
    ]
    return str(write(folder / "said.jsonl", rows))


def test_goals_and_entities_of_files(tmp_path):
    reference = goals.read_reference(**multiwoz(tmp_path))
    right = [{"area": "north"}, "[hotel_name] in the [area]", "[hotel_phone] [value_postcode] [taxi_phone]"]
    for given, inform, success in (
        (right, 1.0, 1.0),
        (["4 stars", *right[1:]], 0.5, 0.5),
        ([right[0], right[1], "[hotel_phone] [taxi_phone]"], 1.0, 0.5),
        ([{"area": ["south"]}, *right[1:]], 0.5, 0.5),
    ):
        path = said(tmp_path, {"stars": "4"} if given[0] == "4 stars" else given[0], *given[1:])
        found = scored(reference, read(path, reference), "none")
        assert (found.metrics[ALL]["inform"], found.metrics[ALL]["success"]) == (inform, success)
    # Nobody asks for the train's number, so none needs to be offered; a wrong one is wrong.
    found = scored(reference, read(said(tmp_path, *right, train="[train_id] leaves soon"), reference), "none")
    assert found.metrics["train"]["searches"] == 0.0


def test_files_that_do_not_fit(tmp_path):
    files = multiwoz(tmp_path)
    reference = goals.read_reference(**files)
    for text, reason in (
        ('{"dialogue_id": "x", "turn": 0, "response": ""}', "line 1: the reference has no dialogue 'x'"),
        ('{"dialogue_id": "sng2", "turn": 4, "response": ""}', "line 1: turn 4 of 'sng2' is not a turn of the system"),
        ('{"dialogue_id": "sng2", "turn": 0, "response": ""}\n' * 2, "line 2: dialogue 'sng2' turn 0 appears twice"),
        ('{"dialogue_id": "sng2", "turn": 0, "response": ""}', "no prediction for dialogue 'mul1' turn 0; 2"),
        ('{"dialogue_id": "sng2", "turn": 0, "response": "", "state": {"train": []}}', "line 1: state[...]: Expected"),
    ):
        assert reason in str(raised(InputError, read, str(write(tmp_path / "said.jsonl", text)), reference))
    more, other = {**GOALS, "more": {}}, {"a": {"b": {"informable": []}}}
    for reason, content in (("no response for dialogue 'more'", more), ("Expected `object`", other)):
        write(tmp_path / "goals.json", content)
        raised(InputError, goals.read_reference, **files, match=reason)
    raised(InputError, goals.read_entities, str(tmp_path), match=r"expected files such as restaurant_db\.json")


def test_the_slots_that_name_an_entity():
    def named(*slots):
        offer = system("!", *(act("OFFER", slot, "x") for slot in slots), **search(ROW_ROME, city="Rome"))
        return goals.naming_slots(dialogues([TURNS[0], offer]), SERVICES)["Inns_1", "FindInn"]

    assert (named("city", "inn_name", "fare"), named("city", "phone", "fare")) == (("inn_name",), ("fare", "phone"))
    assert named("city") == ("city",)
    without = [TURNS[0], system("It is 10", act("INFORM", "fare", "10"), **search(ROW_ROME, city="Rome"))]
    assert goals.reference_of(dialogues(without), SERVICES).goals["1_00000"].searches == ()


PLACES = {"Inns_1": "Anchor", "Bars_1": "Crown"}
_PLACE = ("city", "name", "phone")
_FIND = intent("Find", "find", "city", results=_PLACE)
TWO_SERVICES = {
    name: parse_service(service(name, [slot(one, one) for one in _PLACE], [_FIND], name)) for name in PLACES
}


def asks(name):
    """Four turns: a search for a place of the service, and its phone."""
    place, searched = PLACES[name], state("Find", city=["Rome"])
    found = {"city": "Rome", "name": place, "phone": "12 34"}
    call = {"service_call": {"method": "Find", "parameters": {"city": "Rome"}}, "service_results": [found]}
    asked, offered = act("INFORM", "city", "Rome"), act("OFFER", "name", place)
    return [
        turn("USER", f"one of the {name} in Rome", frame(name, asked, state=searched)),
        turn("SYSTEM", f"The {place} is a good one .", frame(name, offered, **call)),
        turn("USER", "its phone?", frame(name, act("REQUEST", "phone"), state=searched)),
        turn("SYSTEM", "You can call them at 12 34 .", frame(name, act("INFORM", "phone", "12 34"))),
    ]


def places(*lists):
    """A dialogue for each list of services, which are asked for one after the other."""
    made = [dialogue(f"d{i}", *(turn for one in of for turn in asks(one))) for i, of in enumerate(lists)]
    return goals.reference_of(msgspec.convert(made, list[Dialogue]), TWO_SERVICES)


def test_acts_are_right_if_all_are_and_no_others():
    """An offer; an offer for an inform; an offer with a further act; an inform of another service."""

    def acting(turn, *acts):
        return goals.Response(turn, "", acts=frozenset(tuple(act.split()) for act in acts))

    of = places(("Inns_1",), ("Bars_1",))
    said = {"d0": [acting(turn, "Inns_1 OFFER") for turn in (1, 3)]}
    said["d1"] = [acting(1, "Bars_1 OFFER", "Bars_1 REQ_MORE"), acting(3, "Inns_1 INFORM")]
    assert scored(of, said).metrics[ALL]["act_accuracy"] == 0.25
    said["d1"][1] = acting(3, "Bars_1 INFORM")
    assert scored(of, said).metrics[ALL]["act_accuracy"] == 0.5
    said["d0"][0] = goals.Response(1, "The Anchor .")  # whose acts are unknown
    assert "act_accuracy" not in scored(of, said).metrics[ALL]


def test_numbers_of_all_are_sacrebleus_and_the_interval_a_plain_loops():
    import sacrebleu

    of = places(*[("Inns_1",)] * 6)
    said = own_responses(of.responses)
    for i in (1, 3, 4):
        texts = {1: "The Crown is a bad one .", 3: f"You can call them at 12 3{i} ."}
        said[f"d{i}"] = [goals.Response(turn, text) for turn, text in texts.items()]
    found = scored(of, said)

    def bleu(names):
        pairs = [(one.response, of.responses[name][one.turn]) for name in names for one in said[name]]
        return sacrebleu.corpus_bleu([a for a, _ in pairs], [[b for _, b in pairs]], lowercase=True).score

    numbers = found.metrics[ALL]
    assert (numbers["inform"], numbers["success"]) == (0.5, 0.5)
    assert numbers["bleu"] == pytest.approx(bleu(list(of.goals)))
    assert found.domains["original"].domains["Inns"] == {**numbers, "dialogues": 6}
    assert found.intervals[ALL, "success"] == statistics.wilson_interval(3, 6)
    drawn = np.array([statistics.weights("0", name) for name in of.goals])
    plain = [bleu([name for name, n in zip(of.goals, column, strict=True) for _ in range(n)])
             for column in drawn.T[:200] if column.any()]  # fmt: skip
    low, high = found.intervals[ALL, "bleu"] or (0.0, 0.0)
    assert np.quantile(plain, [0.025, 0.975]) == pytest.approx((low, high), abs=6)
    assert low < (numbers["bleu"] or 0) < high


def test_nothing_to_judge():
    assert scored(places(), {}).metrics[ALL] == dict.fromkeys(METRICS)
    mute = scored(places(("Inns_1",)), {"d0": [goals.Response(1, ""), goals.Response(3, "")]})
    assert mute.domains["original"].mean == dict.fromkeys(METRICS, 0.0)
