"""What ``parapet language_variations`` shares with other commands that translate: engines, memories, and their bill."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines import back_translate
from parapet.pipelines.flags import Parser
from parapet.schemas.errors import InputError
from parapet.transforms import plugins

if TYPE_CHECKING:
    from parapet.transforms.translation.memory import Engine
    from parapet.transforms.variations.perturbations import LanguageVariations
    from parapet.transforms.variations.translated import Translating

RULES = "rules"  # the engine that needs no translation
ENGINES = plugins.Names(plugins.TRANSLATION_ENGINES, RULES, back_translate.CHECKPOINT, back_translate.MEMORY)
LEAST_OF_FILES = 0.5  # of rewritten turns, the share of the turns that the files have

_TRANSLATING = ("pivots", "dry_run", "prefix", *back_translate.FLAGS)


def add_flags(parser: Parser) -> None:
    """Adds the flags of translation."""
    add = parser.group("translation")
    text = "rules; checkpoint, a paraphraser; memory looks up --memory; others translate and back (default: rules)"
    add("--engine", choices=ENGINES, help=text)
    add("--pivots", metavar="LIST", help="pivot languages, one drawn for each turn (default: de)")
    back_translate.add_flags(parser, rare=True, more="; T5, BART or Pegasus for --engine checkpoint")
    text = "before each text of --engine checkpoint (default: 'paraphrase: ' for T5, else nothing)"
    parser.group("--engine checkpoint", rare=True)("--prefix", metavar="TEXT", help=text)


def from_flags(args: argparse.Namespace) -> LanguageVariations:
    """The kinds and their mixes. Reads memories and rewritten turns, opens the engine.

    Raises:
      InputError: flags that cannot work.
    """
    from parapet.transforms.variations import plan
    from parapet.transforms.variations.perturbations import KINDS, LanguageVariations, Paraphrase
    from parapet.transforms.variations.rewritten import Rewritten

    envs = plan.parse_envs(args.env)
    if args.least_changed is not None and not 0 <= args.least_changed <= 1:
        raise InputError(f"{args.least_changed:g} is no share: give 0 to 1, such as 0.5", "--least_changed")
    rewritten = Rewritten(args.rewritten) if args.rewritten else None
    if rewritten:
        rewritten.check(args.max_bad)
    kinds = plan.kinds_of(args.kinds, rewritten)
    _check_flags(args, kinds)
    args.engine = _engine(args)
    how = _translation(args, "paraphrase" in kinds and rewritten is None and args.engine != RULES)
    parts = []
    for kind in kinds:
        typos = {name: getattr(args, name) for name in ("rates", "at_least", "perturb_values") if kind == "typos"}
        part = KINDS[kind](seed=args.seed, rewritten=rewritten or (), **typos)
        usual = LEAST_OF_FILES if rewritten else part.usual_least
        part.least = usual if args.least_changed is None else args.least_changed
        if isinstance(part, Paraphrase) and how:
            part.pivots = how.pivots
        parts.append(part)
    plan.parse_rates(args.rates, args.at_least)
    variations = LanguageVariations(parts, envs, how)
    if how and how.engine and args.engine != back_translate.CHECKPOINT:
        variations.plugin = back_translate.plugin_of(args)
    return variations


def _check_flags(args: argparse.Namespace, kinds: Sequence[str]) -> None:
    """Raises InputError where a flag has no effect."""
    of_kind = {"typos": ("perturb_values", "rates"), "paraphrase": ("engine", *_TRANSLATING)}
    for kind, flags in of_kind.items():
        for flag in flags:
            if args.rewritten and getattr(args, flag):
                raise InputError("has no effect with --rewritten: those turns are taken as they are", f"--{flag}")
            if kind not in kinds and getattr(args, flag):
                raise InputError(f"is for the kind {kind}, which --kinds does not name", f"--{flag}")
    if _engine(args) == RULES:
        for flag in _TRANSLATING:
            if getattr(args, flag):
                raise InputError(f"is for an engine that translates, and this is {RULES}: add --engine", f"--{flag}")


def _engine(args: argparse.Namespace) -> str:
    """What ``--engine`` names, else the one that the other flags are for."""
    return args.engine or (back_translate.MEMORY if args.memory or args.pivots else RULES)


def _translation(args: argparse.Namespace, wanted: bool) -> Translating | None:
    """Reads memories and opens the engine. Gives how texts are translated; without pivots where none is."""
    from parapet.transforms.files import join
    from parapet.transforms.translation.local import PARAPHRASED
    from parapet.transforms.translation.memory import by_languages
    from parapet.transforms.translation.translate import Known
    from parapet.transforms.variations.translated import Translating

    # In any case, since what an earlier run into the folder has paid for stays in it; the sample's only where wanted.
    rows = back_translate.read_memories(args, args.sgd or ("" if wanted else "none"))
    paid = join(args.output, back_translate.PAID)
    if not wanted:
        return Translating(Known({}), None, paid, rows) if rows else None
    back_translate.check_flags(args)
    engine: Engine | None
    if args.engine == back_translate.CHECKPOINT:
        engine, pivots = _paraphraser(args), [PARAPHRASED]
    elif args.prefix is not None:
        raise InputError(f"is for --engine checkpoint, and this is {args.engine}", "--prefix")
    else:
        pivots = back_translate.parse_pivots(args.pivots or "de")
        engine = back_translate.open_engine(args, pivots, args.seed if args.engine == "local" else None)
    known = Known(by_languages(rows, *((engine.provider, engine.model) if engine else ("", ""))))
    if engine is None and not any(known.of("en", pivot) for pivot in pivots):
        hint = "the engine 'memory' only replays: add a --memory that has the user turns, or choose another --engine"
        raise InputError(f"{hint}; there is nothing in {', '.join(pivots)}", "--engine")
    return Translating(known, engine, paid, rows, tuple(pivots), args.seed)


def _paraphraser(args: argparse.Namespace) -> Engine:
    """A checkpoint that paraphrases. Raises InputError where there is none."""
    from parapet.transforms.translation.local import Paraphraser

    if args.pivots:
        raise InputError("is for an engine that translates, and this is checkpoint", "--pivots")
    if args.model is None or len(args.model) != 1:
        raise InputError("name one folder, that of the checkpoint", "--model")
    engine = Paraphraser(args.model[0], prefix=args.prefix, **({} if args.beams is None else {"beams": args.beams}))
    if not args.dry_run:
        engine.open()
    return engine


def ended(perturbation: Any, output: str, counters: Mapping[str, int]) -> Iterator[str]:
    """Clears what a published memory has, and says what a translation has cost."""
    from parapet.transforms.files import clear, join

    clear(join(output, back_translate.PAID))
    how = perturbation.translating
    if how and how.engine:
        yield back_translate.bill(how.engine.provider, how.engine.dollars_per_million, counters)
