"""Sets are compared on the dialogues that all of them have; too few of them are refused."""

import shutil

import pytest
from kit import cases, edit, json_of, run

from parapet.schemas.layout import read_root
from parapet.transforms.variants.matching import compose_variant

FILE = "test/dialogues_001.json"


@pytest.fixture
def folder(sample, tmp_path):
    """The sample's test split, two sets made from it, and predictions for all: their own annotation."""
    for name in ("original", "sets/v1", "sets/v2", "states/original", "states/v1", "states/v2"):
        shutil.copytree(sample / "test", tmp_path / name / "test")
    return tmp_path


def cut(n):
    return lambda dialogues: dialogues[:n]


def more(dialogues):
    return [*dialogues, *({**dialogue, "dialogue_id": f"new {i}"} for i, dialogue in enumerate(dialogues * 4))]


def evaluate(folder, task, *flags, status=0):
    sets = [f"{name}={folder}/sets/{name}" for name in ("v1", "v2")]
    return run(
        *("evaluate", "--task", task, *flags, "--sets", *sets),
        reference=folder / "original", output=folder / "out", status=status,
    )  # fmt: skip


TASKS = [
    ("dst", "--model=names"),
    ("dst", "--predictions={}/states"),
    ("response", "--predictions=reference"),
    ("generation", "--predictions=reference"),
]


@pytest.mark.parametrize("argv", TASKS, ids=" ".join)
def test_only_dialogues_that_all_sets_have_are_scored(argv, folder):
    argv = [part.format(folder) for part in argv]
    edit(folder / "original" / FILE, cut(6))
    edit(folder / "states/original" / FILE, cut(6))
    whole = evaluate_alone(folder, argv)
    for name in ("sets/v1", "states/v1"):
        edit(folder / name / FILE, more)
    result = evaluate(folder, *argv)
    assert "the sets have different dialogues: only the 6 that all of them have are compared" in result.errors
    assert ", without 34 of v1, 2 of v2" in result.errors
    numbers = result.json("metrics.json")
    if argv[0] == "dst":
        sets = result.json("robustness.json")["sets"]
        frames = {name: of_set["failures"]["frames"] for name, of_set in sets.items()}
        assert len(set(frames.values())) == 1
        assert sets["v1"]["metrics"] == sets["original"]["metrics"] == numbers == whole
    else:
        assert numbers["v1"] == numbers["original"] == whole["#ALL"]
        assert {row["dialogue_id"] for row in result.rows("rows.parquet")} == ids(folder / "original" / FILE)


def evaluate_alone(folder, argv):
    result = run("evaluate", "--task", *argv, reference=folder / "original", output=folder / "alone")
    return result.json("metrics.json")


def ids(path):
    return {dialogue["dialogue_id"] for dialogue in json_of(path)}


@cases("keep n", (3, 3), (0, 0))
def test_too_few_dialogues_in_common_are_refused(keep, n, folder):
    edit(folder / "sets/v1" / FILE, cut(keep) if keep else lambda dialogues: more(dialogues)[8:])
    told = evaluate(folder, "dst", "--model=names", status=2).errors
    assert f"the sets have different dialogues: all of them have only {n} of the 8 of original" in told
    assert not (folder / "out").exists()


def test_variants_are_compared_with_the_original_on_the_same_dialogues(folder):
    """A further file of the variants, and one dialogue less in one of them."""
    schemas = read_root(folder / "original")[0]
    for n, name in enumerate(("v1", "v2"), 1):
        root = folder / "sets" / name / "test"
        names = [{f"slot_{i}": slot["name"] for i, slot in enumerate(raw["slots"])} for raw in schemas.raw]
        for raw, of_service in zip(schemas.raw, names, strict=True):
            of_service |= {f"intent_{i}": intent["name"] for i, intent in enumerate(raw["intents"])}
        texts = [dict.fromkeys((*of_service, "service"), "New") for of_service in names]
        variant = [compose_variant(raw, n, *of) for raw, *of in zip(schemas.raw, names, texts, strict=True)]
        path = root / "dialogues_001.json"
        text = path.read_text()
        for old, new in zip(schemas.raw, variant, strict=True):
            text = text.replace(f'"{old["service_name"]}"', f'"{new["service_name"]}"')
        path.write_text(text)
        edit(root / "schema.json", lambda _, variant=variant: variant)
        edit(path, cut(-1 if n == 1 else None))
        (root / "dialogues_002.json").write_text(path.read_text().replace('"dialogue_id": "', '"dialogue_id": "other '))
    flags = ["--task=dst", "--model=names", "--variants", folder / "sets"]
    result = run("evaluate", *flags, reference=folder / "original", output=folder / "out")
    assert "only the 7 that all of them have are compared, without 1 of original, 7 of v1, 9 of v2" in result.errors
    numbers = result.json("robustness.json")
    row = numbers["variants"]["table"]["#ALL_SERVICES"]
    assert (row["variants"], row["difference"], row["schema_sensitivity"]) == (row["original"], 0, 0)
    assert numbers["variants"]["dialogues"] == {"compared": 7, "original": 8}
