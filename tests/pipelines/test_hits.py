import json
import subprocess
import sys
import time

import pytest
from kit import refused

from parapet.pipelines.main import main
from parapet.schemas.layout import SPLITS, sample_root


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("hits") / "out"
    assert main(["hits", "--output", str(out), "--quiet"]) == 0
    return out


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory):
    out = tmp_path_factory.mktemp("rewrites") / "out"
    assert rewrites(out, "--split", "test") == 0
    return out


def rewrites(out, *flags):
    return main(["hits", "--task", "rewrites", "--output", str(out), "--quiet", *flags])


def schema_file(tmp_path, *services):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(services))
    return path


def service(name="Parcels_1", slots=2, **more):
    made = [{"name": f"part_{i}", "description": f"The part at place {i} of the parcel"} for i in range(slots)]
    return {"service_name": name, "description": "Sends parcels", "slots": made, "intents": [], **more}


def test_flags_reach_manifest_and_plan(tmp_path):
    listed = tmp_path / "list.txt"
    listed.write_text("Parcels_1/slot/part_0\n")
    out = tmp_path / "out"
    flags = ["--schemas", str(schema_file(tmp_path, service())), "--ambiguous", str(listed), "--reward", "1.5"]
    assert main(["hits", "--output", str(out), "--quiet", "--assignments", "10", "--sandbox", *flags]) == 0
    records = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert {(record["reward"], record["assignments"]) for record in records} == {("1.50", 10)}
    assert [record["ambiguous"] for record in records] == [[], ["Parcels_1/slot/part_0"]]
    assert "The part at place 0" in (out / records[1]["page"]).read_text()
    assert "The part at place 1" not in (out / records[1]["page"]).read_text()
    assert "workersandbox" in (out / records[0]["page"]).read_text()
    plan = json.loads((out / "plan.json").read_text())
    assert (plan["fee_rate"], plan["total"]["reward"], plan["total"]["fees"]) == ("0.40", "30.00", "12.00")


def test_cues_come_from_a_file_and_are_in_the_options(tmp_path):
    cues = tmp_path / "cues.csv"
    cues.write_text("service_name,cue\nParcels_1,a service like UPS & <DHL>\n")
    flags = ["--schemas", str(schema_file(tmp_path, service(), service("Letters_1", description="Has a part_1")))]
    out = tmp_path / "out"
    assert main(["hits", "--output", str(out), "--quiet", "--cues", str(cues), *flags]) == 0
    records = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert [record.get("cue") for record in records] == ["a service like UPS & <DHL>", "Parcels", None, "Letters"]
    assert "a service like UPS &amp; &lt;DHL&gt;" in (out / records[0]["page"]).read_text()
    assert "a service like UPS &amp; &lt;DHL&gt;" in (out / "requester/names.csv").read_text()
    options = json.loads((out / "run.json").read_text())["options"]
    assert options["cues"] == {"Parcels_1": "a service like UPS & <DHL>"}
    cues.write_text("service_name,cue\nParcels_1,a service for every part 1\n")
    told = refused("hits", *flags, output=tmp_path / "bad", cues=cues)
    assert "cues.csv: row 2: the cue of Parcels_1 has 'part_1'" in told
    assert not (tmp_path / "bad").exists()


def test_a_description_that_says_a_name_is_warned_of(tmp_path, capfd):
    flags = ["--schemas", str(schema_file(tmp_path, service(description="Has everything in part 1"))), "--dry_run"]
    assert main(["hits", "--output", str(tmp_path / "out"), *flags]) == 0
    assert "the description of Parcels_1, shown on its names page, has 'part_1': see --cues" in capfd.readouterr().err
    assert main(["hits", "--output", str(tmp_path / "out"), *flags, "--cues", "none"]) == 0
    assert "see --cues" not in capfd.readouterr().err


def test_a_large_service_is_split_and_a_smaller_rerun_removes_the_parts(tmp_path):
    out = tmp_path / "out"
    flags = ["--output", str(out), "--quiet"]
    assert main(["hits", "--schemas", str(schema_file(tmp_path, service(slots=300))), *flags]) == 0
    assert (out / "pages/Parcels_1.names.2.html").exists()
    assert all(path.stat().st_size <= 65_535 for path in (out / "pages").iterdir())
    assert main(["hits", "--schemas", str(schema_file(tmp_path, service())), *flags]) == 0
    assert not (out / "pages/Parcels_1.names.2.html").exists()


def test_an_element_without_text_is_reported_and_the_rest_goes_on(tmp_path):
    out = tmp_path / "out"
    schemas = schema_file(tmp_path, service(intents=[{"name": "SendParcel", "description": ""}]))
    assert main(["hits", "--schemas", str(schemas), "--output", str(out)]) == 0
    assert json.loads((out / "plan.json").read_text())["not_asked"][0]["element_id"] == "Parcels_1/intent/SendParcel"
    assert "Parcels_1/intent/SendParcel" in (out / "index.html").read_text()


def test_a_draw_asks_so_many_turns_and_the_rest_is_counted(rewritten, tmp_path, capsys):
    flags = ["--split", "test", "--turns", "7", "--seed", "3"]
    assert rewrites(tmp_path / "out", *flags) == 0
    run = json.loads((tmp_path / "out/run.json").read_text())
    assert (run["counts"]["pages"], run["options"]["turns"], run["options"]["seed"]) == (7, 7, 3)
    records = (tmp_path / "out/manifest.jsonl").read_text().splitlines()
    assert set(records) < set((rewritten / "manifest.jsonl").read_text().splitlines())
    plan = json.loads((tmp_path / "out/plan.json").read_text())
    assert rewrites(tmp_path / "none", "--dry_run", *flags) == 0
    assert not (tmp_path / "none").exists()
    assert f"{float(plan['total']['cost']):,.2f}" in capsys.readouterr().out


def test_splits_that_share_ids_are_told(tmp_path):
    out = tmp_path / "out"
    splits = ["--dialogues", *(str(sample_root() / split) for split in SPLITS)]
    assert main(["hits", "--task", "rewrites", *splits, "--output", str(out)]) == 0
    counts = json.loads((out / "run.json").read_text())["counts"]
    assert counts["user_turns"] == counts["pages"] + counts["not_asked"]
    duplicates = [
        each for each in json.loads((out / "plan.json").read_text())["not_asked"] if "duplicate" in each["reason"]
    ]
    assert len(duplicates) == 98
    assert "--split" in duplicates[0]["reason"]


def test_schema_pages_know_nothing_of_rewrites(made):
    assert "rewrite" not in (made / "plan.json").read_text() + (made / "run.json").read_text()
    assert "dialogue_id" not in (made / "manifest.jsonl").read_text()
    for page in (made / "pages").iterdir():
        assert b"hit-said" not in page.read_bytes()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--schemas", "nowhere"], "nowhere"),
        (["--ambiguous", "nowhere.txt"], "nowhere.txt"),
        (["--reward", "1.234"], "--reward"),
        (["--hourly_wage", "nan"], "--hourly_wage"),
        (["--fee", "20"], "--fee"),
        (["--assignments", "0"], "--assignments"),
        (["--hourly_wag", "15"], "--hourly_wage"),
        (["--task", "rewrite"], "rewrites"),
        (["--task", "rewrites", "--schemas", "."], "--schemas: belongs to --task schemas"),
        (["--task", "rewrites", "--name_seconds", "20"], "--name_seconds: belongs to --task schemas"),
        (["--turns", "5"], "--turns: belongs to --task rewrites"),
        (["--task", "rewrites", "--split", "tset"], "--split"),
        (["--task", "rewrites", "--turns", "0"], "--turns"),
        (["--task", "rewrites", "--dialogues", "nowhere"], "nowhere"),
        (["--task", "rewrites", "--dialogues", "."], "no dialogues here"),
        (["--task", "rewrites", "--rewrite_seconds", "0"], "--rewrite_seconds"),
    ],
)
def test_wrong_flags_end_with_status_2_and_say_which(tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    assert message in refused("hits", *flags, output=out)
    assert not out.exists()


def test_help_imports_no_beam_and_is_quick():
    code = (
        "import sys; from parapet.pipelines.main import main; main(['hits', '--help']); "
        "sys.exit('apache_beam' in sys.modules)"
    )
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "example:" in done.stdout
    assert time.monotonic() - started < 2  # 0.1 s on an idle machine


def test_dry_run_prints_the_plan_and_writes_nothing(made, tmp_path, capsys):
    out = tmp_path / "none"
    assert main(["hits", "--output", str(out), "--dry_run"]) == 0
    assert not out.exists()
    total = json.loads((made / "plan.json").read_text())["total"]
    assert f"{float(total['cost']):,.2f}" in capsys.readouterr().out
