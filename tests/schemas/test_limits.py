"""What is no file, too large or compressed is refused in one line; nothing waits for a pipe."""

import bz2
import gzip
import lzma
import os
import shutil
import socket
from pathlib import Path

import pytest
import zstandard
from kit import cases, raised, refused, rows_of, run, write

from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.schemas.service import parse_service
from parapet.transforms.storage.compressed import check_input, open_input, read_input

READERS = {
    "whole": limits.read_whole,
    "text": limits.read_text,
    "input": read_input,
    "lines": check_input,
    "schema": layout.read_root,
}


def a_pipe(path):
    os.mkfifo(path)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def a_device(path):
    path.symlink_to("/dev/zero")


def a_folder(path):
    path.mkdir()


@pytest.mark.parametrize("reader", READERS)
@cases(
    "make reason",
    (a_pipe, "is a named pipe, not a file: write its content to a file first"),
    (a_socket, "is a socket, not a file"),
    (a_device, "is a device, not a file"),
)
def test_what_is_no_file(make, reason, reader, tmp_path):
    os.chdir(tmp_path)  # the path of a socket must be short
    make(path := Path("schema.json"))
    caught = raised(InputError, READERS[reader], str(path))
    assert (caught.path, caught.reason) == (str(path), reason)


@pytest.mark.parametrize("make", [a_pipe, a_folder, a_device])
def test_a_schema_that_is_no_file_is_not_passed_over(make, sample, tmp_path):
    write(tmp_path / "test/schema.json", (sample / "test/schema.json").read_bytes())
    (tmp_path / "train").mkdir()
    make(tmp_path / "train/schema.json")
    assert raised(InputError, layout.read_root, tmp_path).path == str(tmp_path / "train/schema.json")


@cases(
    "flags name",
    (["compose", "--responses", "{}"], "a.csv"),
    (["compose", "--decisions", "{}"], "a.csv"),
    (["hits", "--schemas", "{}"], "schema.json"),
    (["compose", "--stopwords", "{}"], "words"),
    (["hits", "--cues", "{}"], "a.csv"),
    (["unseen_entities", "--values", "{}"], "a.csv"),
    (["restaurants", "--ontology", "{}"], "a.json"),
    (["anonymise", "--chats", "{}"], "a.jsonl"),
    (["language_variations", "--rewritten", "{}"], "a.jsonl"),
    (["suite", "{}"], "a.toml"),
    (["release", "build", "--config", "{}"], "a.toml"),
)
def test_no_command_waits_for_a_pipe(flags, name, tmp_path):
    a_pipe(path := tmp_path / name)
    assert name in refused(*(flag.format(path) for flag in flags), output=tmp_path / "out")


def test_a_dialogue_file_that_is_a_pipe_is_a_bad_file(sample, tmp_path):
    for split in ("train", "test"):
        shutil.copytree(sample / split, tmp_path / "sgd" / split)
    a_pipe(tmp_path / "sgd/test/dialogues_999.json")
    argv = ["few_shot", "--sgd", str(tmp_path / "sgd"), "--output", str(tmp_path / "out"), "--quiet"]
    assert "is a named pipe" in refused(*argv, status=1)
    run(*argv, max_bad="50%")
    assert [letter["file"] for letter in rows_of(tmp_path / "out/dead_letters.jsonl")] == ["dialogues_999.json"]


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", [limits.read_whole, read_input])
def test_the_size_of_a_file(reader, tmp_path):
    path = write(tmp_path / "a", b"x" * 100)
    assert reader(str(path), 100) == b"x" * 100
    assert str(raised(InputError, reader, str(path), 99)) == f"{path}: has 100 bytes, over the limit of 99 bytes"


def test_a_file_that_is_cut_off_while_it_is_read(tmp_path, monkeypatch):
    path = write(tmp_path / "a.json", b"x" * 100)

    def cut_off(*_):
        path.write_bytes(b"x" * 50)

    monkeypatch.setattr(limits, "check_size", cut_off)
    raised(InputError, limits.read_whole, path, match="changed while it was being read \\(it had 100 bytes")


def service(slots=0, **more):
    named = [{"name": f"s{i}", "description": "", "is_categorical": False, "possible_values": []} for i in range(slots)]
    return {"service_name": "A_1", "description": "", "slots": named, "intents": [], **more}


def test_slots_and_services(tmp_path, monkeypatch):
    assert len(parse_service(service(limits.MAX_ELEMENTS)).slots) == limits.MAX_ELEMENTS
    with pytest.raises(InputError, match="has 1,001 slots, over the limit of 1,000"):
        parse_service(service(limits.MAX_ELEMENTS + 1))
    assert layout.MAX_SERVICES == 10_000
    monkeypatch.setattr(layout, "MAX_SERVICES", 20)
    path = write(tmp_path / "schema.json", [service(service_name=f"A_{i}") for i in range(20)])
    assert len(layout.read_root(path)[0].services) == 20
    path.write_text("[" + "0," * 20 + "0]")
    assert str(raised(InputError, layout.read_root, path)) == f"{path}: has more than 20 services"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_line_beyond_the_limit_costs_itself(number, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "MAX_LINE", 50)
    lines = [b"one,two\n", b"1,2\n", b"3,4\n"]
    for extra, is_long in ((42, False), (5_000, True)):
        long = [
            line if i + 1 != number else line[: line.index(b",") + 1] + b"x" * extra + b"\n"
            for i, line in enumerate(lines)
        ]
        with write(tmp_path / "a.csv", b"".join(long)).open("rb") as handle:
            found = list(limits.lines_of(handle))
        assert [n for n, line in found if line is None] == ([number] if is_long else [])


# --- compressed files ------------------------------------------------------------------------------------------------

TEXT = b"".join(b"%d,%d\n" % (i, i * i) for i in range(5_000))
FORMATS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    ".zst": zstandard.compress,
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_compressed_file_is_read_to_its_end_or_refused(suffix, tmp_path):
    data = FORMATS[suffix](TEXT)
    path = tmp_path / f"a.csv{suffix}"
    for content in (data, data + data, data + b"\0" * 512):
        path.write_bytes(content)
        check_input(str(path))
        with open_input(str(path)) as handle:
            assert handle.read() == TEXT * (2 if content == data + data else 1)
    for cut in (0, 1, 5, 20, len(data) // 2, len(data) - 9, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(InputError) as caught, open_input(str(path)) as handle:
            handle.read()
        assert "is truncated" in caught.value.reason
        assert caught.value.path == str(path)
    path.write_bytes(TEXT)
    raised(InputError, check_input, str(path), match="but is not one")


@pytest.mark.parametrize("suffix", [suffix for suffix in FORMATS if suffix != ".lzma"])
def test_a_compressed_file_of_another_name(suffix, tmp_path):
    path = write(tmp_path / "a.csv", FORMATS[suffix](TEXT))
    raised(InputError, check_input, str(path), match=f"rename it to end with {suffix[:3]}")
    raised(InputError, limits.read_text, path, match="decompress it first")


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_bomb_is_read_in_pieces(suffix, tmp_path, monkeypatch):
    path = write(tmp_path / f"a.csv{suffix}", FORMATS[suffix](bytes(3 * 2**20)))
    monkeypatch.setattr("parapet.transforms.storage.compressed.MAX_CONTENT", 2**20)
    with pytest.raises(InputError, match="has more than 1 MiB of content"), open_input(str(path)) as handle:
        handle.read()


def unreadable(path):
    path.symlink_to(path)  # root reads what others may not; nobody reads a circle


@pytest.mark.parametrize("make", [a_folder, unreadable])
@pytest.mark.parametrize("reader", ["whole", "text", "input"])
def test_what_cannot_be_read(make, reader, tmp_path):
    make(path := tmp_path / "schema.json")
    raised(InputError, READERS[reader], str(path), match="cannot be read: ")
