"""``parapet compose_variations``: answers to rewriting tasks -> vetted variations of user turns, audit, review page."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import EXIT_FAILURE, Parser, add_split, check_apart, counted, run_command, run_header
from parapet.pipelines.compose import check_answers, failed, reasons_of
from parapet.pipelines.compose import inputs as answer_files
from parapet.schemas.layout import as_path, is_there, sample_root

if TYPE_CHECKING:
    import apache_beam as beam

EXAMPLE = """\
  parapet compose_variations --output out                                             # the bundled sample
  parapet compose_variations --sgd my_corpus --split test --responses batch.csv --output out
  open out/review.html in a browser, decide, download decisions.csv, then once more with --decisions decisions.csv
  parapet language_variations --sgd my_corpus --rewritten out/rewritten.jsonl --output varied"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Answers to the tasks of 'parapet hits --task rewrites' -> OUT/rewritten.jsonl, a line for each user turn and\n"
        "kind (paraphrase, typos, verbose, simple) with a good answer; and what became of every answer, and why."
    )
    made = Parser("compose_variations", what, EXAMPLE)
    add = made.add_argument
    add("--sgd", metavar="ROOT", help="corpus that the tasks were made from (default: the bundled sample)")
    add_split(made, text="whose dialogues the tasks were made of: splits may share ids")
    add(
        "--responses",
        nargs="+",
        metavar="FILE",
        help="batch CSV, JSON lines of the API, or folders of 'parapet mturk', mixed and repeated as you like",
    )
    add(
        "--hits",
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="what 'parapet hits' made: checks that the corpus is the same, and counts turns that nobody answered",
    )
    add("--decisions", nargs="+", default=[], metavar="FILE", help="reviewers' decisions (CSV)")
    add("--reviewers", nargs=2, default=[], metavar=("A", "B"), help="two reviewers' sheets to merge, with agreement")
    add(
        "--require_complete",
        action="store_true",
        help="exit with 1 unless every turn has a good answer of each kind",
    )
    add("--seed", type=int, default=0, help="of the draw among several good answers (default 0)")
    add("--encoding", default="utf-8", help="of response files without a byte order mark (default utf-8)")
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads flags, corpus and tasks. Raises InputError where they cannot work."""
    from parapet.transforms.corpora import read_corpus
    from parapet.transforms.crowd_variations.asked import read_tasks
    from parapet.transforms.mturk.collected import FILE

    check_apart(args.output, sgd=args.sgd)
    if args.sgd is None:
        args.responses = args.responses or [str(sample_root() / "crowd" / "rewrites.csv")]
    args.responses = [
        str(as_path(path) / FILE) if is_there(path) and as_path(path).is_dir() else path
        for path in args.responses or []
    ]
    check_answers(args)
    args.corpus = read_corpus(args.sgd or sample_root(), [args.split])
    args.tasks = read_tasks(args.hits)
    return args


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: dialogues, answers and decisions."""
    return [("--sgd", str(args.sgd or sample_root())), *answer_files(args)]


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Wires the pipeline: read and merge as ``compose`` does, join with the dialogues, settle, write, publish."""
    import apache_beam as beam

    from parapet.schemas.rewritings import REWRITINGS
    from parapet.transforms import files
    from parapet.transforms.crowd import composing, reading, worker_key
    from parapet.transforms.crowd.ingest.files import Sources
    from parapet.transforms.crowd_variations import outputs, stages, summary
    from parapet.transforms.crowd_variations.asked import TASKS

    sources = Sources(args.responses, args.decisions, args.reviewers, args.encoding, TASKS)
    read = reading.ReadAnswers(sources, worker_key.load_worker_key())
    files.prepare(args.output, "compose_variations")
    answers = pipeline | "Answers" >> read
    dialogues = (
        pipeline
        | "Dialogue files" >> beam.Create(args.corpus.files)
        | "Read dialogues" >> beam.ParDo(stages.ReadDialogues()).with_outputs(composing.DEAD, main="dialogues")
    )
    joined = (
        {
            "dialogues": dialogues.dialogues,
            "responses": answers["merged"] | "Of dialogue" >> beam.MapTuple(stages.by_dialogue),
            "tasks": pipeline | "Tasks" >> beam.Create(stages.tasks_of(args.tasks), reshuffle=False),
        }
        | "By dialogue" >> beam.CoGroupByKey()
        | "Join"
        >> beam.ParDo(stages.JoinDialogue()).with_outputs(
            composing.DEAD, composing.COUNTS, stages.GIVEN, main="dialogues"
        )
    )
    repeated = (
        joined[stages.GIVEN] | "By worker" >> beam.GroupByKey() | "Repeated" >> beam.FlatMapTuple(stages.repeated_by)
    )
    settled = joined.dialogues | "Settle" >> beam.ParDo(
        stages.SettleDialogues(args.seed), beam.pvalue.AsDict(repeated)
    ).with_outputs(stages.REWRITTEN, composing.AUDIT, composing.SUMMARY, composing.DEAD, composing.COUNTS)
    dead = (answers["dead"], dialogues.dead, joined.dead, settled.dead) | "All dead letters" >> beam.Flatten()
    counts = (answers["counts"], joined.counts, settled.counts) | "All counts" >> beam.Flatten()
    audit = (
        settled.audit
        | "One audit" >> beam.GroupBy(composing.together)
        | "Write audit" >> beam.ParDo(composing.WriteAudit(args.output, REWRITINGS))
    )
    once = pipeline | "Once" >> beam.Create([None], reshuffle=False)
    rewritten = once | "Rewritten" >> beam.Map(stages.rewritten_file, beam.pvalue.AsList(settled.rewritten))
    pages = once | "Summarise" >> beam.FlatMap(
        outputs.summary_files,
        summaries=beam.pvalue.AsList(settled.summary),
        dead=beam.pvalue.AsList(dead),
        agreement=beam.pvalue.AsList(answers["agreement"]),
        method=method_of(args),
    )
    others = (rewritten, pages) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    (
        (audit, others)
        | "All files" >> beam.Flatten()
        | "Publish" >> files.Publish(args.output, header(args), counts, summary.check_invariants)
    )


def method_of(args: argparse.Namespace) -> dict[str, str]:
    """What ``statistics.json`` says of the method; never the names of input files, which do not shape the result."""
    return {"split": args.split, "seed": str(args.seed)}


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    return run_header("compose_variations", method_of(args))


def report(args: argparse.Namespace, counters: dict[str, int]) -> int:
    """Says what was made and what to do next. Returns the exit status."""
    from parapet.transforms.crowd_variations.summary import of_other_sentences
    from parapet.transforms.files import MANIFEST, read_written

    found = json.loads(read_written(args.output, "statistics.json"))
    assignments = json.loads(read_written(args.output, MANIFEST))["counts"]["assignments"]
    dead = [json.loads(line) for line in read_written(args.output, "dead_letters.jsonl").splitlines()]
    out, answers = args.output, found["answers"]
    if not args.quiet:
        kinds = ", ".join(f"{of['turns']:,} {kind}" for kind, of in found["kinds"].items())
        print(f"{found['complete']:,} of {counted(found['turns'], 'user turn')} with all four: {kinds}")
        print("answers: " + ", ".join(f"{answers[name]:,} {name}" for name in answers))
        print(f"report: {out}/report.html")
        if answers["review"]:
            print(f"review: {out}/review.html, {counted(answers['review'], 'answer')} held; then add --decisions")
        print(f"next: parapet language_variations --rewritten {out}/rewritten.jsonl")
    if found["short"]:
        logging.warning("still missing: %s, see %s/shortfall.csv", counted(found["short"], "rewriting"), out)
    if dead:
        logging.warning(
            "not used: %s, see %s/dead_letters.jsonl: %s", counted(len(dead), "record"), out, reasons_of(dead)
        )
    if of_other_sentences(found):
        logging.warning(
            "most mistyped answers are of other sentences: is this the corpus, and the --split, of the tasks?"
        )
    if not assignments:
        return failed("no assignment could be read from the files of --responses", found, dead, out)
    if not answers["used"]:
        return failed("no rewriting could be used", found, dead, out)
    return EXIT_FAILURE if found["short"] and args.require_complete else 0


if __name__ == "__main__":
    sys.exit(run())
