"""The human evaluation of generated utterances: pages, a local MTurk, workers with known noise, judgements, pay."""

import shutil
from collections import Counter

import pyarrow.parquet as pq
import pytest
from fake_mturk import FakeMTurk, Script, play
from generation_toy import write_toy
from kit import as_nobody, cases, edit, files_of, holding, json_of, lacking, refused, rows_of, run, write
from page_form import html_of

from parapet.schemas.dialogue import read_dialogues
from parapet.transforms.core.seeding import stable_hash

HOSTILE = "</textarea><script>alert(1)</script> ${body} ]]> =HYPERLINK(1) <b>\u202e\U0001f600"
NONE = ("--faithful", "0", "--unfaithful", "0", "--invalid", "0")
FILES = {"details.json", "metrics.json", "responses.parquet", "rows.parquet", "shortfall.csv"}


def manifest(hits):
    return rows_of(hits / "manifest.jsonl")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A corpus, and the scores of a system that says nothing right in every third turn, and something hostile."""
    folder = tmp_path_factory.mktemp("ratings")
    corpus = write_toy(folder / "corpus")
    lines = []
    for dialogue in read_dialogues(corpus / "test" / "dialogues_001.json"):
        for i, turn in enumerate(dialogue.turns):
            if turn.speaker == "SYSTEM":
                utterance = (turn.utterance, turn.utterance, f"Bananas are yellow . {HOSTILE}")[len(lines) % 3]
                lines.append({"dialogue_id": dialogue.dialogue_id, "turn": i, "utterance": utterance})
    said = write(folder / "predictions.jsonl", lines)
    run("evaluate", task="generation", reference=corpus, predictions=said, output=folder / "scores")
    hits(folder, folder / "hits")
    return folder


def hits(world, output, scores="scores"):
    run("hits", task="ratings", dialogues=world / "corpus", scores=world / scores, items=8, output=output)


def truth(item):
    return item["stratum"] != "check" and "Bananas" not in item["utterance"]


def asked(record):
    """The field and the utterance of each question whether it is faithful."""
    return zip(record["fields"][::2], record["items"], strict=True)


def scripts(records, workers=3, noise=0.0, seconds=300):
    """What workers who know the truth answer, but for a share of mistakes; checks they get right."""
    found = []
    for record in records:
        for worker in range(workers):
            answers = {}
            for field, item in asked(record):
                place = f"{item['dialogue_id']}:{item['turn']}"
                errs = stable_hash("errs", place, str(worker)) % 1000 < 1000 * noise and item["stratum"] != "check"
                answers[field] = "yes" if truth(item) != errs else "no"
                answers[field.replace("faithful", "natural")] = str(3 + worker)
            found.append(Script(f"AWORKER{worker:07}", record["task_id"], answers, seconds))
    return found


@pytest.fixture
def credentials(monkeypatch, tmp_path):
    as_nobody(monkeypatch, tmp_path)


@pytest.mark.usefixtures("credentials")
def test_from_pages_to_judgements_and_pay(world, tmp_path):
    batch, judged = tmp_path / "batch", tmp_path / "judged"
    records = manifest(world / "hits")
    with FakeMTurk(tmp_path / "mturk.sqlite") as server:
        run("mturk", "publish", batch=batch, hits=world / "hits", endpoint_url=server.url)
        assert play(server, scripts(records, 2)) == 2 * len(records)
        # The third is too fast on the first page, finds every check of the others faithful, and skips a question.
        fast, *others = scripts(records[:1], 3, seconds=5)[2:] + scripts(records[1:], 3)[2::3]
        others[0].answers.pop(records[1]["fields"][1])
        for script, record in zip(others[1:], records[2:], strict=True):
            script.answers.update({field: "yes" for field, item in asked(record) if item["stratum"] == "check"})
        assert play(server, [fast, *others]) == len(records)
        run("mturk", "collect", batch=batch)
        run("evaluate", task="ratings", hits=world / "hits", responses=batch, output=judged)
        run("mturk", "topup", batch=batch, hits=world / "hits", shortfall=judged / "shortfall.csv")
        wanted = [(hit["RequesterAnnotation"], hit["MaxAssignments"]) for hit in server.snapshot()["hits"].values()]
        short = [records[0], *records[2:]]  # of the second page every worker counts
        assert sorted(wanted[len(records) :]) == sorted((record["task_id"], 2) for record in short)
        run("mturk", "pay", batch=batch, audit=judged)
        states = Counter(each["AssignmentStatus"] for each in server.snapshot()["assignments"].values())
        assert states == {"Approved": 3 * len(records)}
    assert files_of(judged).keys() > FILES
    responses = rows_of(judged / "responses.parquet")
    failed = sum(len(record["fields"]) for record in records[2:])
    rejected = Counter(row["reason"] for row in responses if row["disposition"] == "rejected")
    assert rejected == {"too_fast": len(records[0]["fields"]), "failed_check": failed}
    metrics, details = json_of(judged / "metrics.json"), json_of(judged / "details.json")
    assert metrics["#ALL"]["krippendorff_alpha"] == 1.0
    assert metrics["#VALIDATED"]["agreement"] == 1.0  # the lexical scorer finds bananas unfaithful, too
    assert details["groups"]["#ALL"]["majorities"] == details["groups"]["#ALL"]["utterances"]
    assert details["groups"]["#ALL"]["complete"] == len(records[1]["items"]) - 1
    assert 3 < metrics["#ALL"]["naturalness"] < 4
    named = {row["service_name"] for row in rows_of(judged / "shortfall.csv")}
    assert named == {record["task_id"].partition(":")[0] for record in short}
    assert not any(b"AWORKER" in data for data in files_of(judged).values())


@pytest.mark.usefixtures("credentials")
def test_workers_who_err_and_a_metric_that_does(world, tmp_path):
    """The batch results of the requester site; kappa as computed by hand from what each worker said."""
    records = manifest(world / "hits")
    noisy = scripts(records, 3, noise=0.2)
    path = batch_csv(tmp_path / "batch.csv", noisy, records)
    judged = run("evaluate", task="ratings", hits=world / "hits", responses=[path, path], output=tmp_path / "out")
    metrics = judged.json("metrics.json")
    by_page = {record["task_id"]: record for record in records}
    votes, items = {}, {}
    for script in noisy:
        for field, item in asked(by_page[script.annotation]):
            if item["stratum"] != "check":
                votes.setdefault((item["dialogue_id"], item["turn"]), []).append(script.answers[field] == "yes")
                items[item["dialogue_id"], item["turn"]] = item
    assert 0 < sum(len(set(of)) > 1 for of in votes.values()) < len(votes)
    alike = sum(len(set(of)) == 1 for of in votes.values()) / len(votes)
    observed = alike + (1 - alike) / 3  # of three votes that differ, one pair of three is the same
    yes = sum(sum(of) for of in votes.values()) / (3 * len(votes))
    expected = yes**2 + (1 - yes) ** 2
    assert metrics["#ALL"]["fleiss_kappa"] == pytest.approx((observed - expected) / (1 - expected))
    for name, strata in (("#VALIDATED", {"faithful", "unfaithful"}), ("#INVALID", {"invalid"})):
        agree = [(sum(votes[at]) > 1) == item["faithful"] for at, item in items.items() if item["stratum"] in strata]
        assert metrics.get(name, {}).get("agreement") == (pytest.approx(sum(agree) / len(agree)) if agree else None)
    found = {(row["dialogue_id"], row["turn"]): row["votes"] for row in judged.rows("rows.parquet")}
    assert found == {at: f"{sum(of)}/{3 - sum(of)}" for at, of in votes.items()}
    assert holding(judged.text("report.html"), "Bananas", "<script>alert") == ["Bananas"]
    compared = run("compare", systems=f"ours={tmp_path / 'out'}", output=tmp_path / "compared")
    assert f"{100 * metrics['#ALL']['human_faithful']:.1f}" in compared.text("table.md")


def batch_csv(path, played, records, **changed):
    """The batch results of the requester site, with a column for every field of the batch."""
    fields = {record["task_id"]: record["fields"] for record in records}
    columns = sorted({field for of in (*fields.values(), *(script.answers for script in played)) for field in of})
    rows = [
        {
            **{"AssignmentId": f"3ASSIGNMENT{i:04}", "WorkerId": script.worker_id, "WorkTimeInSeconds": script.seconds},
            "Input.task_id": changed.get("task_id", script.annotation),
            "Input.fields": " ".join(fields[script.annotation]),
            **{f"Answer.{column}": script.answers.get(column, "") for column in columns},
        }
        for i, script in enumerate(played)
    ]
    return write(path, rows)


@pytest.mark.usefixtures("credentials")
def test_hostile_and_foreign_answers_are_left_out_with_reasons(world, tmp_path):
    records = manifest(world / "hits")
    good = scripts(records[:1])
    bad = scripts(records[1:2], 1)[0]
    bad.answers.update(dict.fromkeys(bad.answers, HOSTILE) | {"faithful_99": "yes", "note": "=1+1"})
    same = [Script("ASAME", script.annotation, {f: "no" if "faith" in f else "3" for f in script.answers}, 300)
            for script in scripts(records[2:4], 1)]  # fmt: skip
    again = [Script(good[0].worker_id, good[0].annotation, good[0].answers, 300)]
    path = batch_csv(tmp_path / "batch.csv", [*good, bad, *same, *again], records)
    foreign = batch_csv(tmp_path / "foreign.csv", scripts(records[:1], 1), records, task_id="001-00000000:ratings")
    foreign.write_text(foreign.read_text().replace("3ASSIGNMENT", "3OTHER"))
    asked = {"task": "ratings", "hits": world / "hits", "output": tmp_path / "out"}
    judged = run("evaluate", **asked, responses=[path, foreign])
    rows = judged.rows("responses.parquet")
    n = len(records[0]["fields"])
    same_rating = sum(len(record["fields"]) for record in records[2:4])
    rejected = Counter(row["reason"] for row in rows if row["disposition"] == "rejected")
    assert rejected == {"unknown_value": len(records[1]["fields"]), "same_rating": same_rating}
    assert Counter(row["reason"] for row in rows)["repeated"] == n - 2  # the check's two questions count for nobody
    reasons = Counter(letter["reason"].partition(":")[0] for letter in judged.dead_letters)
    assert reasons == {"unknown_page": 1, "unknown_field": 2}
    assert len(rows) + 2 == sum(len(script.answers) for script in [*good, bad, *same, *again])  # nothing is lost
    shutil.rmtree(tmp_path / "out")
    run("evaluate", **asked, responses=foreign, status=1)
    assert not (tmp_path / "out" / "run.json").exists()


@cases(
    "flags message",
    ((), "--scores: is required: give the output"),
    (("--scores", "corpus"), "not a complete output of 'parapet evaluate --task generation'"),
    (("--scores", "scores", "--faithful", "-1"), "--faithful: -1: must be 0 or more"),
    (("--scores", "scores", "--items", "0"), "--items: 0: must be 1 or more"),
    (("--scores", "scores", "--dialogues", "corpus", *NONE), "no turn can be drawn"),
    (("--scores", "scores", "--dialogues", "corpus", "corpus"), "takes one corpus for ratings"),
    (("--scores", "scores"), "is not the corpus that was scored"),  # but the sample
    (("--scores", "unvalidated", "--dialogues", "corpus"), "--no_validation"),
)
def test_what_cannot_work_ends_with_status_2(world, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(world)
    if "unvalidated" in flags:
        shutil.copytree(world / "scores", world / "unvalidated")
        edit(world / "unvalidated" / "run.json", lambda manifest: manifest["options"].update(validation=False))
    assert message in refused("hits", "--task", "ratings", *flags, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_hits_that_are_none_end_with_status_2(world, tmp_path):
    batch = write(tmp_path / "batch.csv", "AssignmentId,WorkerId,Answer.faithful_0\n")
    flags = {"hits": tmp_path / "hits", "responses": batch, "output": tmp_path / "out"}
    (tmp_path / "hits").mkdir()
    assert "not the output of 'parapet hits'" in refused("evaluate", task="ratings", **flags)
    for content, message in (("{", "not a manifest of 'parapet hits'"), ("", "contains no utterances to rate")):
        write(tmp_path / "hits" / "manifest.jsonl", content)
        assert message in refused("evaluate", task="ratings", **flags)


def test_every_kind_of_turn_is_drawn_and_its_page_shows_what_is_to_be_said(world):
    records = manifest(world / "hits")
    rows = pq.read_table(world / "scores" / "rows.parquet").to_pylist()
    assert {record["task"] for record in records} == {"ratings"}
    items = [item for record in records for item in record["items"]]
    drawn = [item for item in items if item["stratum"] != "check"]
    turns = {(row["dialogue_id"], row["turn"]) for row in rows if row["kind"] == "act"}
    assert Counter((item["dialogue_id"], item["turn"]) for item in drawn) == dict.fromkeys(turns, 1)
    assert Counter(item["stratum"] for item in items)["check"] == len(records)
    numbers = json_of(world / "hits" / "run.json")["options"]["drawn"]
    strata = Counter(item["stratum"] for item in drawn)
    expected = {name: strata[name] for name in ("faithful", "unfaithful", "invalid")}
    assert {name: of["drawn"] for name, of in numbers.items()} == expected
    for record in records:
        page = (world / "hits" / record["page"]).read_bytes()
        assert html_of((world / "hits" / record["question"]).read_bytes()).encode() == page
        assert not holding(page, b"<script>alert", b"${body}")
        assert len(record["fields"]) == 2 * len(record["items"])
        for item in record["items"]:
            assert item["previous"].encode() in page
            for act in item["acts"]:
                assert all(text.encode() in page for text in (act["does"], act["about"], act["value"]))
    garden = [act for item in drawn for act in item["acts"] if "garden" in act["about"]]
    assert {act["does"]: act["about"] for act in garden} == {"Tell": "whether there is a garden"}
    assert {act["value"] for act in garden} == {"yes", "no"}


@pytest.mark.usefixtures("credentials")
def test_pairs_of_an_utterance_and_an_act(world, tmp_path):
    """Every act of every turn is judged by itself; three raters who know the truth, of whom one errs."""
    made = {"dialogues": world / "corpus", "scores": world / "scores", "output": tmp_path / "hits"}
    run("hits", task="ratings", unit="act", **made)
    records = manifest(tmp_path / "hits")
    items = [item for record in records for item in record["items"]]
    pairs = {(item["dialogue_id"], item["turn"], item["act"]): item for item in items if item["stratum"] != "check"}
    outcomes, said = {}, {}
    for row in rows_of(world / "scores" / "rows.parquet"):
        turn = row["dialogue_id"], row["turn"]
        if row["kind"] == "turn":
            said[turn], n = row["utterance"], 0
        else:
            outcomes[*turn, n], n = (row["outcome"], row["sgsacc_acts_all"] == 1), n + 1
    assert pairs.keys() == outcomes.keys()
    for place, item in pairs.items():
        outcome, faithful = outcomes[place]
        assert item["stratum"] == (outcome if outcome in ("faithful", "unfaithful") else "invalid")
        assert (item["faithful"], item["utterance"], len(item["acts"])) == (faithful, said[place[:2]], 1)
    checks = [item for item in items if item["stratum"] == "check"]
    assert checks
    assert all(item["utterance"] != said[item["dialogue_id"], item["turn"]] for item in checks)
    page = (tmp_path / "hits" / records[0]["page"]).read_text()
    assert not lacking(page, "Does the reply do this, and do it correctly?", "Each list has one entry")
    path = batch_csv(tmp_path / "batch.csv", scripts(records, 3, noise=0.1), records)
    judged = run("evaluate", task="ratings", hits=tmp_path / "hits", responses=path, output=tmp_path / "out")
    votes = {}
    for row in judged.rows("responses.parquet"):
        if row["question"] == "faithful" and row["stratum"] != "check":
            votes.setdefault((row["dialogue_id"], row["turn"], row["act"]), []).append(row["text"] == "yes")
    valid = [place for place, item in pairs.items() if item["stratum"] != "invalid"]
    agree = sum((sum(votes[place]) > 1) == pairs[place]["faithful"] for place in valid) / len(valid)
    assert judged.json("metrics.json")["#VALIDATED"]["agreement"] == pytest.approx(agree)
    rows = judged.rows("rows.parquet")
    assert [row["votes"] for row in rows] == [f"{sum(votes[at])}/{3 - sum(votes[at])}" for at in sorted(pairs)]
    assert [row["acts"].partition(":")[0] for row in rows] == [pairs[at]["acts"][0]["does"] for at in sorted(pairs)]
    assert f"{len(pairs)} pairs, each rated by 3 workers" in judged.text("report.html")
    assert judged.json("details.json")["work"]["ratings"] == {
        "assignments": 3 * len(records), "median_minutes": 5.0, "dollars_per_hour": None
    }  # fmt: skip


def test_a_larger_sample_contains_the_smaller_and_the_seed_draws_another(world, tmp_path):
    def places(name, **flags):
        given = {"dialogues": world / "corpus", "scores": world / "scores", "items": 8, "output": tmp_path / name}
        sizes = {"invalid": 0, "unfaithful": 0, "no_naturalness": True, "checks": 0}
        records = rows_of(run("hits", task="ratings", **given, **sizes, **flags).folder / "manifest.jsonl")
        assert not any(field.startswith("natural") for record in records for field in record["fields"])
        return {(item["dialogue_id"], item["turn"]) for record in records for item in record["items"]}

    few, more = places("few", faithful=4), places("more", faithful=9)
    assert (len(few), len(more)) == (4, 9)
    assert few < more
    assert few != places("others", faithful=4, seed=1)
