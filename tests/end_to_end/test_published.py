"""The published data: variants composed again, a release of SGD; the checks beside the data hold, as do figures."""

import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from commands import RELEASE
from kit import THOROUGH, files_of, json_of, rows_of, run, write
from release_folder import dialogue_file, schema_file

from parapet.schemas import layout


def text_of(page):
    """A page of the docs."""
    return (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")


def row_of(page, name):
    """The cells of a table's row, per cent signs as the command prints them."""
    (line,) = [line for line in text_of(page).splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip().replace(" %", "%") for cell in line.strip("|").split("|")][1:]


def test_the_pages_give_what_the_command_prints(real_data, tmp_path):
    flags = ["--sgd", str(real_data / "sgd"), "--variants", str(real_data / "sgd/sgd_x/data")]
    told = run("statistics", "--output", tmp_path, *flags).output
    printed = {line[0]: line[1:] for line in [line.split() for line in told.splitlines() if line]}
    variants = [f"v{k}" for k in range(1, 6)]
    table = text_of("papers.md").partition("### Table 1")[2].partition("### ")[0]
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in re.findall(r"^\| at hand.*", table, re.M)]
    for name, cells in zip(("original", *variants, "average"), zip(*rows, strict=True), strict=True):
        assert ["-" if cell == "–" else cell for cell in cells] == [cell.rstrip("%") for cell in printed[name]], name
    assert row_of("method.md", "name distance, 34 services")[:5] == [printed[name][2] for name in variants]
    assert row_of("method.md", "BLEU, 34 services") == [*(printed[name][3] for name in variants), *printed["self-BLEU"]]
    assert f"Self-BLEU {printed['self-BLEU'][0]}, published 4.5" in text_of("papers.md")


def test_corruptions_are_as_strong_as_their_page_says(real_data, tmp_path):
    """The rates are the schemas', whatever the dialogues: one will do."""
    for split in ("train", "dev"):
        (tmp_path / "sgd" / split).mkdir(parents=True)
        shutil.copy(real_data / "sgd" / split / "schema.json", tmp_path / "sgd" / split)
    (one, *_) = json_of(layout.dialogue_files(real_data / "sgd", "train")[0])
    (tmp_path / "sgd/train/dialogues_001.json").write_bytes(layout.dialogue_bytes([one]))
    sgd = ["--sgd", str(tmp_path / "sgd")]
    run("augment", *sgd, "--sets", "corrupted", "--output", tmp_path / "sets")
    variants = ["--variants", str(tmp_path / "sets/corruptions")]
    told = run("statistics", *sgd, *variants, "--output", tmp_path / "statistics").output
    printed = {line.split()[0]: line.split()[1:] for line in told.splitlines() if line}
    for name, row in (("replace", "`replace`"), ("order", "`order`"), ("both", "`both`"), ("average", "average")):
        distance, bleu = printed[name][2:]
        assert row_of("variants.md", row) == [distance, f"{float(bleu):.1f}"]


def part_of(real_data, folder):
    """The schemas of every fifth service that workers were asked about, and the answers about them."""
    sgd, batch = folder / "sgd", folder / "mturk"
    services = sorted({row["service"] for row in rows_of(real_data / "mturk/truth.csv")})[::5]
    for split in ("train", "dev"):
        schema = json_of(real_data / "sgd" / split / "schema.json")
        write(sgd / split / "schema.json", [raw for raw in schema if raw["service_name"] in services])
    (sgd / "sgd_x").symlink_to(real_data / "sgd/sgd_x")
    for name, column in (("names", "Input.service_name"), ("descriptions", "Input.service_name"), ("truth", "service")):
        rows = rows_of(real_data / f"mturk/{name}.csv")
        write(batch / f"{name}.csv", [row for row in rows if row[column] in services])
    return sgd, batch


def test_the_published_variants_come_back(real_data, tmp_path):
    """With a careful reviewer's decisions the five texts are the published ones; without, vetting holds."""
    checks = real_data / "checks"
    sgd, batch = (real_data / "sgd", real_data / "mturk") if THOROUGH else part_of(real_data, tmp_path)
    decisions = subprocess.run([sys.executable, checks / "make_decisions.py", batch], capture_output=True, check=True)
    (tmp_path / "decisions.csv").write_bytes(decisions.stdout)
    csvs = [batch / "names.csv", batch / "descriptions.csv"]
    flags = ["--schemas", sgd, "--decisions", tmp_path / "decisions.csv", "--require_complete"]
    run("compose", *flags, responses=csvs, output=tmp_path / "csv")
    if THOROUGH:  # that any mix of exports gives the same is shown on the sample
        run("compose", *flags, responses=batch / "assignments.jsonl", output=tmp_path / "api")
        run("compose", *flags, responses=[batch / "assignments.jsonl", *csvs], output=tmp_path / "both")
        csv, api, both = (files_of(tmp_path / name) for name in ("csv", "api", "both"))
        assert both == csv
        # The API tells no rewards, so that no pay by the hour is known.
        assert {name for name in csv if api[name] != csv[name]} == {"statistics.json", "report.html", "run.json"}
    run("compose", schemas=sgd, responses=csvs, output=tmp_path / "vetted", status=(0, 1))  # 1 if none is complete
    said = ""
    for arguments in ([tmp_path / "csv", sgd, batch], [tmp_path / "vetted", sgd, batch, "--vetting"]):
        check = subprocess.run(
            [sys.executable, checks / "check_compose.py", *arguments], capture_output=True, text=True
        )
        assert check.returncode == 0, check.stdout
        assert "all holds" in check.stdout
        said += check.stdout
    if THOROUGH:
        check_the_page(said)


def check_the_page(said):
    """The figures of ``docs/method.md`` on 34 services are those that the checks have just printed."""
    page = text_of("method.md")
    same = re.findall(r"identical ([0-9.]+) %", said)
    assert f"identical*, text by text, for {same[0]} % of names and {same[1]} % of descriptions (34" in " ".join(
        page.split()
    )
    agrees = re.findall(r"agrees with the distances ([0-9.]+) %", said)[1]
    assert f"| a, an, the | simplemma: what `compose` does | {agrees} % |" in page
    found = {line.split()[0]: line.split()[1:] for line in said.splitlines() if re.match(r"\w+ +\d+  ", line)}
    for label, row in (("prompt_copy", "copies of the prompt"), ("foreign", "another language")):
        shares = {name: share.replace("%", " %").replace("100.0", "100") for name, share in pairwise(found[label][1:])}
        cells = (found[label][0], shares.get("rejected", ""), shares.get("review", ""))
        assert f"| {row} | {' | '.join(cells)} | |".replace("|  |", "| |") in page, label
    spoilt = ("blank", "placeholder", "gibberish", "markup", "original_copy", "too_long", "spam_worker")
    assert all(found[label][1:] == ["rejected", "100.0%"] for label in spoilt)
    held = float(dict(pairwise(found["genuine"][1:]))["review"].rstrip("%"))
    assert "rejected" not in found["genuine"]
    assert f"| {sum(int(found[label][0]) for label in spoilt):,} | 100 % |" in page
    assert f"| genuine | {int(found['genuine'][0]):,} | 0 % | {held} % | {100 - held:.1f} % |" in page


def cut_out(source, target, services):
    """A split with some services, and the first five dialogues of each that have no other."""
    target.mkdir(parents=True)
    schema = [raw for raw in json_of(source / "schema.json") if raw["service_name"] in services]
    (target / "schema.json").write_bytes(layout.schema_bytes(schema))
    dialogues = [one for path in layout.dialogue_files(source, "") for one in json_of(path)]
    alone = {service: [one for one in dialogues if one["services"] == [service]] for service in sorted(services)}
    kept = [dialogue for some in alone.values() for dialogue in some[:5]]
    (target / "dialogues_001.json").write_bytes(layout.dialogue_bytes(kept))


@pytest.mark.thorough
def test_a_suite_on_four_services_with_all_published_variants(real_data, tmp_path, monkeypatch):
    """The variants have 29 services more, and their train has two of the four, which the corpus has in test alone."""
    services = {"Banks_2", "Buses_1", "Media_2", "RideSharing_1"}
    monkeypatch.chdir(tmp_path)
    cut_out(real_data / "sgd/train", tmp_path / "corpus/train", {"Restaurants_1"})
    cut_out(real_data / "sgd/dev", tmp_path / "corpus/test", services)
    for variant in layout.variant_roots(real_data / "sgd/sgd_x/data").values():
        for split, name in (("train", "train"), ("dev", "test")):  # the published test split is not in the data
            shutil.copytree(variant / split, tmp_path / "sgd_x" / variant.name / name)
    (tmp_path / "four.toml").write_text(
        '[corpus]\nsgd = "corpus"\n[variants]\npath = "sgd_x"\n[[sets]]\nperturbation = "typos"\n'
        '[[systems]]\nname = "Names"\nmodel = "parapet.evaluation.dst.trackers:Names"\n'
    )
    run("suite", "four.toml", output="out")
    statistics = json_of(tmp_path / "out/statistics/statistics.json")
    assert (statistics["services"], statistics["unseen_services"]) == (5, 4)
    rows = rows_of(tmp_path / "out/table.csv")
    groups = {(row["set"], row["group"]) for row in rows if row["metric"] == "joint_goal_accuracy"}
    assert {group for _, group in groups} >= {"all", "unseen", *services}
    assert not {name for name, group in groups if group == "seen"}, "a variant's service is seen if its original is"
    sensitivity = {row["group"]: row["value"] for row in rows if row["metric"] == "schema_sensitivity"}
    assert sensitivity["unseen"] == sensitivity["all"] != ""


# A release of SGD's train and dev with dialogues under SGD-X has the files that it was built of.


@pytest.fixture(scope="module")
def release(real_data, real_dialogues, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sgd")
    some = "v1,v5" if THOROUGH else "v5"
    variants = ["--variants", str(real_data / "sgd" / "sgd_x" / "data"), "--variant", some]
    run("rewrite", "--sgd", str(real_dialogues), *variants, output=folder / "dialogues")
    text = RELEASE.replace('"sgd"', f'"{real_dialogues}"') + '[[corpora]]\npath = "dialogues"\nkind = "variants"\n'
    run("release", "build", config=write(folder / "release.toml", text), output=folder / "out")
    return folder / "out/sample/1.0.0"


def test_it_verifies_and_its_rows_are_the_files(release):
    run("release", "verify", str(release))
    for path in sorted((release / "sgd").rglob("*.json")):
        corpus, split = path.parts[-3:-1]
        config = "schemas" if path.name == "schema.json" else corpus
        shards = sorted((release / "data" / config).glob(f"{split}-*.parquet"))
        rows = [row for shard in shards for row in rows_of(shard)]
        if config == "schemas":
            assert schema_file(row for row in rows if row["variant"] == corpus) == path.read_bytes()
        else:
            assert dialogue_file(row for row in rows if row["file"] == path.name) == path.read_bytes()
