"""The lines of ``docs/formats.md`` that save a dataset of the Hugging Face Hub as a corpus: ``schema_guided_dstc8``."""

import re
from pathlib import Path

import datasets
from datasets import ClassLabel

import parapet

SAMPLE = parapet.load_corpus()
PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
ACTS = sorted({act["act"] for one in SAMPLE.dialogues("test") for turn in one["turns"] for of in turn["frames"]
               for act in of["actions"]})  # fmt: skip
SPEAKERS = ["USER", "SYSTEM"]
# The labels stand in the rows as numbers; their names are where the real dataset has them.
ACTIONS = {"actions": [{"act": [ClassLabel(names=ACTS)]}]}


class Rows(list):
    features = datasets.Features({"turns": {"speaker": [ClassLabel(names=SPEAKERS)], "frames": [ACTIONS]}})


def columns(rows, *names):
    """Turns a list of objects into an object of lists, as the Hub has them."""
    return {name: [row[name] for row in rows] for name in names or (rows[0] if rows else ())}


def pairs(table, key, value):
    """Turns an object whose keys are data into two lists."""
    return {key: list(table), value: list(table.values())}


def frame(row):
    state = row.get("state", {"active_intent": "", "requested_slots": [], "slot_values": {}})
    call = row.get("service_call", {"method": "", "parameters": {}})
    results = row.get("service_results", [])
    results = [pairs(result, "service_slot_name", "service_canonical_value") for result in results]
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
    optional = [pairs(of["optional_slots"], "slot_name", "slot_value") for of in row["intents"]]
    return {**row, "slots": columns(row["slots"]), "intents": {**columns(row["intents"]), "optional_slots": optional}}


def test_the_lines_of_the_page_save_sgd_of_the_hub(tmp_path, monkeypatch):
    rows = {"dialogues": Rows(map(dialogue, SAMPLE.dialogues("test")))}
    rows["schema"] = Rows(map(service, SAMPLE.services("test")))
    monkeypatch.setattr(datasets, "load_dataset", lambda name, configuration, **options: rows[configuration])
    monkeypatch.chdir(tmp_path)
    blocks = re.findall("```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(next(block for block in blocks if "load_dataset" in block), {})
    saved = parapet.load_corpus("sgd")
    assert list(saved.dialogues("test")) == list(SAMPLE.dialogues("test"))
    assert saved.services("test") == SAMPLE.services("test")
