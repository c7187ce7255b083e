"""``parapet demo``: the bundled sample through every pipeline, and one page that links their pages."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, run_checked
from parapet.pipelines.demo_reuse import Made
from parapet.pipelines.flags import Parser
from parapet.schemas.distribution import install_line
from parapet.schemas.errors import InputError

EXAMPLE = "  parapet demo --output demo-output"


class Stage(msgspec.Struct):
    """One pipeline's part of the demo.

    Attributes:
      pipeline: its name; what it makes lies in the folder of that name.
      what: what it does, for the terminal and the page.
      flags: besides ``--output``.
      pages: what to open, (title, path below its folder).
      prepare: what must be done before, given the demo's folder.
      extra: the extra that it needs; without it the stage is left out.
    """

    pipeline: str
    what: str
    flags: list[str]
    pages: list[tuple[str, str]]
    prepare: Callable[[Path], None] | None = None
    extra: str = ""


# Extra to a package that it brings.
EXTRAS = {"speech": "pocketsphinx", "models": "torch"}

RELEASE = """\
# What 'parapet demo' made, as a release: 'parapet release build --config THIS --output FOLDER' builds it again.
name = "parapet_sample"
version = "1.0.0"
title = "Parapet's sample corpus, its paraphrased schemas and its robustness sets"
description = "Six services in five domains, their dialogues under the names of crowdworkers: v1 is near, v5 far."
licence = "CC0-1.0"
changes = "First release."

[[authors]]
name = "The authors of Parapet"

[[corpora]]
path = {sample}
name = "original"
kind = "original"

[[corpora]]
path = "rewrite"
kind = "variants"

[[corpora]]
path = "back_translate"
kind = "back-translations"

[[corpora]]
path = "language_variations/typos"
name = "typos"
kind = "language variations"

[[corpora]]
path = "language_variations/paraphrase"
name = "paraphrase"
kind = "language variations"

[[corpora]]
path = "unseen_entities"
name = "unseen_entities"
kind = "unseen entities"

[[corpora]]
path = "ood/ood-20"
name = "ood_20"
kind = "out-of-domain turns"

[[corpora]]
path = "reminders"
name = "reminders"
kind = "simulated dialogues"

[[audits]]
path = "compose"

[[tables]]
path = "back_translate/memory.parquet"
name = "translation_memory"
kind = "translation memory"
key = ["provider", "model", "source", "target", "text"]

[[statistics]]
path = "statistics"
name = "table_1"
"""

SPEECH_ERRORS = """
[[corpora]]
path = "speech_errors/SR-20"
name = "speech_errors_20"
kind = "speech errors"
"""


# Sets besides the variants on which the baseline is scored.
SCORED = {
    "typos": "language_variations/typos",
    "paraphrase": "language_variations/paraphrase",
    "unseen_entities": "unseen_entities",
    "ood-20": "ood/ood-20",
}
HEARD = {"SR-20": "speech_errors/SR-20"}  # only with the extra speech


def prepare_release(folder: Path) -> None:
    """Writes ``release.toml``, and clears away what an earlier demo released: a version is never built twice."""
    from parapet.schemas.layout import sample_root

    text = RELEASE.format(sample=json.dumps(str(sample_root())))
    if (folder / "speech_errors").is_dir():
        text += SPEECH_ERRORS
    (folder / "release.toml").write_text(text, encoding="utf-8")
    shutil.rmtree(folder / "release" / "parapet_sample", ignore_errors=True)


def stages(output: str, extras: Collection[str] = tuple(EXTRAS)) -> list[Stage]:
    """The stages in their order; a later one reads what an earlier one made below ``output``.

    Args:
      output: the demo's folder.
      extras: those that are there; without models a baseline that has learned nothing is scored.
    """
    from parapet.schemas.layout import sample_root

    crowd = sample_root() / "crowd"
    scored = {**SCORED, **(HEARD if "speech" in extras else {})}
    sets = [
        *("--variants", str(Path(output) / "rewrite"), "--sets"),
        *(f"{name}={Path(output) / path}" for name, path in scored.items()),
    ]
    trained = "models" in extras
    model = ["--predictions", str(Path(output) / "predict/predictions"), "--system", "tiny_dst"]
    keywords = ["--model", "parapet.evaluation.dst.baseline:Keywords", "--system", "the key-word baseline"]
    return [
        Stage(
            "hits",
            "Blind paraphrasing tasks for crowdworkers: a page a task, the plan with its cost",
            [],
            [("All tasks, and what they would cost", "index.html")],
        ),
        Stage(
            "compose",
            "1,420 answers of a crowd batch, vetted, ranked and composed into the variants v1 to v5",
            [
                "--responses",
                *(str(crowd / name) for name in ("names.csv", "descriptions.csv", "assignments.jsonl")),
                "--decisions",
                str(crowd / "decisions.csv"),
            ],
            [("What became of the answers", "report.html"), ("Answers that wait for a reviewer", "review.html")],
        ),
        Stage(
            "statistics",
            "How far each variant is from the original: the numbers of SGD-X Table 1",
            ["--variants", str(Path(output) / "compose")],
            [("The measures, as a table and plots", "report.html")],
        ),
        Stage(
            "rewrite",
            "The sample's dialogues under the names of each variant, as models are tested on",
            ["--variants", str(Path(output) / "compose"), "--max_bad", "30%"],
            [
                ("What each name became", "mapping.json"),
                ("Dialogues under the names of v5", "v5/test/dialogues_001.json"),
                ("Dialogues left out: compose was short of answers to their service", "dead_letters.jsonl"),
            ],
        ),
        Stage(
            "back_translate",
            "The schemas through Chinese, Japanese and Korean and back, replayed from a memory written by hand",
            [],
            [("How the names came back, and how far they are from the original", "report.html")],
        ),
        Stage(
            "augment",
            "Training sets: the dialogues also under back-translated, crowdsourced and corrupted schemas",
            [
                "--backtrans",
                str(Path(output) / "back_translate"),
                "--oracle",
                str(Path(output) / "compose"),
                "--sets",
                "none,backtrans,oracle,corrupted",
                "--max_bad",
                "30%",
            ],
            [
                ("The training set with back-translations", "backtrans/train/dialogues_001.json"),
                ("What the corruptions did to each text", "corruptions/changes.jsonl"),
            ],
        ),
        Stage(
            "compose_variations",
            "220 rewritings of user turns by a crowd, vetted: reworded, mistyped, longer and shorter",
            ["--decisions", str(crowd / "rewrites_decisions.csv")],
            [("What became of the answers", "report.html"), ("Answers that wait for a reviewer", "review.html")],
        ),
        Stage(
            "language_variations",
            "User turns with typos, at more length, more simply, in other words; and mixes of 10, 50 and 80 in 100",
            ["--kinds", "typos,verbose,simple,paraphrase"],
            [
                ("What was said and what became of it", "report.html"),
                ("The test dialogues with typos", "typos/test/dialogues_001.json"),
            ],
        ),
        Stage(
            "unseen_entities",
            "The test dialogues with towns, names, dates and prices that training does not have",
            [],
            [("What was replaced, and how turns read", "report.html")],
        ),
        Stage(
            "ood",
            "Utterances of other domains breaking in, one for every ten and every five user turns",
            ["--rates", "0.1,0.2"],
            [
                ("What was injected, and where it comes from", "report.html"),
                ("The test dialogues with injected turns", "ood-20/test/dialogues_001.json"),
            ],
        ),
        Stage(
            "few_shot",
            "Training sets of two and four dialogues for each domain, with every slot",
            ["--sizes", "2,4", "--test", "2"],
            [("Which sets there are", "README.md"), ("Two dialogues on gyms", "Gyms/2/train/dialogues_001.json")],
        ),
        Stage(
            "unseen_services",
            "Each domain held out: training without it, a test with nothing else",
            [],
            [("What each split has, and which names are seen", "report.html")],
        ),
        Stage(
            "reminders",
            "A simulated corpus: an agenda-based user sets, finds, moves and cancels reminders",
            ["--dialogues", "100,0,20"],
            [("What was made, and some dialogues", "report.html")],
        ),
        Stage(
            "speech_errors",
            "User turns spoken, put through noise and heard again, one word in five wrong",
            ["--wer", "0.2", "--snr", "15,12,9,6", "--language_model", "own", "--form", "restored"],
            [
                ("What was said and what was heard", "report.html"),
                ("The test dialogues as they were heard", "SR-20/test/dialogues_001.json"),
            ],
            extra="speech",
        ),
        Stage(
            "restaurants",
            "Dialog bAbI tasks 1 to 5 simulated, with out-of-vocabulary tests and disfluencies",
            ["--sizes", "20", "--babi_plus"],
            [
                ("Structure, what was drawn, what splits share, dialogues", "report.html"),
                ("Full dialogues, out of vocabulary", "dialog-babi-task5-full-dialogs-tst-OOV.txt"),
            ],
        ),
        Stage(
            "anonymise",
            "Five chats without who is in them, and what a second look suspects was missed",
            [],
            [("What was replaced", "report.html"), ("The chats as they are now", "babi/00001.txt")],
        ),
        Stage(
            "train",
            "A small tracker of dialogue states, from scratch, on the sample's 24 training dialogues",
            ["tiny_dst", "--epochs", "25"],
            [("Loss and joint goal accuracy, epoch by epoch", "log.jsonl")],
            extra="models",
        ),
        Stage(
            "predict",
            "The states that it sees in the test dialogues, under every variant and in every set",
            ["tiny_dst", "--model", str(Path(output) / "train"), *sets],
            [("The test dialogues with its states", "predictions/original/test/dialogues_001.json")],
            extra="models",
        ),
        Stage(
            "evaluate",
            "How robust it is: joint goal accuracy on all of it, and schema sensitivity"
            if trained
            else "A tracker by key words: joint goal accuracy on all of it, and schema sensitivity",
            ["--task", "dst", *(model if trained else keywords), *sets],
            [("The scores, set by set", "report.html")],
        ),
        Stage(
            "release",
            "All of it as one versioned dataset: Parquet, SGD JSON, card, manifest, checksums",
            ["build", "--config", str(Path(output) / "release.toml")],
            [
                ("What the release holds, and what it was made of", "parapet_sample/1.0.0/report/index.html"),
                ("The dataset card", "parapet_sample/1.0.0/README.md"),
                ("The manifest", "parapet_sample/1.0.0/MANIFEST.json"),
            ],
            prepare_release,
        ),
    ]


def parser() -> Parser:
    """The flags."""
    what = "Runs the bundled sample through every pipeline and links the results on one page."
    flags = Parser("demo", what, EXAMPLE)
    flags.add_argument("--core", action="store_true", help="without the stages that need extras: speech, models")
    return flags


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the stages. Returns the exit status."""
    return run_checked(parser(), argv, check, run_stages, "run it again to resume")


class Config(NamedTuple):
    """Where the demo writes, whether without extras, the flags that every stage gets, and whether it prints nothing."""

    output: str
    core: bool
    flags: list[str]
    quiet: bool


def check(args: argparse.Namespace) -> Config:
    """Raises InputError where the stages cannot hand folders on."""
    if "://" in args.output:
        raise InputError("the demo writes to a local folder", f"--output {args.output}")
    return Config(args.output, args.core, args.runner_flags, args.quiet)


def run_stages(config: Config) -> int:
    """Runs one stage after the other, each as its own command, and writes the page."""
    todo = _possible(config)
    started = time.monotonic()
    made = Made(Path(config.output))
    for i, stage in enumerate(todo, 1):
        _say(config, f"[{i}/{len(todo)}] {stage.pipeline}: {stage.what}")
        begun = time.monotonic()
        if made.before(stage.pipeline, stage.flags, [path for _, path in stage.pages]):
            _say(config, "      unchanged")
            continue
        if stage.prepare is not None:
            stage.prepare(Path(config.output))
        command = [*stage.flags, "--output", str(Path(config.output) / stage.pipeline), "--quiet", *config.flags]
        status = int(importlib.import_module(f"parapet.pipelines.{stage.pipeline}").run(command))
        if status:
            print(f"the demo stopped: {stage.pipeline} ended with status {status}", file=sys.stderr)
            return EXIT_FAILURE
        made.now(stage.pipeline)
        _say(config, f"      {time.monotonic() - begun:.1f} s")
    page = write_page(config.output, todo)
    _say(config, f"done in {time.monotonic() - started:.1f} s; open in a browser:")
    for stage in todo:
        for title, path in stage.pages:
            _say(config, f"  {Path(config.output) / stage.pipeline / path}  {title}")
    _say(config, f"  {page}  all of them")
    return 0


def _possible(config: Config) -> list[Stage]:
    """The stages whose extras are wanted and installed; of those that are not it says what would be needed."""
    there = [extra for extra, package in EXTRAS.items() if not config.core and find_spec(package) is not None]
    every = stages(config.output, there)
    for extra in () if config.core else EXTRAS:
        if extra not in there:
            lacking = ", ".join(stage.pipeline for stage in every if stage.extra == extra)
            _say(config, f"without {lacking}: {install_line(extra)} adds it")
    return [stage for stage in every if not stage.extra or stage.extra in there]


def write_page(output: str, done: Sequence[Stage]) -> Path:
    """Writes ``index.html``, which links the pages of all stages."""
    from parapet.transforms.report import Report, Text, page

    links = {f"{stage.pipeline}/{path}": title for stage in done for title, path in stage.pages}
    report = Report(
        command="demo",
        title="Parapet demo",
        headline="From schemas to robustness data",
        lead="The bundled sample, six services in five domains, through every pipeline. It is invented and free to use "
        "(CC0).",
        sections=[
            Text(
                title=f"{i}. {stage.pipeline}",
                paragraphs=[
                    f"{stage.what}.",
                    *(f"`{stage.pipeline}/{path}`: {title}" for title, path in stage.pages),
                    f"To run it alone: `parapet {stage.pipeline} --help`",
                ],
            )
            for i, stage in enumerate(done, 1)
        ],
        links=links,
    )
    place = Path(output) / "index.html"
    fresh = place.with_name(f".{place.name}-{os.getpid()}")
    fresh.write_text(page(report), encoding="utf-8")
    fresh.replace(place)
    return place


def _say(config: Config, line: str) -> None:
    """Not ``command.say``: the stages are quiet, and that lasts."""
    if not config.quiet:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(run())
