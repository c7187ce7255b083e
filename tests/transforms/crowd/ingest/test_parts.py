"""Files in parts against the same files as a whole: the same records, the same row numbers, whatever the quotes."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.schemas.responses import Assignment, DeadLetter
from parapet.transforms.crowd.ingest import parts, records
from parapet.transforms.crowd.ingest.fields import SCHEMA_TASKS
from parapet.transforms.crowd.ingest.files import read_response_part, read_responses
from parapet.transforms.crowd.ingest.parts import count_lines, parts_of

KEY = b"a key of tests"
HEADERS = [
    b"AssignmentId,WorkerId,RequesterAnnotation,Answer.slot_0",
    b'\xef\xbb\xbf"AssignmentId","WorkerId","RequesterAnnotation","Answer.slot_0"',
    b'AssignmentId,WorkerId,"Requester\nAnnotation",Answer.slot_0\r',
    b'\n\n\r\n\nAssignmentId,WorkerId,"RequesterAnnotation",Answer.slot_0',
    b"AssignmentId\rWorkerId,Answer.slot_0",  # none
]
PIECES = st.sampled_from([b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"\0", b"\xef\xbb\xbf", b"\xff", b"a", b" ", b'",'])
GOOD_ROW = st.sampled_from([b"A1,W,S:names,x", b'A2,W,S:names,"two\n""lines"""', b'"A3","W","S:names","\n,\n"', b""])
ENDS = st.sampled_from([b"\n", b"\r\n"])
LINES = st.tuples(GOOD_ROW | st.lists(PIECES, max_size=6).map(b"".join), ENDS).map(b"".join)


def whole(path: Path, encoding: str = "utf-8") -> list[Assignment | DeadLetter]:
    return list(read_responses(str(path), KEY, encoding))


def in_parts(
    path: Path, step: int, most_lines: int = 500, encoding: str = "utf-8"
) -> list[list[Assignment | DeadLetter]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_STEP", step)
        patch.setattr(parts, "_BLOCK", 7)
        patch.setattr(records, "MAX_LINES_OF_A_RECORD", most_lines)
        found, before = [], 0
        for part in parts_of(str(path), path.stat().st_size, encoding):
            found.append(list(read_response_part(part, before, KEY, encoding, SCHEMA_TASKS)))
            before += count_lines(part) if part.step else 0
        return found


@given(
    header=st.sampled_from(HEADERS), lines=st.lists(LINES, max_size=25), step=st.integers(5, 60), most=st.integers(2, 6)
)
@settings(max_examples=400, deadline=None)
def test_parts_have_the_records_of_the_whole(tmp_path_factory, header, lines, step, most) -> None:
    path = tmp_path_factory.mktemp("parts") / "batch.csv"
    path.write_bytes(header + b"\n" + b"".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "MAX_LINES_OF_A_RECORD", most)
        expected = whole(path)
    assert [record for part in in_parts(path, step, most) for record in part] == expected


@given(
    st.lists(st.lists(st.text('a",;\n\r é\0', max_size=12), min_size=2, max_size=2), max_size=30), st.integers(20, 90)
)
@settings(max_examples=100, deadline=None)
def test_rows_are_those_of_pythons_csv_reader(tmp_path_factory, cells, step) -> None:
    path = tmp_path_factory.mktemp("parts") / "batch.csv"
    out = io.StringIO(newline="")
    table = [["AssignmentId", "WorkerId", "RequesterAnnotation", "Answer.slot_0", "Answer.slot_1"]]
    table += [[f"A{i:02}", "W", "S:names", *row] for i, row in enumerate(cells)]
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(table)
    path.write_bytes(out.getvalue().encode())
    rows = list(csv.DictReader(io.StringIO(out.getvalue(), newline=""), strict=True))
    assignments = [record for part in in_parts(path, step) for record in part]
    assert [(a.assignment_id, a.answers) for a in assignments] == [
        (row["AssignmentId"], {name: text_of(row[f"Answer.{name}"]) for name in ("slot_0", "slot_1")}) for row in rows
    ]


def text_of(cell: str) -> str:
    return cell.replace("\r\n", "\n").replace("\r", "\n")


@given(
    st.lists(st.sampled_from([b"", b" ", b"{", b"\xff", b'{"AssignmentId": "A1"}', b"[]"]), max_size=30),
    st.integers(3, 40),
)
@settings(deadline=None)
def test_lines_of_json_are_each_in_one_part(tmp_path_factory, lines, step) -> None:
    path = tmp_path_factory.mktemp("parts") / "batch.jsonl"
    path.write_bytes(b"{}\n" + b"\n".join(lines))
    assert [record for part in in_parts(path, step) for record in part] == whole(path)


def test_the_parts_of_a_usual_file_share_its_rows(tmp_path: Path) -> None:
    """No part falls to another because its begin was not found."""
    path = tmp_path / "batch.csv"
    draw = random.Random(1)
    texts = ["a name", "of two\nlines", 'with "quotes"', "", '"', '",\n"']
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle, quoting=csv.QUOTE_MINIMAL)
        writer.writerow(["AssignmentId", "WorkerId", "RequesterAnnotation", "Answer.slot_0", "Answer.slot_1"])
        writer.writerows([f"A{i}", "W", "S:names", *draw.choices(texts, k=2)] for i in range(3_000))
    found = in_parts(path, 10_000)
    assert len(found) == -(-path.stat().st_size // 10_000) > 10
    assert all(200 < len(part) < 600 for part in found[:-1])
    assert [record for part in found for record in part] == whole(path)


@pytest.mark.parametrize(("name", "encoding"), [("a.csv", "utf-16"), ("b.csv.gz", "utf-8"), ("c.csv", "utf-32-le")])
def test_compressed_and_wide_files_are_read_as_a_whole(tmp_path: Path, monkeypatch, name: str, encoding: str) -> None:
    path = tmp_path / name
    path.write_bytes("AssignmentId,WorkerId,Answer.slot_0\n".encode(encoding) * 20)
    monkeypatch.setattr(parts, "_STEP", 10)
    assert [
        part.step for part in parts_of(str(path), path.stat().st_size, "utf-8" if name == "a.csv" else encoding)
    ] == [0]
    assert len(parts_of(str(path.rename(tmp_path / "plain.csv")), 100, "cp1252")) == (1 if name == "a.csv" else 10)


def test_a_file_that_is_no_export_is_one_dead_letter(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(b"Dear all,\n" * 50)
    assert [len(part) for part in in_parts(path, 100)] == [1, 0, 0, 0, 0]
