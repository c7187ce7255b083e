"""The translation memory: read from Parquet, CSV and folders, merged, written."""

import io
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.schemas.errors import InputError
from parapet.schemas.rows import MEMORY, Translation
from parapet.transforms.translation.memory import by_languages, memory_bytes, merge, missing, read_memory

HEADER = "provider,model,source,target,text,translation\n"
NAME = Translation("google", "general/nmt", "en", "ko", "account name", "계정 이름")
DATE = Translation("google", "general/nmt", "en", "ko", "date, or day", "날짜")
HUMAN = Translation("human", "", "en", "ko", "account name", "계좌 이름")
BACK = Translation("google", "general/nmt", "ko", "en", "계정 이름", "account title")

rows = st.lists(st.builds(Translation, *[st.text(st.characters(codec="utf-8"), min_size=1)] * 6), max_size=8)


def parquet(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def columns_of(*given: Translation) -> dict[str, Any]:
    return {name: [getattr(row, name) for row in given] for name in MEMORY.names}


def test_parquet(tmp_path):
    path = tmp_path / "memory.parquet"
    path.write_bytes(memory_bytes([NAME, BACK, HUMAN]))
    assert read_memory(path) == [NAME, BACK, HUMAN]
    assert read_memory(str(path)) == [NAME, BACK, HUMAN]


def test_parquet_with_more_columns_in_another_order(tmp_path):
    columns = {"note": ["x"], **dict(reversed(columns_of(NAME).items()))}
    assert read_memory(parquet(tmp_path / "m.parquet", columns)) == [NAME]


def test_csv_as_people_save_it(tmp_path):
    path = tmp_path / "mine.csv"
    lines = [
        "text,translation,provider,model,source,target,note",
        "account name,계좌 이름,human,,en,ko,",
        '"date, or day",날짜,google,general/nmt,en,ko,"looked\r\nup"',
        "",
    ]
    path.write_bytes(("\ufeff" + "\r\n".join(lines)).encode())
    assert read_memory(path) == [HUMAN, DATE]


def test_line_ends_inside_a_text_stay(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes((HEADER + 'human,,en,ko,"one\r\ntwo","하나\r\n둘"\n').encode())
    assert read_memory(path) == [Translation("human", "", "en", "ko", "one\r\ntwo", "하나\r\n둘")]


def test_a_folder_is_all_its_files_by_name(tmp_path):
    (tmp_path / "b.parquet").write_bytes(memory_bytes([NAME]))
    (tmp_path / "a.csv").write_text(HEADER + "human,,en,ko,account name,계좌 이름\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("nothing of it")
    assert read_memory(tmp_path) == [HUMAN, NAME]
    assert read_memory(tmp_path / "a.csv") == [HUMAN]


def test_an_empty_memory(tmp_path):
    (tmp_path / "a.csv").write_text(HEADER)
    (tmp_path / "b.parquet").write_bytes(memory_bytes([]))
    assert read_memory(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "where", "reason"),
    [
        ("text,translation\n", "", "it has no column 'provider'"),
        ("", "", "it has no column 'provider'"),
        (HEADER + "a,b,en,ko,x,y\na,b,en,ko,x\n", "row 3", "translation is no text"),
        (HEADER + "a,b,en,ko,x,y\na,b,en,ko,date, or day,z\n", "row 3", "more values than columns"),
        (HEADER + "a,b,en,ko,x,\n", "row 2", "lacks a text or translation"),
        (HEADER + "a,b,en,ko, ,y\n", "row 2", "lacks a text or translation"),
        (HEADER + 'a,b,en,ko,"x,y\n', "row 2", "not CSV"),
    ],
)
def test_a_bad_csv_is_told_by_row(tmp_path, content, where, reason):
    path = tmp_path / "mine.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=reason) as error:
        read_memory(path)
    assert (error.value.path, error.value.where) == (str(path), where)


def test_a_csv_in_another_encoding(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes(HEADER.encode() + "a,b,en,ko,x,날짜\n".encode("cp949"))
    with pytest.raises(InputError, match="not UTF-8 at byte 58: save the file as UTF-8"):
        read_memory(path)


@pytest.mark.parametrize(
    ("change", "where", "reason"),
    [
        ({"translation": ["y", None]}, "row 1", "translation is no text"),
        ({"text": [5, 6]}, "row 0", "text is no text"),
        ({"translation": ["y", ""]}, "row 1", "lacks a text or translation"),
    ],
)
def test_a_bad_parquet_row_is_told(tmp_path, change, where, reason):
    path = parquet(tmp_path / "m.parquet", {**columns_of(NAME, DATE), **change})
    with pytest.raises(InputError, match=reason) as error:
        read_memory(path)
    assert (error.value.path, error.value.where) == (str(path), where)


def test_files_that_are_no_memory(tmp_path):
    (tmp_path / "m.parquet").write_bytes(b"PAR1 or not")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_memory(tmp_path)
    columns = columns_of(NAME)
    del columns["target"]
    path = parquet(tmp_path / "m.parquet", columns)
    with pytest.raises(InputError, match="has no column 'target'"):
        read_memory(path)
    with pytest.raises(InputError, match="there is no such file or folder"):
        read_memory(tmp_path / "none")


def test_the_earlier_memory_is_right():
    corrected = msgspec.structs.replace(NAME, translation="계좌명")
    assert merge([corrected], [NAME, DATE], [HUMAN]) == sorted([corrected, DATE, HUMAN])
    assert merge([NAME, corrected]) == [NAME]
    assert merge() == []


def test_what_an_engine_knows():
    known = by_languages([NAME, BACK, HUMAN, DATE], "google", "general/nmt")
    assert known == {
        ("en", "ko"): {"account name": "계정 이름", "date, or day": "날짜"},
        ("ko", "en"): {"계정 이름": "account title"},
    }
    assert by_languages([NAME], "google", "general/translation-llm") == {}
    assert by_languages([NAME], "libretranslate") == {}


def test_of_any_engine_the_first_in_order():
    assert by_languages([HUMAN, NAME])[("en", "ko")] == {"account name": "계정 이름"}  # google before human


def test_what_is_missing():
    assert missing(["b", "a", "b", "known"], {"known": "x"}) == ["a", "b"]


@settings(deadline=None)
@given(rows, st.randoms(use_true_random=False))
def test_the_same_rows_give_the_same_bytes(given, order):
    merged = merge(given)
    data = memory_bytes(merged)
    order.shuffle(merged)
    assert memory_bytes(merged) == data
    back = pq.read_table(io.BytesIO(data))
    assert back.schema.equals(MEMORY)
    assert [Translation(**row) for row in back.to_pylist()] == sorted(merged)
