"""``parapet train`` and ``parapet predict`` for system utterances, as a person runs them."""

import re
import shutil
from pathlib import Path

import pytest
from generation_toy import VARIED, texts, write_split, write_toy
from kit import dialogues_of, edit, files_of, json_of, refused, rows_of, run, write
from tiny_checkpoints import save_t5

from parapet.evaluation.models.saving import MODEL, WEIGHTS
from parapet.transforms.core.checkpoints import digest

FILE = Path("test", "utterances.jsonl")
LEARNING = {"batch_size": 10, "patience": 50, "max_input": 64, "max_output": 16}
LEARNED = 0.7  # of the utterances; half are so for each act, and a T5 that learned the other way says a fifth


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Corpora, variants, and a new T5."""
    folder = tmp_path_factory.mktemp("made")
    roots = write_toy(folder / "toy"), write_toy(folder / "varied", varied=True, other=True)
    write_toy(folder / "other", other=True)
    write_split(folder / "variants" / "v1" / "test", VARIED, [])
    save_t5(folder / "t5", texts(*roots), vocabulary=250)
    return folder


@pytest.fixture(scope="module")
def tuned(made):
    """A T5 that speaks in one way of the schema's own words, and in the other of the variant's."""
    given = {"train": [made / "toy", made / "varied"], "checkpoint": made / "t5", "learning_rate": 0.015, "epochs": 25}
    return run("train", "ft_t5", **given, **LEARNING, quiet=True, output=made / "ft").folder


@pytest.fixture(scope="module")
def prefixed(made, tuned):
    """Prefixes that let the same T5 speak in the other way of the schema's own words."""
    checkpoint, sizes = tuned / "checkpoint", {"prefix_length": 8, "prefix_size": 64, **LEARNING}
    before = digest(str(checkpoint))
    given = {"train": made / "other", "checkpoint": checkpoint, "learning_rate": 0.01, "epochs": 30, **sizes}
    out = run("train", "pt_t5", **given, quiet=True, output=made / "pt").folder
    assert digest(str(checkpoint)) == before
    return out


def predicted(model, out, reference, *flags, name="ft_t5", **more):
    """What a model says of a corpus and of sets: a folder for each."""
    given = {"model": model, "reference": reference, "quiet": True, "output": out}
    return run("predict", name, *flags, **given, **more).folder / "predictions"


def right(path, root):
    said, rows = dialogues_of(root / "test"), rows_of(path)
    wanted = {(name, i): turn["utterance"] for name in said for i, turn in enumerate(said[name]["turns"]) if i % 2}
    assert ({(row["dialogue_id"], row["turn"]) for row in rows}, len(rows)) == (wanted.keys(), len(wanted))
    return sum(row["utterance"] == wanted[row["dialogue_id"], row["turn"]] for row in rows) / len(rows)


def scores(predictions, reference, out, *sets):
    given = {"task": "generation", "reference": reference, "predictions": predictions, "output": out}
    return run("evaluate", *sets, **given).json("metrics.json")


@pytest.mark.thorough
def test_a_fine_tuned_t5_learns_predicts_and_is_evaluated(made, tuned, tmp_path):
    head, card = (json_of(tuned / name) for name in ("run.json", MODEL))
    assert head["checkpoint"] == card["checkpoint"] == digest(str(made / "t5"))
    assert [one["flag"] for one in head["inputs"]] == ["train"] * 4 + ["dev"] * 2
    sets = ["--variants", made / "variants", "--sets", f"named={made / 'varied'}"]
    said = predicted(tuned, tmp_path / "one", made / "toy", *sets)
    assert sorted(path.name for path in said.iterdir()) == ["named", "original", "v1"]
    assert right(said / "original" / FILE, made / "toy") > LEARNED
    # The variant's words, for the original's acts.
    assert right(said / "v1" / FILE, made / "varied") > LEARNED
    assert (said / "v1" / FILE).read_bytes() == (said / "named" / FILE).read_bytes()
    metrics = scores(said, made / "toy", tmp_path / "s", *sets)
    assert {"original", "v1", "named", "#ALL", "#MEAN"} <= set(metrics)
    assert metrics["original"]["sgsacc"] > LEARNED
    # The variant says the original's acts in its own words: as a corpus of these words has them.
    assert metrics["named"]["sgsacc"] > LEARNED
    assert metrics["v1"]["slot_error_rate"] == metrics["named"]["slot_error_rate"]
    assert scores(said, made / "toy", tmp_path / "alone")["#ALL"] == metrics["original"]


@pytest.mark.thorough
def test_prefixes_learn_predict_and_need_their_t5(made, tuned, prefixed, tmp_path):
    assert WEIGHTS in files_of(prefixed)
    assert json_of(prefixed / MODEL)["checkpoint"] == digest(str(tuned / "checkpoint"))
    other = made / "other"
    said = predicted(prefixed, tmp_path / "out", other, name="pt_t5", checkpoint=tuned / "checkpoint")
    assert right(said / "original" / FILE, other) > LEARNED
    told = refused("predict", "pt_t5", model=prefixed, reference=other, checkpoint=made / "t5", output=tmp_path / "no")
    assert "--checkpoint: is not the T5 that the prefixes were trained with, which has the digest" in told


@pytest.mark.thorough
def test_the_reranker_raises_sgsacc(made, tuned, tmp_path):
    toy = made / "toy"
    given = {"train": toy, "checkpoint": made / "t5", "learning_rate": 0.015, "epochs": 5, **LEARNING, "quiet": True}
    weak = run("train", "ft_t5", **given, output=tmp_path / "weak").folder
    flags = {"plain": [], "ranked": ["--rerank", "lexical"]}
    folders = {name: predicted(weak, tmp_path / name, toy, *of, candidates=5) for name, of in flags.items()}
    said = {name: folder / "original" / FILE for name, folder in folders.items()}
    plain, ranked = (scores(path, toy, tmp_path / f"s-{name}")["#ALL"]["sgsacc"] for name, path in said.items())
    assert ranked > plain
    pairs = list(zip(*map(rows_of, said.values()), strict=True))
    assert all(one["candidates"] == other["candidates"] for one, other in pairs)
    differ = sum(one["utterance"] != other["utterance"] for one, other in pairs)
    assert json_of(tmp_path / "ranked" / "run.json")["counts"]["reranked/original"] == differ > 0
    # Two models, the best of each: what either of them says well is said.
    both = predicted(tuned, tmp_path / "both", toy, rerank="lexical", also=tmp_path / "plain")
    assert right(both / "original" / FILE, toy) > LEARNED
    for reason, more in {
        "--rerank: has nothing to choose from: give --candidates 2 or more, or --also": ["--rerank", "lexical"],
        "--nli_model: is required: give a folder with a model": ["--rerank", "nli", "--candidates", "2"],
        "--beams: must be at least as many as --candidates, 5": ["--beams", "2", "--candidates", "5"],
        "--also: there is no such file: a set has no predictions": ["--rerank", "lexical", "--also", made],
    }.items():
        told = refused("predict", "ft_t5", *more, model=tuned, reference=toy, output=tmp_path / "no")
        assert reason in re.sub(r"/[^ ]+: ", "", told), reason


@pytest.mark.thorough
def test_turns_without_acts_are_told(made, tuned, tmp_path):
    bare = shutil.copytree(made / "toy", tmp_path / "bare")
    place = bare / "test" / "dialogues_001.json"
    edit(place, lambda dialogues: dialogues[:2])
    edit(place, lambda dialogues: dialogues[0]["turns"][1]["frames"][0].update(actions=[]))
    flags = {"model": tuned, "reference": bare, "candidates": 2, "rerank": "lexical"}
    told = run("predict", "ft_t5", **flags, output=tmp_path / "out")
    assert "original/test/utterances.jsonl: 10 turns" in told.output
    assert "original: 1 turn without an act: the utterance is empty" in told.errors
    rows = rows_of(tmp_path / "out" / "predictions" / "original" / FILE)
    assert rows[0] == {"dialogue_id": "00", "turn": 1, "utterance": "", "candidates": [{"utterance": "", "score": 0.0}]}
    assert any(len(row["candidates"]) > 1 for row in rows)


def test_templates_of_the_user_are_kept_with_the_model(made, tmp_path):
    folder = tmp_path / "templates"
    lines = ("REQUEST!!city\tWhich one?", "CONFIRM!!city!!@\tYou go to @.", "INFORM!!has_garden!!True\tOutside.")
    write(folder / "Cafes_1.tsv", "\n".join(lines))
    given = {"train": made / "toy", "checkpoint": made / "t5", "epochs": 1, **LEARNING}
    trained = run("train", "ft_t5", **given, templates=folder, output=tmp_path / "out")
    # Of 12 dialogues each has a request and a confirmation, and every other one a garden.
    message = "42 of 72 acts have no template and get a sentence in the schema's words, such as OFFER!!cafe_name!!@ of"
    assert f"{message} Cafes_1" in trained.errors
    assert trained.json(MODEL)["templates"] == {"Cafes_1": dict(line.split("\t") for line in lines)}
    assert [one["name"] for one in trained.manifest["inputs"] if one["flag"] == "templates"] == ["Cafes_1.tsv"]
    asked = {"model": trained.folder, "reference": made / "toy", "output": tmp_path / "said"}
    other = write(tmp_path / "other_templates" / "Cafes_2.tsv", "GOODBYE\tBye.").parent
    for templates, n, names in ((None, 6 + 6 + 3, []), (other, 30, ["Cafes_2.tsv"])):
        head = run("predict", "ft_t5", **asked, templates=templates).manifest
        assert head["counts"]["without_template/original"] == n
        assert [one["name"] for one in head["templates"]] == names
    for flags, reason in (
        ({"variants": made / "variants"}, "--variants: the model was trained with --templates, which do not depend on"),
        ({"templates": made / "toy"}, "contains no templates: expected a folder"),
    ):
        assert reason in refused("predict", "ft_t5", **asked, **flags)


def test_bad_training_input_is_told(made, tmp_path):
    def told(*given, model="ft_t5", corpus=made / "toy", checkpoint=made / "t5"):
        inputs = {"train": corpus, "checkpoint": checkpoint, "output": tmp_path / "out"}
        return refused("train", model, *given, **inputs, status=(1, 2))

    bert, endless = (shutil.copytree(made / "t5", tmp_path / name) for name in ("bert", "endless"))
    write(bert / "config.json", {"model_type": "bert"})
    assert "contains a model of type 'bert': expected t5 or mt5" in told(checkpoint=bert)
    edit(endless / "tokenizer.json", lambda tokenizer: tokenizer.update(post_processor=None))
    write(endless / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    assert "its tokenizer has no padding token, or does not append its end token" in told(checkpoint=endless)
    mute = shutil.copytree(made / "toy", tmp_path / "mute")
    place = mute / "train" / "dialogues_001.json"
    place.write_text(re.sub(r'("utterance": )"[^"]*"', r'\1" "', place.read_text()))
    assert "no system turn of 'train' has both acts and an utterance, so there is nothing to learn" in told(corpus=mute)
    place.write_text("[]")
    assert "no system turn has an action" in told(corpus=mute)
    assert "--prefix_length: 0: must be 1 or more" in told("--prefix_length", "0", model="pt_t5")
    assert "there are too few dialogues, one part would be empty" in told("--held_out", "0.0001")
    assert "there are no dialogues in 'validation'" in told("--dev_split", "validation")
