"""``parapet compose``: schemas and crowd answers to the variants v1...v5, the audit, the review page, the shortfall."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import EXIT_FAILURE, Parser, counted, run_command
from parapet.transforms import plugins

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.crowd.options import Options

DISTANCES = plugins.Names(plugins.DISTANCES)

EXAMPLE = """\
  parapet compose --schemas my_corpus --responses names.csv descriptions.csv --output out
  open out/review.html in a browser, decide, download decisions.csv, then once more with
  parapet compose --schemas my_corpus --responses names.csv descriptions.csv --decisions decisions.csv --output out"""


def parser() -> Parser:
    """The flags."""
    flags = Parser(
        "compose", "Vets, ranks and composes crowd answers into the schema variants v1...v5 of SGD-X.", EXAMPLE
    )
    add = flags.add_argument
    add("--schemas", metavar="ROOT", help="corpus in the SGD layout, or one schema file (default: the bundled sample)")
    add(
        "--responses",
        nargs="+",
        metavar="FILE",
        help="batch CSV or JSON lines of the API, mixed and repeated as you like",
    )
    add("--decisions", nargs="+", default=[], metavar="FILE", help="reviewers' decisions (CSV)")
    add("--reviewers", nargs=2, default=[], metavar=("A", "B"), help="two reviewers' sheets to merge, with agreement")
    add(
        "--allow_partial",
        action="store_true",
        help="compose services whose elements have one good answer at least, repeating it",
    )
    add(
        "--require_complete",
        action="store_true",
        help="exit with 1 unless every service was composed from five answers",
    )
    add(
        "--selection",
        choices=("random", "diverse"),
        default="random",
        help="which five when more survive (default random)",
    )
    add("--seed", type=int, default=0, help="of the random draw (default 0)")
    for what, default in (("name", "levenshtein"), ("description", "jaccard")):
        add(
            f"--{what}_distance",
            choices=DISTANCES,
            default=default,
            metavar="DISTANCE",
            help=f"ranks {what}s: %(choices)s (default {default})",
        )
    add(
        "--vetting_rules",
        type=_listed,
        default=(),
        metavar="LIST",
        help="further rules, of plug-ins: NAME,... or NAME=ARGUMENT,...",
    )
    add("--stopwords", default="articles", metavar="SET", help="articles (default), spacy, none, or a file of words")
    add("--spacy_model", default="", metavar="NAME", help="a trained spaCy pipeline for lemmas (default: simplemma)")
    add("--encoding", default="utf-8", help="of response files without a byte order mark (default utf-8)")
    return flags


def _listed(given: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in given.split(",") if name.strip())


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Raises InputError for what cannot work; fills in the sample where no corpus is given."""
    from parapet.schemas import layout
    from parapet.schemas.errors import InputError

    if args.schemas is None:
        sample = layout.sample_root()
        args.schemas = str(sample)
        args.responses = args.responses or [str(sample / "crowd" / name) for name in ("names.csv", "descriptions.csv")]
    elif not layout.is_there(args.schemas):
        raise InputError("there is no such file or folder", f"--schemas {args.schemas}")
    check_answers(args)
    options_of(args).check()
    return args


def check_answers(args: argparse.Namespace) -> None:
    """Raises InputError where ``--responses``, ``--decisions``, ``--reviewers`` or ``--encoding`` cannot work."""
    from parapet.schemas import layout
    from parapet.schemas.errors import InputError
    from parapet.transforms.crowd.ingest.files import check_encoding, check_file

    if args.reviewers and layout.same_place(*args.reviewers):
        raise InputError("two different sheets, please: one agrees with itself", "--reviewers")
    if not args.responses:
        raise InputError("say which response files to read", "--responses")
    for flag, path in inputs(args):
        check_file(path, flag)
    check_encoding(args.encoding, "--encoding")


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: answers and decisions."""
    given = (("--responses", args.responses), ("--decisions", args.decisions), ("--reviewers", args.reviewers))
    return [(flag, path) for flag, paths in given for path in paths]


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Wires the pipeline: read, merge by assignment, settle by service, write, publish."""
    import apache_beam as beam

    from parapet.schemas import layout
    from parapet.transforms import files
    from parapet.transforms.crowd import composing, composition, outputs, reading, summary, worker_key
    from parapet.transforms.crowd.ingest.files import Sources

    splits = layout.read_root(args.schemas, leave_out_bad=True)
    sources = Sources(args.responses, args.decisions, args.reviewers, args.encoding)
    settings = options_of(args).settings(splits)
    places, left_out = composition.places_of(splits), composition.bad_names(splits)
    read = reading.ReadAnswers(sources, worker_key.load_worker_key())
    files.prepare(args.output, "compose")
    names = layout.splits_of(splits)

    answers = pipeline | "Answers" >> read
    bad_schemas = pipeline | "Bad services" >> beam.Create(composition.bad_services(splits), reshuffle=False)
    schemas = pipeline | "Services" >> beam.Create(composing.packed_schemas(layout.raw_by_name(splits)))
    settled = (
        {"schema": schemas, "responses": answers["merged"]}
        | "By service" >> beam.CoGroupByKey()
        | "Settle"
        >> beam.ParDo(composing.SettleServices(settings, places, left_out)).with_outputs(
            composing.VARIANT, composing.AUDIT, composing.SUMMARY, composing.DEAD, composing.COUNTS
        )
    )
    dead = (answers["dead"], settled.dead, bad_schemas) | "All dead letters" >> beam.Flatten()
    counts = (answers["counts"], settled.counts) | "All counts" >> beam.Flatten()
    audit = (
        settled.audit
        | "One audit" >> beam.GroupBy(composing.together)
        | "Write audit" >> beam.ParDo(composing.WriteAudit(args.output))
    )
    variants = (
        settled.variant
        | "By schema file" >> beam.GroupByKey()
        | "Schema files" >> beam.MapTuple(composing.schema_file)
        | "Write schemas" >> files.WriteFiles(args.output)
    )
    pages = (
        pipeline
        | "Summary" >> beam.Create([None])
        | "Summarise"
        >> beam.FlatMap(
            outputs.summary_files,
            summaries=beam.pvalue.AsList(settled.summary),
            dead=beam.pvalue.AsList(dead),
            agreement=beam.pvalue.AsList(answers["agreement"]),
            splits=names,
            method=options_of(args).method(),
            vetting_rules=args.vetting_rules,
        )
        | "Write pages" >> files.WriteFiles(args.output)
    )
    (
        (audit, variants, pages)
        | "All files" >> beam.Flatten()
        | "Publish" >> files.Publish(args.output, options_of(args).header(), counts, summary.check_invariants)
    )


def options_of(args: argparse.Namespace) -> Options:
    """The options that shape the result."""
    from parapet.transforms.crowd.options import Options

    return Options(**{name: getattr(args, name) for name in Options.__struct_fields__})


def report(args: argparse.Namespace, counters: dict[str, int]) -> int:
    """Says what was made and what to do next. Returns the exit status."""
    import json

    from parapet.transforms.files import MANIFEST, read_written

    found = json.loads(read_written(args.output, "statistics.json"))
    assignments = json.loads(read_written(args.output, MANIFEST))["counts"]["assignments"]
    dead = [json.loads(line) for line in read_written(args.output, "dead_letters.jsonl").splitlines()]
    services = found["services"].values()
    complete = sum(service["composed"] and not service["partial"] for service in services)
    partial = sum(service["partial"] for service in services)
    out, answers, short = args.output, found["answers"], len(services) - complete
    if not args.quiet:
        print(f"{complete} of {len(services)} services composed" + (f", {partial} partially" if partial else ""))
        print("answers: " + ", ".join(f"{answers[name]:,} {name}" for name in answers))
        print(f"report: {out}/report.html")
        if answers["review"]:
            print(f"review: {out}/review.html, {counted(answers['review'], 'answer')} held; then add --decisions")
        if found["agreement"]:
            print(f"reviewers: {_agreement(found['agreement'])}; {out}/adjudicate.csv")
    if short:
        logging.warning("short of answers: %s, see %s/shortfall.csv", counted(short, "service"), out)
    if dead:
        logging.warning(
            "not used: %s, see %s/dead_letters.jsonl: %s", counted(len(dead), "record"), out, reasons_of(dead)
        )
    bad = any(letter["stage"] == "schemas" for letter in dead)
    if bad:
        logging.warning("services were left out because their schemas are bad: the dead letters say which and why")
    if not assignments:
        return failed("no assignment could be read from the files of --responses", found, dead, out)
    if not complete + partial:
        return failed("no service could be composed", found, dead, out)
    return EXIT_FAILURE if (short or bad) and args.require_complete else 0


def _agreement(agreement: dict[str, Any]) -> str:
    both = f"{counted(agreement['items'], 'answer')} judged by both, {agreement['disagreements']:,} differently"
    if agreement["cohen_kappa"] is None:
        return f"{both}; {agreement['undefined']}"
    return f"{both}, kappa {agreement['cohen_kappa']:.2f}, alpha {agreement['krippendorff_alpha']:.2f}"


def failed(what: str, found: Mapping[str, Any], dead: Sequence[dict[str, str]], out: str) -> int:
    """Says why a run made nothing of what was asked, and where to look. Returns the exit status.

    Args:
      what: was not made.
      found: the run's ``statistics.json``.
      dead: its dead letters.
      out: the output folder.
    """
    answers, rejected = found["answers"], found["reasons"]["rejected"]
    why = []
    if dead:
        why.append(f"{counted(len(dead), 'dead letter')} ({out}/dead_letters.jsonl): {commonest(dead)}")
    if answers["rejected"]:
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(rejected.items(), key=lambda each: -each[1])[:3])
        why.append(f"{counted(answers['rejected'], 'answer')} rejected ({out}/report.html): {reasons}")
    if answers["review"]:
        why.append(f"{counted(answers['review'], 'answer')} held: decide on them in {out}/review.html")
    if answers["surplus"] or answers["duplicate"] or answers["used"]:
        why.append(f"what is still missing is in {out}/shortfall.csv")
    logging.error("%s: %s", what, "; ".join(why) or "the files hold none")
    return EXIT_FAILURE


def commonest(dead: Sequence[dict[str, str]]) -> str:
    """The three commonest reasons of dead letters, each with the first record that has it."""
    first: dict[str, dict[str, str]] = {}
    numbers: dict[str, int] = {}
    for letter in dead:
        reason = letter["reason"].partition(":")[0]
        first.setdefault(reason, letter)
        numbers[reason] = numbers.get(reason, 0) + 1
    ordered = sorted(numbers, key=lambda reason: (-numbers[reason], reason))
    shown = [
        f"{numbers[reason]:,} {reason} ({first[reason]['source']}: {first[reason]['reason'].partition(': ')[2]})"
        for reason in ordered[:3]
    ]
    return ", ".join(shown) + (f" and {len(ordered) - 3} more reasons" if len(ordered) > 3 else "")


def reasons_of(dead: Sequence[dict[str, str]]) -> str:
    """The reasons of dead letters, most frequent first."""
    from collections import Counter

    reasons = Counter(letter["reason"].partition(":")[0] for letter in dead)
    return ", ".join(f"{n:,} {reason}" for reason, n in reasons.most_common())


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


if __name__ == "__main__":
    sys.exit(run())
