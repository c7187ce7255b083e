"""JSON lines of predictions: what is wrong in them is told by line."""

from pathlib import Path

import pytest

from parapet.evaluation.sets import ALL, MEAN, Keyed, check_complete, groups_of, read_keyed, with_mean
from parapet.schemas.errors import InputError


class Row(Keyed, kw_only=True):
    value: float


def write(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_rows_have_an_id_or_a_place_in_a_dialogue(tmp_path):
    lines = '\ufeff{"id": 7, "value": 1, "more": []}\n\n{"dialogue_id": "d", "turn": 3, "value": 2.5}\n'
    found = read_keyed(write(tmp_path, lines), Row)
    assert {key: (line, row.value) for key, (line, row) in found.items()} == {
        ("", "7", 0): (1, 1.0),
        ("", "d", 3): (3, 2.5),
    }


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('{"id": "a", "value": NaN}', "line 1", "not JSON"),
        ('{"id": "a", "value": Infinity}', "line 1", "not JSON"),
        ('{"id": "a", "value": 1e999}', "line 1", "out of range"),
        ('{"id": "a", "value": "\\ud800"}', "line 1", ""),
        ('{"id": "a", "value": "1"}', "line 1", "value: Expected `float`"),
        ('{"id": "a", "value": 1, "value": 2}', "line 1", "value: the key stands twice"),
        ('{"id": "a", "value": 1, "more": {"b": 1, "b": 2}}', "line 1", "more.b: the key stands twice"),
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
        ("\n \n", "", "there are no rows"),
    ],
)
def test_what_is_wrong_is_told_by_line(tmp_path, text, line, reason):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_keyed(path, Row)
    assert caught.value.path == path
    assert caught.value.where == line
    assert reason in caught.value.reason


def test_a_file_must_be_there(tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(InputError, match="no such file"):
            read_keyed(str(path), Row)


def test_missing_items():
    keys = [("", "a", 0), ("", "x", 2)]
    with pytest.raises(InputError, match="no prediction for 'b', turn 0, of 's'; 2 are missing in all"):
        check_complete([("", "a", 0), ("s", "b", 0), ("s", "c", 1)], keys, "f")
    check_complete(keys, keys, "f")


def test_groups_and_their_mean():
    assert groups_of([("b", "1", 0), ("a", "2", 0)]) == {
        ALL: [("a", "2", 0), ("b", "1", 0)],
        "b": [("b", "1", 0)],
        "a": [("a", "2", 0)],
    }
    assert groups_of([("", "1", 0)]) == {ALL: [("", "1", 0)]}
    assert list(groups_of([("typos", "1", 0), ("ood", "1", 0), ("original", "1", 0)])) == [
        ALL, "original", "ood", "typos"
    ]  # fmt: skip
    metrics = {ALL: {"x": 0.4, "y": 1.0}, "a": {"x": 0.5, "y": None}, "b": {"x": 0.25, "y": 1.0}}
    assert with_mean(metrics)[MEAN] == {"x": 0.375, "y": None}
    assert MEAN not in with_mean({ALL: {"x": 1.0}, "a": {"x": 1.0}})
