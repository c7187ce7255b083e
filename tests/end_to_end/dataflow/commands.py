"""Every Beam pipeline as a command on small inputs, which lie together in one place: a folder or ``gs://`` prefix."""

from __future__ import annotations

import shutil
from pathlib import Path

from dstc2_calls import asian_oriental, cheap_chinese, write_lists

from parapet.pipelines.main import main
from parapet.schemas.layout import sample_root

LOUD = ["--wer", "0.4", "--snr", "25,-15"]

RELEASE = """
name = "sample"
version = "1.0.0"
licence = "CC0-1.0"
description = "The sample."

[[authors]]
name = "Ada"

[[corpora]]
path = "sgd"
name = "original"
kind = "original"
"""
RELEASE_OF_TEST = f'{RELEASE}splits = ["test"]\n'


def write_inputs(folder: Path) -> None:
    """Writes what :func:`commands` reads: the sample, calls in DSTC2's format, a model, a release's configuration."""
    shutil.copytree(sample_root(), folder / "sgd")
    cheap_chinese(folder / "dstc2", "Mar13_S0A0/voip-1")
    asian_oriental(folder / "dstc2", "Mar13_S0A0/voip-2")
    write_lists(folder / "dstc2", train=["Mar13_S0A0/voip-1"], test=["Mar13_S0A0/voip-2"])
    (folder / "release.toml").write_text(RELEASE_OF_TEST)
    tasks = ["--tasks", "1", "--sizes", "train=20,dev=1,test=4", "--formats", "babi", "--quiet"]
    assert main(["restaurants", *tasks, "--output", str(folder / "tasks")]) == 0
    train, facts = folder / "tasks/dialog-babi-task1-API-calls-trn.txt", next(folder.glob("tasks/*kb-all.txt"))
    rules = ["--train", str(train), "--match", str(facts), "--output", str(folder / "rules"), "--quiet"]
    assert main(["train", "rules", *rules]) == 0


def chain(corpus: str, out: str) -> dict[str, list[str]]:
    """A pipeline of each kind on a corpus, with its flags; later ones read what earlier ones wrote."""
    responses = [f"{corpus}/crowd/{name}" for name in ("names.csv", "descriptions.csv")]
    return {
        "compose": ["--schemas", corpus, "--responses", *responses, "--allow_partial"],
        "rewrite": ["--sgd", corpus, "--variants", f"{out}/compose", "--mapping", "position"],
        "back_translate": ["--schemas", corpus, "--memory", f"{corpus}/translations.csv"],
        "language_variations": ["--sgd", corpus, "--kinds", "typos", "--env", "0.5"],
        # All but a few short turns count as too long: this is about files.
        "speech_errors": ["--sgd", corpus, "--language_model", "own", "--longest", "14", *LOUD],
    }


def others(corpus: str, out: str) -> dict[str, list[str]]:
    """Those that read and write as one of the above does."""
    return {
        "statistics": ["--sgd", corpus, "--variants", f"{out}/compose"],
        "hits": ["--task", "rewrites", "--dialogues", corpus, "--split", "test", "--turns", "3"],
        "augment": ["--sgd", corpus, "--backtrans", f"{out}/back_translate", "--sets", "backtrans,corrupted"],
        "compose_variations": ["--sgd", corpus, "--responses", f"{corpus}/crowd/rewrites.csv"],
        "unseen_entities": ["--sgd", corpus],
        "anonymise": ["--chats", f"{corpus}/chats.jsonl"],
        "ood": ["--sgd", corpus, "--rates", "0.1"],
        "few_shot": ["--sgd", corpus, "--sizes", "2", "--test", "2"],
        "unseen_services": ["--sgd", corpus],
        "reminders": ["--dialogues", "4,0,4"],
        "restaurants": ["--tasks", "1", "--sizes", "4"],
        "evaluate": ["--task", "dst", "--reference", corpus, "--model", "parapet.evaluation.dst.baseline:Keywords"],
    }


def rest(place: str) -> dict[str, list[str]]:
    """Those that read something besides a corpus, which :func:`write_inputs` wrote at ``place``."""
    return {
        "perturb": ["simple", "--sgd", f"{place}/sgd"],
        "babi_task6": ["--logs", f"{place}/dstc2"],
        "predict": [
            *("rules", "--model", f"{place}/rules"),
            *("--reference", f"{place}/tasks/dialog-babi-task1-API-calls-tst.txt"),
        ],
        "release": ["build", "--config", f"{place}/release.toml"],
    }


def every(place: str, out: str) -> dict[str, list[str]]:
    """Every Beam pipeline, given where :func:`write_inputs` wrote its inputs and where all of them write to."""
    corpus = f"{place}/sgd"
    flags = {**chain(corpus, out), **others(corpus, out), **rest(place)}
    return {name: command(name, given, out) for name, given in flags.items()}


def command(name: str, flags: list[str], out: str) -> list[str]:
    """A whole command line."""
    return [name, *flags, "--output", f"{out}/{name}", "--quiet"]
