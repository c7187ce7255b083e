r"""Half a surrogate pair, which JSON can write ("\ud800") and no file of text can have, anywhere in a dialogue."""

import copy
import json
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import THOROUGH, cases, json_of, raised, run, sample_dialogues

from parapet.schemas.dialogue import dialogue_text, read_each, typed
from parapet.schemas.errors import InputError, surrogate_in
from parapet.schemas.layout import read_root, sample_root
from parapet.transforms.running.counts import read_dead_letters
from parapet.transforms.variants.matching import Variant, by_position, known_names
from parapet.transforms.variants.perturbation import places_of, rename

HALF = "\ud800"


def strings(value, way=()):
    """(the way to it, whether it is a key) of every string in a dialogue."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(key, str):
            yield (*way, key), True
        if isinstance(one, str):
            yield (*way, key), False
        elif isinstance(one, dict | list):
            yield from strings(one, (*way, key))


def spoiled(dialogue, way, is_key):
    """The dialogue with half a surrogate pair behind one of its strings."""
    dialogue = copy.deepcopy(dialogue)
    at = dialogue
    for step in way[:-1]:
        at = at[step]
    if is_key:
        at[way[-1] + HALF] = at.pop(way[-1])
    else:
        at[way[-1]] += HALF
    return dialogue


def each_kind(dialogues):
    """One dialogue for each kind of place that some of them have, under an id of its own."""
    seen = set()
    for dialogue in dialogues:
        for way, is_key in strings(dialogue):
            kind = (tuple("" if isinstance(step, int) else step for step in way), is_key)
            if kind not in seen:
                seen.add(kind)
                found = spoiled(dialogue, way, is_key)
                found["dialogue_id"] = f"{found.get('dialogue_id', 'none')}-{len(seen)}"
                yield found


def taken(function, *args):
    """What a function gives, or the mistake that it finds; another exception fails the test."""
    try:
        return function(*args)
    except InputError as error:
        return error


SERVICES = {service.service_name: service for split in read_root(sample_root()) for service in split.services}
SAME = Variant("same", {name: by_position(service, service) for name, service in SERVICES.items()}, {})
POSITIONS = [(dialogue, way, is_key) for dialogue in sample_dialogues("test")[:3] for way, is_key in strings(dialogue)]


@settings(max_examples=300 if THOROUGH else 100)
@given(st.sampled_from(POSITIONS))
def test_wherever_it_stands_a_dialogue_is_written_or_left_out(position):
    dialogue = spoiled(*position)
    ((raw, plain),) = read_each(json.dumps([dialogue]).encode(), "a.json")
    assert (raw, plain) == (dialogue, False)
    read = taken(typed, raw)
    if isinstance(read, InputError):
        assert read.reason.startswith(("not_unicode: ", "not_sgd: "))
        assert read.where.isascii()
    text = taken(lambda: dialogue_text(rename(SAME, places_of(raw, known_names(SERVICES.values()))), plain))
    if isinstance(text, InputError):
        assert text.reason.partition(":")[0] in ("not_unicode", "not_sgd", "unknown_service", "unknown_slot")
    else:
        assert json.loads(text) == dialogue  # what it said, it says


@pytest.mark.thorough
@cases(
    "pipeline flags",
    ("rewrite", ["--variants", "{root}/same"]),
    ("augment", ["--split", "test", "--sets", "none"]),
    ("few_shot", ["--sizes", "1", "--test", "1"]),
    ("unseen_entities", []),
    ("ood", ["--rates", "0.01"]),
    ("language_variations", ["--env", "0.5"]),
)
def test_no_run_ends_by_it(pipeline, flags, sample, tmp_path):
    root = tmp_path / "sgd"
    shutil.copytree(sample, root)
    shutil.copytree(sample, tmp_path / "same/v1", ignore=shutil.ignore_patterns("dialogues_*"))
    whole = sample_dialogues("test")
    (root / "test/dialogues_001.json").write_text(json.dumps([*whole, *list(each_kind(whole))]))
    argv = [pipeline, "--sgd", str(root), *(flag.format(root=tmp_path) for flag in flags), "--max_bad", "100%"]
    run(*argv, output=tmp_path / "out")
    dead = list(read_dead_letters((tmp_path / "out/dead_letters.jsonl").read_bytes().splitlines()))
    named = {letter.where for letter in dead if letter.reason.startswith("not_unicode")}
    assert pipeline == "rewrite" or any(place.endswith("speaker") for place in named)  # which rewrite passes on
    assert named
    assert not {letter.dialogue_id for letter in dead} & {dialogue["dialogue_id"] for dialogue in whole}


def test_in_a_schema_it_makes_a_bad_service(sample, tmp_path):
    path = tmp_path / "schema.json"
    services = json_of(sample / "test/schema.json")
    services[1]["slots"][0]["description"] += HALF
    path.write_text(json.dumps(services))
    caught = raised(InputError, read_root, path)
    assert (caught.path, caught.where) == (str(path), "[1].slots[0].description")
    assert "a lone surrogate" in caught.reason
    (split,) = read_root(path, leave_out_bad=True)
    assert len(split.services) == len(services) - 1


@cases(
    "value place",
    ({"a": ["x", {"b": "é😀"}]}, None),
    ({"a": ["x", {"b": f"y{HALF}"}]}, "a[1].b"),
    ({"a": {HALF: 1}}, "a.\\ud800"),
    ([1, None, HALF], "[2]"),
)
def test_its_place(value, place):
    assert surrogate_in(value) == place
