"""What is too large or compressed is refused in one line."""

import bz2
import gzip
import io
import lzma

import pytest
from kit import raised, write

from parapet.schemas import limits
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.ingest import read_lines, read_records
from parapet.transforms.storage.compressed import check_input, open_input, read_input

READERS = {"whole": limits.read_whole, "text": limits.read_text, "input": read_input}


def a_folder(path):
    path.mkdir()


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", [limits.read_whole, read_input])
def test_the_size_of_a_file(reader, tmp_path):
    path = write(tmp_path / "a", b"x" * 100)
    assert reader(str(path), 100) == b"x" * 100
    assert str(raised(InputError, reader, str(path), 99)) == f"{path}: is larger than the limit of 99 bytes"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_line_beyond_the_limit_costs_itself(number, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "MAX_LINE", 50)
    lines = [b"one,two\n", b"1,2\n", b"3,4\n"]
    for extra, problem in ((42, ""), (5_000, "too_large: the line has more than 50 bytes")):
        long = [
            line if i + 1 != number else line[: line.index(b",") + 1] + b"x" * extra + b"\n"
            for i, line in enumerate(lines)
        ]
        with open_input(str(write(tmp_path / "a.csv", b"".join(long)))) as handle:
            records = list(read_records(read_lines(handle)))
        assert [record.number for record in records] == [1, 2, 3]
        assert [record.problem for record in records if record.number != number] == ["", ""]
        assert records[number - 1].problem == problem
        assert len(records[number - 1].raw) <= 2_000


def test_a_row_of_several_lines_beyond_the_limit(monkeypatch):
    monkeypatch.setattr(limits, "MAX_LINE", 50)
    for extra, problems in ((30, ["", ""]), (31, ["", "too_large: the row has more than 50 bytes"])):
        data = b'one,two\n1,"' + b"x" * 15 + b"\n" + b"x" * extra + b'\nx"\n'
        found = [record.problem for record in read_records(read_lines(io.BufferedReader(io.BytesIO(data))))]
        assert found[:2] == problems


def test_utf_16_beyond_the_limit(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_bytes("a,b\n1,2\n".encode("utf-16"))
    for limit, texts in ((18, ["a,b\n", "1,2\n"]), (10, [None])):
        monkeypatch.setattr(limits, "MAX_FILE", limit)
        with open_input(str(tmp_path / "a.csv")) as handle:
            assert [line.text for line in read_lines(handle)] == texts


# --- compressed files ------------------------------------------------------------------------------------------------

TEXT = b"".join(b"%d,%d\n" % (i, i * i) for i in range(5_000))
FORMATS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_compressed_file_is_read_to_its_end_or_refused(suffix, tmp_path):
    data = FORMATS[suffix](TEXT)
    path = tmp_path / f"a.csv{suffix}"
    for content in (data, data + data):
        path.write_bytes(content)
        check_input(str(path))
        with open_input(str(path)) as handle:
            assert handle.read() == TEXT * (2 if content == data + data else 1)
    for cut in (1, 5, 20, len(data) // 2, len(data) - 9, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(InputError) as caught, open_input(str(path)) as handle:
            handle.read()
        assert "is damaged, incomplete, or not compressed as its name says" in caught.value.reason
        assert caught.value.path == str(path)
    path.write_bytes(TEXT)
    raised(InputError, check_input, str(path), match="not compressed as its name says")


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_compressed_file_of_another_name(suffix, tmp_path):
    path = write(tmp_path / "a.csv", FORMATS[suffix](TEXT))
    raised(InputError, check_input, str(path), match=f"rename it to end with {suffix[:3]}")
    raised(InputError, limits.read_text, path, match="decompress it first")


def unreadable(path):
    path.symlink_to(path)  # root reads what others may not; nobody reads a circle


@pytest.mark.parametrize("make", [a_folder, unreadable])
@pytest.mark.parametrize("reader", READERS)
def test_what_cannot_be_read(make, reader, tmp_path):
    make(path := tmp_path / "schema.json")
    raised(InputError, READERS[reader], str(path), match="cannot be read: ")
