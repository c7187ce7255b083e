"""JSON lines of predictions: what is wrong in them is told by line."""

import json

from kit import cases, raised

from parapet.evaluation.sets import Keyed, keyed_rows
from parapet.evaluation.task import json_bytes
from parapet.schemas.errors import InputError


class Row(Keyed, kw_only=True):
    value: float


def write(tmp_path, text):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@cases(
    "text line reason",
    ('{"id": "a", "value": NaN}', "line 1", "not JSON"),
    ('{"id": "a", "value": Infinity}', "line 1", "not JSON"),
    ('{"id": "a", "value": 1e999}', "line 1", "out of range"),
    ('{"id": "a", "value": "\\ud800"}', "line 1", ""),
    ('{"id": "a", "value": "1"}', "line 1", "value: Expected `float`"),
    ('{"id": "a"}', "line 1", "missing required field `value`"),
    ('{"value": 1}', "line 1", "give an id, or dialogue_id and turn"),
    ('{"dialogue_id": "a", "value": 1}', "line 1", "give an id, or dialogue_id and turn"),
    ('{"id": "a", "turn": 1, "value": 1}', "line 1", "one or the other"),
    ('{"dialogue_id": "a", "turn": -1, "value": 1}', "line 1", "there is no turn -1"),
    ('{"set": "#ALL", "id": "a", "value": 1}', "line 1", "cannot be called"),
    ('{"id": "a", "value": 1}\n{"id": "a", "value": 1}', "line 2", "appears twice: first in line 1"),
    ('{"set": "s", "id": "a", "value": 1}\n{"id": "a", "value": 1}', "line 2", "has no set"),
    ("[1]", "line 1", "Expected `object`"),
    ("{", "line 1", "not JSON"),
    (b'{"id": "\xff", "value": 1}', "line 1", ""),
    ("[" * 100_000, "line 1", ""),
    ("\n \n", "", "contains no rows"),
)
def test_what_is_wrong_is_told_by_line(tmp_path, text, line, reason):
    path = write(tmp_path, text)
    caught = raised(InputError, lambda: [*keyed_rows(path, Row)])
    assert (caught.path, caught.where) == (path, line)
    assert reason in caught.reason


def test_a_file_must_be_there(tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        raised(InputError, lambda path=path: [*keyed_rows(str(path), Row)], match="no such file")


def test_numbers_that_are_none_are_null():
    value = {"b": [1.5, float("nan"), {"c": float("-inf")}], "a": "ä"}
    assert json.loads(json_bytes(value)) == {"a": "ä", "b": [1.5, None, {"c": None}]}
    assert json_bytes({"b": 1, "a": 2}) == b'{\n  "a": 2,\n  "b": 1\n}\n'
