"""Dialogues and services as rows, and back: nothing is lost, byte for byte where the file is laid out as SGD's are."""

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import intent, service, slot

from parapet.schemas import dialogue_table
from parapet.schemas.dialogue_table import DIALOGUES, SERVICES, dialogue_file, dialogue_rows, service_of, service_row
from parapet.schemas.layout import dialogue_bytes, schema_bytes

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TEXTS = st.lists(TEXT, max_size=3)


def through_arrow(rows, columns):
    back = pa.Table.from_pylist(rows, columns).to_pylist()
    assert back == rows
    return back


def some(**fields):
    """Objects that have, or lack, each of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


ACTION = st.builds(
    lambda base, more: {**base, **more},
    st.fixed_dictionaries({"act": TEXT, "slot": TEXT, "values": TEXTS}),
    some(canonical_values=TEXTS),
)
SPAN = st.builds(
    lambda base, more: {**base, **more},
    st.fixed_dictionaries({"slot": TEXT}),
    some(start=st.integers(0, 99), exclusive_end=st.integers(0, 99), copy_from=TEXT, value=TEXT | TEXTS),
)
FRAME = st.builds(
    lambda base, more: {**base, **more},
    st.fixed_dictionaries({"service": TEXT}),
    some(
        slots=st.lists(SPAN, max_size=2),
        actions=st.lists(ACTION, max_size=2),
        state=st.fixed_dictionaries(
            {"active_intent": TEXT, "requested_slots": TEXTS, "slot_values": st.dictionaries(TEXT, TEXTS, max_size=2)}
        ),
        service_call=st.fixed_dictionaries({"method": TEXT, "parameters": st.dictionaries(TEXT, TEXT, max_size=2)}),
        service_results=st.lists(st.dictionaries(TEXT, TEXT, max_size=2), max_size=2),
        another_programs=TEXT,
    ),
)
TURN = st.fixed_dictionaries({"speaker": TEXT, "utterance": TEXT, "frames": st.lists(FRAME, max_size=2)})
DIALOGUE = st.fixed_dictionaries({"dialogue_id": TEXT, "services": TEXTS, "turns": st.lists(TURN, max_size=2)})


@settings(deadline=None)
@given(st.lists(DIALOGUE, max_size=3))
def test_any_dialogues_come_back(dialogues):
    data = dialogue_bytes(dialogues)
    rows = through_arrow(dialogue_rows(dialogues, "dialogues_001.json", data), DIALOGUES)
    assert ([dialogue_table.dialogue_of(row) for row in rows], dialogue_file(rows[::-1])) == (dialogues, data)


SERVICE = service("A_1", [slot("city", "", "x")], [intent("Find", "", "city", z="1", a="dontcare")], "Ä")


def test_a_service_in_the_published_order_needs_no_source_json():
    row = service_row(SERVICE, "v1", 3)
    assert (row["variant"], row["position"], row["source_json"]) == ("v1", 3, None)
    (back,) = through_arrow([row], SERVICES)
    assert json.dumps(service_of(back)) == json.dumps(SERVICE)


@pytest.mark.parametrize(
    "change",
    [
        lambda service: dict(reversed(service.items())),
        lambda service: {**service, "domain": "travel"},
        lambda service: {**service, "slots": [{"name": "city", "description": ""}]},
        lambda service: {**service, "intents": [{"name": "Find", "description": "", "unknown": 1}]},
    ],
)
def test_any_other_service_comes_back_too(change):
    service = change(SERVICE)
    (back,) = through_arrow([service_row(service, "v1", 0)], SERVICES)
    assert json.dumps(service_of(back)) == json.dumps(service)


def every_file(root):
    found = sorted(root.rglob("schema.json")) + sorted(root.rglob("dialogues_*.json"))
    assert found
    return found


def check_file(path):
    data = path.read_bytes()
    raw = json.loads(data)
    if path.name == "schema.json":
        read = through_arrow(dialogue_table.service_rows(raw, "v1", data), SERVICES)
        assert dialogue_table.schema_file(read) == data, path
        assert schema_bytes(raw).startswith(data)
    else:
        rows = through_arrow(dialogue_rows(raw, path.name, data), DIALOGUES)
        assert dialogue_file(rows) == data, path
        assert not [row["dialogue_id"] for row in rows if row["source_json"] is not None]


def test_sgd_and_sgd_x_come_back_byte_for_byte(real_data):
    for path in every_file(real_data / "sgd"):
        check_file(path)
