"""``parapet rewrite`` as a person runs it."""

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import files_of

from benchmarks.rewrite_reference import rewrite as reference
from parapet.pipelines.main import main
from parapet.schemas import layout
from parapet.transforms.variants.matching import compose_variant


def variant_of(raw: dict[str, Any], variant: int) -> dict[str, Any]:
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
            place.parent.mkdir(parents=True)
            place.write_bytes(layout.schema_bytes([variant_of(raw, k) for raw in split.raw]))
    return tmp_path


def flags_of(corpus: Path, *flags: str, out: str = "out") -> list[str]:
    places = ["--sgd", str(corpus / "sgd"), "--variants", str(corpus / "variants"), "--output", str(corpus / out)]
    return ["rewrite", *places, *flags]


def run(corpus: Path, *flags: str, out: str = "out") -> int:
    return main(flags_of(corpus, *flags, out=out))


def edit(path: Path, change: Callable[[Any], object]) -> None:
    what = json.loads(path.read_bytes())
    change(what)
    path.write_text(json.dumps(what))


def letters_of(out: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (out / "dead_letters.jsonl").read_text().splitlines()]


def test_the_same_as_a_plain_reference_and_what_is_said(corpus, capsys):
    assert run(corpus) == 0
    reference(corpus / "sgd", corpus / "variants", corpus / "reference")
    found = files_of(corpus / "out")
    expected = files_of(corpus / "reference")
    assert {name: data for name, data in found.items() if "/" in name} == expected
    others = {"run.json", "mapping.json", "dead_letters.jsonl", "statistics.json", "README.md", "report.html"}
    assert set(found) - set(expected) == others
    assert found["dead_letters.jsonl"] == b""
    told = capsys.readouterr()
    assert told.out.splitlines() == ["v1: 40 rewritten, 0 left out", "v2: 40 rewritten, 0 left out"]
    manifest = json.loads(found["run.json"])
    assert set(manifest["files"]) == set(found) - {"run.json"}
    of_variant = {"dialogues": 40, "left_out": 0}
    assert json.loads(found["statistics.json"])["sets"] == {"v1": of_variant, "v2": of_variant}
    assert manifest["options"]["matched_by"] == "position"
    names = json.loads(found["mapping.json"])["v1"]["Gyms_1"]
    assert names["service"] == "Gyms_11"
    assert list(names["slots"])[1:] == list(names["slots"].values())[:-1]


def test_the_output_is_a_set_of_corpora_and_of_variants(corpus):
    """It can be read as a corpus, and what was recorded leads back to the original."""
    from parapet.schemas.dialogue import problems_of, read_dialogues

    assert run(corpus, "--quiet") == 0
    out = corpus / "out"
    for variant in ("v1", "v2"):
        services = layout.services_by_name(layout.read_root(out / variant))
        for split in layout.SPLITS:
            for path in layout.dialogue_files(out / variant, split):
                found = read_dialogues(path)
                assert [list(problems_of(dialogue, services)) for dialogue in found] == [[]] * len(found)
    recorded = json.loads((out / "mapping.json").read_bytes())["v1"]
    back = {
        of["service"]: {"service": service}
        | {k: {new: old for old, new in of[k].items()} for k in ("intents", "slots")}
        for service, of in recorded.items()
    }
    (corpus / "back.json").write_text(json.dumps({"sgd": back}))
    again = ["--sgd", str(out / "v1"), "--variants", str(corpus / "sgd"), "--mapping", str(corpus / "back.json")]
    assert main(["rewrite", *again, "--output", str(corpus / "back"), "--quiet"]) == 0
    originals = {name: data for name, data in files_of(corpus / "sgd").items() if "dialogues_" in name}
    assert {name: (corpus / "back/sgd" / name).read_bytes() for name in originals} == originals
    assert (
        main(
            [
                "rewrite",
                *flags_of(corpus, out="same")[1:3],
                "--variants",
                str(out),
                "--output",
                str(corpus / "same"),
                "--quiet",
            ]
        )
        == 0
    )
    same, first = files_of(corpus / "same"), files_of(out)
    assert json.loads(same.pop("run.json"))["options"]["matched_by"] == "mapping"
    del first["run.json"]
    assert b"| matched\\_by | mapping |" in same.pop("README.md")
    assert b"| matched\\_by | position |" in first.pop("README.md")
    del same["report.html"], first["report.html"]
    assert same == first


def test_some_variants_only_and_one_alone(corpus):
    assert run(corpus, "--variant", "v2", "--quiet") == 0
    whole = files_of(corpus / "out")
    assert {name.partition("/")[0] for name in whole if "/" in name} == {"v2"}
    alone = ["--sgd", str(corpus / "sgd"), "--variants", str(corpus / "variants/v2"), "--output", str(corpus / "alone")]
    assert main(["rewrite", *alone, "--quiet"]) == 0
    assert files_of(corpus / "alone") == whole


def test_mismatches_are_told_and_their_dialogues_are_held_against_the_limit(corpus, capsys):
    variants = corpus / "variants"
    for split in ("train", "dev", "test"):
        edit(variants / "v1" / split / "schema.json", lambda schema: [s["slots"].reverse() for s in schema[:1]])
    edit(variants / "v2/test/schema.json", lambda schema: schema.pop())
    assert run(corpus) == 1
    *told, last = capsys.readouterr().err.splitlines()
    assert all(line.startswith(f"warning: does not match: {variants}/v") and ": service '" in line for line in told)
    place = f"{variants}/v2: test/schema.json"
    assert told[-1].endswith(f"{place}: service 'Repairs_1': the variant has no service 'Repairs_12'")
    assert last.startswith(
        "error: 18 of 40 dialogues of v1 and 5 of 40 dialogues of v2 could not be rewritten, over --max_bad 1%, so "
        "nothing was published: bad_service 23; the first: dev/dialogues_001.json: dialogue 1_00004: bad_service: "
    )
    assert last.endswith("; and 19 more; mend these, or --max_bad 45% goes on without them")
    assert not (corpus / "out/run.json").exists()
    assert run(corpus, "--max_bad", "44.9%", "--quiet") == 1
    assert run(corpus, "--max_bad", "45%", "--quiet") == 0


def empty_variant(corpus: Path, variant: str) -> None:
    for split in ("train", "dev", "test"):
        edit(
            corpus / "variants" / variant / split / "schema.json",
            lambda services: [of.update(service_name=f"Other_{of['service_name']}") for of in services],
        )


def test_a_variant_of_which_nothing_matches_stops_the_run_at_once(corpus, capsys):
    empty_variant(corpus, "v1")
    assert run(corpus, "--max_bad", "99%") == 2
    told = capsys.readouterr().err
    assert (
        "--variants: no service of the corpus has a match in v1, so nothing was written; what does not match:" in told
    )
    assert "--max_bad" not in told
    assert not (corpus / "out").exists()
    assert run(corpus, "--max_bad", "100%") == 0
    assert "v1 has no dialogue at all: none of 40 can be used" in capsys.readouterr().err
    assert [path.name for path in (corpus / "out/v1").rglob("dialogues_*")] == []
    empty_variant(corpus, "v2")
    assert run(corpus, "--max_bad", "100%", out="none") == 2
    assert "has a match in v1, v2, so nothing" in capsys.readouterr().err


def test_what_is_left_out_is_not_lost(corpus, capsys):
    for split in ("train", "dev", "test"):
        edit(corpus / "variants/v2" / split / "schema.json", lambda schema: schema.__delitem__(0))
    assert run(corpus, "--max_bad", "100%") == 0
    letters = letters_of(corpus / "out")
    gone = {letter["reason"] for letter in letters}
    assert all(reason.startswith("bad_service: '") and "the variant has no service" in reason for reason in gone)
    assert {letter["variant"] for letter in letters} == {"v2"}
    dead = {(letter["split"], letter["file"], letter["dialogue_id"]) for letter in letters}
    assert 0 < len(dead) == len(letters)
    written = set()
    for path in (corpus / "sgd").glob("*/dialogues_*.json"):
        split, file = path.parts[-2:]
        ids = [dialogue["dialogue_id"] for dialogue in json.loads(path.read_bytes())]
        here = corpus / "out/v2" / split / file
        there = [dialogue["dialogue_id"] for dialogue in json.loads(here.read_bytes())] if here.exists() else []
        assert there == [name for name in ids if (split, file, name) not in dead]
        written |= set(there)
    statistics = json.loads((corpus / "out/statistics.json").read_bytes())
    v1, v2 = statistics["sets"].values()
    assert v1["dialogues"] == statistics["dialogues"] == v2["dialogues"] + v2["left_out"]
    told = capsys.readouterr()
    left = f"left out: {len(letters)} of 40 dialogues of v2 (bad_service {len(letters)})"
    assert f"{left}; see {corpus}/out/dead_letters.jsonl" in told.err


def bad_slot(dialogues: list[Any]) -> None:
    next(f for t in dialogues[1]["turns"] for f in t["frames"] if "state" in f)["state"]["slot_values"]["gone"] = ["x"]


@pytest.mark.parametrize(
    ("spoil", "said", "letter"),
    [
        (
            lambda path: edit(path, bad_slot),
            "dev/dialogues_001.json: dialogue 1_00001: turns[0].frames[0]: unknown_slot: service '",
            ("v1", "1_00001", "turns[0].frames[0]", "unknown_slot: service '"),
        ),
        (
            lambda path: edit(path, lambda d: d[2].update(services=["None_1"])),
            "unknown_service: no schema has a service 'None_1'",
            ("v1", "1_00002", "services[0]", "unknown_service: no schema has a service 'None_1'"),
        ),
        (
            lambda path: edit(path, lambda d: d.insert(0, ["strange"])),
            "dev/dialogues_001.json: dialogue [0]: not_sgd: Expected `object`, got `array`",
            ("v1", "[0]", "", "not_sgd: Expected `object`, got `array`"),
        ),
        (
            lambda path: path.write_bytes(path.read_bytes()[:5000]),
            "dev/dialogues_001.json: line ",
            ("", "", "line ", "broken_file: not JSON: "),
        ),
        (lambda path: path.write_bytes(b"\xff\xfe[]"), "not UTF-8 at byte 0", ("", "", "", "broken_file: not UTF-8")),
        (lambda path: path.write_text("{}"), "found dict", ("", "", "", "broken_file: expected a list of dialogues")),
    ],
)
def test_a_bad_dialogue_or_file_fails_the_run_or_is_left_out(spoil, said, letter, corpus, capsys):
    assert run(corpus, "--quiet", out="good") == 0
    spoil(corpus / "sgd/dev/dialogues_001.json")
    capsys.readouterr()
    assert run(corpus, "--quiet") == 1
    told = capsys.readouterr().err
    what = (
        "1 of 4 files"
        if letter[3].startswith("broken")
        else "1 of 4[01] dialogues of v1 and 1 of 4[01] dialogues of v2"
    )
    assert re.search(f"{what} could not be rewritten, over --max_bad 1%, so nothing was published: ", told), told
    assert said in told
    assert "Traceback" not in told
    assert len(told.splitlines()) == 1
    assert not (corpus / "out/run.json").exists()
    assert run(corpus, "--quiet", "--max_bad", "100%") == 0
    found = letters_of(corpus / "out")[0]
    assert (found["split"], found["file"]) == ("dev", "dialogues_001.json")
    for value, start in zip((found[k] for k in ("variant", "dialogue_id", "where", "reason")), letter, strict=True):
        assert value == start if not start else value.startswith(start)
    good = files_of(corpus / "good")
    for name, data in files_of(corpus / "out").items():
        if "/dialogues_" in name and "/dev/" not in name:
            assert data == good[name]
    if letter[1].startswith("1_"):
        kept = json.loads((corpus / "out/v1/dev/dialogues_001.json").read_bytes())
        whole = json.loads(good["v1/dev/dialogues_001.json"])
        assert kept == [dialogue for dialogue in whole if dialogue["dialogue_id"] != letter[1]]
    else:
        assert (corpus / "out/v1/dev/dialogues_001.json").exists() == (letter[1] == "[0]")


def test_many_bad_dialogues_are_counted_and_the_first_told(corpus, capsys):
    def strip(dialogues: list[Any]) -> None:
        for dialogue in dialogues[:5]:
            del dialogue["turns"]

    edit(corpus / "sgd/dev/dialogues_001.json", strip)
    assert run(corpus, "--quiet") == 1
    told = capsys.readouterr().err
    assert "5 of 40 dialogues of v1 and 5 of 40 dialogues of v2 could not be rewritten" in told
    assert "; and 2 more" in told
    assert told.count("Object missing required field `turns`") == 3


def test_unusual_files_come_out_as_they_went_in(corpus):
    """A byte order mark, letters beyond ASCII, an empty file, no newline, and keys of other programs."""
    dev = corpus / "sgd/dev"
    dialogues = json.loads((dev / "dialogues_001.json").read_bytes())
    dialogues[0]["turns"][0]["utterance"] = "Ünlike \u2028 \x7f 😀"
    dialogues[0]["mine"] = {"gym_name": None, "n": [1, -2, 2**70]}
    (dev / "dialogues_001.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(dialogues, ensure_ascii=False).encode())
    (dev / "dialogues_002.json").write_text("[]")
    assert run(corpus, "--quiet") == 0
    (dev / "dialogues_001.json").write_text(json.dumps(dialogues))
    reference(corpus / "sgd", corpus / "variants", corpus / "reference")
    found = files_of(corpus / "out")
    assert {name: data for name, data in found.items() if "/" in name} == files_of(corpus / "reference")
    assert found["v1/dev/dialogues_002.json"] == b"[]\n"


def test_no_name_leads_out_of_the_output(corpus, tmp_path):
    for split in ("train", "dev", "test"):
        edit(
            corpus / "variants/v1" / split / "schema.json",
            lambda schema: schema[0].update(service_name="../../" + schema[0]["service_name"]),
        )
    edit(corpus / "sgd/train/dialogues_001.json", lambda d: d[0].update(dialogue_id="../../x"))
    shutil.copy(corpus / "sgd/dev/dialogues_001.json", corpus / "sgd/dev/dialogues_..%2F001.json")
    before = set(tmp_path.rglob("*"))
    assert run(corpus, "--quiet", "--max_bad", "100%") == 0
    assert not [path for path in set(tmp_path.rglob("*")) - before if not path.is_relative_to(corpus / "out")]
    assert not list((corpus / "out").rglob("*%2F*"))


def test_intents_that_no_schema_has_are_told(corpus, capsys):
    """MultiWOZ 2.2 has find_taxi, which its schema lacks; the published generator leaves such a name as it is."""

    def rename(dialogues: list[Any]) -> None:
        dialogues[0]["turns"][0]["frames"][0]["state"]["active_intent"] = "find_taxi"

    edit(corpus / "sgd/dev/dialogues_001.json", rename)
    assert run(corpus) == 0
    assert "unchanged: 1 intent that no schema has" in capsys.readouterr().err
    found = json.loads((corpus / "out/v1/dev/dialogues_001.json").read_bytes())
    assert found[0]["turns"][0]["frames"][0]["state"]["active_intent"] == "find_taxi"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--variant", "v1,v7"], "there is no variant 'v7' (found: v1, v2)"),
        (["--mapping", "none.json"], "none.json: --mapping: there is no such file"),
        (["--varant", "v1"], "unknown flag --varant: did you mean --variant?"),
        (["--sgd", "nowhere"], "nowhere: --sgd: there is no such file or folder"),
        (["--variants", "nowhere"], "nowhere: --variants: there is no such folder"),
        (["--output", "{corpus}/variants"], "the same folder as --variants"),
        (["--output", "{corpus}/sgd"], "the same folder as --sgd"),
    ],
)
def test_mistakes_on_the_command_line(flags, said, corpus, capsys):
    before = copy.deepcopy(files_of(corpus))
    assert run(corpus, *(flag.format(corpus=corpus) for flag in flags)) == 2
    assert said in capsys.readouterr().err
    assert files_of(corpus) == before


def test_an_output_of_another_pipeline_is_left_alone(corpus, capsys):
    (corpus / "out").mkdir()
    (corpus / "out/run.json").write_text(json.dumps({"pipeline": "compose", "files": {}}))
    assert run(corpus, "--quiet") == 2
    assert "holds what 'parapet compose' made" in capsys.readouterr().err


def test_a_chain_of_names_as_today_s_published_generator_has_it(real_data, tmp_path):
    """Events_1 in v3, where new names are other slots' old ones."""
    dialogues = real_data / "sgd_more/dev/dialogues_007.json"
    (tmp_path / "sgd/dev").mkdir(parents=True)
    shutil.copy(dialogues, tmp_path / "sgd/dev")
    shutil.copy(real_data / "sgd/dev/schema.json", tmp_path / "sgd/dev")
    flags = ["--sgd", str(tmp_path / "sgd"), "--variants", str(real_data / "sgd/sgd_x/data"), "--variant", "v3"]
    assert main(["rewrite", *flags, "--output", str(tmp_path / "out"), "--quiet"]) == 0
    check = [sys.executable, str(real_data / "checks/check_rewrite.py"), str(tmp_path / "out")]
    told = subprocess.run([*check, str(real_data / "sgd_more/expected")], capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (0, "1 of 1 files equal\n")


def test_the_published_dialogues(real_data, tmp_path):
    sgd = real_data / "sgd"
    flags = ["--sgd", str(sgd), "--variants", str(sgd / "sgd_x/data"), "--output", str(tmp_path / "out"), "--quiet"]
    assert main(["rewrite", *flags]) == 0
    check = [sys.executable, str(real_data / "checks/check_rewrite.py"), str(tmp_path / "out"), str(sgd / "expected")]
    told = subprocess.run(check, capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (0, "2 of 2 files equal\n")
    # A loop without deep copies, a file at a time, or this would take minutes.
    (tmp_path / "sgd").mkdir()
    for split in ("train", "dev"):
        shutil.copytree(sgd / split, tmp_path / "sgd" / split)
    for path in (tmp_path / "sgd").glob("*/dialogues_*.json"):
        edit(path, lambda dialogues: dialogues.__delitem__(slice(12, None)))
    reference(tmp_path / "sgd", sgd / "sgd_x/data", tmp_path / "reference")
    flags[1], flags[5] = str(tmp_path / "sgd"), str(tmp_path / "short")
    assert main(["rewrite", *flags]) == 0
    found = files_of(tmp_path / "short")
    assert {name: data for name, data in found.items() if "/" in name} == files_of(tmp_path / "reference")
