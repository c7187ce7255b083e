"""JSON is read by msgspec; what it refuses is an error with its place."""

import json

import pytest
from kit import cases, raised

from parapet.schemas import layout
from parapet.schemas.errors import InputError
from parapet.schemas.limits import parse_json, parse_json_line


@cases(
    "data reason",
    (b"", "x: the file is empty"),
    (b'[1,\n{"a" 1}]', "x: line 2 column 6: not JSON: Expecting ':' delimiter"),
    (b'["\xff"]', "x: not UTF-8 at byte 2: save the file as UTF-8"),
    (b"[NaN]", "x: not JSON: NaN is no value of JSON"),
    (b"[1e400]", "x: not JSON: Number out of range"),
    (b"[" * 100_000, "x: nested too deeply"),
)
def test_what_is_no_json(data, reason):
    assert str(raised(InputError, parse_json, data, "x")).startswith(reason)
    raised(ValueError, parse_json_line, data)


def test_a_byte_order_mark_is_removed():
    assert parse_json(b'\xef\xbb\xbf{"a": 1}', "x") == {"a": 1}


SERVICE = '{"service_name": "%s", "description": "d", "slots": [], "intents": [], "more": %s}'


@pytest.mark.parametrize("more", ["-0.0", "1e+30", '{"b": 1, "a": 0.1}', "1.5e-07"])
def test_unknown_keys_of_a_schema_stay_as_they_stand(more, tmp_path):
    text = "[" + SERVICE % ("A_1", more) + "]"
    (tmp_path / "schema.json").write_text(text)
    (split,) = layout.read_root(tmp_path)
    assert json.dumps(split.raw) == text
    assert layout.schema_bytes(split.raw).decode() == json.dumps(json.loads(text), indent=2) + "\n"
