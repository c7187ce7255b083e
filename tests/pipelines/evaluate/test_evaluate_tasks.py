"""``parapet evaluate`` for intents, out-of-domain turns, rankings and responses, and ``parapet compare``, as run."""

import shutil

import pyarrow as pa
import pytest
from kit import cases, refused, rows_of, run, sample_dialogues, write

from parapet.schemas.rows import OOD_TURNS, parquet_bytes

EVIL = '<script>alert("1")</script>'


def evaluate(task, out, *flags, **more):
    return run("evaluate", *flags, task=task, output=out, **more)


def turns_of(speaker):
    """The place and the content of a speaker's turns in the sample."""
    turns = [(one["dialogue_id"], i, turn) for one in sample_dialogues() for i, turn in enumerate(one["turns"])]
    return [({"dialogue_id": name, "turn": i}, turn) for name, i, turn in turns if turn["speaker"] == speaker]


INTENTS = [
    {"set": "plain", "id": 1, "label": "fly", "predicted": "fly", "utterance": EVIL},
    {"set": "plain", "id": 2, "label": EVIL, "predicted": "fly", "utterance": EVIL},
    {"set": "typos", "id": 1, "label": "fly", "predicted": "fly"},
    {"set": "typos", "id": 2, "label": EVIL, "predicted": "swim\ud83d\ude00"},
]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """As ``parapet ood`` writes it: in each dialogue of six turns one or two are foreign."""
    out = tmp_path_factory.mktemp("ood")
    for name, turns in (("ood-10", {2}), ("ood-20", {2, 4})):
        for split in ("dev", "test"):
            rows = [
                {"dialogue_id": f"1_{i:05}", "turn": turn, "original_turn": None if turn in turns else turn,
                 "label": "ood" if turn in turns else "in_domain", "source": None, "utterance": EVIL, "fallback": None}
                for i in range(10) for turn in range(0, 12, 2)
            ]  # fmt: skip
            place = out / name / "turns" / split / "dialogues_001.parquet"
            write(place, parquet_bytes(pa.Table.from_pylist(rows, schema=OOD_TURNS)))
    return out


def detected(folder, split, **fields):
    """A detector that knows what was injected, but for every third such turn."""
    rows = []
    for name in ("ood-10", "ood-20"):
        for path in sorted((folder / name / "turns" / split).glob("*.parquet")):
            for i, row in enumerate(rows_of(path)):
                score = 0.9 if row["label"] == "ood" and i % 3 else 0.1
                place = {"set": name, "dialogue_id": row["dialogue_id"], "turn": row["turn"]}
                rows.append({**place, "score": score, **fields})
    return rows


def test_out_of_domain_turns_of_ood(tmp_path, foreign):
    test, dev = (write(tmp_path / f"{split}.jsonl", detected(foreign, split)) for split in ("test", "dev"))
    files = evaluate("ood", tmp_path / "out", "--reference", foreign, "--predictions", test, "--dev", dev)
    details, metrics = files.json("details.json"), files.json("metrics.json")
    assert (details["threshold"]["value"], set(metrics)) == (0.9, {"#ALL", "ood-10", "ood-20", "#MEAN"})
    rows = files.rows("rows.parquet")
    assert details["groups"]["#ALL"] == {"turns": len(rows), "ood": sum(row["label"] == "ood" for row in rows)}
    found = sum(row["predicted"] == "ood" for row in rows)
    assert (metrics["#ALL"]["recall"], metrics["#ALL"]["precision"]) == (found / details["groups"]["#ALL"]["ood"], 1.0)
    assert metrics["#ALL"]["accuracy"] == sum(row["accuracy"] for row in rows) / len(rows)
    found = [row for row in detected(foreign, "test") if row["set"] == "ood-10"]
    only = [{key: row[key] for key in ("dialogue_id", "turn", "score")} for row in found]
    shutil.copytree(foreign / "ood-10", tmp_path / "one" / "ood-10")
    flags = {"reference": tmp_path / "one", "predictions": write(tmp_path / "only.jsonl", only)}
    alone = evaluate("ood", tmp_path / "alone", **flags)
    # Without --dev there is no threshold, and without a threshold no F1.
    scored = alone.json("metrics.json")["ood-10"]
    assert (scored["auroc"], scored["f1"]) == (metrics["ood-10"]["auroc"], None)


def test_a_fallback_says_that_a_turn_is_out_of_domain(tmp_path, foreign):
    root = tmp_path / "set"
    table = rows_of(foreign / "ood-20" / "turns" / "test" / "dialogues_001.parquet")
    for row in table:
        row["fallback"] = "Our OWN fallback!" if row["label"] == "ood" else None
    place = root / "ood-20" / "turns" / "test" / "dialogues_001.parquet"
    write(place, parquet_bytes(pa.Table.from_pylist(table, schema=OOD_TURNS)))
    said = {2: "our own  fallback", 4: "Sure.", 6: "I'm afraid, I can't help with that one!"}
    places = [(row["dialogue_id"], row["turn"]) for row in table]
    rows = [{"dialogue_id": name, "turn": turn + 1, "response": said.get(turn, "Sure.")} for name, turn in places]
    flags = ["--reference", root, "--predictions"]
    files = evaluate("ood", tmp_path / "out", *flags, write(tmp_path / "responses.jsonl", rows))
    # Of the turns 2 and 4, which are foreign, one is found; 6 is none, and has one of the fallbacks of 'parapet ood'.
    found = files.json("metrics.json")["ood-20"]
    assert (found["precision"], found["recall"], found["f1"], found["auroc"]) == (0.5, 0.5, 0.5, None)
    delexicalised = [row | {"response": row["response"].replace("our own  fallback", "[fallback]")} for row in rows]
    files = evaluate("ood", tmp_path / "flag", *flags, write(tmp_path / "flags.jsonl", delexicalised))
    assert files.json("metrics.json")["ood-20"] == found
    both = [*rows, {"dialogue_id": rows[0]["dialogue_id"], "turn": 0, "predicted": "ood"}]
    both = write(tmp_path / "both.jsonl", both)
    assert "appears twice" in refused("evaluate", *flags, both, task="ood", output=tmp_path / "no")


def test_predictions_that_do_not_fit(tmp_path, foreign):
    rows, out = detected(foreign, "test"), f"{tmp_path}-out"
    reference, good = ["--reference", foreign], ["--predictions", write(tmp_path / "p.jsonl", rows)]
    labelled = write(tmp_path / "l.jsonl", [{"id": 1, "label": "in", "score": 1}, {"id": 2, "label": "in", "score": 2}])
    half = [{"id": 1, "label": "ood", "score": 1}, {"id": 2, "label": "in", "predicted": "ood"}]
    plain = write(tmp_path / "r.jsonl", [{"set": "plain", "id": i, "label": str(i)} for i in (1, 9)])

    def predictions(content):
        return ["--predictions", write(tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl", content)]

    for task, flags, reason in (
        ("ood", [*reference, *predictions(rows[:-1])], "there is no prediction for"),
        ("ood", [*reference, *good, "--dev", good[1], "--dev_split", "test"], "not be tuned on the turns that are"),
        ("ood", [*good, "--sets", f"a={foreign}"], "--sets, --variants: require --reference"),
        ("ood", good, "line 1: has no label"),
        ("ood", ["--predictions", labelled, "--dev", labelled], "is the same as --predictions"),
        ("ood", [*predictions([{"id": 1, "label": "ood", "score": 1}]), "--dev", labelled], "no turn is ood"),
        ("ood", predictions([{"id": 1, "label": "ood"}]), "neither a score nor a predicted"),
        ("ood", predictions([{"id": 1, "label": "bad", "score": 1}]), "Invalid enum value"),
        ("ood", predictions(half), "line 2: has no score, but the first row has one"),
        ("ood", ["--reference", tmp_path, *good], "contains no set of 'parapet ood'"),
        ("intent", [*predictions(INTENTS), "--reference", plain], "line 3: there is no set 'typos', only plain"),
        ("intent", predictions([{"id": 1, "predicted": "fly"}]), "line 1: has no label"),
        ("intent", predictions([{"id": 1, "predicted": " ", "label": "fly"}]), "line 1: the intent is empty"),
    ):
        assert reason in refused("evaluate", *flags, task=task, output=out)
    broken = write(tmp_path / "broken" / "ood-10" / "turns" / "test" / "x.parquet", b"PAR1").parents[3]
    told = refused("evaluate", *good, task="ood", reference=broken, output=out)
    assert "x.parquet: cannot be read as Parquet" in told


BABI = "1 hi\thello\n2 in rome\tapi_call french rome four cheap\n\n1 hi\thello\n\n"


def test_rankings(tmp_path):
    reference = tmp_path / "dialog-babi-task1tst.txt"
    reference.write_text(BABI)
    (tmp_path / "candidates.txt").write_text("1 hello\n2 api_call french rome two cheap\n")
    answers = [{"dialogue": 0, "turn": 0, "answer": "hello"}, {"dialogue": 1, "turn": 0, "answer": "hello"},
               {"dialogue": 0, "turn": 1, "answer": "api_call french rome two cheap"}]  # fmt: skip
    flags = ["--reference", reference, "--predictions", write(tmp_path / "a.jsonl", answers)]
    told = evaluate("ranking", tmp_path / "out", *flags, candidates=tmp_path / "candidates.txt")
    assert "task1tst: per response 66.7%, per dialogue 50.0%" in told.output
    reason = "1 response cannot be answered correctly, because the candidates do not contain the right answer"
    assert f"task1tst: {reason}" in told.errors
    metrics = told.json("metrics.json")
    assert (metrics["task1tst"]["api_call_number"], metrics["#ALL"]) == (0.0, metrics["task1tst"])
    answers[0]["answer"] = EVIL
    evil = ["--reference", reference, "--predictions", write(tmp_path / "b.jsonl", answers)]
    assert EVIL not in evaluate("ranking", tmp_path / "evil", *evil).text("report.html")
    told = refused("evaluate", *evil, task="ranking", candidates=tmp_path / "candidates.txt", output=tmp_path / "no")
    assert "line 1: '<script>" in told


def test_responses_of_the_sample(tmp_path, sample):
    files = evaluate("response", tmp_path / "own", "--predictions", "reference")
    whole = {"inform": 1.0, "success": 1.0, "bleu": 100.0, "combined": 200.0}
    assert files.json("metrics.json")["#ALL"] == pytest.approx(whole)
    said = [{**place, "response": f"{EVIL} no idea"} for place, _ in turns_of("SYSTEM")]
    poor = evaluate("response", tmp_path / "poor", reference=sample, predictions=write(tmp_path / "p.jsonl", said))
    assert poor.json("metrics.json")["#ALL"]["success"] == 0.0
    domains = poor.json("domains.json")["original"]
    assert (set(domains["domains"]), domains["mean"]["success"]) == ({"Ferries", "Gyms", "Libraries", "Repairs"}, 0.0)
    assert files.json("domains.json")["original"]["domains"]["Gyms"] == pytest.approx({**whole, "dialogues": 1})
    assert EVIL not in poor.text("report.html")
    assert poor.json("run.json")["options"]["bleu_signature"].startswith("nrefs:1|case:lc|eff:no|tok:13a")
    goals, turns = write(tmp_path / "goals.json", {}), "not a turn of the system, whose turns are 1, 3, 5, 7, 9\n"
    for flags, reason in (
        (["--goals", goals, "--reference", sample], "give only one of the two"),
        (["--goals", goals], "must be given together"),
        (["--reference", sample, "--split", "dev", "--predictions", tmp_path / "p.jsonl"], turns),
    ):
        given = ["--task", "response", "--predictions", "reference", *flags]
        assert reason in refused("evaluate", *given, output=tmp_path / "out")


def test_compare(tmp_path):
    for name, right in (("good", 19), ("bad", 4)):
        guesses = [(s, i, "a" if i <= right else "b") for s in "xy" for i in range(20)]
        rows = [{"set": s, "id": i, "label": "a", "predicted": guess} for s, i, guess in guesses]
        evaluate("intent", tmp_path / name, "--predictions", write(tmp_path / f"{name}.jsonl", rows))
    systems = ["--systems", f"good={tmp_path / 'good'}", f"bad={tmp_path / 'bad'}", f"twin={tmp_path / 'good'}"]
    argv = ["compare", *systems, "--metrics", "accuracy", "--replicates", "999", "--output"]
    compared = run(*argv, tmp_path / "board")
    assert compared.output.splitlines()[:4] == [
        "Intent accuracy, %   good   twin   bad",
        "mean                100.0  100.0  25.0",
        "x                   100.0  100.0  25.0",
        "y                   100.0  100.0  25.0",
    ]
    assert "6 of 9 differences have p < 0.05" in compared.output
    board = compared.json("leaderboard.json")
    assert (board["systems"], {one["dialogues"] for one in board["tests"]}) == (["good", "twin", "bad"], {20})
    fewer = run(*argv, tmp_path / "again", "--quiet", baseline="bad").json("leaderboard.json")
    assert {(one["first"], one["second"]) for one in fewer["tests"]} == {("good", "bad"), ("twin", "bad")}
    kept = ("first", "second", "column", "p", "interval")
    tests = [one for one in board["tests"] if "bad" in (one["first"], one["second"])]
    assert [[one[key] for key in kept] for one in fewer["tests"]] == [[one[key] for key in kept] for one in tests]
    assert "good and twin are level: 100.0% (intent accuracy, mean over 2 sets)" in compared.text("report.html")
    for flags, reason in (
        ([*systems, "--baseline", "best"], "there is no system 'best': must be one of good, bad, twin"),
        (["--systems", "good", "bad=x"], "'good' is not of the form NAME=OUT"),
        ([*systems, "--replicates", "-1"], "0 to 1,000,000"),
    ):
        assert reason in refused("compare", *flags, output=tmp_path / "no")


def test_inform_and_success_of_sgds_own_responses(real_data, tmp_path):
    flags = ["--reference", str(real_data / "sgd"), "--split", "dev", "--predictions", "reference"]
    files = evaluate("response", tmp_path / "out", *flags)
    of_all, details = files.json("metrics.json")["#ALL"], files.json("details.json")
    # Two dialogues are missed: the system offers what its search did not return.
    assert (of_all["inform"], of_all["success"]) == (343 / 345, 343 / 345)
    assert (details["searches"], details["requests"]) == (496, 362)
    assert details["requests_not_counted"] == {"never_answered": 10, "yes_or_no": 52}


def test_intents(tmp_path):
    made = evaluate("intent", tmp_path / "out", predictions=write(tmp_path / "p.jsonl", INTENTS))
    found = {name: (of["accuracy"], of["macro_f1"]) for name, of in made.json("metrics.json").items()}
    wanted = {
        "#ALL": (0.75 - 0.25, 2 * 2 / 5 / 2), "plain": (0.5, 2 / 3 / 2), "typos": (0.5, 0.5), "#MEAN": (0.5, 5 / 12)
    }  # fmt: skip
    assert found == {name: pytest.approx(pair) for name, pair in wanted.items()}
    page = made.text("report.html")
    assert (EVIL in page, "&lt;script&gt;" in page) == (False, True)
    assert [(row["set"], row["dialogue_id"], row["turn"], row["accuracy"]) for row in made.rows()] == [
        ("plain", "1", 0, 1.0), ("plain", "2", 0, 0.0), ("typos", "1", 0, 1.0), ("typos", "2", 0, 0.0)
    ]  # fmt: skip
    assert (made.manifest["pipeline"], made.manifest["counts"]) == ("evaluate_intent", {"items": 4})
    # The same from a reference, in any order.
    labels = [{key: row[key] for key in ("set", "id", "label", "utterance") if key in row} for row in INTENTS[::-1]]
    said = [{key: row[key] for key in ("set", "id", "predicted")} for row in (INTENTS[i] for i in (2, 0, 3, 1))]
    flags = ["--reference", write(tmp_path / "r.jsonl", labels), "--predictions", write(tmp_path / "q.jsonl", said)]
    again = evaluate("intent", tmp_path / "again", *flags)
    assert {name for name in made.files if made.files[name] != again.files[name]} == {"run.json"}


def predicted(folder, task, rows, name="predictions"):
    """The output of ``predict`` for the sample's test split."""
    path = f"{name}/original/test/{task}.jsonl"
    write(folder / path, rows)
    write(folder / "run.json", {"pipeline": "predict_llm", "files": {path: None}})
    return folder


def test_the_output_of_predict_is_taken_as_predictions(sample, tmp_path):
    intents = [{**place, "predicted": turn["frames"][0]["state"]["active_intent"]} for place, turn in turns_of("USER")]
    folder = predicted(tmp_path / "intents", "intent", intents)
    one = evaluate("intent", tmp_path / "one", reference=sample, predictions=folder)
    two = evaluate("intent", tmp_path / "two", reference=sample, predictions=folder / "predictions")
    assert one.json("metrics.json") == two.json("metrics.json")
    responses = [{**place, "response": turn["utterance"]} for place, turn in turns_of("SYSTEM")]
    folder = predicted(tmp_path / "responses", "responses", responses, "responses")
    write(folder / "predictions/original/test/dialogues_001.json", [])
    result = evaluate("response", tmp_path / "scores", reference=sample, predictions=folder)
    assert result.json("metrics.json")["#ALL"]["bleu"] == pytest.approx(100)


def test_variants_without_dialogues_are_refused_with_the_command_that_writes_them(sample, tmp_path):
    for split in ("train", "test"):
        write(tmp_path / "variants/v1" / split / "schema.json", (sample / split / "schema.json").read_bytes())
    flags = {"reference": sample, "variants": tmp_path / "variants", "output": tmp_path / "out"}
    for more in ({"task": "dst", "model": "names"}, {"task": "intent", "predictions": sample}):
        said = refused("evaluate", **flags, **more)
        assert "v1: --variants: contains schemas without dialogues: run 'parapet rewrite --variants " in said


@cases(
    "files expected",
    (["schema.json", "test.json"], "no dialogues: expected test/dialogues_001.json, or dialogues_001.json"),
    (["dialogues_001.json"], "no schema: expected train/schema.json, dev/schema.json or test/schema.json, or"),
)
def test_a_folder_in_another_layout_is_refused_with_that_which_is_expected(files, expected, sample, tmp_path):
    for name in files:
        write(tmp_path / "mine" / name, (sample / "test" / name.replace("test", "dialogues_001")).read_bytes())
    said = refused("evaluate", task="dst", model="names", reference=tmp_path / "mine", output=tmp_path / "out")
    assert f"mine: contains {'schemas, but ' if 'schema.json' in files else ''}{expected}" in said
