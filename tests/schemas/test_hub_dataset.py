"""The lines of ``docs/formats.md`` that save a dataset of the Hugging Face Hub as a corpus."""

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


def test_the_lines_of_the_page_save_sgd_of_the_hub(tmp_path, monkeypatch):
    rows = {
        "dialogues": datasets.Dataset.from_list(list(map(dialogue_row, SAMPLE.dialogues("test"))), features=DIALOGUES),
        "schema": datasets.Dataset.from_list(list(map(service_row, SAMPLE.services("test"))), features=SERVICES),
    }
    monkeypatch.setattr(datasets, "load_dataset", lambda name, configuration, **options: rows[configuration])
    monkeypatch.chdir(tmp_path)
    blocks = re.findall("```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(next(block for block in blocks if "load_dataset" in block), {})
    saved = parapet.load_corpus("sgd")
    assert list(saved.dialogues("test")) == list(SAMPLE.dialogues("test"))
    assert saved.services("test") == SAMPLE.services("test")
