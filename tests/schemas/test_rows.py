"""Dialogues and services as rows, and back, byte for byte where a file is laid out as SGD's are; and as lines."""

import copy
import json

import orjson
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import THOROUGH, cases, intent, raised, service, slot
from release_folder import dialogue_file, schema_file

from parapet.schemas import rows as layouts
from parapet.schemas.errors import InputError
from parapet.schemas.layout import dialogue_bytes, schema_bytes
from parapet.schemas.rows import DIALOGUES, SERVICES, dialogue_lines, lines_table, service_of, service_row

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TEXTS = st.lists(TEXT, max_size=3)
INT = st.integers(0, 2**31 - 1)


def record(required, optional=None):
    return st.fixed_dictionaries(required, optional=optional or {})


ACTION = record({"act": TEXT, "slot": TEXT, "values": TEXTS}, {"canonical_values": TEXTS, "more": st.none()})
SPAN = record({"slot": TEXT}, {"start": INT, "exclusive_end": INT, "copy_from": TEXT, "value": TEXT | TEXTS})
STATE = record(
    {"active_intent": TEXT, "requested_slots": TEXTS, "slot_values": st.dictionaries(TEXT, TEXTS, max_size=3)},
    {"score": st.floats(allow_nan=False, allow_infinity=False) | INT},
)
FRAME = record(
    {"service": TEXT},
    {
        "slots": st.lists(SPAN, max_size=2),
        "actions": st.lists(ACTION, max_size=2),
        "state": STATE,
        "service_call": record({"method": TEXT, "parameters": st.dictionaries(TEXT, TEXT, max_size=3)}),
        "service_results": st.lists(st.dictionaries(TEXT, TEXT, max_size=2), max_size=2),
        "another_programs": TEXT,
    },
)


def dialogues_by(speaker):
    turn = record({"speaker": speaker, "utterance": TEXT, "frames": st.lists(FRAME, max_size=2)})
    one = record({"dialogue_id": TEXT, "services": TEXTS, "turns": st.lists(turn, max_size=2)}, {"note": TEXT})
    return st.lists(one, max_size=3)


LAYOUTS = [
    dialogue_bytes,
    lambda items: dialogue_bytes(items)[:-1],
    lambda items: json.dumps(items).encode(),
    lambda items: json.dumps(items, indent=2, ensure_ascii=False).encode(),
    lambda items: b"\xef\xbb\xbf" + dialogue_bytes(items),
]


def expected(data):
    """Through Python's objects."""
    items = json.loads(data.decode("utf-8-sig"))
    form = layouts.layout_of(data, dialogue_bytes(items))
    rows = [{**layouts.dialogue_row(item, "d.json", i), "layout": form} for i, item in enumerate(items)]
    table = pa.Table.from_pylist(rows, DIALOGUES)
    return table, [orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for row in table.to_pylist()]


@settings(max_examples=150 if THOROUGH else 40)
@given(items=dialogues_by(st.sampled_from(["USER", "SYSTEM"])), layout=st.sampled_from(LAYOUTS))
def test_lines_are_the_rows_and_read_back_they_are_the_table(items, layout):
    data = layout(items)
    found = dialogue_lines(data, "d.json", "d.json")
    table, lines = expected(data)
    assert found.lines == lines
    assert lines_table(found.lines).equals(table, check_metadata=True)
    assert [dialogue.dialogue_id for dialogue in found.dialogues] == [item["dialogue_id"] for item in items]


def sample_items(sample):
    return list(json.loads((sample / "test" / "dialogues_001.json").read_bytes())[:3])


def test_a_table_of_many_blocks_is_one(sample, monkeypatch):
    lines = dialogue_lines(dialogue_bytes(sample_items(sample)), "d.json", "d.json").lines
    whole = lines_table(lines)
    monkeypatch.setattr("parapet.schemas.rows._BLOCK", 10)
    assert lines_table(lines).equals(whole)
    assert lines_table([]).num_rows == 0


def test_dialogues_in_another_form_are_kept_in_source_json(sample):
    items = copy.deepcopy(sample_items(sample))
    items[1]["turns"][0]["speaker"] = "BOT"
    rows = dialogue_lines(json.dumps(items).encode(), "x.json", "x.json")
    assert [dialogue.dialogue_id for dialogue in rows.dialogues] == [items[0]["dialogue_id"], items[2]["dialogue_id"]]
    assert [(bad.dialogue_id, bad.where) for bad in rows.malformed] == [(items[1]["dialogue_id"], "turns[0].speaker")]
    assert json.loads(lines_table(rows.lines).to_pylist()[1]["source_json"]) == items[1]
    raised(InputError, dialogue_lines, b"[3]", "x.json", "x.json", match="x.json: \\[0\\]: is not a dialogue")


def rows_in(data, file):
    return [orjson.loads(line) for line in dialogue_lines(data, file, file).lines]


def through_arrow(rows, columns):
    back = pa.Table.from_pylist(rows, columns).to_pylist()
    assert back == rows
    return back


@settings(max_examples=100 if THOROUGH else 25)
@given(dialogues_by(TEXT))
def test_any_dialogues_come_back(dialogues):
    data = dialogue_bytes(dialogues)
    rows = through_arrow(rows_in(data, "dialogues_001.json"), DIALOGUES)
    assert ([layouts.dialogue_of(row) for row in rows], dialogue_file(rows[::-1])) == (dialogues, data)


SERVICE = service("A_1", [slot("city", "", "x")], [intent("Find", "", "city", z="1", a="dontcare")], "Ä")


def test_a_service_in_the_published_order_needs_no_source_json():
    row = service_row(SERVICE, "v1", 3)
    assert (row["variant"], row["position"], row["source_json"]) == ("v1", 3, None)
    (back,) = through_arrow([row], SERVICES)
    assert json.dumps(service_of(back)) == json.dumps(SERVICE)


@cases(
    "change",
    lambda service: dict(reversed(service.items())),
    lambda service: {**service, "domain": "travel"},
    lambda service: {**service, "slots": [{"name": "city", "description": ""}]},
    lambda service: {**service, "intents": [{"name": "Find", "description": "", "unknown": 1}]},
)
def test_any_other_service_comes_back_too(change):
    service = change(SERVICE)
    (back,) = through_arrow([service_row(service, "v1", 0)], SERVICES)
    assert json.dumps(service_of(back)) == json.dumps(service)


def test_sgd_and_sgd_x_come_back_byte_for_byte(real_data):
    schemas, dialogues = (sorted((real_data / "sgd").rglob(name)) for name in ("schema.json", "dialogues_*.json"))
    assert schemas
    for path in schemas if THOROUGH else schemas[::4]:
        raw = json.loads(data := path.read_bytes())
        assert schema_file(through_arrow(layouts.service_rows(raw, "v1", data), SERVICES)) == data, path
        assert schema_bytes(raw) == data
    assert dialogues
    for path in dialogues if THOROUGH else dialogues[::3]:
        raw = json.loads(data := path.read_bytes())
        rows = through_arrow(rows_in(data, path.name), DIALOGUES)
        assert dialogue_file(rows) == data, path
        plain = dialogue_bytes(raw)
        assert (plain[:-1] if "expected" in path.parts else plain) == data, path
        assert not [row["dialogue_id"] for row in rows if row["source_json"] is not None]


def test_every_character_is_kept(sample):
    items = sample_items(sample)
    text = "".join(chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000)
    items[0]["turns"][0]["utterance"] = text
    found = dialogue_lines(dialogue_bytes(items), "d.json", "d.json")
    assert lines_table(found.lines)["turns"][0].as_py()[0]["utterance"] == text
    assert orjson.loads(found.lines[0])["layout"] == "published"
