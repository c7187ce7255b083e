from kit import cases, corpus, holding, json_of, refused, run, sample_dialogues, write

from parapet.pipelines.collect.serve import Serve
from parapet.schemas.layout import sample_root


def schema_file(tmp_path, *services):
    return write(tmp_path / "schema.json", services)


def service(name="Parcels_1", slots=2, **more):
    made = [{"name": f"part_{i}", "description": f"The part at place {i} of the parcel"} for i in range(slots)]
    return {"service_name": name, "description": "Sends parcels", "slots": made, "intents": [], **more}


def test_flags_reach_manifest_and_plan(tmp_path):
    flags = {"schemas": schema_file(tmp_path, service()), "reward": 1.5, "assignments": 10}
    out = run("hits", "--sandbox", **flags, output=tmp_path / "out")
    records = out.rows("manifest.jsonl")
    assert {(record["reward"], record["assignments"]) for record in records} == {("1.50", 10)}
    assert "workersandbox" in out.text(records[0]["page"])
    plan = out.json("plan.json")
    assert (plan["fee_rate"], plan["total"]["reward"], plan["total"]["fees"]) == ("0.40", "30.00", "12.00")
    assert not holding(out.text("plan.json") + out.text("run.json") + out.text("manifest.jsonl"), "rewrite", "dialogue")


def test_how_few_workers_could_do_everything_and_what_limit_is_better(tmp_path):
    def said(**flags):
        return run("hits", "--dry_run", output=tmp_path / "out", **flags).output

    # The sample has six services; a worker does names or descriptions of each.
    few = "as few as 14 workers could do everything; with --max_per_worker 3, at least 28 (SGD-X had over 400"
    assert few in said(assignments=7)
    assert "with --max_per_worker 4, at least 21 workers must take part" in said(assignments=7, max_per_worker=4)
    assert "with --max_per_worker 99, at least 14 workers" in said(assignments=7, max_per_worker=99)
    hits = run("hits", assignments=7, max_per_worker=4, output=tmp_path / "out")
    assert {record["max_per_worker"] for record in hits.rows("manifest.jsonl")} == {4}
    served = Serve(hits=str(hits.folder), db=str(tmp_path / "answers.sqlite")).check()
    assert (served.people, served.tasks_per_person) == (21, 4)


def test_cues_come_from_a_file_and_are_in_the_options(tmp_path):
    cues = write(tmp_path / "cues.csv", "service_name,cue\nParcels_1,a service like UPS & <DHL>\n")
    schemas = schema_file(tmp_path, service(), service("Letters_1", description="Has a part_1"))
    out = run("hits", cues=cues, schemas=schemas, output=tmp_path / "out")
    records = out.rows("manifest.jsonl")
    assert [record.get("cue") for record in records] == ["a service like UPS & <DHL>", "Parcels", None, "Letters"]
    assert "a service like UPS &amp; &lt;DHL&gt;" in out.text(records[0]["page"])
    assert "a service like UPS &amp; &lt;DHL&gt;" in out.text("requester/names.csv")
    assert out.manifest["options"]["cues"] == {"Parcels_1": "a service like UPS & <DHL>"}


def test_a_large_service_is_split_and_a_smaller_rerun_removes_the_parts(tmp_path):
    out = tmp_path / "out"
    run("hits", schemas=schema_file(tmp_path, service(slots=230)), output=out)
    assert (out / "pages/Parcels_1.names.2.html").exists()
    assert all(path.stat().st_size <= 65_535 for path in (out / "pages").iterdir())
    run("hits", schemas=schema_file(tmp_path, service()), output=out)
    assert not (out / "pages/Parcels_1.names.2.html").exists()


def test_an_element_without_text_is_reported_and_the_rest_goes_on(tmp_path):
    schemas = schema_file(tmp_path, service(intents=[{"name": "SendParcel", "description": ""}]))
    out = run("hits", schemas=schemas, output=tmp_path / "out")
    assert out.json("plan.json")["not_asked"][0]["element_id"] == "Parcels_1/intent/SendParcel"
    assert "Parcels_1/intent/SendParcel" in out.text("index.html")


@cases(
    "flags message",
    (["--cues", "nowhere.csv"], "nowhere.csv"),
    (["--hourly_wage", "nan"], "--hourly_wage: 'nan' is not an amount of dollars such as 1.25"),
    (["--reward", "0"], "--reward: '0' is not an amount of dollars"),
    (["--auto_approval_hours", "721"], "--auto_approval_hours: 721: must be a number from 0 to 720"),
    (["--task", "rewrite"], "rewrites"),
    (["--task", "rewrites", "--schemas", "."], "--schemas: is not for --task rewrites"),
    (["--task", "rewrites", "--split", "tset"], "--split"),
    (["--task", "rewrites", "--turns", "0"], "--turns"),
    (["--task", "rewrites", "--dialogues", "."], "contains no dialogues"),
)
def test_wrong_flags_end_with_status_2_and_say_which(tmp_path, monkeypatch, flags, message):
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    out = tmp_path / "out"
    assert message in refused("hits", *flags, output=out)
    assert not out.exists()


def test_splits_that_share_ids_are_refused(tmp_path):
    dialogues = sample_dialogues()[:1]
    root = corpus(tmp_path / "sgd", json_of(sample_root() / "test" / "schema.json"), train=dialogues, test=dialogues)
    flags = {"task": "rewrites", "dialogues": [root / "train", root / "test"]}
    assert "give one split at a time" in refused("hits", **flags, output=tmp_path / "out", status=(1, 2))
