"""``parapet language_variations``: user turns with typos, at more length, more simply; and mixes with the originals."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.command import Parser, check_apart, counted, run_command
from schemas.errors import InputError
from schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam

EXAMPLE = """\
  parapet language_variations --output varied                  # typos, verbose and simple, of the sample's test turns
  parapet language_variations --sgd sgd --split dev,test --kinds typos --env none --output varied
  parapet language_variations --sgd sgd --kinds typos --rates word=0.2 --perturb_values --output varied"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Dialogues -> the same dialogues with user turns said in another way, one set for each kind of variation and\n"
        "mixes of it: OUT/typos/test/dialogues_001.json, OUT/typos-env1, and a row for every turn in OUT/typos/turns."
    )
    made = Parser("language_variations", what, EXAMPLE)
    add = made.add_argument
    add("--sgd", metavar="ROOT", help="corpus (default: the bundled sample)")
    add("--split", metavar="LIST", default="test", help="whose dialogues: train, dev, test (default test)")
    add(
        "--kinds",
        metavar="LIST",
        default="typos,verbose,simple",
        help="typos, verbose, simple, parted by commas (default all)",
    )
    add(
        "--env",
        metavar="LIST",
        default="0.1,0.5,0.8",
        help="mixes, of each kind: shares of the turns that can be varied, or none (default 0.1,0.5,0.8)",
    )
    add(
        "--rates",
        metavar="LIST",
        default="",
        help="of typos, as NAME=NUMBER: probabilities word (0.08) and abbreviation (0.15), weights omission (35), "
        "neighbour (25), doubling (20), transposition (15), lost_space (5)",
    )
    add("--at_least", type=int, metavar="N", default=1, help="typos of a turn whose words allow them (default 1)")
    add("--perturb_values", action="store_true", help="typos in annotated values too; states keep what was meant")
    add(
        "--least_changed",
        type=float,
        metavar="X",
        help="fail where a kind changed a smaller share of the user turns (default 0.5, of simple 0.1)",
    )
    add("--seed", default="0", help="of all that is drawn: any text (default 0)")
    add("--leave_out", action="store_true", help="go on without what cannot be read or mended: see dead_letters.jsonl")
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, build, check, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the dialogues."""
    return [("--sgd", str(args.sgd or sample_root()))]


def check(args: argparse.Namespace) -> None:
    """Reads flags and corpus. Raises InputError where they cannot work."""
    from transforms.corpora import listed, read_corpus
    from transforms.variations import plan
    from transforms.variations.kinds import LEAST, Settings
    from transforms.variations.writing import Sets

    check_apart(args.output, sgd=args.sgd)
    kinds, envs = plan.parse_kinds(args.kinds), plan.parse_envs(args.env)
    rates = plan.parse_rates(args.rates, args.at_least)
    if args.least_changed is not None and not 0 <= args.least_changed <= 1:
        raise InputError(f"{args.least_changed:g} is no share: give 0 to 1, such as 0.5", "--least_changed")
    args.least = {kind: LEAST[kind] if args.least_changed is None else args.least_changed for kind in kinds}
    if args.perturb_values and "typos" not in kinds:
        raise InputError("is for the kind typos, which --kinds does not name", "--perturb_values")
    args.corpus = read_corpus(args.sgd or sample_root(), listed(args.split))
    for line in args.corpus.problems:
        logging.warning("%s", line)
    settings = Settings(args.seed, rates, args.perturb_values)
    args.sets = Sets(args.output, tuple(kinds), tuple(envs), settings)


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that shape the content."""
    rates = args.sets.settings.rates
    return {
        "split": args.split,
        "kinds": list(args.sets.kinds),
        "env": list(args.sets.envs),
        "rates": {"word": rates.word, "abbreviation": rates.abbreviation, **dict(rates.mix)},
        "at_least": rates.at_least,
        "perturb_values": args.perturb_values,
        "least_changed": args.least,
        "seed": args.seed,
        "leave_out": args.leave_out,
    }


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Dialogue files -> places of turns -> thresholds -> the sets, their rows, numbers and a page."""
    from functools import partial

    import apache_beam as beam

    from transforms import files
    from transforms.rewrite.rewriting import DEAD_LETTERS, letters_file
    from transforms.variations import outputs, writing
    from transforms.variations.balance import check_counts
    from transforms.variations.envs import Thresholds

    files.prepare(args.output, "language_variations")
    sets = args.sets
    dialogues = pipeline | "Dialogue files" >> beam.Create(args.corpus.files)
    if sets.envs:
        thresholds = (
            dialogues
            | "Spread files" >> beam.Reshuffle()
            | "Places" >> beam.FlatMap(writing.places_of_file, sets)
            | "Thresholds" >> beam.CombinePerKey(Thresholds(sets.envs))
        )
    else:
        thresholds = pipeline | "No thresholds" >> beam.Create([], reshuffle=False)
    written = dialogues | "Sets" >> writing.WriteSets(sets, thresholds)
    about = outputs.About(sets, options_of(args), args.corpus.schemas)
    small = (
        pipeline
        | "Once" >> beam.Create([about], reshuffle=False)
        | "Small files"
        >> beam.FlatMap(outputs.small_files, *(beam.pvalue.AsList(one) for one in outputs.summed(written)))
    )
    letters = (
        pipeline
        | "Dead letters" >> beam.Create([DEAD_LETTERS], reshuffle=False)
        | "Letters file"
        >> beam.Map(letters_file, letters=beam.pvalue.AsList(written[writing.DEAD]), leave_out=args.leave_out)
    )
    others = (small, letters) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    balanced = partial(
        check_counts,
        sets={kind: sets.env_names(kind) for kind in sets.kinds},
        envs=sets.envs,
        least=args.least,
    )
    (
        (written.written, others)
        | "All files" >> beam.Flatten()
        | "Publish" >> files.Publish(args.output, header(args), written[writing.COUNTS], balanced)
    )


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    from importlib.metadata import version

    return {"pipeline": "language_variations", "version": version("parapet"), "options": options_of(args)}


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what each set came to."""
    from transforms.files import MANIFEST, read_written
    from transforms.rewrite.rewriting import DEAD_LETTERS

    counts = json.loads(read_written(args.output, MANIFEST))["counts"]
    if not args.quiet:
        for kind, one in json.loads(read_written(args.output, "statistics.json"))["kinds"].items():
            changed = "" if one["changed"] is None else f" ({one['changed']:.1%})"
            print(f"{kind}: {one['varied']:,} of {counted(one['turns'], 'user turn')} varied{changed}")
            for name, env in one["envs"].items():
                replaced = sum(of["replaced"] for of in env["splits"].values())
                print(f"{name}: {replaced:,} varied, {env['rate']:.0%} of those that can be")
    if odd := counts.get("odd_spans", 0):
        logging.warning("the text of %s is no value that state or actions know: moved as it is", counted(odd, "span"))
    letters = read_written(args.output, DEAD_LETTERS).count(b"\n")
    if letters:
        said = counted(letters, "dialogue, turn or file").replace("files", "file")
        logging.warning("left out or as it was: %s; see %s/%s", said, args.output, DEAD_LETTERS)


if __name__ == "__main__":
    sys.exit(run())
