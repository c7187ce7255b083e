"""Variants found, services matched, dialogue files listed."""

import copy

import msgspec
import pytest
from kit import cases, raised, write
from variant_corpora import BUS, BUS_NAMES, DIALOGUE, NAMES, TAXI, TAXI_NAMES

from parapet.schemas.errors import InputError
from parapet.transforms.variants.matching import find_mapping, find_variants, make_plan, mapping_bytes

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


def plan_of(corpus, *wanted, mapped=None):
    return make_plan(corpus / "sgd", find_variants(corpus / "variants", wanted), mapped)


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
    plan = plan_of(corpus)
    assert plan.problems == [
        # v1 has it two ways: neither can be chosen.
        f"{variants}/v1: train/schema.json: service 'Taxi_1': the variant's service 'Taxi_11' is invalid: "
        f"service 'Taxi_11' differs from the one in {variants}/v1/test/schema.json",
        f"{variants}/v1: test/schema.json: service 'Taxi_1': the variant's service 'Taxi_11' is invalid: "
        f"service 'Taxi_11' differs from the one in {variants}/v1/train/schema.json",
        f"{variants}/v2: train/schema.json: service 'Bus_1': the variant has no service 'Bus_11'",
        f"{variants}/v10: test/schema.json: the variant has no such split, only train/schema.json",
    ]
    v1, v2, v10 = plan.splits["train"].variants
    assert (list(v1.names), list(v2.names), list(v10.names)) == (["Bus_1"], ["Taxi_1"], ["Taxi_1", "Bus_1"])
    assert plan.splits["test"].variants[2].bad == {"Taxi_1": "the variant has no such split, only train/schema.json"}


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
    plan = plan_of(corpus, "v1")
    assert any(reason in problem for problem in plan.problems), plan.problems


def test_a_recorded_mapping_is_found_used_and_checked(corpus):
    variants = corpus / "variants"
    written_variant(variants / "v1", lambda raw: raw[0]["slots"].reverse())
    assert find_mapping(variants, "auto") is None
    assert plan_of(corpus, "v1").problems
    (variants / "mapping.json").write_bytes(mapping_bytes({"v1": NAMES}))
    assert find_mapping(variants, "position") is None
    mapped = find_mapping(variants, "auto")
    assert mapped == find_mapping("elsewhere", str(variants / "mapping.json")) == {"v1": NAMES}
    plan = plan_of(corpus, "v1", mapped=mapped)
    assert (plan.problems, plan.mapped) == ([], {"v1": NAMES})
    first, *_ = plan_of(corpus, "v2", mapped=mapped).problems
    assert first.endswith("service 'Taxi_1': the mapping does not contain it")
    both = {"v1": {"Taxi_1": TAXI_NAMES, "Bus_1": TAXI_NAMES}}
    assert plan_of(corpus, "v1", mapped=both).problems == [
        f"{variants}/v1: train/schema.json: service 'Bus_1': 'Taxi_11' is the counterpart of 'Taxi_1' already"
    ]
    raised(InputError, find_mapping, variants, "none.json", match="there is no such file")


def test_dialogues_without_schema_and_schemas_without_dialogues(corpus):
    write(corpus / "sgd/dev/dialogues_001.json", [DIALOGUE])
    no_schema = r"contains dialogues, but no schema\.json: add the schema of their services"
    raised(InputError, plan_of, corpus, match=no_schema)
    raised(InputError, make_plan, corpus / "variants/v1", {}, None, match="contains no dialogues")


def test_remarks(corpus):
    written_variant(corpus / "variants/v1", lambda raw: raw[0]["slots"][0].update(name="intent"))
    remark = "v1: Taxi_1: 'to' is now called 'intent', a name that has a special meaning in actions"
    assert plan_of(corpus, "v1").remarks == [remark]
