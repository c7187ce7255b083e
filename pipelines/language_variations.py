"""``parapet language_variations``: user turns mistyped, longer, simpler, in other words; mixes with the originals."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines import translating
from parapet.pipelines.command import (
    Parser,
    add_max_bad,
    add_split,
    check_apart,
    counted,
    run_command,
    run_header,
    warn_left_out,
)
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms import plugins

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.dead_letters import Tallies

EXAMPLE = """\
  parapet language_variations --output varied                  # typos, verbose and simple, of the sample's test turns
  parapet language_variations --sgd sgd --split dev,test --kinds typos --env none --output varied
  parapet language_variations --sgd sgd --kinds typos --rates word=0.2 --perturb_values --output varied
  parapet language_variations --kinds paraphrase --output varied              # the sample, from the memory it brings
  parapet language_variations --sgd sgd --rewritten composed/rewritten.jsonl --output varied"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Dialogues -> the same dialogues with user turns said in another way, one set for each kind of variation and\n"
        "mixes of it: OUT/typos/test/dialogues_001.json, OUT/typos-env1, and a row for every turn in OUT/typos/turns."
    )
    made = Parser("language_variations", what, EXAMPLE)
    add = made.add_argument
    add("--sgd", metavar="ROOT", help="corpus (default: the bundled sample)")
    add_split(made, many=True)
    add(
        "--kinds",
        metavar="LIST",
        help="typos, verbose, simple, paraphrase, parted by commas (default the first three; with --rewritten, those "
        "that the files have)",
    )
    add(
        "--rewritten",
        nargs="+",
        default=[],
        metavar="FILE",
        help="JSON lines of turns that others have rewritten: dialogue_id, turn, kind, utterance, perhaps source",
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
        help="fail where a kind changed a smaller share of the user turns (default 0.5, of simple 0.1, of paraphrase "
        "0.3); of --rewritten, of those that the files have (0.5)",
    )
    add("--seed", default="0", help="of all that is drawn: any text (default 0)")
    add_max_bad(made, "dialogues, turns, or lines of --rewritten,")
    add(
        "--dry_run", action="store_true", help="of paraphrase: print what would be asked and what it costs, ask nothing"
    )
    add(
        "--engine",
        choices=translating.ENGINES,
        metavar="ENGINE",
        help="who paraphrases: %(choices)s (default memory: nobody, only a replay)",
    )
    add("--pivots", metavar="LIST", help="languages to go through; of several, one is drawn for each turn (default de)")
    translating.add_flags(made)
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the dialogues, and turns that were rewritten."""
    return [("--sgd", str(args.sgd or sample_root())), *(("--rewritten", path) for path in args.rewritten)]


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads flags, corpus, memories and files. Raises InputError where they cannot work."""
    from parapet.transforms.corpora import listed, read_corpus
    from parapet.transforms.variations import plan
    from parapet.transforms.variations.kinds import LEAST, LEAST_OF_FILES, Settings
    from parapet.transforms.variations.rewritten import read_given
    from parapet.transforms.variations.writing import Sets

    check_apart(args.output, sgd=args.sgd)
    envs = plan.parse_envs(args.env)
    if args.least_changed is not None and not 0 <= args.least_changed <= 1:
        raise InputError(f"{args.least_changed:g} is no share: give 0 to 1, such as 0.5", "--least_changed")
    args.given = read_given(args.rewritten) if args.rewritten else None
    if args.given:
        plan.check_lines(args.given, args.max_bad)
    kinds = plan.kinds_of(args.kinds, args.given)
    _check_flags(args, kinds)
    rates = plan.parse_rates(args.rates, args.at_least)
    of_files = args.given is not None
    args.least = {
        kind: args.least_changed if args.least_changed is not None else LEAST_OF_FILES if of_files else LEAST[kind]
        for kind in kinds
    }
    args.corpus = read_corpus(args.sgd or sample_root(), listed(args.split))
    for line in args.corpus.problems:
        logging.warning("%s", line)
    pivots = _translation(args, "paraphrase" in kinds and not of_files)
    settings = Settings(args.seed, rates, args.perturb_values, tuple(pivots), of_files)
    args.sets = Sets(args.output, tuple(kinds), tuple(envs), settings)
    return args


def _check_flags(args: argparse.Namespace, kinds: Sequence[str]) -> None:
    """Raises InputError where a flag has nothing to do."""
    of_kind = {
        "typos": ("perturb_values", "rates"),
        "paraphrase": ("engine", "pivots", "dry_run", *translating.FLAGS),
    }
    for kind, flags in of_kind.items():
        for flag in flags:
            if args.given and getattr(args, flag):
                raise InputError(
                    "is for what is made here, and --rewritten brings turns as they are to be", f"--{flag}"
                )
            if kind not in kinds and getattr(args, flag):
                raise InputError(f"is for the kind {kind}, which --kinds does not name", f"--{flag}")


def _translation(args: argparse.Namespace, wanted: bool) -> list[str]:
    """Reads memories and opens the engine. Gives the pivots; none where nothing is to be translated."""
    from parapet.transforms.back_translate.legs import Known
    from parapet.transforms.translation.memory import by_languages

    args.engine = args.engine or "memory"
    # In any case, since what an earlier run into the folder has paid for stays in it; the sample's only where wanted.
    args.rows = translating.read_memories(args, args.sgd or ("" if wanted else "none"))
    args.translator = None
    args.known = Known({})
    if not wanted:
        return []
    translating.check_flags(args)
    pivots = translating.parse_pivots(args.pivots or "de")
    args.translator = translator = translating.open_engine(args, pivots, args.seed if args.engine == "local" else None)
    of = (translator.provider, translator.model) if translator else ("", "")
    args.known = Known(by_languages(args.rows, *of))
    if translator is None and not any(args.known.of("en", pivot) for pivot in pivots):
        hint = "the engine 'memory' only replays: add a --memory that has the user turns, or choose another --engine"
        raise InputError(f"{hint}; there is nothing in {', '.join(pivots)}", "--engine")
    return pivots


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that shape the content."""
    rates = args.sets.settings.rates
    return {
        "split": args.split,
        "rewritten": _files(args.rewritten),
        "kinds": list(args.sets.kinds),
        "env": list(args.sets.envs),
        "rates": {"word": rates.word, "abbreviation": rates.abbreviation, **dict(rates.mix)},
        "at_least": rates.at_least,
        "perturb_values": args.perturb_values,
        "least_changed": args.least,
        "pivots": list(args.sets.settings.pivots),
        "provider": args.translator.provider if args.translator else "memory",
        "model": args.translator.model if args.translator else "",
        "seed": args.seed,
        "max_bad": float(args.max_bad),
    }


def _files(paths: Sequence[str]) -> list[dict[str, str]]:
    """Name and digest of each, for a place on this machine tells nobody anything."""
    from parapet.transforms.files import read_bytes

    return [{"file": path.rpartition("/")[2], "sha256": hashlib.sha256(read_bytes(path)).hexdigest()} for path in paths]


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Dialogue files and what others have said -> places of turns -> thresholds -> the sets, rows, numbers, a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.dead_letters import DeadLettersFile
    from parapet.transforms.variations import matching, outputs, writing
    from parapet.transforms.variations.envs import Thresholds
    from parapet.transforms.variations.invariants import check_counts
    from parapet.transforms.variations.translated import MakeMemory, TranslateTurns

    files.prepare(args.output, "language_variations")
    sets, paid = args.sets, files.join(args.output, translating.PAID)
    dialogues = pipeline | "Dialogue files" >> beam.Create(args.corpus.files)
    lines = pipeline | "Rewritten turns" >> matching.ReadRewritten(args.given, sets.kinds)
    answers, translations = dialogues | "Translate" >> TranslateTurns(sets.settings, args.known, args.translator, paid)
    others = writing.Others(matching.by_turn(lines), beam.pvalue.AsDict(answers))
    if sets.envs:
        thresholds = (
            dialogues
            | "Spread files" >> beam.Reshuffle()
            | "Places" >> beam.FlatMap(writing.places_of_file, sets, *others)
            | "Thresholds" >> beam.CombinePerKey(Thresholds(sets.envs))
        )
    else:
        thresholds = pipeline | "No thresholds" >> beam.Create([], reshuffle=False)
    written = dialogues | "Sets" >> writing.WriteSets(sets, thresholds, others)
    unused, fates = written[writing.MATCHED] | "Fates of lines" >> matching.Fates(args.given, lines)
    counts = (written[writing.COUNTS], fates) | "All counts" >> beam.Flatten()
    dead = (written[writing.DEAD], unused) | "All letters" >> beam.Flatten()
    memory = translations | "Memory" >> MakeMemory(args.rows, bool(sets.settings.pivots))
    options = options_of(args)
    about = outputs.About(sets, options, args.corpus.schemas)
    small = (
        pipeline
        | "Once" >> beam.Create([about], reshuffle=False)
        | "Metadata files"
        >> beam.FlatMap(outputs.metadata_files, *(beam.pvalue.AsList(one) for one in outputs.summed(written, counts)))
    )
    letters = dead | "Dead letters" >> DeadLettersFile(counts, tallies_of(args), args.max_bad, _done(args))
    more = (small, letters, memory) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    balanced = partial(
        check_counts,
        sets={kind: sets.env_names(kind) for kind in sets.kinds},
        envs=sets.envs,
        least=args.least,
        rewritten=args.given is not None,
    )
    (
        (written.written, more)
        | "All files" >> beam.Flatten()
        | "Publish" >> files.Publish(args.output, header(args, options), counts, balanced)
    )


def _done(args: argparse.Namespace) -> str:
    kept = " (what was translated is kept: run the same command again for the rest)" if args.translator else ""
    return f"varied{kept}"


def tallies_of(args: argparse.Namespace) -> Tallies:
    """What is held against ``--max_bad``."""
    from functools import partial

    from parapet.transforms.variations.invariants import tallies

    return partial(tallies, kinds=args.sets.kinds)


def header(args: argparse.Namespace, options: dict[str, Any]) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    engine = translating.plugin_of(args) if args.translator else None
    return {**run_header("language_variations", options), **plugins.recorded(engine)}


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what each set came to, and what there was to pay."""
    from parapet.transforms.files import MANIFEST, clear, join, read_written

    if args.dry_run:
        _say_plan(args)
        return
    clear(join(args.output, translating.PAID))  # the memory that was published has it all
    counts = json.loads(read_written(args.output, MANIFEST))["counts"]
    if not args.quiet:
        for kind, one in json.loads(read_written(args.output, "statistics.json"))["kinds"].items():
            changed = "" if one["changed"] is None else f" ({one['changed']:.1%})"
            print(f"{kind}: {one['varied']:,} of {counted(one['turns'], 'user turn')} varied{changed}")
            for name, env in one["envs"].items():
                replaced = sum(of["replaced"] for of in env["splits"].values())
                print(f"{name}: {replaced:,} varied, {env['rate']:.0%} of those that can be")
        if args.translator is not None:
            print(translating.bill(args, counters))
    if odd := counts.get("odd_spans", 0):
        logging.warning("the text of %s is no value that state or actions know: moved as it is", counted(odd, "span"))
    warn_left_out(args.output, tallies_of(args), "left out, or turns as they were")


def _say_plan(args: argparse.Namespace) -> None:
    from parapet.transforms.variations.estimate import estimate, plan_lines

    found = estimate(args.corpus.files, args.sets.settings, args.known)
    for line in plan_lines(found, args.translator.dollars_per_million if args.translator else 0):
        print(line)


if __name__ == "__main__":
    sys.exit(run())
