"""``parapet train`` and ``parapet predict`` for the bAbI tasks, as a person runs them."""

import json
from pathlib import Path

import pytest
from babi_toy import CANDIDATES, FACTS, dialogues, unseen, write_toy
from kit import TWO_WORKERS, files_of, train

from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.pipelines.evaluate import run as evaluate
from parapet.pipelines.predict import run as predict
from parapet.transforms.simulators.babi_format import SILENCE, dialogue_text, parse_dialogues

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
    assert (
        train(["memn2n", *toy[1], "--match", str(toy[0] / "kb.txt"), *SMALL, *RATES["memn2n"], "--output", str(out)])
        == 0
    )
    return out


def answers_of(path):
    found = []
    for row in map(json.loads, path.read_text().splitlines()):
        found += [[]] * (row["dialogue"] == len(found))
        found[row["dialogue"]] = [*found[row["dialogue"]], row["answer"]]
        assert len(found[row["dialogue"]]) == row["turn"] + 1
    return found


def right(answers, toy_set):
    pairs = [
        (a, e.bot)
        for given, one in zip(answers, toy_set, strict=True)
        for a, e in zip(given, one.exchanges, strict=True)
    ]
    return sum(a == b for a, b in pairs) / len(pairs)


@pytest.mark.parametrize(("model", "match"), [("memn2n", False), ("embeddings", False), ("embeddings", True)])
def test_learns_a_toy_set(model, match, toy, tmp_path):
    flags = ["--match", str(toy[0] / "kb.txt")] if match else []
    assert train([model, *toy[1], *flags, *SMALL, *RATES[model], "--output", str(tmp_path / "model")]) == 0
    from parapet.evaluation.models.babi.inference import load

    _, loaded = load(str(tmp_path / "model"), model, "cpu", 16)
    assert right(loaded.answers(dialogues()), dialogues()) > LEARNED


def test_predictions_are_the_same_on_two_workers_and_are_evaluated(memn2n, toy, tmp_path):
    test, oov = toy[0] / "toy-task1-tst.txt", toy[0] / "toy-task1-tst-OOV.txt"
    many = tmp_path / "toy-many.txt"  # of several chunks, in another order
    some = (dialogues() * 5)[::-1]
    many.write_text("".join(dialogue_text(one.lines) for one in some))
    flags = ["memn2n", "--quiet", "--model", str(memn2n), "--reference", str(test), str(many), "--sets", f"OOV={oov}"]
    one, two = tmp_path / "one", tmp_path / "two"
    assert predict([*flags, "--output", str(one)]) == 0
    assert predict([*flags, "--batch_size", "7", "--output", str(two), *TWO_WORKERS]) == 0
    assert files_of(one) == files_of(two)
    answers = answers_of(one / "predictions" / "original" / "toy-task1-tst.jsonl")
    assert answers_of(one / "predictions" / "original" / "toy-many.jsonl") == (answers * 5)[::-1]
    assert right(answers, dialogues()) > LEARNED
    # What is matched by type is found though training never had it; half needs no match, "hello" and "on it".
    assert right(answers_of(one / "predictions" / "OOV" / "toy-task1-tst-OOV.jsonl"), unseen()) > 0.5
    counts = json.loads((one / "run.json").read_text())["counts"]
    counted = {counts[f"{kind}/predictions/original/toy-task1-tst.jsonl"] for kind in ("turns", "answers")}
    assert counted == {104}
    scores = ["--task", "ranking", "--quiet", "--reference", str(test), "--predictions", str(one / "predictions")]
    assert evaluate([*scores, "--candidates", str(toy[0] / "candidates.txt"), "--output", str(tmp_path / "s")]) == 0
    metrics = json.loads((tmp_path / "s" / "metrics.json").read_text())
    assert metrics["#ALL"]["per_response"] == right(answers, dialogues())
    assert evaluate([*scores, "--sets", f"OOV={oov}", "--output", str(tmp_path / "sets")]) == 0
    of_sets = json.loads((tmp_path / "sets" / "metrics.json").read_text())
    assert of_sets["original"] == metrics["#ALL"]
    assert of_sets["OOV"]["per_response"] > 0.5


def test_what_is_too_long_is_cut_and_counted(toy, tmp_path, capsys):
    flags = [*toy[1], "--memory", "3", *SMALL, "--epochs", "1"]
    assert train(["memn2n", *flags, "--output", str(tmp_path / "model")]) == 0
    test = toy[0] / "toy-task1-tst.txt"
    given = ["memn2n", "--model", str(tmp_path / "model"), "--reference", str(test), "--output", str(tmp_path / "out")]
    assert predict(given) == 0
    counts = json.loads((tmp_path / "out" / "run.json").read_text())["counts"]
    name = "predictions/original/toy-task1-tst.jsonl"
    # Of each dialogue the first turn has nothing before it, the second two lines.
    expected = sum(max(0, len(one.exchanges) - 2) for one in parse_dialogues(test.read_bytes(), ""))
    assert 0 < counts[f"too_long/{name}"] == expected
    told = f"{name}: {expected} turns with more history than the model's --memory: the oldest lines were cut off"
    assert told in capsys.readouterr().err


def test_what_a_memory_network_attends_to(memn2n, toy, tmp_path, capsys):
    test = toy[0] / "toy-task1-tst.txt"
    flags = ["memn2n", "--model", str(memn2n), "--reference", str(test)]
    plain, out, two = tmp_path / "plain", tmp_path / "out", tmp_path / "two"
    assert predict([*flags, "--quiet", "--output", str(plain)]) == 0
    assert predict([*flags, "--attention", "2", "--output", str(out)]) == 0
    assert f"{out}/attention: a page and JSON lines a file" in capsys.readouterr().out
    assert predict([*flags, "--quiet", "--attention", "2", "--output", str(two), *TWO_WORKERS]) == 0
    assert files_of(out) == files_of(two)
    answers = Path("predictions") / "original" / "toy-task1-tst.jsonl"
    assert (out / answers).read_bytes() == (plain / answers).read_bytes()
    assert not (plain / "attention").exists()
    folder = out / "attention" / "original"
    rows = [json.loads(line) for line in (folder / "toy-task1-tst.jsonl").read_text().splitlines()]
    given = answers_of(out / answers)[:2]
    assert [row["predicted"] for row in rows] == [[answer] for one in given for answer in one]
    call = next(row for row in rows if row["correct"].startswith("api_call"))
    heaviest = max(call["memories"], key=lambda memory: memory["attention"][0])
    assert heaviest["text"] == "a thai table in rome"  # all that the call needs
    assert "a thai table in rome" in (folder / "toy-task1-tst.html").read_text()
    head = json.loads((out / "run.json").read_text())
    assert head["options"] == {"attention": 2}
    assert "--attention: 65: give a number from 0 to 64" in refused(
        ["predict", *flags, "--attention", "65", "--output", str(tmp_path / "no")], capsys
    )
    assert "unknown flag --attention" in refused(
        ["predict", "embeddings", *flags[1:], "--attention", "1", "--output", str(tmp_path / "no")], capsys
    )


def test_models_that_learn_nothing(toy, tmp_path, capsys):
    candidates, kb = ["--candidates", str(toy[0] / "candidates.txt")], ["--match", str(toy[0] / "kb.txt")]
    learned = ["--train", str(toy[0] / "toy-task1-trn.txt")]
    made = {"rules": [], "tfidf": [*learned, *candidates, *kb, "--input", "last"], "nearest": learned}
    for model, flags in made.items():
        assert train([model, *flags, "--output", str(tmp_path / model)]) == 0
    assert f"tfidf: the model is in {tmp_path / 'tfidf'}" in capsys.readouterr().out
    reference = ["--reference", str(toy[0] / "toy-task1-tst.txt")]
    rules = ["rules", "--model", str(tmp_path / "rules"), *reference, "--output", str(tmp_path / "o")]
    assert predict(rules) == 0
    told = capsys.readouterr()
    assert "toy-task1-tst.jsonl: no rule applies at 32 turns: the answer is empty" in told.err
    assert "toy-task1-tst.jsonl: 72 turns with words that the rules do not know" in told.err
    assert "predictions/original/toy-task1-tst.jsonl: 104 answers" in told.out


def test_dev_selects_the_input_of_tfidf(toy, tmp_path, capsys):
    train_and_candidates = [
        "--train",
        str(toy[0] / "toy-task1-trn.txt"),
        "--candidates",
        str(toy[0] / "candidates.txt"),
    ]
    texts = {
        "history": "1 api_call thai rome\thello\n2 zzz\tapi_call thai rome\n\n",
        "last": "1 api_call thai rome\tapi_call thai rome\n2 hello\thello\n\n",
        "either": "1 hello\thello\n\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
        flags = ["tfidf", *train_and_candidates, "--dev", str(tmp_path / f"{name}.txt")]
        assert train([*flags, "--output", str(tmp_path / name)]) == 0
        run = json.loads((tmp_path / name / "run.json").read_text())
        assert run["options"]["input"] == ("history" if name == "history" else "last")
        assert json.loads((tmp_path / name / MODEL).read_text())["history"] is (name == "history")
    capsys.readouterr()
    assert train([*flags, "--input", "last", "--output", str(tmp_path / "both")]) == 2
    assert "--dev selects the input, and --input last is given: give one of them" in capsys.readouterr().err


def test_rankings_are_written_and_scored(toy, tmp_path, capsys):
    reference = ["--reference", str(toy[0] / "toy-task1-tst.txt")]
    given = ["nearest", "--train", str(toy[0] / "toy-task1-trn.txt"), "--similarity", "overlap"]
    assert train([*given, "--output", str(tmp_path / "model")]) == 0
    model = ["nearest", "--model", str(tmp_path / "model"), *reference]
    assert predict([*model, "--top", "0", "--output", str(tmp_path / "no")]) == 2
    assert "--top: 0: give 1 or more" in capsys.readouterr().err
    assert predict([*model, "--top", "3", "--output", str(tmp_path / "top")]) == 0
    assert predict([*model, "--output", str(tmp_path / "best")]) == 0
    name = "predictions/original/toy-task1-tst.jsonl"
    top, best = ([json.loads(row) for row in (tmp_path / a / name).read_text().splitlines()] for a in ("top", "best"))
    assert [{**row, "answers": None} for row in top] == [{**row, "answers": None} for row in best]
    assert {len(row["answers"]) for row in top} == {3}
    scores = ["--task", "ranking", *reference, "--predictions", str(tmp_path / "top" / "predictions")]
    assert evaluate([*scores, "--top", "101", "--output", str(tmp_path / "no")]) == 2
    capsys.readouterr()
    assert evaluate([*scores, "--top", "3", "--output", str(tmp_path / "scores")]) == 0
    found = json.loads((tmp_path / "scores/metrics.json").read_text())["#ALL"]
    answers = [e.bot for one in dialogues() for e in one.exchanges]
    within = sum(answer in row["answers"] for answer, row in zip(answers, top, strict=True)) / len(top)
    assert found["per_response"] < found["per_response_top_3"] == within
    assert f"per response {within:.1%}, per dialogue" in (said := capsys.readouterr().out)
    assert "within the top 3, mean reciprocal rank 0." in said
    assert "<th" in (page := (tmp_path / "scores/report.html").read_text())
    assert "Within the first answers" in page


def test_files_like_the_published_ones_of_task_6(toy, tmp_path, capsys):
    """Candidates without a last newline, empty user turns, facts without tabs: warned of, the answers are the same."""
    clean, odd = toy[0], tmp_path / "odd"
    odd.mkdir()
    texts = {path.name: path.read_text() for path in clean.glob("*.txt")}
    silences = texts["toy-task1-trn.txt"].count(SILENCE)
    texts["candidates.txt"] = texts["candidates.txt"].rstrip("\n")
    texts["kb.txt"] = texts["kb.txt"].replace("\t", " ")
    for name in ("toy-task1-trn.txt", "toy-task1-tst.txt"):
        texts[name] = texts[name].replace(f"{SILENCE}\t", "\t", 6)
    for name, text in texts.items():
        (odd / name).write_text(text)
    assert silences > 6
    found, said = [], []
    for folder in (clean, odd):
        out = tmp_path / f"from_{folder.name}"
        learned = ["--train", str(folder / "toy-task1-trn.txt")]
        given = {
            "tfidf": [*learned, "--candidates", str(folder / "candidates.txt"), "--match", str(folder / "kb.txt")],
            "nearest": [*learned, "--similarity", "overlap"],
        }
        reference = ["--reference", str(folder / "toy-task1-tst.txt")]
        for model, flags in given.items():
            assert train([model, *flags, "--output", str(out / model)]) == 0
            model_and_out = ["--model", str(out / model), "--output", str(out / f"{model}_answers")]
            assert predict([model, *model_and_out, *reference, *TWO_WORKERS]) == 0
        predictions = ["--predictions", str(out / "tfidf_answers" / "predictions")]
        scores = [*reference, *predictions, "--candidates", str(folder / "candidates.txt")]
        assert evaluate(["--task", "ranking", *scores, "--output", str(out / "scores")]) == 0
        found.append([path.read_bytes() for path in sorted(out.glob("*_answers/predictions/original/*"))])
        found[-1].append((out / "scores" / "metrics.json").read_bytes())
        said.append(capsys.readouterr().err)
    assert found[0] == found[1]
    assert "accepted" not in said[0]
    turns = "accepted 6 empty user turns, read as <SILENCE>; the first is in line 3"
    facts = f"accepted {len(FACTS)} facts with a space instead of the tab; the first is in line 1"
    last = f"accepted 1 last line without a newline (is it whole?); line {len(CANDIDATES)}"
    for name, told, times in (  # of the test: twice as it is predicted, once as it is scored
        ("toy-task1-trn.txt", turns, 2),
        ("toy-task1-tst.txt", turns, 3),
        ("kb.txt", facts, 1),
        ("candidates.txt", last, 2),
    ):
        assert said[1].count(f"{odd / name}: {told}") == times, said[1]


def refused(command, capsys, status=2):
    run = {"train": train, "predict": predict}[command[0]]
    assert run(command[1:]) == status
    told = capsys.readouterr().err
    assert "Traceback" not in told
    return told


def test_bad_training_input_is_told(toy, tmp_path, capsys):
    flags = toy[1]
    out = ["--output", str(tmp_path / "out")]

    def told(*more, model="memn2n", given=flags):
        return refused(["train", model, *given, *more, *out], capsys)

    (tmp_path / "some.txt").write_text("1 hello\n1 on it\n")
    (tmp_path / "one.txt").write_text("1 hello\n")
    (tmp_path / "facts-alone.txt").write_text("1 a R_b c\n\n")
    (tmp_path / "toy-task2-trn.txt").write_text("1 hi\thello\n\n")
    (tmp_path / "kb.txt").write_text("1 a R_b\tc\n")
    fewer = [*flags[:4], "--candidates"]
    assert "line 5: 'api_call thai rome' is none" not in told(
        "--candidates", str(tmp_path / "absent.txt"), given=flags[:4]
    )
    answer = told(str(tmp_path / "some.txt"), given=fewer)
    assert "toy-task1-trn.txt: dialogue from line 1: 'api_call thai rome' is not among the candidates (40" in answer
    assert "there is only one candidate" in told(str(tmp_path / "one.txt"), given=fewer)
    mixed = ["--train", str(tmp_path / "toy-task2-trn.txt"), *flags[2:]]
    assert "is of task 1, and" in told(given=mixed)
    assert "the bot says nothing in it" in told(given=["--train", str(tmp_path / "facts-alone.txt"), *flags[2:]])
    assert "no candidate has a value of this knowledge base" in told("--match", str(tmp_path / "kb.txt"))
    assert "--learning_rate: nan: give a number above 0" in told("--learning_rate", "nan")
    assert "--hops: 0: give 1 or more" in told("--hops", "0")
    assert "unknown flag --hops: did you mean" in told("--hops", "2", model="embeddings")
    assert "the following arguments are required: --candidates" in told(given=flags[:4])
    assert "there is no such file" in told("--ontology", str(tmp_path / "no.toml"), model="rules", given=[])
    (tmp_path / "bad.toml").write_text("domain = 3")
    assert "bad.toml" in told("--ontology", str(tmp_path / "bad.toml"), model="rules", given=[])
    assert refused(["train", "memn2m"], capsys).startswith("parapet train: there is no model 'memn2m': did you mean")
    huge = ["train", "memn2n", *flags, "--size", str(2**31), *out]
    assert "out of memory: lower --batch_size, which is 32, or --size" in refused(huge, capsys, 1)


def test_bad_models_are_told(memn2n, toy, tmp_path, capsys):
    card, weights = (memn2n / MODEL).read_bytes(), (memn2n / WEIGHTS).read_bytes()
    folder = tmp_path / "model"
    folder.mkdir()

    def told(card, weights, model="memn2n", name="toy-task1-tst.txt"):
        (folder / MODEL).write_bytes(card)
        (folder / WEIGHTS).unlink(missing_ok=True)
        if weights is not None:
            (folder / WEIGHTS).write_bytes(weights)
        flags = ["--model", str(folder), "--reference", str(toy[0] / name), "--output", str(tmp_path / "out")]
        return refused(["predict", model, *flags], capsys)

    assert "is a model of another kind, 'memn2n': use 'parapet predict memn2n'" in told(card, weights, "tfidf")
    assert "weights.safetensors: is cut off or damaged" in told(card, weights[:-100])
    assert "weights.safetensors: is cut off or damaged" in told(card, b"")
    assert "weights.safetensors: cannot be read" in told(card, None)
    assert "model.json: is damaged, or no model of ours" in told(card[:-100], weights)
    other = json.loads(card)
    other["settings"]["size"] = 16
    assert "does not fit model.json beside it: " in told(json.dumps(other).encode(), weights)
    other["settings"] = {}
    assert "does not fit model.json beside it: " in told(json.dumps(other).encode(), weights)
    other = json.loads(card) | {"task": "4"}
    assert "is of task 1, and the model of task 4: --any_task predicts all the same" in told(
        json.dumps(other).encode(), weights
    )
    assert "there is no such file" in told(card, weights, name="absent.txt")
    (folder / MODEL).unlink()
    flags = ["memn2n", "--model", str(folder), "--reference", str(toy[0] / "toy-task1-tst.txt"), "--output", "x"]
    assert "no model is here: expected model.json" in refused(["predict", *flags], capsys)


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
    out, answers, scores = (str(tmp_path / name) for name in ("model", "answers", "scores"))
    assert train([model, "--quiet", *flags, "--output", out]) == 0
    assert predict([model, "--quiet", "--model", out, *files["reference"], "--output", answers]) == 0
    given = ["--predictions", f"{answers}/predictions", *files["candidates"]]
    assert evaluate(["--task", "ranking", "--quiet", *files["reference"], *given, "--output", scores]) == 0
    metrics = json.loads((tmp_path / "scores" / "metrics.json").read_text())
    by_set = {name.endswith("OOV"): of["per_response"] for name, of in metrics.items() if name.startswith("task")}
    return [round(100 * by_set[oov], 1) for oov in (False, True)]


@pytest.mark.thorough
@pytest.mark.parametrize(("task", "figures"), [(1, (5.6, 5.8)), (4, (9.5, 9.8))])
def test_tfidf_gives_the_numbers_of_the_paper(task, figures, real_data, tmp_path):
    """As far as the order of candidates that share no word, which is as in the file, does not move them."""
    files = of_babi(real_data, task)
    found = scored("tfidf", [*files["train"], *files["candidates"]], files, tmp_path)
    assert found == pytest.approx(figures, abs=0.3)


@pytest.mark.thorough
@pytest.mark.parametrize(("task", "figures"), [(1, [55.1, 44.2]), (4, [28.6, 28.5])])
def test_nearest_gives_the_numbers_of_the_paper(task, figures, real_data, tmp_path):
    """Table 2 has 55.1 (44.1) and 28.6 (28.6)."""
    files = of_babi(real_data, task)
    assert scored("nearest", files["train"][:2], files, tmp_path) == figures


@pytest.mark.thorough
def test_tfidf_with_match_types_gives_the_numbers_of_the_paper(real_data, tmp_path):
    files = of_babi(real_data, 1)
    assert scored("tfidf", [*files["train"], *files["candidates"], *files["match"]], files, tmp_path) == [22.4, 22.4]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("task", "match", "least"), [(1, False, (99, 72)), (1, True, (99, 92)), (4, False, (57, 56)), (4, True, (100, 100))]
)
def test_memn2n_is_as_good_as_the_papers(task, match, least, real_data, tmp_path):
    files = of_babi(real_data, task)
    flags = [*files["train"], *files["candidates"], *(files["match"] if match else [])]
    plain, oov = scored("memn2n", flags, files, tmp_path)
    assert plain >= least[0]
    assert oov >= least[1]
