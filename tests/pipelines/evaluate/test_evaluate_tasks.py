"""``parapet evaluate`` for intents, out-of-domain turns, rankings and responses, and ``parapet compare``, as run."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit import write

from parapet.pipelines.compare import run as run_compare
from parapet.pipelines.evaluate import run as run_evaluate
from parapet.schemas.rows import OOD_TURNS, parquet_bytes

EVIL = '<script>alert("1")</script>'


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def evaluate(task, out, *flags):
    assert run_evaluate(["--task", task, "--output", str(out), "--quiet", *flags]) == 0
    return {path.name: path.read_bytes() for path in out.iterdir()}


def failure(capfd, *argv):
    status = run_compare(argv[1:]) if argv[0] == "compare" else run_evaluate(argv)
    told = capfd.readouterr().err
    assert "Traceback" not in told
    return status, told


INTENTS = [
    {"set": "plain", "id": 1, "label": "fly", "predicted": "fly", "utterance": EVIL},
    {"set": "plain", "id": 2, "label": EVIL, "predicted": "fly", "utterance": EVIL},
    {"set": "typos", "id": 1, "label": "fly", "predicted": "fly"},
    {"set": "typos", "id": 2, "label": EVIL, "predicted": "swim\ud83d\ude00"},
]


def test_the_same_from_a_reference_and_in_any_order(tmp_path):
    first = evaluate("intent", tmp_path / "one", "--predictions", lines(tmp_path / "p.jsonl", INTENTS))
    labels = [{key: row[key] for key in ("set", "id", "label", "utterance") if key in row} for row in INTENTS[::-1]]
    said = [{key: row[key] for key in ("set", "id", "predicted")} for row in (INTENTS[i] for i in (2, 0, 3, 1))]
    flags = ["--reference", lines(tmp_path / "r.jsonl", labels), "--predictions", lines(tmp_path / "q.jsonl", said)]
    second = evaluate("intent", tmp_path / "two", *flags)
    assert {name for name in first if first[name] != second[name]} == {"run.json"}


def test_intents_that_do_not_fit(tmp_path, capfd):
    good, out = lines(tmp_path / "p.jsonl", INTENTS), str(tmp_path / "out")
    (tmp_path / "intents.txt").write_text("fly\n")
    some = lines(
        tmp_path / "r.jsonl", [{"set": "plain", "id": 1, "label": "walk"}, {"set": "plain", "id": 9, "label": "x"}]
    )
    bare = lines(tmp_path / "b.jsonl", [{"id": 1, "predicted": "fly"}])
    empty = lines(tmp_path / "e.jsonl", [{"id": 1, "predicted": " ", "label": "fly"}])
    for flags, reason in (
        (["--predictions", good, "--intents", str(tmp_path / "intents.txt")], f"{good}: line 2: {EVIL!r} is none of"),
        (["--predictions", good, "--reference", some], "line 3: there is no set 'typos', only plain"),
        (["--predictions", bare], "line 1: has no label"),
        (["--predictions", empty], "line 1: an intent is empty"),
        (["--predictions", str(tmp_path / "none")], "there is no such file"),
        (["--predictions", good, "--intents", str(tmp_path)], "is a folder; give a file"),
    ):
        status, told = failure(capfd, "--task", "intent", *flags, "--output", out)
        assert status == 2
        assert reason in told
    assert not (tmp_path / "out").exists()
    differs = lines(tmp_path / "d.jsonl", [{"id": 1, "label": "walk"}])
    told = failure(capfd, "--task", "intent", "--predictions", lines(tmp_path / "x.jsonl", [{**INTENTS[0], "set": ""}]),
                   "--reference", differs, "--output", out)[1]  # fmt: skip
    assert "the label is 'fly' here and 'walk' in the reference" in told


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
            (out / name / "turns" / split).mkdir(parents=True)
            place = out / name / "turns" / split / "dialogues_001.parquet"
            place.write_bytes(parquet_bytes(pa.Table.from_pylist(rows, schema=OOD_TURNS)))
    return out


def detected(folder, split, **fields):
    """A detector that knows what was injected, but for every third such turn."""
    rows = []
    for name in ("ood-10", "ood-20"):
        for path in sorted((folder / name / "turns" / split).glob("*.parquet")):
            for i, row in enumerate(pq.read_table(path).to_pylist()):
                score = 0.9 if row["label"] == "ood" and i % 3 else 0.1
                rows.append(
                    {"set": name, "dialogue_id": row["dialogue_id"], "turn": row["turn"], "score": score, **fields}
                )
    return rows


def test_out_of_domain_turns_of_ood(tmp_path, foreign):
    test, dev = (lines(tmp_path / f"{split}.jsonl", detected(foreign, split)) for split in ("test", "dev"))
    flags = ["--reference", str(foreign), "--predictions", test, "--dev", dev]
    files = evaluate("ood", tmp_path / "out", *flags)
    details, metrics = json.loads(files["details.json"]), json.loads(files["metrics.json"])
    assert details["threshold"]["value"] == 0.9
    assert set(metrics) == {"#ALL", "ood-10", "ood-20", "#MEAN"}
    rows = pq.read_table(tmp_path / "out" / "rows.parquet").to_pylist()
    assert details["groups"]["#ALL"] == {"turns": len(rows), "ood": sum(row["label"] == "ood" for row in rows)}
    found = sum(row["predicted"] == "ood" for row in rows)
    assert metrics["#ALL"]["recall"] == found / details["groups"]["#ALL"]["ood"]
    assert metrics["#ALL"]["precision"] == 1.0
    assert metrics["#ALL"]["accuracy"] == sum(row["accuracy"] for row in rows) / len(rows)
    only = [
        {key: row[key] for key in ("dialogue_id", "turn", "score")}
        for row in detected(foreign, "test")
        if row["set"] == "ood-10"
    ]
    alone = evaluate(
        "ood",
        tmp_path / "alone",
        "--reference",
        str(foreign),
        "--sets",
        "ood-10",
        "--predictions",
        lines(tmp_path / "only.jsonl", only),
    )
    # Without --dev there is no threshold, and without a threshold no F1.
    scored = json.loads(alone["metrics.json"])["ood-10"]
    assert (scored["auroc"], scored["f1"]) == (metrics["ood-10"]["auroc"], None)


def test_a_fallback_says_that_a_turn_is_out_of_domain(tmp_path, foreign, capfd):
    root = tmp_path / "set"
    table = pq.read_table(foreign / "ood-20" / "turns" / "test" / "dialogues_001.parquet").to_pylist()
    for row in table:
        row["fallback"] = "Our OWN fallback!" if row["label"] == "ood" else None
    (root / "ood-20" / "turns" / "test").mkdir(parents=True)
    place = root / "ood-20" / "turns" / "test" / "dialogues_001.parquet"
    place.write_bytes(parquet_bytes(pa.Table.from_pylist(table, schema=OOD_TURNS)))
    said = {2: "our own  fallback", 4: "Sure.", 6: "I'm afraid, I can't help with that one!"}
    rows = [
        {"dialogue_id": row["dialogue_id"], "turn": row["turn"] + 1, "response": said.get(row["turn"], "Sure.")}
        for row in table
    ]
    flags = ["--reference", str(root), "--predictions"]
    files = evaluate("ood", tmp_path / "out", *flags, lines(tmp_path / "responses.jsonl", rows))
    # Of the turns 2 and 4, which are foreign, one is found; 6 is none, and has one of the fallbacks of 'parapet ood'.
    found = json.loads(files["metrics.json"])["ood-20"]
    assert (found["precision"], found["recall"], found["f1"], found["auroc"]) == (0.5, 0.5, 0.5, None)
    both = [*rows, {"dialogue_id": rows[0]["dialogue_id"], "turn": 0, "predicted": "ood"}]
    status, told = failure(
        capfd, "--task", "ood", *flags, lines(tmp_path / "both.jsonl", both), "--output", str(tmp_path / "no")
    )
    assert (status, "appears twice" in told) == (2, True)


def test_out_of_domain_turns_that_do_not_fit(tmp_path, foreign, capfd):
    rows, out = detected(foreign, "test"), str(tmp_path / "out")
    good = lines(tmp_path / "p.jsonl", rows)
    labelled = lines(tmp_path / "l.jsonl", [{"id": 1, "label": "in", "score": 1}, {"id": 2, "label": "in", "score": 2}])
    scored = lines(tmp_path / "s.jsonl", [{"id": 1, "label": "ood", "score": 1}])
    reference = ["--reference", str(foreign)]
    for flags, reason in (
        ([*reference, "--predictions", lines(tmp_path / "1.jsonl", rows[:-1])], "there is no prediction for"),
        (
            [*reference, "--predictions", good, "--sets", "ood-30"],
            "there is no set 'ood-30'; there are: ood-10, ood-20",
        ),
        ([*reference, "--predictions", good, "--split", "train"], "no turns of split 'train'; there are: dev, test"),
        ([*reference, "--predictions", good, "--dev", good, "--dev_split", "test"], "not tuned on what is scored"),
        (["--predictions", good, "--sets", "a"], "--sets: needs a folder"),
        (["--predictions", good], "line 1: has no label"),
        (
            [*reference, "--predictions", lines(tmp_path / "2.jsonl", [{**row, "set": ""} for row in rows])],
            "line 1: has no 'set', and there are several: ood-10, ood-20",
        ),
        (
            [*reference, "--predictions", lines(tmp_path / "3.jsonl", [{**row, "label": "ood"} for row in rows])],
            "another",
        ),
        (["--predictions", labelled, "--dev", labelled], "is the same as --predictions"),
        (["--predictions", scored, "--dev", labelled], "no turn is ood"),
        (
            ["--predictions", lines(tmp_path / "4.jsonl", [{"id": 1, "label": "ood"}])],
            "neither a score nor a predicted",
        ),
        (["--predictions", lines(tmp_path / "5.jsonl", [{"id": 1, "label": "bad", "score": 1}])], "Invalid enum value"),
        (
            [
                "--predictions",
                lines(
                    tmp_path / "6.jsonl",
                    [{"id": 1, "label": "ood", "score": 1}, {"id": 2, "label": "in", "predicted": "ood"}],
                ),
            ],
            "line 2: has no score, and the first row has one",
        ),
        (["--reference", str(tmp_path), "--predictions", good], "no set of 'parapet ood' here"),
    ):
        status, told = failure(capfd, "--task", "ood", *flags, "--output", out)
        assert status == 2, told
        assert reason in told
    broken = tmp_path / "broken"
    write(broken / "ood-10" / "turns" / "test" / "x.parquet", b"PAR1")
    assert "x.parquet: cannot be read as Parquet" in failure(
        capfd, "--task", "ood", "--reference", str(broken), "--predictions", good, "--output", out
    )[1]  # fmt: skip


BABI = "1 hi\thello\n2 in rome\tapi_call french rome four cheap\n\n1 hi\thello\n\n"


def test_rankings(tmp_path, capfd):
    reference = tmp_path / "dialog-babi-task1tst.txt"
    reference.write_text(BABI)
    (tmp_path / "candidates.txt").write_text("1 hello\n2 api_call french rome two cheap\n")
    answers = [{"dialogue": 0, "turn": 0, "answer": "hello"}, {"dialogue": 1, "turn": 0, "answer": "hello"},
               {"dialogue": 0, "turn": 1, "answer": "api_call french rome two cheap"}]  # fmt: skip
    flags = ["--reference", str(reference), "--predictions", lines(tmp_path / "a.jsonl", answers)]
    argv = [
        "--task=ranking",
        *flags,
        "--candidates",
        str(tmp_path / "candidates.txt"),
        "--output",
        str(tmp_path / "out"),
    ]
    assert run_evaluate(argv) == 0
    told = capfd.readouterr()
    assert "task1tst: per response 66.7%, per dialogue 50.0%" in told.out
    assert "task1tst: 1 response cannot be answered: not among the candidates" in told.err
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_bytes())
    assert metrics["task1tst"]["api_call_number"] == 0.0
    assert metrics["#ALL"] == metrics["task1tst"]
    answers[0]["answer"] = EVIL
    evil = ["--reference", str(reference), "--predictions", lines(tmp_path / "b.jsonl", answers)]
    assert EVIL not in evaluate("ranking", tmp_path / "evil", *evil)["report.html"].decode()
    status, told_so = failure(capfd, "--task", "ranking", *evil, "--candidates", str(tmp_path / "candidates.txt"),
                              "--output", str(tmp_path / "no"))  # fmt: skip
    assert status == 2
    assert "dialogue 0 turn 0: '<script>" in told_so


def test_responses_of_the_sample(tmp_path, capfd, sample):
    files = evaluate("response", tmp_path / "own", "--predictions", "reference")
    assert json.loads(files["metrics.json"])["#ALL"] == pytest.approx(
        {"inform": 1.0, "success": 1.0, "bleu": 100.0, "combined": 200.0}
    )
    said = [
        {"dialogue_id": dialogue["dialogue_id"], "turn": t, "response": f"{EVIL} no idea"}
        for dialogue in json.loads((sample / "test" / "dialogues_001.json").read_bytes())
        for t, turn in enumerate(dialogue["turns"])
        if turn["speaker"] == "SYSTEM"
    ]
    poor = evaluate(
        "response", tmp_path / "poor", "--reference", str(sample), "--predictions", lines(tmp_path / "p.jsonl", said)
    )
    assert json.loads(poor["metrics.json"])["#ALL"]["success"] == 0.0
    domains = json.loads(poor["domains.json"])["original"]
    assert set(domains["domains"]) == {"Ferries", "Gyms", "Libraries", "Repairs"}
    assert domains["mean"]["success"] == 0.0
    assert json.loads(files["domains.json"])["original"]["domains"]["Gyms"]["intervals"]["success"] == [1.0, 1.0]
    assert EVIL not in poor["report.html"].decode()
    assert json.loads(poor["run.json"])["options"]["bleu_signature"].startswith("nrefs:1|case:lc|eff:no|tok:13a")
    out, goals = str(tmp_path / "out"), tmp_path / "goals.json"
    goals.write_text("{}")
    for flags, reason in (
        (["--goals", str(goals), "--reference", str(sample)], "give only one of them"),
        (["--goals", str(goals)], "go together"),
        (
            ["--reference", str(sample), "--split", "dev", "--predictions", str(tmp_path / "p.jsonl")],
            "not a turn of the system, which has 1, 3, 5, 7, 9\n",
        ),
    ):
        status, told = failure(capfd, "--task", "response", "--predictions", "reference", *flags, "--output", out)
        assert status == 2
        assert reason in told


def test_compare(tmp_path, capfd):
    for name, right in (("good", 19), ("bad", 4)):
        rows = [
            {"set": s, "id": i, "label": "a", "predicted": "a" if i <= right else "b"} for s in "xy" for i in range(20)
        ]
        evaluate("intent", tmp_path / name, "--predictions", lines(tmp_path / f"{name}.jsonl", rows))
    systems = ["--systems", f"good={tmp_path / 'good'}", f"bad={tmp_path / 'bad'}", f"twin={tmp_path / 'good'}"]
    argv = [*systems, "--metrics", "accuracy", "--replicates", "999", "--output"]
    assert run_compare([*argv, str(tmp_path / "board")]) == 0
    told = capfd.readouterr().out
    assert told.splitlines()[:4] == [
        "accuracy, %        good   twin   bad",
        "x                 100.0  100.0  25.0",
        "y                 100.0  100.0  25.0",
        "mean over 2 sets  100.0  100.0  25.0",
    ]
    assert "6 of 9 differences have p < 0.05" in told
    board = json.loads((tmp_path / "board" / "leaderboard.json").read_bytes())
    assert board["systems"] == ["good", "twin", "bad"]
    assert {one["dialogues"] for one in board["tests"]} == {20}
    parts = ["--systems", f"ours/x={tmp_path / 'good'}", f"ours/far={tmp_path / 'far'}", "--sets", "x", "far"]
    evaluate(
        "intent",
        tmp_path / "far",
        "--predictions",
        lines(tmp_path / "far.jsonl", [{**row, "set": "z"} for row in rows[:20]]),
    )
    chosen = [*parts, "--average", "x/accuracy", "far/macro_f1", "--output", str(tmp_path / "parts")]
    assert run_compare(chosen) == 0
    assert "mean of all numbers  70.0" in capfd.readouterr().out.splitlines()  # of 100, and 2 * 5 / (20 + 5)
    text = (tmp_path / "parts" / "table.md").read_text().splitlines()
    assert text[2] == "| system | average | x accuracy | far macro-F1 |"
    assert failure(capfd, "compare", *parts, "--average", "y/accuracy", "--output", str(tmp_path / "no"))[0] == 2
    again = [*argv, str(tmp_path / "again"), "--quiet", "--baseline", "bad"]
    assert run_compare(again) == 0
    fewer = json.loads((tmp_path / "again" / "leaderboard.json").read_bytes())
    assert {(one["first"], one["second"]) for one in fewer["tests"]} == {("good", "bad"), ("twin", "bad")}
    kept = ("first", "second", "column", "p", "interval")
    assert [[one[key] for key in kept] for one in fewer["tests"]] == [
        [one[key] for key in kept] for one in board["tests"] if "bad" in (one["first"], one["second"])
    ]
    page = (tmp_path / "board" / "report.html").read_text()
    assert "Systems next to each other" in page  # good and twin are level
    for flags, reason in (
        ([*systems, "--baseline", "bad=best"], "there is no system 'best', only good, bad, twin"),
        ([*systems, "--baseline", "bad=bad"], "a system is not its own baseline"),
        ([*systems, "--common", "--strict"], "not allowed with argument"),
        (["--systems", "good", "bad=x"], "expected NAME=OUT, found 'good'"),
        ([*systems, "--baseline", "best"], "there is no system 'best', only good, bad, twin"),
        ([*systems, "--metrics", "f1"], "no such metric: 'f1'; there are: accuracy, macro_f1"),
        ([*systems, "--replicates", "-1"], "0 to 1000000"),
        (["--systems", f"a={tmp_path / 'good'}", f"b={tmp_path}"], "no run.json here"),
    ):
        status, told = failure(capfd, "compare", *flags, "--output", str(tmp_path / "no"))
        assert status == 2
        assert reason in told


def test_compare_on_what_is_shared(tmp_path, capfd):
    for name, sets in (("more", "xyz"), ("fewer", "xy")):
        rows = [{"set": s, "id": i, "label": "a", "predicted": "ab"[i % 2]} for s in sets for i in range(4)]
        evaluate("intent", tmp_path / name, "--predictions", lines(tmp_path / f"{name}.jsonl", rows))
    systems = ["--systems", *(f"{name}={tmp_path / name}" for name in ("more", "fewer"))]
    out = ["--replicates", "9", "--output", str(tmp_path / "board")]
    assert run_compare([*systems, *out]) == 0
    assert "left out: set z of intent: not scored for 'fewer'" in capfd.readouterr().err
    assert "Left out: set z of intent" in (tmp_path / "board" / "report.html").read_text()
    assert run_compare([*systems, *out, "--common"]) == 0
    assert "left out" not in capfd.readouterr().err
    assert json.loads((tmp_path / "board" / "leaderboard.json").read_bytes())["left_out"] != []
    status, told = failure(capfd, "compare", *systems, *out, "--strict")
    assert status == 2
    assert "not scored on the same sets: set z of intent" in told
    assert run_compare(["--systems", f"more={tmp_path / 'more'}", "--output", str(tmp_path / "one")]) == 0
    names = {path.name for path in (tmp_path / "one").iterdir()}
    assert names == {
        "leaderboard.json", "table.csv", "table.parquet", "table.tex", "table.md", "report.html", "run.json"
    }  # fmt: skip


def test_the_output_is_no_input_and_another_commands_folder_is_left_alone(tmp_path, capfd):
    path = lines(tmp_path / "p.jsonl", INTENTS)
    evaluate("intent", tmp_path / "out", "--predictions", path)
    status, told = failure(
        capfd, "compare", "--systems", f"a={tmp_path / 'out'}", "b=x", "--output", str(tmp_path / "out")
    )
    assert status == 2
    assert "the same folder" in told
    rows = [{"id": 1, "label": "ood", "score": 1.0}]
    status, told = failure(
        capfd, "--task", "ood", "--predictions", lines(tmp_path / "o.jsonl", rows), "--output", str(tmp_path / "out")
    )
    assert status == 1
    assert "holds what 'parapet evaluate_intent' made" in told


def test_inform_and_success_of_sgds_own_responses(real_data, tmp_path):
    flags = ["--reference", str(real_data / "sgd"), "--split", "dev", "--predictions", "reference"]
    files = evaluate("response", tmp_path / "out", *flags)
    of_all, details = json.loads(files["metrics.json"])["#ALL"], json.loads(files["details.json"])
    # Two dialogues are missed: the system offers what its search did not return.
    assert (of_all["inform"], of_all["success"]) == (343 / 345, 343 / 345)
    assert (details["searches"], details["requests"]) == (496, 362)
    assert details["requests_not_counted"] == {"never_answered": 10, "yes_or_no": 52}


def test_bots_own_answers_to_babi(real_data, tmp_path):
    reference = real_data / "babi" / "dialog-babi-task1tst-OOV.txt"
    flags = ["--candidates", str(real_data / "babi" / "dialog-babi-candidates.txt"), "--predictions", str(reference)]
    metrics = json.loads(evaluate("ranking", tmp_path / "out", "--reference", str(reference), *flags)["metrics.json"])
    assert set(metrics["task1tst-OOV"].values()) == {1.0}
