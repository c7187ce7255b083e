"""``parapet language_variations``: user turns with typos, longer, simpler, in other words; mixes with the originals."""

from __future__ import annotations

import argparse
import hashlib
import logging
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines import translating
from parapet.pipelines.command import check_apart, counted, run_command, say, say_summary, warn_dead_letters
from parapet.pipelines.flags import INPUT, Parser, add_dry_run, add_max_bad, add_seed, add_sgd, add_split
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms import plugins

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.corpora import Corpus
    from parapet.transforms.translation.engine import Engine
    from parapet.transforms.variations.perturbations import LanguageVariations
    from parapet.transforms.variations.translated import Translating

RULES = "rules"  # the engine that needs no translation
ENGINES = plugins.Names(plugins.TRANSLATION_ENGINES, RULES, translating.CHECKPOINT, translating.MEMORY)

EXAMPLE = """\
  parapet language_variations --output varied                 # the sample
  parapet language_variations --sgd sgd --kinds typos --rates word=0.2 --output varied
  parapet language_variations --sgd sgd --rewritten composed/rewritten.jsonl --output varied"""


class Config(msgspec.Struct, frozen=True):
    """A run.

    Attributes:
      output: the output folder.
      root: of the corpus.
      corpus: the dialogues that are varied.
      variations: the kinds and their mixes.
      options: those that shape the content.
      max_bad: the share of each kind of record that may be bad.
      dry_run: whether only the estimate is printed.
      engine: the flag.
      plugin: the plug-in that translates, for ``run.json``.
    """

    output: str
    root: str
    corpus: Corpus
    variations: LanguageVariations
    options: dict[str, object]
    max_bad: Fraction
    dry_run: bool
    engine: str
    plugin: dict[str, object]

    @property
    def translator(self) -> Engine | None:
        """The engine that translates, if any."""
        return self.variations.translating.engine if self.variations.translating else None


def parser() -> Parser:
    """The flags."""
    what = (
        "Varies user turns: one set of dialogues for each kind of variation, and mixes of it with the original: "
        "OUT/typos, OUT/typos-env1 and so on."
    )
    parser = Parser("language_variations", what, EXAMPLE)
    add_sgd(parser)
    add_split(parser, many=True)
    parser.group(INPUT)(
        "--rewritten",
        nargs="+",
        default=[],
        metavar="FILE",
        reads=True,
        help="rewritten turns: output of 'compose_variations'",
    )
    add = parser.group("variation")
    text = "typos, verbose, simple, paraphrase (default: all, or those of --rewritten)"
    add("--kinds", metavar="LIST", help=text)
    text = "shares of varied turns in the mixes of each kind, or none"
    add("--env", metavar="LIST", default="0.1,0.5,0.8", help=text)
    add(
        "--rates",
        rare=True,
        metavar="LIST",
        default="",
        help="rates of typos: probabilities word=0.08, abbreviation=0.15; weights omission=35, neighbour=25, "
        "doubling=20, transposition=15, lost_space=5",
    )
    add("--at_least", rare=True, type=int, metavar="N", default=1, help="minimum number of typos in a turn")
    text = "typos in annotated values, too; states keep the correct value"
    add("--perturb_values", rare=True, action="store_true", help=text)
    add(
        "--least_changed",
        rare=True,
        type=float,
        metavar="X",
        help="fail if a smaller share of the user turns changes (default: 0.5; simple 0.1, paraphrase 0.3)",
    )
    add = parser.group("translation")
    text = "rules; checkpoint, a paraphraser; memory looks up --memory; others translate and back (default: rules)"
    add("--engine", choices=ENGINES, help=text)
    add("--pivots", metavar="LIST", help="pivot languages, one drawn for each turn (default: de)")
    translating.add_flags(parser, rare=True, more="; T5, BART or Pegasus for --engine checkpoint")
    text = "before each text of --engine checkpoint (default: 'paraphrase: ' for T5, else nothing)"
    parser.group("--engine checkpoint", rare=True)("--prefix", metavar="TEXT", help=text)
    add_max_bad(parser, "dialogues, turns or lines of --rewritten")
    add_dry_run(parser)
    add_seed(parser)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(config: Config) -> list[tuple[str, str]]:
    """What workers read: the dialogues, and turns that were rewritten."""
    rewritten = config.variations.files.paths if config.variations.files else ()
    return [("--sgd", config.root), *(("--rewritten", path) for path in rewritten)]


def check(args: argparse.Namespace) -> Config:
    """Reads flags, corpus, memories and files. Raises InputError where they cannot work."""
    from parapet.transforms.corpora import listed, read_corpus
    from parapet.transforms.variations import plan
    from parapet.transforms.variations.kinds import LEAST, LEAST_OF_FILES
    from parapet.transforms.variations.kinds import Config as KindsConfig
    from parapet.transforms.variations.perturbations import LanguageVariations
    from parapet.transforms.variations.rewritten import check_lines, read_files

    check_apart(args.output, sgd=args.sgd)
    envs = plan.parse_envs(args.env)
    if args.least_changed is not None and not 0 <= args.least_changed <= 1:
        raise InputError(f"{args.least_changed:g} is no share: give 0 to 1, such as 0.5", "--least_changed")
    files = read_files(args.rewritten) if args.rewritten else None
    if files:
        check_lines(files, args.max_bad)
    kinds = plan.kinds_of(args.kinds, files)
    _check_flags(args, kinds)
    rates = plan.parse_rates(args.rates, args.at_least)
    least = {
        kind: args.least_changed if args.least_changed is not None else LEAST_OF_FILES if files else LEAST[kind]
        for kind in kinds
    }
    root = str(args.sgd or sample_root())
    corpus = read_corpus(root, listed(args.split))
    for line in corpus.problems:
        logging.warning("%s", line)
    args.engine = _engine(args)
    wanted = "paraphrase" in kinds and files is None and args.engine != RULES
    pivots, translation = _translation(args, wanted)
    config = KindsConfig(args.seed, rates, args.perturb_values, tuple(pivots), files is not None)
    variations = LanguageVariations(kinds, envs, config, files=files, translating=translation, least=least)
    translator = translation.engine if translation else None
    options: dict[str, object] = {
        "split": args.split,
        "rewritten": _digests(args.rewritten),
        "kinds": kinds,
        "env": envs,
        "rates": {"word": rates.word, "abbreviation": rates.abbreviation, **dict(rates.mix)},
        "at_least": rates.at_least,
        "perturb_values": args.perturb_values,
        "least_changed": least,
        "pivots": pivots,
        "provider": translator.provider if translator else translating.MEMORY if wanted else RULES,
        "model": translator.model if translator else "",
        "seed": args.seed,
        "max_bad": float(args.max_bad),
    }
    is_plugin = translator is not None and args.engine != translating.CHECKPOINT
    plugin = plugins.recorded(translating.plugin_of(args) if is_plugin else None)
    return Config(args.output, root, corpus, variations, options, args.max_bad, args.dry_run, args.engine, plugin)


def _check_flags(args: argparse.Namespace, kinds: Sequence[str]) -> None:
    """Raises InputError where a flag has no effect."""
    of_kind = {
        "typos": ("perturb_values", "rates"),
        "paraphrase": ("engine", "pivots", "dry_run", "prefix", *translating.FLAGS),
    }
    for kind, flags in of_kind.items():
        for flag in flags:
            if args.rewritten and getattr(args, flag):
                raise InputError("has no effect with --rewritten: those turns are taken as they are", f"--{flag}")
            if kind not in kinds and getattr(args, flag):
                raise InputError(f"is for the kind {kind}, which --kinds does not name", f"--{flag}")
    if _engine(args) == RULES:
        for flag in ("pivots", "dry_run", "prefix", *translating.FLAGS):
            if getattr(args, flag):
                raise InputError(f"is for an engine that translates, and this is {RULES}: add --engine", f"--{flag}")


def _engine(args: argparse.Namespace) -> str:
    """What ``--engine`` names, else the one that the other flags are for."""
    return args.engine or (translating.MEMORY if args.memory or args.pivots else RULES)


def _translation(args: argparse.Namespace, wanted: bool) -> tuple[list[str], Translating | None]:
    """Reads memories and opens the engine. Gives the pivots (none where nothing is translated) and how it is done."""
    from parapet.transforms.back_translate.legs import Known
    from parapet.transforms.files import join
    from parapet.transforms.translation.memory import by_languages
    from parapet.transforms.translation.paraphraser import PARAPHRASED
    from parapet.transforms.variations.translated import Translating

    # In any case, since what an earlier run into the folder has paid for stays in it; the sample's only where wanted.
    rows = translating.read_memories(args, args.sgd or ("" if wanted else "none"))
    paid = join(args.output, translating.PAID)
    if not wanted:
        return [], Translating(Known({}), None, paid, rows) if rows else None
    translating.check_flags(args)
    engine: Engine | None
    if args.engine == translating.CHECKPOINT:
        engine, pivots = _paraphraser(args), [PARAPHRASED]
    elif args.prefix is not None:
        raise InputError(f"is for --engine checkpoint, and this is {args.engine}", "--prefix")
    else:
        pivots = translating.parse_pivots(args.pivots or "de")
        engine = translating.open_engine(args, pivots, args.seed if args.engine == "local" else None)
    known = Known(by_languages(rows, *((engine.provider, engine.model) if engine else ("", ""))))
    if engine is None and not any(known.of("en", pivot) for pivot in pivots):
        hint = "the engine 'memory' only replays: add a --memory that has the user turns, or choose another --engine"
        raise InputError(f"{hint}; there is nothing in {', '.join(pivots)}", "--engine")
    return pivots, Translating(known, engine, paid, rows)


def _paraphraser(args: argparse.Namespace) -> Engine:
    """A checkpoint that paraphrases. Raises InputError where there is none."""
    from parapet.transforms.translation.paraphraser import Paraphraser

    if args.pivots:
        raise InputError("is for an engine that translates, and this is checkpoint", "--pivots")
    if args.model is None or len(args.model) != 1:
        raise InputError("name one folder, that of the checkpoint", "--model")
    engine = Paraphraser(args.model[0], prefix=args.prefix, **({} if args.beams is None else {"beams": args.beams}))
    if not args.dry_run:
        engine.open()
    return engine


def _digests(paths: Sequence[str]) -> list[dict[str, str]]:
    """The name and digest of each file: its place on this machine says nothing elsewhere."""
    from parapet.transforms.files import read_bytes

    return [{"file": path.rpartition("/")[2], "sha256": hashlib.sha256(read_bytes(path)).hexdigest()} for path in paths]


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Dialogue files, rewritten turns, translations -> thresholds of the mixes -> the sets, rows, numbers, a page."""
    from parapet.transforms import files
    from parapet.transforms.perturbed_files import PerturbCorpus
    from parapet.transforms.runs import RunInfo

    files.prepare(config.output, "language_variations")
    kept = " (what was translated is kept: run the same command again for the rest)" if config.translator else ""
    info = RunInfo("language_variations", config.output, config.options, config.max_bad, f"varied{kept}", config.plugin)
    _ = pipeline | "Language variations" >> PerturbCorpus(config.variations, config.corpus, info)


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints how much of each set was varied, and what a translation cost."""
    from parapet.transforms.files import clear, join

    if config.dry_run:
        _say_plan(config)
        return
    clear(join(config.output, translating.PAID))  # the memory that was published has it all
    numbers = say_summary(config.output, config.variations)
    if config.translator is not None:
        say(translating.bill(config.engine, config.translator.dollars_per_million, counters))
    if odd := numbers["odd_spans"]:
        what = "is no value of the state or the actions: moved like the other spans"
        logging.warning("the text of %s %s", counted(odd, "span"), what)
    warn_dead_letters(config.output, config.variations.tallies, "left out, or turns unchanged")


def _say_plan(config: Config) -> None:
    from parapet.transforms.variations.translated import estimate, plan_lines

    variations = config.variations
    assert variations.translating is not None  # --dry_run is refused where nothing is translated
    estimates = estimate(config.corpus.files, variations.config, variations.translating.known)
    for line in plan_lines(estimates, config.translator.dollars_per_million if config.translator else 0):
        print(line)


if __name__ == "__main__":
    sys.exit(run())
