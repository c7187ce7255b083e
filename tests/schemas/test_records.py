"""Dialogues and services as records: what is read, what is refused with its place, and their JSON Schemas."""

import bz2
import copy
import functools
import gzip
import importlib
import json
import lzma
import operator
import sys
from pathlib import Path

import kit
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import act, cases, frame, intent, lacking, raised, slot, span, state, turn, write

from parapet.schemas import dialogue, layout, limits
from parapet.schemas.dialogue import BETWEEN, CLOSING, OPENING, dialogue_text, read_each, typed
from parapet.schemas.errors import InputError
from parapet.schemas.json_schemas import FOLDER, RECORDS, json_schema
from parapet.schemas.layout import SPLITS, dialogue_files
from parapet.schemas.limits import parse_json, parse_json_line
from parapet.schemas.service import FIELD, Intent, Service, Slot, parse_service
from parapet.transforms.core.inputs import check_input, open_input, read_input

SLOTS, INTENTS = [Slot("to", "Where to"), Slot("fare", "How much")], [Intent("GetTaxi", "Call one")]
SERVICES = {"Taxi_1": Service("Taxi_1", "Get a taxi", SLOTS, INTENTS)}
SAID = "A taxi to Rome please"
ACTS = [act("INFORM_INTENT", "intent", "GetTaxi"), act("INFORM", "to", "Rome"), act("THANK_YOU")]
ASKS = frame("Taxi_1", *ACTS, slots=[span("to", SAID, "Rome")], state=state("GetTaxi", ["fare"], to=["Rome"]))
CALL = {"method": "GetTaxi", "parameters": {"to": "Rome"}}
FOUND = [{"to": "Rome", "fare": "30"}]
TELLS = frame("Taxi_1", act("INFORM_COUNT", "count", "1"), service_call=CALL, service_results=FOUND)
RAW = kit.dialogue("1_00000", turn("USER", SAID, ASKS), turn("SYSTEM", "That makes 30.", TELLS))


FRAME, SYSTEM = ["turns", 0, "frames", 0], ["turns", 1, "frames", 0]


def changed(place, value, raw=RAW):
    """A record with one place set, or taken out where the value is None."""
    raw = copy.deepcopy(raw)
    *way, last = place
    at = functools.reduce(operator.getitem, way, raw)
    if value is None:
        del at[last]
    else:
        at[last] = value
    return raw


def read(tmp_path, raw):
    path = write(tmp_path / "dialogues_001.json", raw if isinstance(raw, bytes) else json.dumps(raw).encode())
    return dialogue.read_dialogues(path)


def test_other_forms_of_spans_are_taken(tmp_path):
    copied = [{"slot": "to", "copy_from": "fare", "value": "x"}, {"slot": "to", "value": ["x", "y"]}]
    (found,) = read(tmp_path, [changed([*FRAME, "slots"], copied)])
    assert list(dialogue.problems_of(found, SERVICES)) == []
    assert [span.value for span in found.turns[0].frames[0].slots] == ["x", ["x", "y"]]


@cases("place value problem", ([*FRAME, "service"], "Bus_1", (".service", "no schema for service 'Bus_1'")),
        ([*FRAME, "slots", 0, "slot"], "dest", (".slots[0].slot", "the service has no slot 'dest'")),
        ([*FRAME, "slots", 0, "exclusive_end"], 22, (".slots[0]", "span 10-22 is not inside the utterance")),
        ([*FRAME, "slots", 0, "exclusive_end"], 10, (".slots[0]", "span 10-10 is not inside the utterance")),
        ([*FRAME, "slots", 0, "start"], -1, (".slots[0]", "span -1-14 is not inside the utterance")),
        ([*FRAME, "actions", 1, "slot"], "dest", (".actions[1].slot", "the service has no slot 'dest'")),
        ([*FRAME, "state", "active_intent"], "GetBus", (".state.active_intent", "the service has no intent 'GetBus'")),
        ([*FRAME, "state", "slot_values"], {"dest": ["Rome"]}, (".state", "the service has no slot 'dest'")),
        ([*FRAME, "state", "requested_slots"], ["dest"], (".state", "the service has no slot 'dest'")),
        ([*SYSTEM, "service_call", "method"], "Get", (".service_call.method", "the service has no intent 'Get'")),
        ([*SYSTEM, "service_call", "parameters"], {"dest": "Rome"},
         (".service_call.parameters", "the service has no slot 'dest'")),
        ([*SYSTEM, "service_results", 0], {"dest": "x"}, (".service_results[0]", "the service has no slot 'dest'")),
)  # fmt: skip
def test_what_does_not_hold_is_told_with_its_place(tmp_path, place, value, problem):
    (found,) = read(tmp_path, [changed(place, value)])
    assert list(dialogue.problems_of(found, SERVICES)) == [(f"turns[{place[1]}].frames[0]" + problem[0], problem[1])]


@cases("content where reason", (json.dumps(RAW).encode(), "", "Expected `array`, got `object`"),
        (b'[{"dialogue_id": "1",\n "services": [}]', "line 2 column 15", "not JSON: Expecting value"),
        (b'[{"dialogue_id": "caf\xe9"}]', "", "not UTF-8 at byte 21"),
        (json.dumps([changed(["turns", 1, "speaker"], "BOT")]).encode(), "[0].turns[1].speaker", "Invalid enum value"),
        (json.dumps([RAW, {"dialogue_id": "2"}]).encode(), "[1]", "missing required field `services`"),
        (json.dumps([changed([*FRAME, "slots", 0, "start"], "10")]).encode(), "[0].turns[0].frames[0].slots[0].start",
         "Expected `int`, got `str`"))  # fmt: skip
def test_dialogues_of_another_format_are_told_with_their_place(tmp_path, content, where, reason):
    caught = raised(InputError, read, tmp_path, content)
    assert (caught.path, caught.where) == (str(tmp_path / "dialogues_001.json"), where)
    assert reason in caught.reason


def test_the_published_dialogues_hold(real_data):
    """Each against the schemas of its own split."""
    for split in layout.read_root(real_data / "sgd"):
        services = {service.service_name: service for service in split.services}
        paths = dialogue_files(real_data / "sgd", split.split)
        found = [one for path in paths for one in dialogue.read_dialogues(path)]
        assert found
        for one in found:
            assert list(dialogue.problems_of(one, services)) == [], one.dialogue_id
            assert set(one.services) == {frame.service for turn in one.turns for frame in turn.frames}, one
            assert [turn.speaker for turn in one.turns] == ["USER", "SYSTEM"] * (len(one.turns) // 2)


TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.text(
    st.sampled_from('"\\/\b\f\n\r\t\x00\x1f\x7f\x80é\u2028😀<>&'), max_size=8
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


def file_of(items):
    return OPENING + BETWEEN.join(dialogue_text(item) for item in items) + CLOSING


@given(st.lists(JSON, min_size=1, max_size=4), st.booleans())
def test_the_bytes_are_those_of_json(items, escaped):
    """Those of the published generator; of schemas, in the order of their keys."""
    expected = (json.dumps(items, indent=2, sort_keys=True) + "\n").encode()
    assert file_of(list(read_each(json.dumps(items, ensure_ascii=escaped).encode(), "x"))) == expected
    assert layout.dialogue_bytes(items) == expected
    assert layout.schema_bytes(items) == (json.dumps(items, indent=2) + "\n").encode()


@cases(
    "item reason",
    (b'{"a": 1e999}', "not_sgd: Number out of range"),
    (b'{"a": "\xff"}', "not_sgd: 'utf-8' codec can't decode byte 0xff"),
    (b'{"a": NaN}', "not_sgd: Out of range float values are not JSON compliant"),
    (b'{"a": "\\ud800"}', "not_sgd: 'utf-8' codec can't encode character '\\ud800'"),
)
def test_an_item_that_cannot_be_decoded_is_refused_by_itself(item, reason):
    first, refused, last = read_each(b'[{"a": "\\":"},' + item + b',{"b" : 1}]', "x")
    assert (first, last) == ({"a": '":'}, {"b": 1})
    assert isinstance(refused, InputError)
    assert refused.reason.startswith(reason)
    raised(InputError, typed, refused)


def test_an_item_with_the_id_of_an_earlier_one_is_refused_by_itself():
    first, second, third = read_each(b'[{"dialogue_id": "a"}, {"dialogue_id": "a"}, {"dialogue_id": "A"}]', "x")
    assert (first, third) == ({"dialogue_id": "a"}, {"dialogue_id": "A"})
    assert isinstance(second, InputError)
    assert second.reason == "duplicate_id: dialogue 'a' appears twice, first at [0]: give each its own id"


def test_a_byte_order_mark_and_an_empty_list():
    assert (list(read_each(b"\xef\xbb\xbf[1]", "x")), list(read_each(b" [ ] ", "x"))) == ([1], [])


@cases(
    "data where reason",
    (b"", "", "the file is empty"),
    (b'[{"a": 1},\n {"a": tru}]', "line 2 column 8", "not JSON: "),
    (b'[{"a": 1}', "line 1 column 10", "not JSON: "),
    (b"[1] [2]", "line 1 column 5", "not JSON: Extra data"),
    (b'{"a": 1}', "", "expected a list of dialogues, found dict"),
    (b"[" * 100_000, "", "nested too deeply"),
)
def test_bad_files_are_told_with_their_place(data, where, reason):
    caught = raised(InputError, list, read_each(data, "x.json"))
    assert (caught.path, caught.where) == ("x.json", where)
    assert caught.reason.startswith(reason)


def test_deep_nesting_is_written_or_told():
    deep = []
    for _ in range(200):
        deep = [deep]
    assert json.loads(dialogue_text(deep)) == deep
    for _ in range(100_000):
        deep = [deep]
    raised(InputError, dialogue_text, deep, match="is not JSON: Recursion limit reached")


def test_the_published_files_come_out_as_they_are(real_data):
    files = [path for split in SPLITS for path in dialogue_files(real_data / "sgd", split)]
    assert files
    for path in files:
        data = path.read_bytes()
        assert file_of(list(read_each(data, path))) == data.rstrip() + b"\n"


# Services.


HOTELS = kit.service(
    "Hotels_1",
    [kit.slot("city", "Where"), kit.slot("stars", "How good", "1", "2")],
    [kit.intent("FindHotel", "Look for a hotel", "city", results=["city", "stars"], stars="dontcare")],
    "Find and book hotels",
)


def test_elements_compared_with_a_text_are_compared_by_name():
    one, other = parse_service(HOTELS), parse_service({**HOTELS, "description": "Something else"})
    assert (one == "Hotels_1", one == "Hotels_2", one != "Hotels_1") == (True, False, False)
    assert ("city" in one.slots, "FindHotel" in one.intents, "Oslo" in one.slots) == (True, True, False)
    assert (one == parse_service(HOTELS), one != other, one.slots == other.slots) == (True, True, True)


def refusal(place, value):
    caught = raised(InputError, parse_service, changed(place, value, HOTELS), "corpus/schema.json", "[4]")
    assert caught.path == "corpus/schema.json"
    return caught.where, caught.reason


@cases(
    "place value where reason",
    (["slots", 1, "possible_values"], [], "slots[1].possible_values", "slot 'stars' is categorical, but has no possib"),
    (["slots"], [HOTELS["slots"][0]] * 2, "slots[0].name", "'city' appears 2 times"),
    (["intents"], [HOTELS["intents"][0]] * 2, "intents[0].name", "'FindHotel' appears 2 times"),
    (["slots", 0, "name"], "  ", "slots[0].name", "the name is empty"),
    (["intents", 0, "name"], "  ", "intents[0].name", "the name is empty"),
)
def test_rules_of_a_service(place, value, where, reason):
    told_where, told_reason = refusal(place, value)
    assert told_where == f"[4].{where}"
    assert told_reason.startswith(f"service 'Hotels_1': {reason}")


def test_a_slot_and_an_intent_may_share_a_name():
    service = parse_service(changed(["intents", 0, "name"], "city", HOTELS))
    assert service.intents[0].name == service.slots[0].name == "city"


def test_fields_of_forms():
    assert all(map(FIELD.fullmatch, ("intent_0", "slot_0", "slot_10", "slot_999999", "service")))
    others = ["slot", "slot_", "slot_01", "slot_-1", "slot_٣", "slot_1000000", "service_0", "Slot_1", "x"]
    assert not any(map(FIELD.fullmatch, ["", "slot_1\n", *others]))


# The published JSON Schemas are those of the records.


def test_the_published_schemas_are_those_of_the_records():
    published = {f"{name}.schema.json": json_schema(name) for name in RECORDS}
    assert kit.files_of(FOLDER) == published, "run python -m parapet.schemas.json_schemas"


@cases("name", "../../x", "..", "a..b", "", "a/b", "a\\b", "-a", ".a", "a b", "a\n", "é", "a" * 101, "a:b")
def test_a_service_name_must_do_as_a_file_name(name):
    where, reason = refusal(["service_name"], name)
    assert where == "[4].service_name"
    assert not lacking(reason, repr(name), "files are named after it")


# Files of schemas and inputs, plain, compressed and in buckets.


def taxi(name="Taxi_1", description="Get a taxi", **more):
    made = [intent("GetTaxi", "Call one", "to", transactional=True, results=["to"])]
    return {**kit.service(name, [slot("to", "Where to")], made, description), **more}


@cases(
    "content where reason",
    (b"{}", "", "expected a list of services, found dict"),
    (b"[]", "", "the list of services is empty"),
    (b'[\n  {"service_name": A_1}\n]', "line 2 column 20", "not JSON: Expecting value"),
    (b"[3]", "[0]", "Expected `object`, got `int`"),
    (json.dumps([taxi(), taxi("../../x")]).encode(), "[1].service_name", "service '../../x': a service "),
)
def test_bad_files_are_told_with_file_place_and_reason(tmp_path, content, where, reason):
    path = write(tmp_path / "train/schema.json", content)
    error = raised(InputError, layout.read_root, tmp_path)
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
    assert str(raised(InputError, layout.read_root, path)) == f"{path}: is larger than the limit of 64 MiB"


def test_a_bucket_without_its_client(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    monkeypatch.delitem(importlib.import_module("fsspec.registry")._registry, "gs", raising=False)
    missing = r"^gs://corpora/sgd: cannot be read \(.*\): pip install .*\[gcp\]'$"
    raised(InputError, layout.as_path, "gs://corpora/sgd", match=missing)
    raised(InputError, layout.as_path, "strange://a/sgd", match="^strange://a/sgd: cannot be read: Protocol not known")


def test_a_bucket_that_gives_no_access(monkeypatch):
    def forbidden(path):
        raise OSError("Forbidden: https://storage.googleapis.com/storage/v1/b/corpora/o/sgd")

    monkeypatch.setattr(type(layout.as_path("gs://corpora/sgd")), "exists", forbidden)
    told = "^gs://corpora/sgd: cannot be read: Forbidden: https"
    raised(InputError, layout.read_root, "gs://corpora/sgd", match=told)


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
        write(tmp_path / folder / "schema.json", [taxi(name) for name in names.split()])
    found = layout.counterpart(layout.read_root(tmp_path / place)[0], layout.read_root(tmp_path / other))
    assert (found and Path(found.path).parent) == (expected and tmp_path / expected)


def test_a_service_that_two_splits_define_in_different_ways(tmp_path):
    write(tmp_path / "train/schema.json", [taxi()])
    write(tmp_path / "dev/schema.json", [taxi(description="Something else")])
    error = raised(InputError, layout.read_root, tmp_path)
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


def test_unknown_keys_of_a_schema_stay_as_they_stand(tmp_path):
    raw = [taxi(more=[-0.0, 1e30, {"b": 1, "a": 0.1}, 1.5e-07])]
    write(tmp_path / "schema.json", raw)
    (split,) = layout.read_root(tmp_path)
    assert json.dumps(split.raw) == json.dumps(raw)
    assert layout.schema_bytes(split.raw).decode() == json.dumps(raw, indent=2) + "\n"


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
