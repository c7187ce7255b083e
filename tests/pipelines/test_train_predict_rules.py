"""``parapet train rules`` from files to scores, on the published tasks; and simulating in their words."""

from collections import Counter
from pathlib import Path

import pytest
from kit import cases, refused, run, write

from parapet.transforms.simulators.formats import CANDIDATES, parse_candidates, parse_dialogues
from parapet.transforms.simulators.restaurants_simulation import babi_ontology


def test_sentences_that_match_no_pattern_are_counted(tmp_path):
    kb = write(tmp_path / "kb.txt", "1 a R_cuisine\tgreek\n1 a R_location\toslo\n")
    run("train", "rules", rules="babi", match=kb, output=tmp_path / "model")
    strange = "1 ahoy\thello what can i help you with today\n2 what of greek in oslo\ti'm on it\n\n"
    options = {"model": tmp_path / "model", "reference": write(tmp_path / "task1-strange.txt", strange)}
    told = run("predict", "rules", **options, output=tmp_path / "answers").errors
    assert "task1-strange.jsonl: 2 turns with words that the rules do not know: answered by" in told


@cases(
    "flags message",
    (["--train", "trn.txt"], "--train: requires --rules"),
    (["--rules", "babi", "--dev", "trn.txt"], "--dev: requires --rules FILE or task6"),
    (["--rules", "task6", "--train", "trn.txt"], "--rules: requires --train and --match"),
    (["--rules", "babi", "--ontology", "a.toml"], "--ontology: give either --ontology or --rules"),
)
def test_bad_flags(flags, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("trn.txt").write_text("1 hi\thello\n2 thai please\tsure\n3 <SILENCE>\tapi_call thai\n\n")
    Path("a.toml").write_text("")
    assert message in refused("train", "rules", *flags, output="out")


def published(real_data):
    folder = real_data / "babi"
    if not folder.is_dir():
        pytest.skip("PARAPET_DATA has no babi")
    return folder


def test_rules_solve_the_published_tasks(real_data, tmp_path):
    """Table 2 of the paper: 100 (100), also out of vocabulary."""
    name = f"{published(real_data)}/dialog-babi-"
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
def test_dialogues_simulated_in_the_published_words(real_data, tmp_path):
    """The same sentences about as often, of the user and the bot, and the same candidates."""
    folder = published(real_data)
    ontology = write(tmp_path / "babi.toml", babi_ontology())
    flags = {"ontology": ontology, "tasks": "1,4", "formats": "babi", "sizes": "train=1000,oov=0"}
    run("restaurants", **flags, output=tmp_path / "again")
    values = {line.split("\t")[1] for line in (folder / "dialog-babi-kb-all.txt").read_text().splitlines()}

    def bare(text):
        return " ".join("_" if word in values or word.startswith("resto_") else word for word in text.split())

    def shares(paths):
        dialogues = [dialogue for path in paths for dialogue in parse_dialogues(path.read_bytes())]
        lines = [line for dialogue in dialogues for line in dialogue.exchanges]
        return Counter(bare(line.user) for line in lines), Counter(bare(line.bot) for line in lines)

    theirs = shares([folder / f"dialog-babi-task{task}trn.txt" for task in (1, 4)])
    ours = shares(sorted((tmp_path / "again").glob("*trn.txt")))
    for published_texts, simulated_texts in zip(theirs, ours, strict=True):
        for text, n in published_texts.items():
            if n >= 100:
                assert abs(simulated_texts[text] - n) < 6 * n**0.5, text
    assert set(ours[1]) == set(theirs[1])
    files = (tmp_path / "again" / CANDIDATES, folder / CANDIDATES)
    candidates = [set(parse_candidates(path.read_bytes())) for path in files]
    assert candidates[0] == candidates[1]
