import copy
import json

import kit
from kit import act, cases, frame, raised, span, state, turn, write

from parapet.schemas import dialogue, layout
from parapet.schemas.errors import InputError
from parapet.schemas.service import Intent, Service, Slot

SERVICES = {
    "Taxi_1": Service(
        "Taxi_1", "Get a taxi", [Slot("to", "Where to"), Slot("fare", "How much")], [Intent("GetTaxi", "Call one")]
    )
}
SAID = "A taxi to Rome please"
ACTS = [act("INFORM_INTENT", "intent", "GetTaxi"), act("INFORM", "to", "Rome"), act("THANK_YOU")]
ASKS = frame("Taxi_1", *ACTS, slots=[span("to", SAID, "Rome")], state=state("GetTaxi", ["fare"], to=["Rome"]))
CALL = {"method": "GetTaxi", "parameters": {"to": "Rome"}}
FOUND = [{"to": "Rome", "fare": "30"}]
TELLS = frame("Taxi_1", act("INFORM_COUNT", "count", "1"), service_call=CALL, service_results=FOUND)
RAW = kit.dialogue("1_00000", turn("USER", SAID, ASKS), turn("SYSTEM", "That makes 30.", TELLS))


def changed(place, value):
    raw = copy.deepcopy(RAW)
    *way, last = place
    at = raw
    for step in way:
        at = at[step]
    at[last] = value
    return raw


def read(tmp_path, raw):
    path = write(tmp_path / "dialogues_001.json", raw if isinstance(raw, bytes) else json.dumps(raw).encode())
    return dialogue.read_dialogues(path)


def test_other_forms_of_spans_are_taken(tmp_path):
    copied = [{"slot": "to", "copy_from": "fare", "value": "x"}, {"slot": "to", "value": ["x", "y"]}]
    (found,) = read(tmp_path, [changed(["turns", 0, "frames", 0, "slots"], copied)])
    assert list(dialogue.problems_of(found, SERVICES)) == []
    assert [span.value for span in found.turns[0].frames[0].slots] == ["x", ["x", "y"]]


FRAME = ["turns", 0, "frames", 0]
SYSTEM = ["turns", 1, "frames", 0]


@cases("place value problem", ([*FRAME, "service"], "Bus_1", (".service", "no schema for service 'Bus_1'")),
        ([*FRAME, "slots", 0, "slot"], "dest", (".slots[0].slot", "the service has no slot 'dest'")),
        ([*FRAME, "slots", 0, "exclusive_end"], 22, (".slots[0]", "span 10-22 is not inside the utterance")),
        ([*FRAME, "slots", 0, "exclusive_end"], 10, (".slots[0]", "span 10-10 is not inside the utterance")),
        ([*FRAME, "slots", 0, "start"], -1, (".slots[0]", "span -1-14 is not inside the utterance")),
        ([*FRAME, "actions", 1, "slot"], "dest", (".actions[1].slot", "the service has no slot 'dest'")),
        ([*FRAME, "state", "active_intent"], "GetBus", (".state.active_intent", "the service has no intent 'GetBus'")),
        ([*FRAME, "state", "slot_values"], {"dest": ["Rome"]}, (".state", "the service has no slot 'dest'")),
        ([*FRAME, "state", "requested_slots"], ["dest"], (".state", "the service has no slot 'dest'")),
        ([*SYSTEM, "service_call", "method"], "Get", (".service_call.method", "the service has no intent 'Get'")),
        ([*SYSTEM, "service_call", "parameters"], {"dest": "Rome"},
         (".service_call.parameters", "the service has no slot 'dest'")),
        ([*SYSTEM, "service_results", 0], {"dest": "x"}, (".service_results[0]", "the service has no slot 'dest'")),
)  # fmt: skip
def test_what_does_not_hold_is_told_with_its_place(tmp_path, place, value, problem):
    (found,) = read(tmp_path, [changed(place, value)])
    assert list(dialogue.problems_of(found, SERVICES)) == [(f"turns[{place[1]}].frames[0]" + problem[0], problem[1])]


@cases("content where reason", (b"", "", "the file is empty"),
        (b'[{"dialogue_id": "1",\n "services": [}]', "line 2 column 15", "not JSON: Expecting value"),
        (b'[{"dialogue_id": "caf\xe9"}]', "", "not UTF-8 at byte 21"),
        (b'[{"dialogue_id": "1", "services": [], "turns": [], "note": "\xff"}]', "", "not UTF-8 at byte 60"),
        (json.dumps(RAW).encode(), "", "Expected `array`, got `object`"),
        (json.dumps([changed(["turns", 1, "speaker"], "BOT")]).encode(), "[0].turns[1].speaker", "Invalid enum value"),
        (json.dumps([RAW, {"dialogue_id": "2"}]).encode(), "[1]", "missing required field `services`"),
        (json.dumps([changed([*FRAME, "slots", 0, "start"], "10")]).encode(), "[0].turns[0].frames[0].slots[0].start",
         "Expected `int`, got `str`"))  # fmt: skip
def test_bad_files(tmp_path, content, where, reason):
    caught = raised(InputError, read, tmp_path, content)
    assert (caught.path, caught.where) == (str(tmp_path / "dialogues_001.json"), where)
    assert reason in caught.reason


def test_a_byte_order_mark_is_forgiven(tmp_path):
    (found,) = read(tmp_path, b"\xef\xbb\xbf" + json.dumps([RAW]).encode())
    assert found.dialogue_id == "1_00000"


def check(root):
    """Every dialogue of a corpus against the schemas of its own split. Returns the dialogues."""
    splits = {split.split: {s.service_name: s for s in split.services} for split in layout.read_root(root)}
    dialogues = {}
    for split, services in splits.items():
        for path in layout.dialogue_files(root, split):
            found = dialogue.read_dialogues(path)
            for one in found:
                assert list(dialogue.problems_of(one, services)) == [], f"{path} {one.dialogue_id}"
                assert set(one.services) == {frame.service for turn in one.turns for frame in turn.frames}, one
                assert [turn.speaker for turn in one.turns] == ["USER", "SYSTEM"] * (len(one.turns) // 2)
            dialogues[path] = found
    return dialogues


def test_the_published_dialogues_hold(real_data):
    assert check(real_data / "sgd")


def test_no_intent_is_active(tmp_path):
    (found,) = read(tmp_path, [changed([*FRAME, "state", "active_intent"], "NONE")])
    assert list(dialogue.problems_of(found, SERVICES)) == []
