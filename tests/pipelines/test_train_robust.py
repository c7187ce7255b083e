"""``train --perturb`` and ``--adversarial``, of every model that takes them: the same bytes, also after a stop."""

import pytest
from inn_toy import texts as inn_texts
from inn_toy import write_corpus as write_inns
from kit import cases, json_of, refused, run
from tiny_checkpoints import save_bert, save_gpt2, save_t5
from tiny_dialogues import texts, write_corpus

WORST = ("--perturb", "typos,verbose", "--perturb_share", "0.8", "--adversarial", "2")
SHIFTED = ("--adversarial_weight", "0.5", "--adversarial_epsilon", "0.2")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    write_corpus(folder / "corpus", turns=3)
    write_inns(folder / "inns")
    save_t5(folder / "t5", texts())
    save_bert(folder / "bert", texts(), positions=128)
    save_gpt2(folder / "gpt2", inn_texts())
    return folder


def flags(toy, model, out, *more):
    checkpoints = {"t5dst": "t5", "sgp_dst": "bert", "soloist": "gpt2"}
    given = ["--checkpoint", str(toy / checkpoints[model]), "--max_length", "100"] if model in checkpoints else []
    corpus = str(toy / ("inns" if model in ("soloist", "damd") else "corpus"))
    # A new model answers at length: dev is small.
    held = ["--held_out", "0.3"] if model in ("t5dst", "sgp_dst") else []
    return [model, "--quiet", "--train", corpus, *given, *held, "--epochs", "1", *more, "--output", str(out)]


@pytest.mark.thorough
@cases(
    "model more",
    ("tiny_dst", (*WORST, *SHIFTED)),
    ("t5dst", (*WORST, *SHIFTED, "--negatives", "0.5", "--batch_size", "4", "--max_output", "4")),
    ("soloist", (*WORST, *SHIFTED, "--consistency", "0.5")),
    ("damd", ("--perturb", "typos", "--perturb_share", "1", "--multi_action", "2")),
    ("sgp_dst", ("--perturb", "verbose", "--perturb_share", "1")),
)
def test_every_model_is_trained_on_perturbed_dialogues(toy, tmp_path, model, more):
    run("train", *flags(toy, model, tmp_path / "robust", *more))
    options = json_of(tmp_path / "robust" / "run.json")["options"]
    assert (options["perturb"], options["perturb_share"]) == (more[1], float(more[3]))
    assert ("adversarial" in options) == (model not in ("sgp_dst", "damd"))


def test_copies_of_a_mix_are_trained_on_too(toy, tmp_path):
    """Augmentation: dialogues of one id in several corpora are all used, and held out together."""
    sets = ["--sgd", str(toy / "corpus"), "--split", "train", "--kinds", "verbose", "--env", "none", "--quiet"]
    run("language_variations", *sets, output=tmp_path / "varied")
    corpora = [str(toy / "corpus"), str(tmp_path / "varied" / "verbose")]
    argv = flags(toy, "tiny_dst", tmp_path / "model")
    at = argv.index("--train")
    argv = [*argv[: at + 1], *corpora, *argv[at + 2 :]]
    run("train", *argv)
    run("train", *flags(toy, "tiny_dst", tmp_path / "plain"))
    steps = [json_of(tmp_path / name / "run.json")["result"]["steps"] for name in ("model", "plain")]
    assert steps == [9, 5]  # of 36 and 18 dialogues, four at a time


def test_bad_flags_are_told(toy, tmp_path):
    for more, reason in (
        (["--perturb", "ood"], "--perturb: ood requires the whole corpus and cannot run in the training loop"),
        (["--perturb", "typos", "--perturb_share", "2"], "--perturb_share: 2.0: must be a number from 0 to 1"),
        (["--adversarial", "3"], "--adversarial: requires --perturb"),
        (["--perturb", "typos", "--adversarial", "0"], "--adversarial: 0: must be 1 or more"),
        (["--adversarial_weight", "-1"], "--adversarial_weight: -1.0: must be"),
    ):
        assert reason in refused("train", *flags(toy, "tiny_dst", tmp_path / "out", *more))
    assert "--adversarial" in refused("train", *flags(toy, "sgp_dst", tmp_path / "out", "--adversarial", "2"))
