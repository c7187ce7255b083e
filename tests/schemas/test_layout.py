import bz2
import gzip
import importlib
import json
import lzma
import sys
from pathlib import Path

import kit
import pytest
from kit import cases, intent, raised, slot, write

from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.schemas.limits import parse_json, parse_json_line
from parapet.transforms.core.inputs import check_input, open_input, read_input


def service(name="Taxi_1", description="Get a taxi", **more):
    made = [intent("GetTaxi", "Call one", "to", transactional=True, results=["to"])]
    return {**kit.service(name, [slot("to", "Where to")], made, description), **more}


def refusal(root):
    return raised(InputError, layout.read_root, root)


@cases(
    "content where reason",
    (b"{}", "", "expected a list of services, found dict"),
    (b"[]", "", "the list of services is empty"),
    (b'[\n  {"service_name": A_1}\n]', "line 2 column 20", "not JSON: Expecting value"),
    ('[{"service_name": "A_1"}]'.encode("utf-16"), "", "not UTF-8 at byte 0: save the file as UTF-8"),
    (b"[3]", "[0]", "Expected `object`, got `int`"),
    (json.dumps([service(), service("../../x")]).encode(), "[1].service_name", "service '../../x': a service "),
)
def test_bad_files_are_told_with_file_place_and_reason(tmp_path, content, where, reason):
    path = write(tmp_path / "train/schema.json", content)
    error = refusal(tmp_path)
    assert (error.path, error.where) == (str(path), where)
    assert error.reason.startswith(reason)
    assert str(error).startswith(f"{path}: ")


@cases(
    "name content told",
    ("chat.jsonl", '{"messages": [{"role": "user", "content": "hi"}]}\n', "contains chat messages, not schemas"),
    ("chat.json", '[{"role": "user", "content": "hi"}]', "contains chat messages, not schemas"),
    ("names.csv", "a,b\n1,2\n", "contains a table, not schemas"),
    ("a.json", '[{"dialogue_id": "1", "services": [], "turns": []}]', "contains dialogues, not schemas: give their"),
    ("other.json", "[7]", "other.json: [0]"),
)
def test_files_of_other_kinds_are_known(tmp_path, name, content, told):
    assert told in str(raised(InputError, layout.read_root, write(tmp_path / name, content)))


def test_a_file_too_large_to_be_a_schema_is_not_read(tmp_path):
    path = tmp_path / "schema.json"
    with path.open("wb") as handle:
        handle.truncate(limits.MAX_SCHEMA_FILE + 1)  # sparse: no disk is used
    assert str(refusal(path)) == f"{path}: is larger than the limit of 64 MiB"


def test_a_bucket_without_its_client(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    monkeypatch.delitem(importlib.import_module("fsspec.registry")._registry, "gs", raising=False)
    with pytest.raises(InputError, match=r"^gs://corpora/sgd: cannot be read \(.*\): pip install .*\[gcp\]'$"):
        layout.as_path("gs://corpora/sgd")
    with pytest.raises(InputError, match=r"^strange://corpora/sgd: cannot be read: Protocol not known"):
        layout.as_path("strange://corpora/sgd")


def test_a_bucket_that_gives_no_access(monkeypatch):
    def forbidden(path):
        raise OSError("Forbidden: https://storage.googleapis.com/storage/v1/b/corpora/o/sgd")

    monkeypatch.setattr(type(layout.as_path("gs://corpora/sgd")), "exists", forbidden)
    with pytest.raises(InputError, match=r"^gs://corpora/sgd: cannot be read: Forbidden: https"):
        layout.read_root("gs://corpora/sgd")


@cases(
    "place other expected",
    ("sgd/dev", "v1", "v1/dev"),
    ("sgd/dev/schema.json", "v1", "v1/dev"),
    ("sgd/test", "v1", None),
    ("sgd/dev", "single", "single"),
    ("mine", "v1", "v1/dev"),  # by its services
    ("sgd", "single", "single"),
    ("sgd", "v1/dev/schema.json", "v1/dev"),
    ("sgd", "v1/train/schema.json", None),
)
def test_the_counterpart_of_a_split(tmp_path, place, other, expected):
    originals = {"sgd/dev": "A_1 B_1", "sgd/test": "C_1", "mine": "A_1 B_1"}
    variants = {"v1/train": "A_11 D_11", "v1/dev": "A_11 B_11", "single": "A_11 B_11"}
    for folder, names in {**originals, **variants}.items():
        write(tmp_path / folder / "schema.json", [service(name) for name in names.split()])
    found = layout.counterpart(layout.read_root(tmp_path / place)[0], layout.read_root(tmp_path / other))
    assert (found and Path(found.path).parent) == (expected and tmp_path / expected)


def test_a_service_that_two_splits_define_in_different_ways(tmp_path):
    write(tmp_path / "train/schema.json", [service()])
    write(tmp_path / "dev/schema.json", [service(description="Something else")])
    error = refusal(tmp_path)
    assert error.reason.startswith("service 'Taxi_1' differs from the one in ")
    paths = {str(tmp_path / split / "schema.json") for split in ("train", "dev")}
    assert {error.path, error.reason.rpartition(" in ")[2]} == paths


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


@cases("more", "-0.0", "1e+30", '{"b": 1, "a": 0.1}', "1.5e-07")
def test_unknown_keys_of_a_schema_stay_as_they_stand(more, tmp_path):
    text = "[" + SERVICE % ("A_1", more) + "]"
    (tmp_path / "schema.json").write_text(text)
    (split,) = layout.read_root(tmp_path)
    assert json.dumps(split.raw) == text
    assert layout.schema_bytes(split.raw).decode() == json.dumps(json.loads(text), indent=2) + "\n"


@cases("reader", limits.read_whole, read_input)
def test_the_size_of_a_file(reader, tmp_path):
    path = write(tmp_path / "a", b"x" * 100)
    assert reader(str(path), 100) == b"x" * 100
    assert str(raised(InputError, reader, str(path), 99)) == f"{path}: is larger than the limit of 99 bytes"


PLAIN = b"".join(b"%d,%d\n" % (i, i * i) for i in range(5_000))
FORMATS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@cases("suffix", *FORMATS)
def test_a_compressed_file_is_read_to_its_end_or_refused(suffix, tmp_path):
    data = FORMATS[suffix](PLAIN)
    path = tmp_path / f"a.csv{suffix}"
    for content in (data, data + data):
        path.write_bytes(content)
        check_input(str(path))
        with open_input(str(path)) as handle:
            assert handle.read() == PLAIN * (2 if content == data + data else 1)
    for cut in (1, 5, 20, len(data) // 2, len(data) - 9, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(InputError) as caught, open_input(str(path)) as handle:
            handle.read()
        assert "is damaged, incomplete, or not compressed as its name says" in caught.value.reason
        assert caught.value.path == str(path)
    path.write_bytes(PLAIN)
    raised(InputError, check_input, str(path), match="not compressed as its name says")


@cases("suffix", *FORMATS)
def test_a_compressed_file_of_another_name(suffix, tmp_path):
    path = write(tmp_path / "a.csv", FORMATS[suffix](PLAIN))
    raised(InputError, check_input, str(path), match=f"rename it to end with {suffix[:3]}")
    raised(InputError, limits.read_text, path, match="decompress it first")


# Root reads what others may not; nobody reads a circle.
@cases("make", Path.mkdir, lambda path: path.symlink_to(path))
@cases("reader", limits.read_whole, limits.read_text, read_input)
def test_what_cannot_be_read(make, reader, tmp_path):
    make(path := tmp_path / "schema.json")
    raised(InputError, reader, str(path), match="cannot be read: ")
