"""``parapet train`` and ``parapet predict`` for the bAbI tasks: as a person runs them, and as the paper did."""

from collections import Counter
from pathlib import Path
from statistics import mean

import pytest
from babi_toy import CANDIDATES, dialogues, unseen, write_toy
from kit import TWO_WORKERS, cases, files_of, json_of, lacking, refused, rows_of, run, write
from safetensors.torch import load_file

from parapet.evaluation.models.babi import load, read_candidates
from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.transforms.simulators.formats import CANDIDATES as CANDIDATES_FILE
from parapet.transforms.simulators.formats import SILENCE, Exchange, dialogue_text, parse_candidates, parse_dialogues
from parapet.transforms.simulators.restaurants_simulation import babi_ontology

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
    _, loaded = load(str(tmp_path / "model"), model, "cpu", 16)
    assert right(loaded.answers(dialogues()), dialogues()) > LEARNED


@pytest.mark.thorough
def test_predictions_are_the_same_on_two_workers(memn2n, toy, tmp_path):
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
    assert "--attention: 65: must be a number from" in refused("predict", *flags, attention=65, output=tmp_path / "no")
    other = ["predict", "embeddings", *flags[1:]]
    assert "unknown flag --attention" in refused(*other, attention=1, output=tmp_path / "no")


def test_models_that_learn_nothing(toy, tmp_path):
    assert f"rules: the model is in {tmp_path / 'rules'}" in run("train", "rules", output=tmp_path / "rules").output
    reference = toy[0] / "toy-task1-tst.txt"
    told = run("predict", "rules", reference=reference, model=tmp_path / "rules", output=tmp_path / "o")
    assert "toy-task1-tst.jsonl: no rule applied at 32 turns: the answer is empty" in told.errors
    assert "predictions/original/toy-task1-tst.jsonl: 104 answers" in told.output
    kb = write(tmp_path / "kb.txt", "1 a R_cuisine\tgreek\n1 a R_location\toslo\n")
    run("train", "rules", rules="babi", match=kb, output=tmp_path / "babi")
    odd = "1 ahoy\thello what can i help you with today\n2 what of greek in oslo\ti'm on it\n\n"
    reference = write(tmp_path / "task1-odd.txt", odd)
    told = run("predict", "rules", reference=reference, model=tmp_path / "babi", output=tmp_path / "answers").errors
    assert "task1-odd.jsonl: 2 turns with words that the rules do not know: answered by" in told


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
    assert not lacking(scored.output, f"per response {within:.1%}, per", "within the top 3, mean reciprocal rank 0.")
    assert not lacking(scored.text("report.html"), "<th", "Within the first answers")


def test_files_like_the_published_ones_of_task_6(toy, tmp_path):
    """Candidates without a last newline, empty user turns, facts without tabs: the answers are the same."""
    clean, odd = toy[0], tmp_path / "odd"
    texts = {path.name: path.read_text() for path in clean.glob("*.txt")}
    texts |= {"candidates.txt": texts["candidates.txt"].rstrip("\n"), "kb.txt": texts["kb.txt"].replace("\t", " ")}
    for name in ("toy-task1-trn.txt", "toy-task1-tst.txt"):
        assert texts[name].count(f"{SILENCE}\t") > 6
        texts[name] = texts[name].replace(f"{SILENCE}\t", "\t", 6)
    for name, text in texts.items():
        write(odd / name, text)
    answers = []
    for folder in (clean, odd):
        learned = {"train": folder / "toy-task1-trn.txt", "candidates": folder / "candidates.txt"}
        model = run("train", "tfidf", **learned, match=folder / "kb.txt", output=tmp_path / "model").folder
        said = run("predict", "tfidf", model=model, reference=folder / "toy-task1-tst.txt", output=tmp_path / "said")
        answers.append(said.text("predictions/original/toy-task1-tst.jsonl"))
    assert answers[0] == answers[1]


BAD_FILES = {
    "some.txt": "1 hello\n1 on it\n", "one.txt": "1 hello\n", "facts-alone.txt": "1 a R_b c\n\n",
    "toy-task2-trn.txt": "1 hi\thello\n\n", "kb.txt": "1 a R_b\tc\n", "bad.toml": "domain = 3", "empty.toml": "",
    "trn.txt": "1 hi\thello\n2 thai please\tsure\n3 <SILENCE>\tapi_call thai\n",
}  # fmt: skip


@cases(
    "model more message",
    ("memn2n", "--candidates absent.txt", "there is no such file"),
    ("memn2n", "--candidates some.txt", "dialogue from line 1: 'api_call thai rome' is not among the candidates (40"),
    ("memn2n", "--candidates one.txt", "there is only one candidate"),
    ("memn2n", "--train toy-task2-trn.txt", "is for task 1, but"),
    ("memn2n", "--train facts-alone.txt", "the bot says nothing in this dialogue"),
    ("memn2n", "--match kb.txt", "no candidate has a value of this knowledge base"),
    ("memn2n", "--learning_rate nan", "--learning_rate: nan: must be a number above 0"),
    ("memn2n", "--hops 0", "--hops: 0: must be 1 or more"),
    ("memn2n", f"--size {2**31}", "out of memory: lower --batch_size, which is 32, or the flags for sizes"),
    ("embeddings", "--hops 2", "unknown flag --hops: did you mean"),
    ("rules", "--ontology no.toml", "there is no such file"),
    ("rules", "--ontology bad.toml", "bad.toml"),
    ("rules", "--train trn.txt", "--train: requires --rules"),
    ("rules", "--rules babi --dev trn.txt", "--dev: requires --rules FILE or task6"),
    ("rules", "--rules task6 --train trn.txt", "--rules: requires --train and --match"),
    ("rules", "--rules babi --ontology empty.toml", "--ontology: give either --ontology or --rules"),
)
def test_bad_training_input_is_told(model, more, message, toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in BAD_FILES.items():
        write(tmp_path / name, text)
    given = [] if model == "rules" else toy[1]
    assert message in refused("train", model, *given, *more.split(), output=tmp_path / "out", status=(1, 2))


def test_bad_models_are_told(memn2n, toy, tmp_path):
    folder, good = tmp_path / "model", json_of(memn2n / MODEL)

    def told(weights, **changed):
        write(folder / MODEL, {**good, **changed})
        (folder / WEIGHTS).unlink(missing_ok=True)
        if weights is not None:
            write(folder / WEIGHTS, weights)
        return refused("predict", "memn2n", model=folder, reference=toy[0] / "toy-task1-tst.txt", output="x")

    weights = (memn2n / WEIGHTS).read_bytes()
    assert "weights.safetensors: is truncated or damaged" in told(weights[:-100])
    assert "weights.safetensors: is truncated or damaged" in told(b"")
    assert "weights.safetensors: cannot be read" in told(None)
    for settings in ({**good["settings"], "size": 16}, {}):
        assert "does not match model.json beside it: " in told(weights, settings=settings)


@pytest.fixture
def published(real_data):
    if not (real_data / "babi").is_dir():
        pytest.skip("PARAPET_DATA has no babi")
    return real_data / "babi"


def of_babi(folder, task):
    name = f"{folder}/dialog-babi-"
    return {
        "train": ["--train", f"{name}task{task}trn.txt", "--dev", f"{name}task{task}dev.txt"],
        "candidates": ["--candidates", f"{name}candidates.txt"],
        "match": ["--match", f"{name}kb-all.txt"],
        "reference": ["--reference", f"{name}task{task}tst.txt", f"{name}task{task}tst-OOV.txt"],
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
    model, task, flags, figures, tolerance, published, tmp_path
):
    files = of_babi(published, task)
    given = [part for name in flags for part in files[name]]
    given = given[:2] if model == "nearest" else given  # which takes no dev
    assert scored(model, given, files, tmp_path) == pytest.approx(figures, abs=tolerance)


@pytest.mark.thorough
@cases("task match least", (1, False, (99, 72)), (1, True, (99, 92)), (4, False, (57, 56)), (4, True, (99.5, 99.5)))
def test_memn2n_is_as_good_as_the_papers(task, match, least, published, tmp_path):
    files = of_babi(published, task)
    flags = [*files["train"], *files["candidates"], *(files["match"] if match else [])]
    plain, oov = scored("memn2n", flags, files, tmp_path)
    assert (plain >= least[0], oov >= least[1]) == (True, True)


def test_what_a_training_writes(memn2n, toy):
    assert sorted(files_of(memn2n)) == ["log.jsonl", MODEL, "report.html", "run.json", WEIGHTS]
    head, card, log = json_of(memn2n / "run.json"), json_of(memn2n / MODEL), rows_of(memn2n / "log.jsonl")
    best = max(log, key=lambda row: row["dev"])
    length = {"epoch": best["epoch"], "epochs": len(log), "step": best["step"], "steps": log[-1]["step"]}
    trained = sum(tensor.numel() for tensor in load_file(memn2n / WEIGHTS).values())
    words = {word for text in (*CANDIDATES, *card["words"]) for word in text.split()}
    assert head["result"] == {"dev": best["dev"], "parameters": trained, "vocabulary": len(words), **length}
    assert (head["pipeline"], head["options"]["size"]) == ("train_memn2n", 32)
    assert [one["flag"] for one in head["inputs"]] == ["train", "dev", "candidates", "match"]
    assert (card["task"], card["candidates"], "welsh" in card["words"]) == ("1", CANDIDATES, False)
    assert "welsh" in card["knowledge"]["R_cuisine"]


def test_rules_solve_the_published_tasks(published, tmp_path):
    """Table 2 of the paper: 100 (100), also out of vocabulary."""
    name = f"{published}/dialog-babi-"
    tests = [f"{name}task{task}{split}.txt" for task in "14" for split in ("tst", "tst-OOV")]
    run("train", "rules", rules="babi", match=f"{name}kb-all.txt", output=tmp_path / "model")
    answers = run("predict", "rules", model=tmp_path / "model", reference=tests, output=tmp_path / "answers")
    assert not [name for name in answers.manifest["counts"] if name.startswith(("empty/", "not_understood/"))]
    options = {"predictions": tmp_path / "answers" / "predictions", "candidates": f"{name}candidates.txt"}
    scored = run("evaluate", task="ranking", reference=tests, **options, output=tmp_path / "scores")
    metrics = scored.json("metrics.json")
    assert metrics.keys() == {"#ALL", "#MEAN", *(Path(path).stem.removeprefix("dialog-babi-") for path in tests)}
    assert {(of["per_response"], of["per_dialogue"]) for of in metrics.values()} == {(1, 1)}


@pytest.mark.thorough
def test_dialogues_simulated_in_the_published_words(published, tmp_path):
    """The same sentences about as often, of the user and the bot, and the same candidates."""
    ontology = write(tmp_path / "babi.toml", babi_ontology())
    flags = {"ontology": ontology, "tasks": "1,4", "formats": "babi", "sizes": "train=1000,oov=0"}
    run("restaurants", **flags, output=tmp_path / "again")
    values = {line.split("\t")[1] for line in (published / "dialog-babi-kb-all.txt").read_text().splitlines()}

    def bare(text):
        return " ".join("_" if word in values or word.startswith("resto_") else word for word in text.split())

    def shares(paths):
        dialogues = [dialogue for path in paths for dialogue in parse_dialogues(path.read_bytes())]
        lines = [line for dialogue in dialogues for line in dialogue.exchanges]
        return Counter(bare(line.user) for line in lines), Counter(bare(line.bot) for line in lines)

    theirs = shares([published / f"dialog-babi-task{task}trn.txt" for task in (1, 4)])
    ours = shares(sorted((tmp_path / "again").glob("*trn.txt")))
    for published_texts, simulated_texts in zip(theirs, ours, strict=True):
        for text, n in published_texts.items():
            if n >= 100:
                assert abs(simulated_texts[text] - n) < 6 * n**0.5, text
    assert set(ours[1]) == set(theirs[1])
    candidates = [parse_candidates((of / CANDIDATES_FILE).read_bytes()) for of in (tmp_path / "again", published)]
    assert set(candidates[0]) == set(candidates[1])


@pytest.mark.thorough
def test_what_is_trained_has_the_parameters_of_the_paper(tmp_path):
    """A and W of d x V, R of d x d, T = 1000 features of time and two of the speaker (appendix A)."""
    files = write_toy(tmp_path)
    both = [line for one in dialogues() for line in one.lines]
    lines = [f"{line.user} {line.bot}" for line in both if isinstance(line, Exchange)]
    lines += [f"{line.entity} {line.relation} {line.value}" for line in both if not isinstance(line, Exchange)]
    inputs = {word for text in lines for word in text.split()}
    answers = {word for text in CANDIDATES for word in text.split()}
    short = ["--epochs", "1", "--quiet"]
    found = {}
    table8 = ["--preset", "table8", "--share"]
    of_models = {"memn2n": ["--preset", "table9"], "embeddings": [*table8, "off"], "shared": [*table8, "on"]}
    for model, flags in of_models.items():
        out = tmp_path / model
        head = run("train", model.replace("shared", "embeddings"), *files, *flags, *short, "--output", out).manifest
        found[model] = sum(tensor.numel() for tensor in load_file(out / WEIGHTS).values())
        assert (head["result"]["parameters"], head["result"]["vocabulary"]) == (found[model], len(inputs | answers))
        assert head["options"]["preset"] == flags[1]
        assert (head["options"]["task"], head["options"]["learning_rate"]) == ("1", 0.01)
    assert found["memn2n"] == 128 * (len(inputs) + len(answers) + 1000 + 2 + 128)
    assert (found["embeddings"], found["shared"]) == (32 * (len(inputs) + len(answers)), 32 * len(inputs | answers))


def test_the_vocabulary_of_the_published_files(published):
    """Table 1, tasks 1 to 5: of the paper's 3,747 words 19 are left for the tasks that are not at hand."""
    candidates = read_candidates(str(published / "dialog-babi-candidates.txt"))
    texts = [*candidates, *(published / "dialog-babi-kb-all.txt").read_text().splitlines()]
    texts += [text.partition(" ")[2] for path in published.glob("*task*.txt") for text in path.read_text().splitlines()]
    assert (len(candidates), len({word for text in texts for word in text.split()})) == (4_212, 3_747 - 19)


@pytest.mark.thorough
@cases(
    "model flags match band",
    ("embeddings", ["--preset", "table8", "--share", "on", "--epochs", "2"], "", (56, 60)),  # paper: 57.2 (57.0)
    ("memn2n", ["--preset", "table9", "--epochs", "3"], "", (56, 60)),  # 59.5 (57.6)
    ("memn2n", ["--preset", "table9", "--epochs", "8"], "match", (90, 100)),  # 100 (100)
)
def test_a_third_of_the_training_set_gives_the_numbers_of_task_4(model, flags, match, band, published, tmp_path):
    files = of_babi(published, 4)
    for name, kept in (("trn", 330), ("dev", 100), ("tst", 200), ("tst-OOV", 200)):
        parts = (published / f"dialog-babi-task4{name}.txt").read_text().split("\n\n")[:kept]
        write(tmp_path / f"dialog-babi-task4{name}.txt", "".join(f"{part}\n\n" for part in parts))
    few = of_babi(tmp_path, 4)
    given = [*few["train"], *files["candidates"], *flags, *files.get(match, [])]
    found = scored(model, given, files | {"reference": few["reference"]}, tmp_path)
    assert all(band[0] <= share <= band[1] for share in found), found
