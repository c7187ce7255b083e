"""``parapet evaluate --sets`` for every task, as run: the sample, with typos, and with out-of-domain turns.

Sets are compared on the dialogues that all of them have; too few of them are refused.
"""

import shutil

import kit
import pytest
from kit import cases, dialogues_of, edit, json_of, lacking, refused_at_once, rows_of, run, write

from parapet.schemas.layout import sample_root

SETS = ("original", "typos", "ood-20")
N_SYSTEM = {"original": 49, "typos": 49, "ood-20": 59}  # turns; ten are injected, each with an answer


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """The sets, as the commands write them."""
    folder = tmp_path_factory.mktemp("sets")
    typos = run("perturb", "typos", output=folder / "varied").folder / "typos"
    foreign = run("perturb", "ood", rates=0.2, output=folder / "foreign").folder / "ood-20"
    return {"original": sample_root(), "typos": typos, "ood-20": foreign}


def named(roots):
    return ["--sets", *(f"{name}={root}" for name, root in roots.items() if name != "original")]


def turns_of(root, speaker):
    """(dialogue id, position, turn) of the test dialogues."""
    found = dialogues_of(root / "test")
    turns = [(name, position, turn) for name in found for position, turn in enumerate(found[name]["turns"])]
    return [one for one in turns if one[2]["speaker"] == speaker]


def evaluate(task, out, *flags):
    """``metrics.json`` of a run."""
    return run("evaluate", *flags, task=task, output=out).json("metrics.json")


@pytest.fixture
def fails(tmp_path):
    """Runs what must fail before anything is written; gives its one line."""
    return lambda task, *flags: refused_at_once("evaluate", *flags, task=task, output=tmp_path / "no")


def responses(root, silent=""):
    """The reference's own responses, but for one dialogue in which nothing is said."""
    said, turns = {silent: "Hm."}, turns_of(root, "SYSTEM")
    return [{"dialogue_id": id_, "turn": i, "response": said.get(id_, turn["utterance"])} for id_, i, turn in turns]


def test_responses(roots, tmp_path):
    """In one of eight dialogues with typos nothing is offered."""
    silent = responses(roots["original"])[0]["dialogue_id"]
    for name, root in roots.items():
        rows = responses(root, silent if name == "typos" else "")
        assert len(rows) == N_SYSTEM[name]
        write(tmp_path / "said" / name / "test" / "responses.jsonl", rows)
    metrics = evaluate("response", tmp_path / "out", *named(roots), "--predictions", tmp_path / "said")
    shares = {name: (of["inform"], of["success"]) for name, of in metrics.items() if "inform" in of}
    whole = (1.0, 1.0)
    assert shares == {
        "original": whole, "typos": (7 / 8, 7 / 8), "ood-20": whole, "#ALL": (23 / 24, 23 / 24),
        "#MEAN": (pytest.approx(23 / 24), pytest.approx(23 / 24)),
    }  # fmt: skip
    assert metrics["original"]["combined"] == pytest.approx(200)
    assert metrics["typos"]["combined"] == pytest.approx(87.5 + metrics["typos"]["bleu"])
    assert metrics["typos"]["bleu"] < metrics["#ALL"]["bleu"] < 100
    rows = rows_of(tmp_path / "out" / "rows.parquet")
    assert [(row["set"], row["success"]) for row in rows if row["success"] != 1] == [("typos", 0.0)]
    assert len(rows) == 24
    details = json_of(tmp_path / "out" / "details.json")
    assert (details["dialogues"], details["sets"]["ood-20"]["dialogues"]) == (24, 8)
    manifest = json_of(tmp_path / "out" / "run.json")
    assert manifest["options"]["sets"] == list(SETS)
    assert manifest["counts"] == {"dialogues": 24, "responses": 49 + 49 + 59}


def test_variants_are_scored_as_the_original(roots, tmp_path):
    """Whatever the schema is called: a release has its variants with it."""
    release = tmp_path / "release"
    write(release / "MANIFEST.json", {})
    write(release / "sgd" / "v1" / "schema.json", (roots["original"] / "test" / "schema.json").read_bytes())
    (release / "sgd" / "original").symlink_to(roots["original"])
    for name, root in (("original", roots["original"]), ("v1", roots["original"])):
        write(tmp_path / "said" / f"{name}.jsonl", responses(root))
    metrics = evaluate("response", tmp_path / "out", "--reference", release, "--predictions", tmp_path / "said")
    assert {row["set"] for row in rows_of(tmp_path / "out/rows.parquet")} == {"original", "v1"}
    assert metrics["v1"] == metrics["original"]


def test_sets_that_cannot_be_scored(roots, tmp_path, fails):
    write(tmp_path / "said" / "original" / "test" / "r.jsonl", responses(roots["original"]))
    said = ["--predictions", tmp_path / "said"]
    typos = f"typos={roots['typos']}"
    other = write(tmp_path / "said.jsonl", [{**row, "set": "heard"} for row in responses(roots["original"])])
    bare = write(tmp_path / "bare.jsonl", responses(roots["original"]))
    for flags, reason in (
        ([*said, "--sets", typos], f"no predictions for typos: expected .jsonl files in {tmp_path}/said/typos/test"),
        ([*said, "--sets", typos, typos], "'typos' appears twice"),
        ([*said, "--sets", f"original={roots['typos']}"], "another set is called 'original'"),
        ([*said, "--sets", f"#typos={roots['typos']}"], "is not of the form NAME=ROOT"),
        (["--predictions", other], "line 1: there is no set 'heard', only original"),
        (["--sets", typos, "--predictions", bare], "has no 'set', but there are several sets: original, typos"),
    ):
        assert reason in fails("response", *flags)
    fewer = tmp_path / "said" / "typos" / "r.jsonl"
    write(fewer, responses(roots["typos"])[1:])
    assert "there is no prediction for dialogue" in (message := fails("response", *said, "--sets", typos))
    assert message.rstrip().endswith("turn 1 of typos")
    write(fewer, [{**row, "set": "original"} for row in responses(roots["typos"])])
    message = fails("response", *said, "--sets", typos)
    assert f"{fewer}: line 1: belongs to set 'original', but is in the files of 'typos'" in message


def intents(root):
    """Of each user turn with a state, the active intent of the service that the user turns to: the last."""
    frames = {(id_, turn): of["frames"] for id_, turn, of in turns_of(root, "USER")}
    states = {place: [frame["state"] for frame in some if "state" in frame] for place, some in frames.items()}
    return {place: some[-1]["active_intent"] for place, some in states.items() if some}


def test_intents_of_turns_with_several_frames(tmp_path, fails):
    """A prediction of a turn is of the service that the user turns to."""

    def said(service, intent, *acts):
        return kit.frame(service, *map(kit.act, acts), state=kit.state(intent))

    intents = [kit.intent("Find", "i"), kit.intent("Book", "i")]
    services = [kit.service(name, [], intents, "d") for name in ("A_1", "B_1")]
    first = kit.turn("USER", "turn 0", said("A_1", "Find", "INFORM_INTENT"))
    second = kit.turn("USER", "turn 1", said("A_1", "Find"), said("B_1", "Book", "INFORM_INTENT"))
    kit.corpus(tmp_path / "corpus", services, test=[kit.dialogue("1", first, second)])
    names = enumerate(("Find", "Book", "Find"))
    find, book, late = ({"dialogue_id": "1", "turn": turn, "predicted": name} for turn, name in names)
    corpus = ["--reference", tmp_path / "corpus"]
    of_turns = write(tmp_path / "turns.jsonl", [find, book])
    assert evaluate("intent", tmp_path / "one", *corpus, "--predictions", of_turns)["#ALL"]["accuracy"] == 1
    for rows, reason in (
        ([find], "there is no prediction for '1', turn 1"),
        ([find, book, book], "line 3: '1', turn 1 appears twice"),
        ([find, late], "line 2: the reference has no label for '1', turn 2"),
    ):
        assert reason in fails("intent", *corpus, "--predictions", write(tmp_path / "bad.jsonl", rows))


def test_intents_under_the_names_of_a_variant(tmp_path):
    """Predictions have the variant's names or the original's."""
    sample = sample_root()
    variant = tmp_path / "variants" / "v1" / "test"
    for path in (sample / "test").glob("*.json"):
        write(variant / path.name, path.read_bytes().replace(b"BookRepair", b"ReserveMending"))
    labels = intents(sample)
    assert "BookRepair" in labels.values()
    for name, put in (("original", "BookRepair"), ("v1", "ReserveMending")):
        write(tmp_path / "said" / f"{name}.jsonl", [
            {"dialogue_id": id_, "turn": turn, "predicted": label.replace("BookRepair", put) if turn < 4 else label}
            for (id_, turn), label in labels.items()
        ])  # fmt: skip
    flags = ["--reference", sample, "--variants", variant.parents[1], "--predictions", tmp_path / "said"]
    metrics = evaluate("intent", tmp_path / "out", *flags)
    assert {name: of["accuracy"] for name, of in metrics.items()} == dict.fromkeys(metrics, 1.0)
    assert set(metrics) == {"original", "v1", "#ALL", "#MEAN"}


def test_intents_of_sets_as_lines(tmp_path, fails):
    plain = write(tmp_path / "plain.jsonl", [{"id": 1, "label": "fly"}, {"id": 2, "label": "swim"}])
    typos = write(tmp_path / "typos.jsonl", [{"id": 1, "label": "fly"}])
    rows = [{"set": "original", "id": 1, "predicted": "fly"}, {"set": "original", "id": 2, "predicted": "fly"},
            {"set": "typos", "id": 1, "predicted": "fly"}]  # fmt: skip
    flags = ["--reference", plain, "--sets", f"typos={typos}", "--predictions"]
    metrics = evaluate("intent", tmp_path / "out", *flags, write(tmp_path / "p.jsonl", rows))
    accuracies = {name: of["accuracy"] for name, of in metrics.items()}
    assert accuracies == {"original": 1.0, "typos": 1.0, "#ALL": 1.0, "#MEAN": 1.0}  # of what both have
    write(typos, [{"set": "x", "id": 1, "label": "fly"}])
    assert "line 1: names a set" in fails("intent", *flags, tmp_path / "p.jsonl")
    assert "require --reference" in fails("intent", *flags[2:], tmp_path / "p.jsonl")


def is_foreign(root):
    rows = rows_of(root / "turns" / "test" / "dialogues_001.parquet")
    return {(row["dialogue_id"], row["turn"]) for row in rows if row["label"] == "ood"}


def verdicts(root, found):
    """The predictions of a detector that says which turns are out of domain."""
    turns = [(id_, turn) for id_, turn, _ in turns_of(root, "USER")]
    return [{"dialogue_id": at[0], "turn": at[1], "predicted": "ood" if at in found else "in_domain"} for at in turns]


def test_out_of_domain_turns(roots, tmp_path):
    """Eight of ten are found, and two others; one turn with typos seems foreign, and none of the original."""
    foreign = sorted(is_foreign(roots["ood-20"]))
    assert len(foreign) == 10
    others = [(id_, turn) for id_, turn, _ in turns_of(roots["ood-20"], "USER") if (id_, turn) not in foreign]
    first = next((id_, turn) for id_, turn, _ in turns_of(roots["typos"], "USER"))
    said = {"original": set(), "typos": {first}, "ood-20": {*foreign[:8], *others[:2]}}
    for name, root in roots.items():
        write(tmp_path / "said" / name / "test" / "ood.jsonl", verdicts(root, said[name]))
    flags = ["--reference", sample_root(), *named(roots), "--predictions", tmp_path / "said"]
    metrics = evaluate("ood", tmp_path / "out", *flags)
    expected = {"original": 1.0, "typos": 48 / 49, "ood-20": 55 / 59, "#ALL": 152 / 157}
    expected["#MEAN"] = (1 + 48 / 49 + 55 / 59) / 3
    assert {name: of["accuracy"] for name, of in metrics.items()} == pytest.approx(expected)
    # There is nothing to find in sets without foreign turns: F1 is that of the set that has some.
    f1 = {name: of["f1"] for name, of in metrics.items() if "f1" in of}
    assert f1 == pytest.approx({"ood-20": 0.8, "#MEAN": 0.8, "#ALL": 16 / 21})
    assert set(metrics["original"]) == {"accuracy"}
    (tmp_path / "variants").mkdir()
    (tmp_path / "variants" / "v1").symlink_to(sample_root())
    write(tmp_path / "said" / "v1.jsonl", verdicts(sample_root(), set()))
    varied = evaluate("ood", tmp_path / "varied", *flags, "--variants", tmp_path / "variants")
    assert varied["v1"] == {"accuracy": 1.0}
    flags = ["--reference", roots["ood-20"].parent, *flags[-2:], "--sets", f"typos={roots['typos']}"]
    more = evaluate("ood", tmp_path / "more", *flags)
    assert (more.keys() - metrics.keys(), more["ood-20"]) == (set(), metrics["ood-20"])


def test_labels_that_cannot_be_read(roots, tmp_path, fails):
    write(tmp_path / "said" / "original" / "ood.jsonl", verdicts(roots["original"], set()))
    foreign, said = roots["ood-20"].parent, ["--predictions", tmp_path / "said"]
    corpus = ["--reference", sample_root(), *said, "--sets"]
    for flags, reason in (
        ([*corpus, f"ood={foreign}"], f"the sets ood-20: give one of them, such as ood-20={foreign / 'ood-20'}"),
        ([*said], "is a folder, whose predictions have no labels: add --reference"),
        (["--reference", foreign, *said, "--split", "dev"], "contains no turns of split 'dev'; these splits have some"),
    ):
        assert reason in fails("ood", *flags)


def utterances(root, n_wrong):
    """The reference's own system turns, of which the first ones say nothing of what they should."""
    turns = enumerate(turns_of(root, "SYSTEM"))
    said = [(id_, turn, "Hm." if i < n_wrong else of["utterance"]) for i, (id_, turn, of) in turns]
    return [{"dialogue_id": id_, "turn": turn, "utterance": text} for id_, turn, text in said]


def write_variant(folder):
    """A variant of the sample's schema: other descriptions."""
    schema = json_of(sample_root() / "test" / "schema.json")
    for service in schema:
        service["service_name"] += "1"
        for slot in service["slots"]:
            slot["description"] = f"{slot['description']} please"
    write(folder / "v1" / "test" / "schema.json", schema)
    return folder


def test_utterances(roots, tmp_path, fails):
    """Two of the original's turns say nothing, ten of the variant's, none of the sets'."""
    n_wrong = {"original": 2, "v1": 10, "typos": 0, "ood-20": 0}
    for name, root in {**roots, "v1": roots["original"]}.items():
        write(tmp_path / "said" / name / "test" / "utterances.jsonl", utterances(root, n_wrong[name]))
    variants = write_variant(tmp_path / "variants")
    flags = [*named(roots), "--variants", variants, "--predictions", tmp_path / "said"]
    metrics = evaluate("generation", tmp_path / "out", *flags)
    assert metrics["typos"]["sgsacc"] == metrics["ood-20"]["sgsacc"] == 1
    assert metrics["typos"]["bleu"] == pytest.approx(100)
    assert 1 > metrics["original"]["sgsacc"] > metrics["v1"]["sgsacc"] > 0.5
    assert metrics["#MEAN"]["sgsacc"] == pytest.approx(sum([metrics[name]["sgsacc"] for name in n_wrong]) / 4)
    rows = rows_of(tmp_path / "out" / "rows.parquet")
    for group in (*n_wrong, "#ALL"):  # the mean of the rows of a set is its metric
        for metric in ("sgsacc", "slot_error_rate", "sgsacc_acts"):
            values = [row[metric] for row in rows if group in (row["set"], "#ALL") and row[metric] is not None]
            assert metrics[group][metric] == pytest.approx(sum(values) / len(values))
    assert {name: sum(row["utterance"] == "Hm." for row in rows if row["set"] == name) for name in n_wrong} == n_wrong
    details = json_of(tmp_path / "out" / "details.json")
    assert {name: of["turns"] for name, of in details["sets"].items()} == {**N_SYSTEM, "v1": 49}
    assert list(details["tampered_references"]) == ["ood-20", "original", "typos", "v1"]
    # Without predictions for it, a variant has its words tested, and is no set.
    shutil.rmtree(tmp_path / "said" / "v1")
    plain = evaluate("generation", tmp_path / "plain", "--variants", variants, "--predictions", tmp_path / "said")
    whole = {name: of for name, of in plain.items() if name[:6] not in ("#SEEN_", "#UNSEE")}
    assert whole == {"#ALL": metrics["original"]}
    words = json_of(tmp_path / "plain" / "details.json")["tampered_references"]
    assert words == {name: details["tampered_references"][name] for name in ("original", "v1")}
    own = evaluate("generation", tmp_path / "own", *named(roots), "--predictions", "reference")
    assert {name: own[name]["sgsacc"] for name in SETS} == dict.fromkeys(SETS, 1.0)
    write(tmp_path / "said" / "typos" / "test" / "utterances.jsonl", utterances(roots["typos"], 0)[1:])
    message = fails("generation", *named(roots), "--predictions", tmp_path / "said")
    assert message.rstrip().endswith("turn 1 of typos")


def test_answers_task_by_task(tmp_path, fails):
    """Plain files as the original; sets of a file, and of a folder with two."""
    one, two = "1 hi\thello\n2 rome\tapi_call x rome y z\n\n", "1 hi\thello\n\n1 hi\tbye\n\n"
    babi = tmp_path / "babi"
    for place in ("task1-tst.txt", "oov/task1-tst-OOV.txt"):
        write(babi / place, one)
    for place in ("task2-tst.txt", "oov/task2-tst-OOV.txt", "oov/kb.txt", "other/typed.txt"):
        write(babi / place, two)
    for name, answers in {
        "original/task1-tst": ["hello", "hello"], "original/task2-tst": ["hello", "bye"],
        "OOV/task1-tst-OOV": ["hello", "api_call x rome y z"], "OOV/task2-tst-OOV": ["no", "no"],
        "typos/typed": ["hello", "no"],
    }.items():  # fmt: skip
        rows = [{"dialogue": i * ("task1" not in name), "turn": i * ("task1" in name)} for i in (0, 1)]
        rows = [{**row, "answer": answer} for row, answer in zip(rows, answers, strict=True)]
        write(tmp_path / "said" / f"{name}.jsonl", rows)
    plain = ["--reference", babi / "task1-tst.txt", babi / "task2-tst.txt", "--predictions", tmp_path / "said"]
    sets = ["--sets", f"OOV={babi / 'oov'}", f"typos={babi / 'other' / 'typed.txt'}"]
    metrics = evaluate("ranking", tmp_path / "out", *plain, *sets)
    found = {name: (of["per_response"], of["per_dialogue"], of["api_call"]) for name, of in metrics.items()}
    assert found == {
        "original": (3 / 4, 2 / 3, 0.0), "OOV": (2 / 4, 1 / 3, 1.0), "typos": (1 / 2, 1 / 2, None),
        "#ALL": (6 / 10, 4 / 8, 0.5), "#MEAN": (pytest.approx(7 / 12), pytest.approx(0.5), None),
    }  # fmt: skip
    rows = rows_of(tmp_path / "out" / "rows.parquet")
    places = {f"{row['set']} {row['dialogue_id']}" for row in rows if row["set"] != "original"}
    of_oov = {f"OOV task{place}" for place in ("1-tst-OOV/0", "2-tst-OOV/0", "2-tst-OOV/1")}
    assert places == {*of_oov, "typos typed/0", "typos typed/1"}
    details = json_of(tmp_path / "out" / "details.json")["files"]
    shares = [details[name]["per_response"] for name in ("OOV/task1-tst-OOV", "original/task1-tst")]
    # Without sets each file is one, wherever its answers are; sets need no reference.
    alone = evaluate("ranking", tmp_path / "alone", *plain)["task1-tst"]["per_response"]
    assert (*shares, alone) == (1.0, 0.5, 0.5)
    only = evaluate("ranking", tmp_path / "only", *sets, "--predictions", tmp_path / "said")
    assert (only["OOV"], set(only)) == (metrics["OOV"], {"#ALL", "#MEAN", "OOV", "typos"})
    (tmp_path / "empty").mkdir()
    for flags, reason in (
        ([*plain, "--sets", f"heard={babi / 'oov'}"], f"{tmp_path}/said/heard: contains no answers: expected task1"),
        ([*plain, "--sets", f"original={babi / 'oov'}"], "the name 'original' is taken by the files of --reference"),
        ([*plain, "--sets", f"x={tmp_path / 'empty'}"], "contains no test files: expected .txt"),
        (["--predictions", tmp_path / "said"], "--reference: is required, unless --sets is given: name the test files"),
        ([*sets, "--predictions", babi / "task1-tst.txt"], "is a file, but there are 3 test files: give a folder"),
    ):
        assert reason in fails("ranking", *flags)


TEST_FILE = "test/dialogues_001.json"


@pytest.fixture
def folder(sample, tmp_path):
    """The sample's test split, two sets made from it, and predictions for all: their own annotation."""
    for name in ("original", "sets/v1", "sets/v2", "states/original", "states/v1", "states/v2"):
        shutil.copytree(sample / "test", tmp_path / name / "test")
    return tmp_path


def more(dialogues):
    return [*dialogues, *({**dialogue, "dialogue_id": f"new {i}"} for i, dialogue in enumerate(dialogues * 4))]


def sets_in(folder):
    return [f"{name}={folder}/sets/{name}" for name in ("v1", "v2")]


OF_REFERENCE = [f"{task} --predictions=reference" for task in ("response", "generation")]


@cases("line", "dst --model=names", "dst --predictions={}/states", *OF_REFERENCE)
def test_only_dialogues_that_all_sets_have_are_scored(line, folder):
    task, argv = line.format(folder).split(" ", 1)
    flags = {"task": task, "reference": folder / "original"}
    for name in ("original", "states/original"):
        edit(folder / name / TEST_FILE, lambda dialogues: dialogues[:6])
    for name in ("sets/v1", "states/v1"):
        edit(folder / name / TEST_FILE, more)
    whole = run("evaluate", argv, **flags, output=folder / "alone").json("metrics.json")
    result = run("evaluate", argv, **flags, sets=sets_in(folder), output=folder / "out")
    told = "the sets have different dialogues: only the 6 that all of them have are compared"
    assert not lacking(result.errors, told, ", without 34 of v1, 2 of v2")
    numbers = result.json("metrics.json")
    if task == "dst":
        sets = result.json("robustness.json")["sets"]
        assert len({of_set["failures"]["frames"] for of_set in sets.values()}) == 1
        assert sets["v1"]["metrics"] == sets["original"]["metrics"] == numbers == whole
    else:
        assert numbers["v1"] == numbers["original"] == whole["#ALL"]
        scored = {row["dialogue_id"] for row in result.rows("rows.parquet")}
        assert scored == dialogues_of(folder / "original").keys()


@cases("n", 3, 0)
def test_too_few_dialogues_in_common_are_refused(n, folder):
    edit(folder / "sets/v1" / TEST_FILE, lambda dialogues: dialogues[:n] or more(dialogues)[8:])
    flags = {"task": "dst", "model": "names", "reference": folder / "original", "sets": sets_in(folder)}
    told = refused_at_once("evaluate", **flags, output=folder / "out")
    assert f"the sets have different dialogues: all of them have only {n} of the 8 of original" in told
