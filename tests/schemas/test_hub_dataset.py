"""The lines of ``docs/formats.md`` that save a dataset of the Hugging Face Hub as a corpus: ``schema_guided_dstc8``."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
from datasets import ClassLabel, Value

import parapet

TEXT, TEXTS = Value("string"), [Value("string")]
ACTS = [
    *("AFFIRM", "AFFIRM_INTENT", "CONFIRM", "GOODBYE", "INFORM", "INFORM_COUNT", "INFORM_INTENT", "NEGATE"),
    *("NEGATE_INTENT", "NOTIFY_FAILURE", "NOTIFY_SUCCESS", "OFFER", "OFFER_INTENT", "REQUEST", "REQUEST_ALTS"),
    *("REQ_MORE", "SELECT", "THANK_YOU"),
]
CALL = {"parameter_slot_name": TEXTS, "parameter_canonical_value": TEXTS}
RESULT = {"service_slot_name": TEXTS, "service_canonical_value": TEXTS}
STATE = {
    "active_intent": TEXT,
    "requested_slots": TEXTS,
    "slot_values": {"slot_name": TEXTS, "slot_value_list": [TEXTS]},
}
FRAMES = {
    "service": TEXTS,
    "slots": [{"slot": TEXTS, "start": [Value("int32")], "exclusive_end": [Value("int32")]}],
    "state": [STATE],
    "actions": [{"act": [ClassLabel(names=ACTS)], "slot": TEXTS, "canonical_values": [TEXTS], "values": [TEXTS]}],
    "service_results": [{"service_results_list": [RESULT]}],
    "service_call": [{"method": TEXT, "parameters": CALL}],
}
TURNS = {"speaker": [ClassLabel(names=["USER", "SYSTEM"])], "utterance": TEXTS, "frames": [FRAMES]}
DIALOGUES = datasets.Features({"dialogue_id": TEXT, "services": TEXTS, "turns": TURNS})
SERVICES = datasets.Features(
    {
        "service_name": TEXT,
        "description": TEXT,
        "slots": {"name": TEXTS, "description": TEXTS, "is_categorical": [Value("bool")], "possible_values": [TEXTS]},
        "intents": {
            "name": TEXTS,
            "description": TEXTS,
            "is_transactional": [Value("bool")],
            "required_slots": [TEXTS],
            "optional_slots": [{"slot_name": TEXTS, "slot_value": TEXTS}],
            "result_slots": [TEXTS],
        },
    }
)


def columns(rows: Sequence[Mapping[str, Any]], *names: str) -> dict[str, list[Any]]:
    """Objects as an object of lists."""
    return {name: [row[name] for row in rows] for name in names}


def pairs(found: Mapping[str, Any], key: str, value: str) -> dict[str, list[Any]]:
    """An object whose keys are data as two lists."""
    return {key: list(found), value: list(found.values())}


def dialogue_row(dialogue: Mapping[str, Any]) -> dict[str, Any]:
    """A dialogue as a row."""
    turns = columns(dialogue["turns"], "speaker", "utterance")
    frames = [columns([_frame(frame) for frame in turn["frames"]], *FRAMES) for turn in dialogue["turns"]]
    services = {name: dialogue[name] for name in ("dialogue_id", "services")}
    return {**services, "turns": {**turns, "frames": frames}}


def _frame(frame: Mapping[str, Any]) -> dict[str, Any]:
    state = frame.get("state", {"active_intent": "", "requested_slots": [], "slot_values": {}})
    call = frame.get("service_call", {"method": "", "parameters": {}})
    results = [pairs(result, *RESULT) for result in frame.get("service_results", [])]
    return {
        "service": frame["service"],
        "slots": columns(frame["slots"], "slot", "start", "exclusive_end"),
        "state": {**state, "slot_values": pairs(state["slot_values"], "slot_name", "slot_value_list")},
        "actions": columns(frame["actions"], "act", "slot", "canonical_values", "values"),
        "service_results": {"service_results_list": results},
        "service_call": {**call, "parameters": pairs(call["parameters"], *CALL)},
    }


def service_row(service: Mapping[str, Any]) -> dict[str, Any]:
    """A service as a row."""
    intents = [
        {**intent, "optional_slots": pairs(intent["optional_slots"], "slot_name", "slot_value")}
        for intent in service["intents"]
    ]
    slots = columns(service["slots"], *SERVICES["slots"])
    return {**service, "slots": slots, "intents": columns(intents, *SERVICES["intents"])}


SAMPLE = parapet.load_corpus()
PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
ACTS = sorted({act["act"] for one in SAMPLE.dialogues("test") for turn in one["turns"] for of in turn["frames"]
               for act in of["actions"]})  # fmt: skip
SPEAKERS = ["USER", "SYSTEM"]
# The labels stand in the rows as numbers; their names are where the real dataset has them.
ACTIONS = {"actions": [{"act": [ClassLabel(names=ACTS)]}]}
FEATURES = datasets.Features({"turns": {"speaker": [ClassLabel(names=SPEAKERS)], "frames": [ACTIONS]}})


class Rows(list):
    features = FEATURES


def columns(rows, *names):
    """Turns a list of objects into an object of lists, as the Hub has them."""
    return {name: [row[name] for row in rows] for name in names or (rows[0] if rows else ())}


def pairs(table, key, value):
    """Turns an object whose keys are data into two lists."""
    return {key: list(table), value: list(table.values())}


def frame(row):
    state = row.get("state", {"active_intent": "", "requested_slots": [], "slot_values": {}})
    call = row.get("service_call", {"method": "", "parameters": {}})
    results = [
        pairs(result, "service_slot_name", "service_canonical_value") for result in row.get("service_results", [])
    ]
    actions = columns(row["actions"], "act", "slot", "canonical_values", "values")
    return {
        "service": row["service"],
        "slots": columns(row["slots"]),
        "state": {**state, "slot_values": pairs(state["slot_values"], "slot_name", "slot_value_list")},
        "actions": {**actions, "act": list(map(ACTS.index, actions["act"]))},
        "service_results": {"service_results_list": results},
        "service_call": {**call, "parameters": pairs(call["parameters"], "parameter_slot_name", "parameter_value")},
    }


def dialogue(row):
    turns = columns(row["turns"], "speaker", "utterance")
    names = ("service", "slots", "state", "actions", "service_results", "service_call")
    frames = [columns(list(map(frame, turn["frames"])), *names) for turn in row["turns"]]
    return {**row, "turns": {**turns, "speaker": list(map(SPEAKERS.index, turns["speaker"])), "frames": frames}}


def service(row):
    intents = [
        {**one, "optional_slots": pairs(one["optional_slots"], "slot_name", "slot_value")} for one in row["intents"]
    ]
    return {**row, "slots": columns(row["slots"]), "intents": columns(intents)}


def test_the_lines_of_the_page_save_sgd_of_the_hub(tmp_path, monkeypatch):
    rows = {
        "dialogues": Rows(map(dialogue, SAMPLE.dialogues("test"))),
        "schema": Rows(map(service, SAMPLE.services("test"))),
    }
    monkeypatch.setattr(datasets, "load_dataset", lambda name, configuration, **options: rows[configuration])
    monkeypatch.chdir(tmp_path)
    blocks = re.findall("```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(next(block for block in blocks if "load_dataset" in block), {})
    saved = parapet.load_corpus("sgd")
    assert list(saved.dialogues("test")) == list(SAMPLE.dialogues("test"))
    assert saved.services("test") == SAMPLE.services("test")
