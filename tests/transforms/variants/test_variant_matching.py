"""Variants found, services matched, dialogue files listed."""

import copy

import msgspec
import pytest
from kit import cases, raised, write
from variant_corpora import BUS, BUS_NAMES, DIALOGUE, NAMES, TAXI, TAXI_NAMES

from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_root
from parapet.transforms.variants.matching import find_variants, mapping_bytes, match_folders

RAW = msgspec.to_builtins([TAXI, BUS])


def renamed(service, names):
    raw = msgspec.to_builtins(service)
    raw["service_name"] = names.service
    for kind, new in (("slots", names.slots), ("intents", names.intents)):
        for element in raw[kind]:
            element["name"] = new[element["name"]]
    return raw


def written_variant(folder, change):
    """Writes the variant of train and test that a change has made of VARIANT."""
    raw = copy.deepcopy(VARIANT)
    change(raw)
    for split, n in (("train", 2), ("test", 1)):
        write(folder / split / "schema.json", raw[:n])
    return raw


VARIANT = [renamed(TAXI, TAXI_NAMES), renamed(BUS, BUS_NAMES)]


@pytest.fixture
def corpus(tmp_path):
    """Both services in train, one in test; v1 of both, v2 and v10 empty but for their schemas."""
    for split, n in (("train", 2), ("test", 1)):
        write(tmp_path / "sgd" / split / "schema.json", RAW[:n])
        write(tmp_path / "sgd" / split / "dialogues_001.json", [DIALOGUE] * n)
        for variant in ("v1", "v2", "v10"):
            write(tmp_path / "variants" / variant / split / "schema.json", VARIANT[:n])
    write(tmp_path / "variants" / ".hidden" / "v1" / "schema.json", [])
    (tmp_path / "variants" / "notes").mkdir()
    return tmp_path


def matches(corpus, *wanted):
    return match_folders(find_variants(corpus / "variants", wanted), read_root(corpus / "sgd"))


def problems(corpus, *wanted):
    return [line for matched in matches(corpus, *wanted).values() for line in matched.problems]


def test_variants_in_natural_order_all_or_those_wanted(corpus):
    variants = corpus / "variants"
    assert list(find_variants(variants)) == ["v1", "v2", "v10"]
    assert list(find_variants(variants, ["v10", "v1"])) == ["v1", "v10"]
    assert find_variants(variants / "v2") == {"v2": variants / "v2"}
    for folder, wanted, said in (
        (variants, ["v3"], "there is no variant 'v3' (found: v1, v2, v10)"),
        (variants / "notes", [], "contains no variants"),
        (corpus / "none", [], "there is no such folder"),
    ):
        assert said in str(raised(InputError, find_variants, folder, wanted))


def test_all_mismatches_are_listed_with_their_files(corpus):
    variants = corpus / "variants"
    bad = copy.deepcopy(VARIANT)
    bad[0]["slots"].pop()
    write(variants / "v1/train/schema.json", bad)
    write(variants / "v2/train/schema.json", VARIANT[:1])
    (variants / "v10/test/schema.json").unlink()
    assert problems(corpus) == [
        # v1 has it two ways: neither can be chosen.
        f"{variants}/v1: train/schema.json: service 'Taxi_1': the variant's service 'Taxi_11' is invalid: "
        f"service 'Taxi_11' differs from the one in {variants}/v1/test/schema.json",
        f"{variants}/v1: test/schema.json: service 'Taxi_1': the variant's service 'Taxi_11' is invalid: "
        f"service 'Taxi_11' differs from the one in {variants}/v1/train/schema.json",
        f"{variants}/v2: train/schema.json: service 'Bus_1': the variant has no service 'Bus_11'",
        f"{variants}/v10: test/schema.json: the variant has no such split, only train/schema.json",
    ]
    of_variants = matches(corpus)
    v1, v2, v10 = (matched.splits["train"] for matched in of_variants.values())
    assert (list(v1.names), list(v2.names), list(v10.names)) == (["Bus_1"], ["Taxi_1"], ["Taxi_1", "Bus_1"])
    assert of_variants["v10"].splits["test"].bad == {"Taxi_1": "the variant has no such split, only train/schema.json"}


@cases(
    "change reason",
    (lambda raw: raw["slots"].pop(), "has 3 slots, the original 4"),
    (lambda raw: raw["intents"].append({**raw["intents"][0], "name": "New"}), "has 3 intents, the original 2"),
    (lambda of: of["slots"][1].update(name="from"), "the variant's service 'Taxi_11' is invalid: [0].slots[0].name: "),
    (lambda raw: raw["slots"].reverse(), "'to' is not categorical, but 'pooled' in the variant is categorical"),
    (lambda raw: raw.update(service_name="../../Taxi_11"), "the variant has no service 'Taxi_11'"),
    (lambda raw: raw.update(service_name="Bus_11"), "the variant has no service 'Taxi_11'"),
)
def test_a_service_that_does_not_match(corpus, change, reason):
    bad = written_variant(corpus / "variants/v1", lambda raw: change(raw[0]))
    if "../" in bad[0]["service_name"]:
        write(corpus / "variants/v1/test/schema.json", VARIANT[:1])
    assert reason in "\n".join(problems(corpus, "v1"))


def test_a_mapping_is_sorted_by_variant_and_service():
    data = mapping_bytes({"v2": NAMES, "v1": {"Taxi_1": TAXI_NAMES}})
    assert [*msgspec.json.decode(data)] == ["v1", "v2"]
