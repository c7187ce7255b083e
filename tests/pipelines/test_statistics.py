"""``parapet statistics`` as a person runs it."""

import copy
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from parapet.pipelines.main import main

FILES = ("statistics.json", "report.html", "run.json")


def a_service(name: str, slots: dict[str, str], intents: dict[str, str], description: str) -> dict[str, Any]:
    return {
        "service_name": name,
        "description": description,
        "slots": [
            {"name": slot, "description": text, "is_categorical": False, "possible_values": []}
            for slot, text in slots.items()
        ],
        "intents": [
            {
                "name": intent,
                "description": text,
                "is_transactional": False,
                "required_slots": list(slots)[:1],
                "optional_slots": {},
                "result_slots": list(slots),
            }
            for intent, text in intents.items()
        ],
    }


BANKS = a_service(
    "Banks_1",
    {"amount": "How much money to send", "city": "The city of the bank"},
    {"SendMoney": "Send money to a friend"},
    "Manage your money at the bank",
)
HOTELS = a_service(
    "Hotels_1",
    {"city": "The city of the hotel", "stars": "How many stars the hotel has"},
    {"FindHotel": "Find a hotel in a city"},
    "A service to find and to book a hotel",
)
TRAINS = a_service(
    "Trains_1", {"city": "City to go to"}, {"FindTrain": "Find a train to a city"}, "Travel by train in the country"
)


def variant_of(service: dict[str, Any], suffix: str, more: str) -> dict[str, Any]:
    """The service with ``more`` behind its names and descriptions."""
    text = json.dumps(service)
    for slot in service["slots"]:
        text = text.replace(f'"{slot["name"]}"', f'"{slot["name"]}_{more}"')
    made: dict[str, Any] = json.loads(text)
    made["service_name"] += suffix
    made["description"] += f" {more}"
    for element in made["slots"] + made["intents"]:
        element["description"] += f" {more}"
    for intent in made["intents"]:
        intent["name"] += more.capitalize()
    return made


def write(root: Path, **splits: list[dict[str, Any]]) -> Path:
    for split, services in splits.items():
        path = root / split / "schema.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(services))
    return root


@pytest.fixture
def corpus(tmp_path):
    """Banks in train, Hotels and Trains in test; v1 and v10 (which sorts behind v2) of all of them, v2 as well."""
    write(tmp_path / "sgd", train=[BANKS], test=[BANKS, HOTELS, TRAINS])
    for number, more in (("1", "now"), ("2", "today"), ("10", "eventually")):
        made = [variant_of(service, number, more) for service in (BANKS, HOTELS, TRAINS)]
        write(tmp_path / "variants" / f"v{number}", train=made[:1], test=made)
    (tmp_path / "variants" / "notes").mkdir()
    (tmp_path / "variants" / ".hidden" / "train").mkdir(parents=True)
    (tmp_path / "variants" / ".hidden" / "train" / "schema.json").write_text("half a fi")
    return tmp_path


def run(corpus: Path, *flags: str, out: str = "out", quiet: bool = True) -> int:
    argv = ["--sgd", str(corpus / "sgd"), "--variants", str(corpus / "variants"), "--output", str(corpus / out), *flags]
    return main(["statistics", *argv, *(["--quiet"] if quiet else [])])


def statistics_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "statistics.json").read_text())
    return found


def error_of(capfd: pytest.CaptureFixture[str]) -> str:
    return capfd.readouterr().err


def test_statistics(corpus, capfd):
    assert run(corpus, quiet=False) == 0
    found = statistics_of(corpus / "out")
    # city is Banks' too, twice; stars is not; no intent is.
    assert found["original"] == {"slot_names_seen": 0.666667, "intent_names_seen": 0.0}
    assert list(found["variants"]) == ["v1", "v2", "v10"]
    assert found["variants"]["v1"]["slot_names_seen"] == 0.0
    # Names grew by _now (4 letters) or Now (3): 1 - ratio = n / (2 length + n).
    lengths = [(len(name), more) for name, more in (("amount", 4), ("city", 4), ("city", 4), ("stars", 4), ("city", 4))]
    lengths += [(len(name), 3) for name in ("SendMoney", "FindHotel", "FindTrain")]
    expected = sum(more / (2 * length + more) for length, more in lengths) / len(lengths)
    assert found["variants"]["v1"]["name_distance"] == pytest.approx(expected, abs=1e-6)
    # One word more at the end of each description: of n-grams, all but the last of each match.
    words = [
        len(e["description"].split()) for one in (BANKS, HOTELS, TRAINS) for e in (one, *one["slots"], *one["intents"])
    ]
    matched = [sum(max(n - order + 1, 0) for n in words) for order in range(1, 5)]
    given = [sum(max(n - order + 2, 0) for n in words) for order in range(1, 5)]
    bleu = 100 * math.prod(hits / total for hits, total in zip(matched, given, strict=True)) ** 0.25
    for variant in ("v1", "v2", "v10"):
        assert found["variants"][variant]["description_bleu"] == pytest.approx(bleu, abs=1e-6)
    assert found["self_bleu"] == found["average"]["description_bleu"]
    assert set(found["average"]) == {"slot_names_seen", "intent_names_seen", "name_distance", "description_bleu"}
    assert (found["split"], found["services"], found["unseen_services"]) == ("test", 3, 2)
    assert found["services_without_variants"] == []
    assert "tok:intl" in found["bleu_signature"]
    said = capfd.readouterr().out.splitlines()
    assert said[0].split() == ["slots", "seen", "intents", "seen", "name", "distance", "description", "BLEU"]
    assert said[1].split() == ["original", "66.7%", "0.0%", "-", "-"]
    assert said[2].split()[:4] == ["v1", "0.0%", "0.0%", f"{expected:.3f}"]
    assert said[-1] == f"report: {corpus / 'out' / 'report.html'}"


def test_run_json_lists_the_files(corpus):
    assert run(corpus) == 0
    manifest = json.loads((corpus / "out" / "run.json").read_text())
    assert sorted(manifest["files"]) == ["report.html", "statistics.json"]
    assert manifest["pipeline"] == "statistics"
    assert manifest["options"] == {"split": "test", "variants": ["v1", "v2", "v10"], "tokenizer": "intl"}
    assert sorted(path.name for path in (corpus / "out").iterdir()) == sorted(FILES)


def test_report_page_shows_the_numbers(corpus):
    assert run(corpus) == 0
    page = (corpus / "out" / "report.html").read_text()
    distance = statistics_of(corpus / "out")["variants"]["v10"]["name_distance"]
    assert f"v10: here {distance:.2f}" in page
    assert "3 services in 3 variants." in page


def test_dev_is_taken_where_there_is_no_test(corpus):
    (corpus / "sgd" / "test").rename(corpus / "sgd" / "dev")
    assert run(corpus) == 0
    assert statistics_of(corpus / "out")["split"] == "dev"


def test_services_that_compose_left_out_are_named(corpus, capfd):
    for number, more in (("1", "now"), ("2", "today"), ("10", "eventually")):
        write(
            corpus / "variants" / f"v{number}", test=[variant_of(BANKS, number, more), variant_of(HOTELS, number, more)]
        )
    assert run(corpus, quiet=False) == 0
    found = statistics_of(corpus / "out")
    assert found["services_without_variants"] == ["Trains_1"]
    # The original's row is over the same services as the variants' rows: Hotels alone.
    assert found["original"] == {"slot_names_seen": 0.5, "intent_names_seen": 0.0}
    assert "services of the original that no variant has, not counted: Trains_1" in error_of(capfd)


def test_one_variant_in_a_single_file(corpus):
    variants = corpus / "single" / "de"
    variants.mkdir(parents=True)
    (variants / "schema.json").write_text(json.dumps([variant_of(HOTELS, "_de", "jetzt")]))
    assert run(corpus, "--variants", str(corpus / "single")) == 0
    found = statistics_of(corpus / "out")
    assert list(found["variants"]) == ["de"]
    assert found["self_bleu"] is None


def test_a_service_missing_from_one_variant(corpus, capfd):
    write(corpus / "variants" / "v2", test=[variant_of(BANKS, "2", "today"), variant_of(HOTELS, "2", "today")])
    assert run(corpus) == 2
    assert "service 'Trains_1' is in variant v1, but missing from variant v2" in error_of(capfd)
    assert not (corpus / "out").exists()


def test_another_number_of_slots(corpus, capfd):
    less = copy.deepcopy(variant_of(HOTELS, "2", "today"))
    dropped = less["slots"].pop()["name"]
    less["intents"][0]["result_slots"].remove(dropped)
    write(corpus / "variants" / "v2", test=[variant_of(BANKS, "2", "today"), less, variant_of(TRAINS, "2", "today")])
    assert run(corpus) == 2
    assert "'Hotels_12' of variant v2 and its original 'Hotels_1' differ in the number of slots: 1 and 2" in error_of(
        capfd
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--split", "dev"], "there is no dev/schema.json (found: train, test)"),
        (["--variants", "{0}/nowhere"], "{0}/nowhere: --variants: there is no such folder"),
        (["--variants", "{0}/variants/notes"], "no variants here: expected folders such as v1/train/schema.json"),
        (["--variants", "{0}/variants/v1"], "this is one corpus; give the folder that holds the variants' folders"),
        (["--sgd", "{0}/nowhere"], "{0}/nowhere: --sgd: there is no such file or folder"),
        (["--sgd", "{0}/variants"], "no schema here"),
        (["--output", "{0}/variants"], "the same folder as --variants"),
        (["--sgd", "{0}/variants/v2"], "no service of variant v1 stands for a service of the original"),
        (["--split", "train"], "invalid choice: 'train'"),
        (["--varaints", "x"], "unknown flag --varaints: did you mean --variants?"),
    ],
)
def test_wrong_flags(corpus, capfd, flags, message):
    assert run(corpus, *(flag.format(corpus) for flag in flags)) == 2
    assert message.format(corpus) in error_of(capfd)
    assert not (corpus / "out" / "run.json").exists()


def test_services_that_the_corpus_lacks_are_ignored_with_one_note(corpus, capfd):
    """The published variants have all services of SGD, whatever part of it the corpus is."""
    write(corpus / "sgd", test=[HOTELS])
    assert run(corpus, quiet=False) == 0
    assert error_of(capfd).count("the variants have 1 service that the corpus lacks, ignored: Trains_1\n") == 1
    for number, more in (("1", "now"), ("2", "today"), ("10", "eventually")):
        write(corpus / "variants" / f"v{number}", test=[variant_of(HOTELS, number, more)])
    assert run(corpus, out="cut", quiet=False) == 0
    assert "ignored" not in error_of(capfd)
    assert statistics_of(corpus / "out") == statistics_of(corpus / "cut")


def test_nothing_unseen_or_no_train(corpus, capfd):
    write(corpus / "sgd", train=[BANKS, HOTELS, TRAINS])
    assert main(["statistics", "--sgd", str(corpus / "sgd"), "--output", str(corpus / "alone")]) == 2
    assert "train has all services of test, so there are no unseen ones to measure" in error_of(capfd)
    (corpus / "sgd" / "train" / "schema.json").unlink()
    assert main(["statistics", "--sgd", str(corpus / "sgd"), "--output", str(corpus / "alone")]) == 2
    assert "there is no train/schema.json, so nothing can be seen in train" in error_of(capfd)


def test_variants_are_measured_without_a_train_split(corpus, capfd):
    assert run(corpus, out="whole") == 0
    (corpus / "sgd" / "train" / "schema.json").unlink()
    assert run(corpus, quiet=False) == 0
    assert "warning: there is no train/schema.json, so names seen in train are not counted\n" in error_of(capfd)
    whole, found = statistics_of(corpus / "whole"), statistics_of(corpus / "out")
    assert {row["slot_names_seen"] for row in (*found["variants"].values(), found["average"])} == {None}
    assert found["unseen_services"] == 0 < whole["unseen_services"]
    assert found["average"]["name_distance"] > 0


def test_variants_of_training_services_alone(corpus):
    """As the back-translated schemas of SGD-X: their distance is measured, and no names of unseen services."""
    for number, more in (("1", "now"), ("2", "today"), ("10", "eventually")):
        shutil.rmtree(corpus / "variants" / f"v{number}")
        write(corpus / "variants" / f"v{number}", train=[variant_of(BANKS, number, more)])
    assert run(corpus) == 0
    found = statistics_of(corpus / "out")
    assert (found["services"], found["unseen_services"]) == (1, 0)
    assert {row["slot_names_seen"] for row in (*found["variants"].values(), found["average"])} == {None}
    assert found["average"]["name_distance"] > 0
    assert 0 < found["average"]["description_bleu"] < 100
    page = (corpus / "out" / "report.html").read_text()
    assert "counted over no service: train has all" in page


def test_without_variants_the_names_seen_of_the_original(corpus, capfd):
    """The first column of Table 1: SGD-X says how many names of SGD's unseen services are not new."""
    out = corpus / "out"
    assert main(["statistics", "--sgd", str(corpus / "sgd"), "--output", str(out)]) == 0
    found = statistics_of(out)
    assert found["original"] == {"slot_names_seen": 0.666667, "intent_names_seen": 0.0}
    assert (found["variants"], found["average"], found["self_bleu"]) == ({}, {}, None)
    assert (found["services"], found["unseen_services"], found["services_without_variants"]) == (3, 2, [])
    assert capfd.readouterr().out.splitlines()[:2] == [
        "          slots seen  intents seen",
        "original       66.7%          0.0%",
    ]
    assert "slots seen" in (out / "report.html").read_text()


def test_another_tokenizer(corpus):
    """``intl`` splits "user's", ``13a`` does not."""
    for variant in ("v1", "v2", "v10"):
        path = corpus / "variants" / variant / "test" / "schema.json"
        path.write_text(path.read_text().replace("in a city", "in the user's city"))
    assert run(corpus) == 0
    assert run(corpus, "--tokenizer", "13a", out="other") == 0
    ours, other = statistics_of(corpus / "out"), statistics_of(corpus / "other")
    assert "tok:13a" in other["bleu_signature"]
    assert ours["variants"]["v1"]["description_bleu"] != other["variants"]["v1"]["description_bleu"]
    assert ours["variants"]["v1"]["name_distance"] == other["variants"]["v1"]["name_distance"]


def test_help_is_quick():
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "parapet", "statistics", "--help"], capture_output=True
    )
    assert done.returncode == 0
    assert b"--variants DIR" in done.stdout
    for heavy in (b"apache_beam", b"sacrebleu", b"jinja2"):
        assert heavy not in done.stderr
    assert time.monotonic() - started < 5  # half a second on an idle machine; tests run beside others


@pytest.mark.skipif(
    "PARAPET_DATA" not in os.environ, reason="set PARAPET_DATA to a folder with sgd/ and sgd/sgd_x/data"
)
def test_sgd_x_dev_against_train(tmp_path):
    sgd = Path(os.environ["PARAPET_DATA"]) / "sgd"
    flags = ["--sgd", str(sgd), "--variants", str(sgd / "sgd_x" / "data"), "--split", "dev", "--output", str(tmp_path)]
    assert main(["statistics", "--quiet", *flags]) == 0
    found = statistics_of(tmp_path)
    rows = [found["variants"][f"v{k}"] for k in range(1, 6)]
    assert (found["services"], found["unseen_services"]) == (34, 8)
    assert found["original"] == pytest.approx({"slot_names_seen": 0.627, "intent_names_seen": 0.8}, abs=5e-4)
    assert [row["slot_names_seen"] for row in rows] == pytest.approx([0.119, 0.134, 0.045, 0.030, 0.0], abs=5e-4)
    assert [row["intent_names_seen"] for row in rows] == [0.0] * 5
    assert [row["name_distance"] for row in rows] == pytest.approx([0.281, 0.409, 0.476, 0.545, 0.598], abs=5e-4)
    assert [row["description_bleu"] for row in rows] == pytest.approx([18.33, 12.10, 5.78, 2.30, 1.25], abs=6e-3)
    assert found["self_bleu"] == pytest.approx(4.61, abs=6e-3)
    assert found["self_bleu_by_description"] == pytest.approx(10.32, abs=6e-3)
