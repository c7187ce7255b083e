"""``parapet rewrite`` as a person runs it."""

import json
import shutil
import subprocess
import sys

import pytest
from kit import THOROUGH, edit, files_of, run, write

from benchmarks.rewrite_reference import rewrite as reference
from parapet.schemas import layout
from parapet.transforms.variants.matching import compose_variant


def variant_of(raw, variant):
    """v1: every slot has its neighbour's name, the first two intents swap; v2: new names."""
    slots = [slot["name"] for slot in raw["slots"]]
    intents = [intent["name"] for intent in raw["intents"]]
    if variant == 1:
        slots, intents = slots[1:] + slots[:1], intents[1::-1] + intents[2:]
    else:
        slots, intents = [f"a_{name}" for name in slots[::-1]], [f"Do{name}" for name in intents]
    names = {f"slot_{i}": name for i, name in enumerate(slots)} | {f"intent_{i}": n for i, n in enumerate(intents)}
    return compose_variant(raw, variant, names, dict.fromkeys((*names, "service"), "Ünlike"))


@pytest.fixture
def corpus(tmp_path, sample):
    """The sample with two variants."""
    shutil.copytree(sample, tmp_path / "sgd")
    for split in layout.read_root(sample):
        for k in (1, 2):
            place = tmp_path / "variants" / f"v{k}" / split.relative_path
            write(place, layout.schema_bytes([variant_of(raw, k) for raw in split.raw]))
    return tmp_path


def rewrite(corpus, *flags, status=0):
    given = ["--sgd", corpus / "sgd", "--variants", corpus / "variants", "--output", corpus / "out"]
    return run("rewrite", *given, *flags, status=status)


def test_the_same_as_a_plain_reference_and_what_is_said(corpus):
    def rename(dialogues):
        dialogues[0]["turns"][0]["frames"][0]["state"]["active_intent"] = "find_taxi"

    # MultiWOZ 2.2 has find_taxi, which its schema lacks; the published generator leaves such a name as it is.
    edit(corpus / "sgd/dev/dialogues_001.json", rename)
    told = rewrite(corpus)
    reference(corpus / "sgd", corpus / "variants", corpus / "reference")
    found, expected = told.files, files_of(corpus / "reference")
    assert {name: data for name, data in found.items() if "/" in name} == expected
    assert found["dead_letters.jsonl"] == b""
    assert told.output.splitlines() == [f"{name}: 40 dialogues rewritten, 0 left out" for name in ("v1", "v2")]
    of_variant = {"dialogues": 40, "left_out": 0}
    assert json.loads(found["statistics.json"])["sets"] == {"v1": of_variant, "v2": of_variant}
    names = json.loads(found["mapping.json"])["v1"]["Gyms_1"]
    assert (names["service"], list(names["slots"])[1:]) == ("Gyms_11", list(names["slots"].values())[:-1])


def test_no_name_leads_out_of_the_output(corpus, tmp_path):
    for split in ("train", "dev", "test"):
        schema = corpus / "variants/v1" / split / "schema.json"
        edit(schema, lambda schema: schema[0].update(service_name="../../" + schema[0]["service_name"]))
    edit(corpus / "sgd/train/dialogues_001.json", lambda d: d[0].update(dialogue_id="../../x"))
    shutil.copy(corpus / "sgd/dev/dialogues_001.json", corpus / "sgd/dev/dialogues_..%2F001.json")
    before = set(tmp_path.rglob("*"))
    rewrite(corpus, "--max_bad", "100%")
    assert not [path for path in set(tmp_path.rglob("*")) - before if not path.is_relative_to(corpus / "out")]
    assert not list((corpus / "out").rglob("*%2F*"))


def test_a_variant_that_does_not_exist(corpus):
    assert "there is no variant 'v7' (found: v1, v2)" in rewrite(corpus, "--variant", "v1,v7", status=2).errors
    assert not (corpus / "out").exists()


def test_a_chain_of_names_as_today_s_published_generator_has_it(real_data, tmp_path):
    """Events_1 in v3, where new names are other slots' old ones."""
    (tmp_path / "sgd/dev").mkdir(parents=True)
    shutil.copy(real_data / "sgd_more/dev/dialogues_007.json", tmp_path / "sgd/dev")
    shutil.copy(real_data / "sgd/dev/schema.json", tmp_path / "sgd/dev")
    given = {"sgd": tmp_path / "sgd", "variants": real_data / "sgd/sgd_x/data", "variant": "v3"}
    run("rewrite", **given, output=tmp_path / "out")
    check = [sys.executable, str(real_data / "checks/check_rewrite.py"), str(tmp_path / "out")]
    told = subprocess.run([*check, str(real_data / "sgd_more/expected")], capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (0, "1 of 1 files equal\n")


def test_the_published_dialogues(real_data, tmp_path):
    """Compares two files with the published generator's, and the first dialogues of all with a plain reference."""
    sgd, root = real_data / "sgd", tmp_path / "sgd"
    for split in ("train", "dev"):
        shutil.copytree(sgd / split, root / split)
    for name in ("train/dialogues_001.json", "dev/dialogues_005.json"):  # the published output has the other two
        edit(root / name, lambda dialogues: dialogues[:12])
    variants = sgd / "sgd_x/data"
    run("rewrite", sgd=root, variants=variants, variant="v1,v5", output=tmp_path / "out")
    check = [sys.executable, str(real_data / "checks/check_rewrite.py"), str(tmp_path / "out"), str(sgd / "expected")]
    told = subprocess.run(check, capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (0, "2 of 2 files equal\n")
    for path in root.glob("*/dialogues_*.json"):
        edit(path, lambda dialogues: dialogues[: 12 if THOROUGH else 4])
    reference(root, variants, tmp_path / "reference")
    rewritten = run("rewrite", sgd=root, variants=variants, output=tmp_path / "short").files
    assert {name: data for name, data in rewritten.items() if "/" in name} == files_of(tmp_path / "reference")
