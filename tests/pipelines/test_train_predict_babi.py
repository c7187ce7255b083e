"""``parapet train`` and ``parapet predict`` for the bAbI tasks, as a person runs them."""

import json
from pathlib import Path
from statistics import mean

import pytest
from babi_toy import CANDIDATES, dialogues, unseen, write_toy
from kit import TWO_WORKERS, cases, files_of, json_of, lacking, refused, rows_of, run, write
from safetensors.torch import load_file

from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.transforms.simulators.formats import SILENCE, dialogue_text, parse_dialogues

SMALL = ["--size", "32", "--batch_size", "8", "--epochs", "60", "--patience", "60", "--quiet"]
LEARNED = 0.8  # of the answers; 0.6 are so without a memory, which the calls need
RATES = {  # a memory network learns the toy set at once: slowly, so that it can be stopped on the way
    "memn2n": ["--learning_rate", "0.002"],
    "embeddings": ["--learning_rate", "0.02", "--negatives", "60"],
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    return folder, write_toy(folder)


@pytest.fixture(scope="module")
def memn2n(toy, tmp_path_factory):
    """A model with match-type features, trained in one go."""
    out = tmp_path_factory.mktemp("models") / "memn2n"
    return run("train", "memn2n", *toy[1], *SMALL, *RATES["memn2n"], match=toy[0] / "kb.txt", output=out).folder


def answers_of(path):
    found = []
    for row in rows_of(path):
        found += [[]] * (row["dialogue"] == len(found))
        found[row["dialogue"]] = [*found[row["dialogue"]], row["answer"]]
        assert len(found[row["dialogue"]]) == row["turn"] + 1
    return found


def right(answers, toy_set):
    wanted = [[exchange.bot for exchange in one.exchanges] for one in toy_set]
    return mean(a == b for given, one in zip(answers, wanted, strict=True) for a, b in zip(given, one, strict=True))


@pytest.mark.parametrize(("model", "match"), [("memn2n", False), ("embeddings", True)])
def test_learns_a_toy_set(model, match, toy, tmp_path):
    flags = ["--match", str(toy[0] / "kb.txt")] if match else []
    run("train", model, *toy[1], *flags, *SMALL, *RATES[model], output=tmp_path / "model")
    from parapet.evaluation.models.babi import load

    _, loaded = load(str(tmp_path / "model"), model, "cpu", 16)
    assert right(loaded.answers(dialogues()), dialogues()) > LEARNED


@pytest.mark.thorough
def test_predictions_are_the_same_on_two_workers_and_are_evaluated(memn2n, toy, tmp_path):
    test, oov = toy[0] / "toy-task1-tst.txt", toy[0] / "toy-task1-tst-OOV.txt"
    many = tmp_path / "toy-many.txt"  # of several chunks, in another order
    many.write_text("".join(dialogue_text(one.lines) for one in (dialogues() * 5)[::-1]))
    flags = ["memn2n", "--quiet", "--model", str(memn2n), "--reference", str(test), str(many), "--sets", f"OOV={oov}"]
    flags += ["--attention", "2"]
    one, two = tmp_path / "one", tmp_path / "two"
    run("predict", *flags, "--output", one)
    run("predict", *flags, "--batch_size", "7", "--output", two, *TWO_WORKERS)
    assert files_of(one) == files_of(two)
    answers = answers_of(one / "predictions" / "original" / "toy-task1-tst.jsonl")
    assert answers_of(one / "predictions" / "original" / "toy-many.jsonl") == (answers * 5)[::-1]
    assert right(answers, dialogues()) > LEARNED
    # What is matched by type is found though training never had it; half needs no match, "hello" and "on it".
    assert right(answers_of(one / "predictions" / "OOV" / "toy-task1-tst-OOV.jsonl"), unseen()) > 0.5
    counts = json_of(one / "run.json")["counts"]
    assert {counts[f"{kind}/predictions/original/toy-task1-tst.jsonl"] for kind in ("turns", "answers")} == {104}
    given = {"task": "ranking", "reference": test, "predictions": one / "predictions"}
    metrics = run("evaluate", **given, candidates=toy[0] / "candidates.txt", output=tmp_path / "s").json("metrics.json")
    assert metrics["#ALL"]["per_response"] == right(answers, dialogues())
    of_sets = run("evaluate", **given, sets=f"OOV={oov}", output=tmp_path / "sets").json("metrics.json")
    assert of_sets["original"] == metrics["#ALL"]
    assert of_sets["OOV"]["per_response"] > 0.5


def test_what_is_too_long_is_cut_and_counted(toy, tmp_path):
    run("train", "memn2n", *toy[1], *SMALL, memory=3, epochs=1, output=tmp_path / "model")
    test = toy[0] / "toy-task1-tst.txt"
    predicted = run("predict", "memn2n", model=tmp_path / "model", reference=test, output=tmp_path / "out")
    name = "predictions/original/toy-task1-tst.jsonl"
    # Of each dialogue the first turn has nothing before it, the second two lines.
    expected = sum(max(0, len(one.exchanges) - 2) for one in parse_dialogues(test.read_bytes(), ""))
    assert 0 < predicted.manifest["counts"][f"too_long/{name}"] == expected
    told = f"{name}: {expected} turns with more history than --memory allows: the oldest lines were cut off"
    assert told in predicted.errors


def test_what_a_memory_network_attends_to(memn2n, toy, tmp_path):
    flags = ["memn2n", "--model", str(memn2n), "--reference", str(toy[0] / "toy-task1-tst.txt")]
    plain, out = tmp_path / "plain", tmp_path / "out"
    run("predict", *flags, "--quiet", "--output", plain)
    run("predict", *flags, "--attention", "2", "--output", out)

    answers = Path("predictions") / "original" / "toy-task1-tst.jsonl"
    assert (out / answers).read_bytes() == (plain / answers).read_bytes()
    assert not (plain / "attention").exists()
    folder = out / "attention" / "original"
    rows = rows_of(folder / "toy-task1-tst.jsonl")
    assert [row["predicted"] for row in rows] == [[answer] for one in answers_of(out / answers)[:2] for answer in one]
    call = next(row for row in rows if row["correct"].startswith("api_call"))
    heaviest = max(call["memories"], key=lambda memory: memory["attention"][0])
    assert heaviest["text"] == "a thai table in rome"  # all that the call needs
    assert "a thai table in rome" in (folder / "toy-task1-tst.html").read_text()
    assert json_of(out / "run.json")["options"] == {"attention": 2, "top": 1}
    told = refused("predict", *flags, attention=65, output=tmp_path / "no")
    assert "--attention: 65: must be a number from 0 to 64" in told
    told = refused("predict", "embeddings", *flags[1:], attention=1, output=tmp_path / "no")
    assert "unknown flag --attention" in told


def test_models_that_learn_nothing(toy, tmp_path):
    candidates, kb = ["--candidates", str(toy[0] / "candidates.txt")], ["--match", str(toy[0] / "kb.txt")]
    learned = ["--train", str(toy[0] / "toy-task1-trn.txt")]
    made = {"rules": [], "tfidf": [*learned, *candidates, *kb, "--input", "last"], "nearest": learned}
    trained = {model: run("train", model, *flags, output=tmp_path / model) for model, flags in made.items()}
    assert f"tfidf: the model is in {tmp_path / 'tfidf'}" in trained["tfidf"].output
    reference = ["--reference", str(toy[0] / "toy-task1-tst.txt")]
    told = run("predict", "rules", *reference, model=tmp_path / "rules", output=tmp_path / "o")
    assert "toy-task1-tst.jsonl: no rule applied at 32 turns: the answer is empty" in told.errors
    assert "predictions/original/toy-task1-tst.jsonl: 104 answers" in told.output


def test_dev_selects_the_input_of_tfidf(toy, tmp_path):
    given = {"train": toy[0] / "toy-task1-trn.txt", "candidates": toy[0] / "candidates.txt"}
    for name, text in {
        "history": "1 api_call thai rome\thello\n2 zzz\tapi_call thai rome\n\n",
        "last": "1 api_call thai rome\tapi_call thai rome\n2 hello\thello\n\n",
        "either": "1 hello\thello\n\n",
    }.items():
        given["dev"] = write(tmp_path / f"{name}.txt", text)
        trained = run("train", "tfidf", **given, output=tmp_path / name)
        assert trained.manifest["options"]["input"] == ("history" if name == "history" else "last")
        assert trained.json(MODEL)["history"] is (name == "history")
    given["dev"] = tmp_path / "history.txt"
    assert run("train", "tfidf", **given, input="last", output=tmp_path / "both").json(MODEL)["history"] is False


def test_rankings_are_written_and_scored(toy, tmp_path):
    reference = ["--reference", str(toy[0] / "toy-task1-tst.txt")]
    train_file, model = toy[0] / "toy-task1-trn.txt", tmp_path / "model"
    run("train", "nearest", train=train_file, similarity="overlap", output=model)
    asked = ["predict", "nearest", "--model", model, *reference]
    assert "--top: 0: must be 1 or more" in refused(*asked, top="0", output=tmp_path / "no")
    run(*asked, top=3, output=tmp_path / "top")
    run(*asked, output=tmp_path / "best")
    top, best = (rows_of(tmp_path / a / "predictions/original/toy-task1-tst.jsonl") for a in ("top", "best"))
    assert [{**row, "answers": None} for row in top] == [{**row, "answers": None} for row in best]
    assert {len(row["answers"]) for row in top} == {3}
    scores = ["evaluate", "--task", "ranking", *reference, "--predictions", tmp_path / "top" / "predictions"]
    refused(*scores, top=101, output=tmp_path / "no")
    scored = run(*scores, top=3, output=tmp_path / "scores")
    found = scored.json("metrics.json")["#ALL"]
    answers = [e.bot for one in dialogues() for e in one.exchanges]
    within = sum(answer in row["answers"] for answer, row in zip(answers, top, strict=True)) / len(top)
    assert found["per_response"] < found["per_response_top_3"] == within
    assert f"per response {within:.1%}, per dialogue" in scored.output
    assert "within the top 3, mean reciprocal rank 0." in scored.output
    assert not lacking(scored.text("report.html"), "<th", "Within the first answers")


def test_files_like_the_published_ones_of_task_6(toy, tmp_path):
    """Candidates without a last newline, empty user turns, facts without tabs: the answers are the same."""
    clean, odd = toy[0], tmp_path / "odd"
    texts = {path.name: path.read_text() for path in clean.glob("*.txt")}
    texts["candidates.txt"] = texts["candidates.txt"].rstrip("\n")
    texts["kb.txt"] = texts["kb.txt"].replace("\t", " ")
    for name in ("toy-task1-trn.txt", "toy-task1-tst.txt"):
        assert texts[name].count(f"{SILENCE}\t") > 6
        texts[name] = texts[name].replace(f"{SILENCE}\t", "\t", 6)
    for name, text in texts.items():
        write(odd / name, text)
    answers = []
    for folder in (clean, odd):
        out = tmp_path / f"from_{folder.name}"
        learned = {"train": folder / "toy-task1-trn.txt", "candidates": folder / "candidates.txt"}
        run("train", "tfidf", **learned, match=folder / "kb.txt", output=out / "model")
        run("predict", "tfidf", model=out / "model", reference=folder / "toy-task1-tst.txt", output=out / "answers")
        answers.append((out / "answers" / "predictions/original/toy-task1-tst.jsonl").read_text())
    assert answers[0] == answers[1]


def test_bad_training_input_is_told(toy, tmp_path):
    flags = toy[1]

    def told(*more, model="memn2n", given=flags, **how):
        return refused("train", model, *given, *more, **how, output=tmp_path / "out")

    some = write(tmp_path / "some.txt", "1 hello\n1 on it\n")
    one = write(tmp_path / "one.txt", "1 hello\n")
    facts = write(tmp_path / "facts-alone.txt", "1 a R_b c\n\n")
    other = write(tmp_path / "toy-task2-trn.txt", "1 hi\thello\n\n")
    fewer = [*flags[:4], "--candidates"]
    assert "line 5: 'api_call thai rome' is none" not in told(given=flags[:4], candidates=tmp_path / "absent.txt")
    answer = told(some, given=fewer)
    assert "toy-task1-trn.txt: dialogue from line 1: 'api_call thai rome' is not among the candidates (40" in answer
    assert "there is only one candidate" in told(one, given=fewer)
    assert "is for task 1, but" in told(given=["--train", other, *flags[2:]])
    assert "the bot says nothing in this dialogue" in told(given=["--train", facts, *flags[2:]])
    kb = write(tmp_path / "kb.txt", "1 a R_b\tc\n")
    assert "no candidate has a value of this knowledge base" in told("--match", kb)
    assert "--learning_rate: nan: must be a number above 0" in told("--learning_rate", "nan")
    assert "--hops: 0: must be 1 or more" in told("--hops", "0")
    assert "unknown flag --hops: did you mean" in told("--hops", "2", model="embeddings")
    assert "the following arguments are required: --candidates" in told(given=flags[:4])
    assert "there is no such file" in told("--ontology", str(tmp_path / "no.toml"), model="rules", given=[])
    (tmp_path / "bad.toml").write_text("domain = 3")
    assert "bad.toml" in told("--ontology", str(tmp_path / "bad.toml"), model="rules", given=[])
    assert "--train: requires --rules" in told("--train", str(one), model="rules", given=[])
    assert refused("train", "memn2m").startswith("parapet train: there is no model 'memn2m': did you mean")
    assert "out of memory: lower --batch_size, which is 32, or the flags for sizes" in told(size=2**31, status=1)


def test_bad_models_are_told(memn2n, toy, tmp_path):
    card, weights = (memn2n / MODEL).read_bytes(), (memn2n / WEIGHTS).read_bytes()
    folder = tmp_path / "model"

    def told(card, weights, kind="memn2n", name="toy-task1-tst.txt"):
        write(folder / MODEL, card)
        (folder / WEIGHTS).unlink(missing_ok=True)
        if weights is not None:
            write(folder / WEIGHTS, weights)
        return refused("predict", kind, model=folder, reference=toy[0] / name, output=tmp_path / "out")

    assert "is a model of another kind, 'memn2n': use 'parapet predict memn2n'" in told(card, weights, "tfidf")
    assert "weights.safetensors: is truncated or damaged" in told(card, weights[:-100])
    assert "weights.safetensors: is truncated or damaged" in told(card, b"")
    assert "weights.safetensors: cannot be read" in told(card, None)
    assert "model.json: is damaged, or was not written by Parapet" in told(card[:-100], weights)
    other = json.loads(card)
    for settings in ({**other["settings"], "size": 16}, {}):
        assert "does not match model.json beside it: " in told(other | {"settings": settings}, weights)
    assert "there is no such file" in told(card, weights, name="absent.txt")
    (folder / MODEL).unlink()
    said = refused("predict", "memn2n", model=folder, reference=toy[0] / "toy-task1-tst.txt", output="x")
    assert "contains no model: expected model.json" in said


def of_babi(real_data, task):
    folder = real_data / "babi"
    if not folder.is_dir():
        pytest.skip("PARAPET_DATA has no babi")
    name = f"{folder}/dialog-babi-task{task}"
    return {
        "train": ["--train", f"{name}trn.txt", "--dev", f"{name}dev.txt"],
        "candidates": ["--candidates", f"{folder}/dialog-babi-candidates.txt"],
        "match": ["--match", f"{folder}/dialog-babi-kb-all.txt"],
        "reference": ["--reference", f"{name}tst.txt", f"{name}tst-OOV.txt"],
    }


def scored(model, flags, files, tmp_path):
    """Percentages of responses that are right, plain and OOV, to one digit as in the paper."""
    out, answers = tmp_path / "model", tmp_path / "answers"
    run("train", model, *flags, output=out)
    run("predict", model, *files["reference"], model=out, output=answers)
    given = [*files["reference"], "--predictions", answers / "predictions", *files["candidates"]]
    metrics = run("evaluate", *given, task="ranking", output=tmp_path / "scores").json("metrics.json")
    by_set = {name.endswith("OOV"): of["per_response"] for name, of in metrics.items() if name.startswith("task")}
    return [round(100 * by_set[oov], 1) for oov in (False, True)]


@pytest.mark.thorough
@cases(
    "model task flags figures tolerance",
    # The paper's, as far as the order of candidates that share no word, which is as in the file, does not move them.
    ("tfidf", 1, ["train", "candidates"], (5.6, 5.8), 0.3),
    ("tfidf", 4, ["train", "candidates"], (9.5, 9.8), 0.3),
    ("tfidf", 1, ["train", "candidates", "match"], (22.4, 22.4), 0),
    ("nearest", 1, ["train"], (55.1, 44.2), 0),  # Table 2 has 55.1 (44.1)
    ("nearest", 4, ["train"], (28.6, 28.5), 0),  # and 28.6 (28.6)
)
def test_models_without_training_give_the_numbers_of_the_paper(
    model, task, flags, figures, tolerance, real_data, tmp_path
):
    files = of_babi(real_data, task)
    given = [part for name in flags for part in files[name]]
    given = given[:2] if model == "nearest" else given  # which takes no dev
    assert scored(model, given, files, tmp_path) == pytest.approx(figures, abs=tolerance)


@pytest.mark.thorough
@cases("task match least", (1, False, (99, 72)), (1, True, (99, 92)), (4, False, (57, 56)), (4, True, (100, 100)))
def test_memn2n_is_as_good_as_the_papers(task, match, least, real_data, tmp_path):
    files = of_babi(real_data, task)
    flags = [*files["train"], *files["candidates"], *(files["match"] if match else [])]
    plain, oov = scored("memn2n", flags, files, tmp_path)
    assert plain >= least[0]
    assert oov >= least[1]


def test_what_a_training_writes(memn2n, toy):
    assert sorted(files_of(memn2n)) == ["log.jsonl", MODEL, "report.html", "run.json", WEIGHTS]
    head = json.loads((memn2n / "run.json").read_text())
    log = [json.loads(row) for row in (memn2n / "log.jsonl").read_text().splitlines()]
    best = max(log, key=lambda row: row["dev"])
    length = {"epoch": best["epoch"], "epochs": len(log), "step": best["step"], "steps": log[-1]["step"]}
    trained = sum(tensor.numel() for tensor in load_file(memn2n / WEIGHTS).values())
    words = {
        word for text in (*CANDIDATES, *json.loads((memn2n / MODEL).read_text())["words"]) for word in text.split()
    }
    assert head["result"] == {"dev": best["dev"], "parameters": trained, "vocabulary": len(words), **length}
    assert (head["pipeline"], head["options"]["size"]) == ("train_memn2n", 32)
    assert [one["flag"] for one in head["inputs"]] == ["train", "dev", "candidates", "match"]
    card = json.loads((memn2n / MODEL).read_text())
    assert (card["task"], card["candidates"]) == ("1", CANDIDATES)
    assert "welsh" not in card["words"]
    assert "welsh" in card["knowledge"]["R_cuisine"]
