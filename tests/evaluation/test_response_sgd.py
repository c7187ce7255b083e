"""Goals made of SGD annotation and of MultiWOZ's files."""

import json

import msgspec
import pytest
from kit import act, frame, intent, lacking, raised, service, slot, state, turn, write

from parapet.evaluation.response.goals import END, naming_slots, read_entities, read_reference, reference_of
from parapet.evaluation.response.task import SetInputs, evaluate, own_responses, read_responses
from parapet.evaluation.sets import ALL, ORIGINAL
from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.schemas.service import parse_service

SLOTS = ["city", "stars", "inn_name", "fare", "phone", "has_bath"]
BOTH = {"FindInn": False, "BookInn": True}
SCHEMA = service(
    "Inns_1",
    [slot(name, name) for name in SLOTS],
    [intent(name, name, "city", transactional=booked, results=SLOTS) for name, booked in BOTH.items()],
    "Inns",
)
SERVICES = {"Inns_1": parse_service(SCHEMA)}


def user(text, *actions, intent="FindInn"):
    return turn("USER", text, frame("Inns_1", *actions, state=state(intent)))


def system(text, *actions, **more):
    return turn("SYSTEM", text, frame("Inns_1", *actions, **more))


def search(*rows, method="FindInn", **parameters):
    return {"service_call": {"method": method, "parameters": parameters}, "service_results": list(rows)}


ROMAN = {"city": "Rome", "inn_name": "Anchor", "fare": "10", "phone": "12", "has_bath": "True"}
GERMAN = {"city": "Bonn", "inn_name": "Castle", "fare": "20", "phone": "34", "has_bath": "False"}
TURNS = [
    user("an inn in the eternal city", act("INFORM", "city", "the eternal city", canonical_values=["Rome"])),
    system("Anchor?", act("OFFER", "inn_name", "Anchor"), act("OFFER", "fare", "ten", canonical_values=["10"]),
           **search(ROMAN, city="Rome")),
    user("phone? a bath?", act("REQUEST", "phone"), act("REQUEST", "has_bath"), act("REQUEST", "stars")),
    system("12, yes", act("INFORM", "phone", "12"), act("INFORM", "has_bath", "True")),
    user("and in Bonn?"),
    system("Castle", act("OFFER", "inn_name", "Castle"), **search(GERMAN, city="Bonn")),
    user("book it", intent="BookInn"),
    system("Your inn in Bonn is booked.", **search(GERMAN, method="BookInn", city="Bonn")),
]  # fmt: skip


def scored(reference, responses, tokenizer):
    return evaluate({"": SetInputs(reference, responses)}, tokenizer)


def read(path, reference):
    return read_responses(path, "test", {ORIGINAL: reference.responses})[ORIGINAL]


def dialogues(turns=TURNS, name="1_00000"):
    return msgspec.convert([{"dialogue_id": name, "services": ["Inns_1"], "turns": turns}], list[Dialogue])


def test_a_search_lasts_until_the_next_or_to_the_end():
    only = reference_of(dialogues(TURNS[:2]), SERVICES).goals["1_00000"].searches
    assert [(one.first, one.last) for one in only] == [(1, END)]
    again = reference_of(dialogues([*TURNS[:2], user("alternatives?"), TURNS[1]]), SERVICES).goals["1_00000"].searches
    assert [(one.first, one.last) for one in again] == [(1, 2), (3, END)]


def test_what_the_schema_lacks():
    strange = [TURNS[0], system("?", **search(ROMAN, method="Fly"))]
    with pytest.raises(InputError, match=r"1_00000 turns\[1\]: the schema has no intent 'Fly' of service 'Inns_1'"):
        reference_of(dialogues(strange), SERVICES)
    raised(InputError, reference_of, dialogues() * 2, SERVICES, match="appears twice")


def test_the_reference_itself_and_a_system_that_says_nothing():
    reference = reference_of(dialogues(), SERVICES)
    own = scored(reference, own_responses(reference.responses), "13a")
    assert own.metrics[ALL] == pytest.approx({"inform": 1.0, "success": 1.0, "bleu": 100.0, "combined": 200.0})
    assert own.metrics["Inns_1"] == {"searches": 1.0, "requests": 1.0}
    assert not lacking(own.signature, "case:lc", "tok:13a")
    silent = {name: dict.fromkeys(turns, "") for name, turns in reference.responses.items()}
    mute = scored(reference, own_responses(silent), "13a")
    assert mute.metrics[ALL] == {"inform": 0.0, "success": 0.0, "bleu": 0.0, "combined": 0.0}


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
    write(folder / "db" / "hotel_db.json", HOTELS)
    (folder / "db" / "train_db.json").write_text(json.dumps(TRAINS))
    (folder / "goals.json").write_text(json.dumps(GOALS))
    rows = [("mul1", 0, "[hotel_name] is there"), ("mul1", 1, "bye"), ("sng2", 0, "which day ?")]
    lines = [json.dumps({"dialogue_id": name, "turn": t, "response": text}) for name, t, text in rows]
    (folder / "responses.jsonl").write_text("\n".join(lines))
    return {
        "goals": str(folder / "goals.json"),
        "knowledge": str(folder / "db"),
        "responses": str(folder / "responses.jsonl"),
    }


def said(folder, state, first, second="bye", train="which day ?"):
    rows = [
        {"dialogue_id": "mul1", "turn": 0, "response": first, "state": {"hotel": state}},
        {"dialogue_id": "mul1", "turn": 1, "response": second},
        {"dialogue_id": "sng2", "turn": 0, "response": train, "state": {"train": {"leaveAt": "08:00"}}},
    ]
    return str(write(folder / "said.jsonl", "\n".join(json.dumps(row) for row in rows)))


def test_goals_and_entities_of_files(tmp_path):
    reference = read_reference(**multiwoz(tmp_path))
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
    reference = read_reference(**files)
    for text, reason in (
        ('{"dialogue_id": "x", "turn": 0, "response": ""}', "line 1: the reference has no dialogue 'x'"),
        ('{"dialogue_id": "sng2", "turn": 4, "response": ""}', "line 1: turn 4 of 'sng2' is not a turn of the system"),
        ('{"dialogue_id": "sng2", "turn": 0, "response": ""}\n' * 2, "line 2: dialogue 'sng2' turn 0 appears twice"),
        ('{"dialogue_id": "sng2", "turn": 0, "response": ""}', "no prediction for dialogue 'mul1' turn 0; 2"),
        ('{"dialogue_id": "sng2", "turn": 0, "response": "", "state": {"train": []}}', "line 1: state[...]: Expected"),
    ):
        assert reason in str(raised(InputError, read, str(write(tmp_path / "said.jsonl", text)), reference))
    (tmp_path / "goals.json").write_text(json.dumps({**GOALS, "more": {}}))
    with pytest.raises(InputError, match="no response for dialogue 'more'"):
        read_reference(**files)
    (tmp_path / "goals.json").write_text('{"a": {"b": {"informable": []}}}')
    with pytest.raises(InputError, match="Expected `object`"):
        read_reference(**files)
    raised(InputError, read_entities, str(tmp_path), match=r"expected files such as restaurant_db\.json")


def test_the_slots_that_name_an_entity():
    def named(*slots):
        offer = system("!", *(act("OFFER", slot, "x") for slot in slots), **search(ROMAN, city="Rome"))
        return naming_slots(dialogues([TURNS[0], offer]), SERVICES)["Inns_1", "FindInn"]

    assert (named("city", "inn_name", "fare"), named("city", "phone", "fare")) == (("inn_name",), ("fare", "phone"))
    assert named("city") == ("city",)
    without = [TURNS[0], system("It is 10", act("INFORM", "fare", "10"), **search(ROMAN, city="Rome"))]
    assert reference_of(dialogues(without), SERVICES).goals["1_00000"].searches == ()
