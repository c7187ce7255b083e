"""A corpus of one service, and the commands whose disk fails, with what reads their outputs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import commands
from kit import corpus, dialogues_of, json_of, rows_of, write

from parapet.schemas.layout import sample_root

SERVICE, ANSWERS = "Libraries_2", 6  # assignments of each task

FILES = {"v1/train/schema.json": "[1]\n", "report.html": "<p>one</p>", "v5/dev/schema.json": "[5]\n"}
OTHER_FILES = {"v1/train/schema.json": "[1, 2]\n", "report.html": "<p>one</p>", "v2/dev/schema.json": "new", "a/b": ""}

RELEASE = commands.RELEASE.replace("sample", "little").replace("sgd", "corpus") + '[[audits]]\npath = "variants"\n'
SUITE = commands.SUITE.replace('sgd = "sgd"', 'sgd = "corpus"\nsplits = ["test"]')


class Command(NamedTuple):
    """A command of the little world.

    Attributes:
      argv: its arguments, given its output folder.
      other: arguments that make another output in the same place: other bytes, other files.
    """

    argv: Callable[[Path], list[str]]
    other: Callable[[Path], list[str]] | None = None


# Commands that read an output, by name: their arguments, given that and a folder of their own.
Readers = dict[str, Callable[[Path, Path], list[str]]]


def make_world(root: Path) -> None:
    """Writes the corpus, its answers, two sets of variants, a ``release.toml`` and a suite."""
    sample = sample_root()
    schemas = [schema for schema in json_of(sample / "test/schema.json") if schema["service_name"] == SERVICE]
    dialogues = [each for each in dialogues_of(sample / "test").values() if each["services"] == [SERVICE]]
    corpus(root / "corpus", schemas, test=[dialogues[:1], dialogues[1:2]])
    for name in ("names", "descriptions"):
        answers = rows_of(sample / "crowd" / f"{name}.csv")
        own = [row for row in answers if row["RequesterAnnotation"].startswith(f"{SERVICE}:")]
        write(root / f"{name}.csv", own[:ANSWERS])
    (root / "release.toml").write_text(RELEASE)
    (root / "suite.toml").write_text(SUITE)


def commands_of(root: Path) -> dict[str, Command]:
    """The commands, by name. ``release`` needs ``variants``, which ``compose`` makes."""

    def compose(out: Path, *more: str) -> list[str]:
        answers = [str(root / f"{name}.csv") for name in ("names", "descriptions")]
        return ["compose", "--schemas", str(root / "corpus"), "--responses", *answers, "--output", str(out),
                "--allow_partial", *more]  # fmt: skip

    def perturb(out: Path, *more: str) -> list[str]:
        return ["perturb", "typos", "--sgd", str(root / "corpus"), "--output", str(out), *more]

    return {
        "compose": Command(compose, lambda out: compose(out, "--seed", "1")),
        # What each pipeline ends with, by itself: the quickest.
        "publish": Command(
            lambda out: ["publish", str(out), json.dumps(FILES)],
            lambda out: ["publish", str(out), json.dumps(OTHER_FILES)],
        ),
        "perturb": Command(perturb, lambda out: perturb(out, "--seed", "1", "--env", "0.1,0.5")),
        "release": Command(
            lambda out: ["release", "build", "--config", str(root / "release.toml"), "--output", str(out)]
        ),
        "suite": Command(lambda out: ["suite", str(root / "suite.toml"), "--output", str(out)]),
    }


def readers(root: Path) -> dict[str, Readers]:
    """What reads the output of each command."""
    sgd = ["--sgd", str(root / "corpus")]

    def release(out: Path, place: Path) -> list[str]:
        config = root / f"release_of_{out.name}.toml"
        config.write_text(RELEASE.replace("variants", out.name))
        return ["release", "build", "--config", str(config), "--output", str(place)]

    def of_variants(command: str) -> Callable[[Path, Path], list[str]]:
        return lambda out, place: [command, *sgd, "--variants", str(out), "--output", str(place)]

    def augment(out: Path, place: Path) -> list[str]:
        return ["augment", *sgd, "--split", "test", "--sets", "oracle", "--oracle", str(out), "--output", str(place)]

    def evaluate(out: Path, place: Path) -> list[str]:
        return ["evaluate", "--task", "dst", "--reference", str(root / "corpus"), "--sets", f"typos={out / 'typos'}",
                "--model", "names", "--output", str(place)]  # fmt: skip

    of_compose = {name: of_variants(name) for name in ("rewrite", "statistics")}
    return {
        "compose": {**of_compose, "augment": augment, "release build": release},
        "perturb": {"load_corpus": lambda out, place: ["load_corpus", str(out / "typos")], "evaluate": evaluate},
        "release": {
            "release verify": lambda out, place: ["release", "verify", str(out / "little")],
            "load_corpus": lambda out, place: ["load_corpus", str(out)],
        },
        "suite": {},
    }
