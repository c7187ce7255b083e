"""``parapet speech_errors``: user turns as ASR transcripts, at given word error rates."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines.command import check_apart, counted, run_command, say, warn_dead_letters
from parapet.pipelines.flags import (
    OUTPUT,
    PARALLEL_CALLS,
    Parser,
    add_dry_run,
    add_max_bad,
    add_seed,
    add_sgd,
    add_split,
)
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms import plugins
from parapet.transforms.speech import LONGEST, RATIOS, SAMPLE

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.corpora import Corpus
    from parapet.transforms.speech.perturbation import SpeechErrors
    from parapet.transforms.speech.setup import Setup

EXAMPLE = """\
  parapet speech_errors --wer 0.2 --language_model own --output heard
  parapet speech_errors --sgd sgd --split dev --noise babble --audio flac --output heard
  parapet speech_errors --sgd sgd --engine azure --azure_region westeurope --output heard --dry_run"""

CACHE = ".heard"  # below the output: transcripts by content; it stays, for the next run
ENGINES = plugins.Names(plugins.SPEECH_ENGINES)
# The flags that only one of the engines has.
_FLAGS_OF = {"azure": ("azure_region", "azure_endpoint", "parallel_calls")}


def parser() -> Parser:
    """The flags."""
    what = (
        "Replaces user turns by ASR transcripts: they are spoken, mixed with noise and recognised. "
        "One set of dialogues for each word error rate: OUT/SR-20/test/dialogues_001.json."
    )
    parser = Parser("speech_errors", what, EXAMPLE)
    add_sgd(parser)
    add_split(parser, many=True)
    add = parser.group(OUTPUT)
    add("--audio", choices=("wav", "flac"), default="", help="also write the sound, in OUT/SR-20/audio")
    add(
        "--form",
        rare=True,
        choices=("heard", "restored"),
        default="heard",
        help="transcripts as they are, or correctly recognised words as the original spells them",
    )
    add("--cache", rare=True, metavar="DIR", help="folder of transcripts that are reused (default: OUT/.heard)")
    add = parser.group("errors")
    add("--wer", metavar="LIST", default="0.1,0.2,0.3", help="word error rates, a set for each")
    add("--noise", metavar="KIND", default="pink", help="pink, white, babble, or a folder of recordings")
    add("--snr", rare=True, metavar="LIST", help=f"signal-to-noise ratios to choose from, in dB (default: {RATIOS})")
    text = f"texts that are transcribed first, to calibrate the rates (default: {SAMPLE})"
    add("--sample", rare=True, type=int, metavar="N", help=text)
    text = "calibration.json of another run, whose levels are used"
    add("--calibration", rare=True, metavar="FILE", reads=True, help=text)
    text = "maximum length of a turn that is spoken, in characters"
    add("--longest", rare=True, type=int, metavar="N", default=LONGEST, help=text)
    add = parser.group("engine")
    text = "engine of text to speech and ASR; embedded is offline"
    add("--engine", choices=ENGINES, default="embedded", help=text)
    text = "voices of the engine, one for each dialogue, such as klatt4,adam:150"
    add("--voices", rare=True, metavar="LIST", help=text)
    add(
        "--language_model",
        metavar="KIND",
        default="auto",
        help="for embedded, trained on: train (the split), own (the turns that are transcribed), mixed (both); "
        "an ARPA file; or auto: train, else mixed",
    )
    add("--speaker", rare=True, choices=ENGINES, metavar="ENGINE", help="text-to-speech engine (default: --engine)")
    add("--listener", rare=True, choices=ENGINES, metavar="ENGINE", help="ASR engine (default: --engine)")
    text = "rules that normalise text, instead of the built-in ones"
    add("--normalisation", rare=True, metavar="FILE", reads=True, help=text)
    add("--parallel_calls", rare=True, type=int, metavar="N", help=f"{PARALLEL_CALLS} (default: 4)")
    add = parser.group("--engine azure", rare=True)
    add(
        "--azure_region",
        metavar="NAME",
        help="region, with the key in AZURE_SPEECH_KEY (default: AZURE_SPEECH_REGION)",
    )
    add("--azure_endpoint", metavar="URL", help="another address: wss://HOST, or ws://127.0.0.1:PORT")
    add_max_bad(parser, "dialogues or transcripts")
    add_dry_run(parser)
    add_seed(parser)
    return parser


# Bytes of dialogues that take some ten seconds to be heard.
_LARGE = 64 << 10


class Config(msgspec.Struct, frozen=True):
    """A run.

    Attributes:
      output: the output folder.
      root: of the corpus.
      corpus: the dialogues that are perturbed.
      perturbation: set up for this corpus.
      split: as the flag has it.
      max_bad: the share of each kind of record that may be bad.
      dry_run: whether only the amount of speech and its price are printed.
    """

    output: str
    root: str
    corpus: Corpus
    perturbation: SpeechErrors
    split: str
    max_bad: Fraction
    dry_run: bool


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs, lambda _: _LARGE)


def inputs(config: Config) -> list[tuple[str, str]]:
    """What workers read: the dialogues, the cache, and recordings."""
    from parapet.transforms.speech.noise import KINDS

    setup = config.perturbation.setup
    paths = [("--sgd", config.root), ("--cache", setup.channel.cache)]
    return paths if setup.config.noise in KINDS else [*paths, ("--noise", setup.config.noise)]


def check(args: argparse.Namespace) -> Config:
    """Reads the corpus, and creates the engines and the language model. Raises InputError where it cannot work."""
    from parapet.transforms.corpora import listed, read_corpus, train_files
    from parapet.transforms.speech.perturbation import SpeechErrors

    check_apart(args.output, sgd=args.sgd, noise=args.noise)
    perturbation = SpeechErrors(
        seed=args.seed,
        wer=args.wer,
        noise=args.noise,
        engine=args.engine,
        speaker=args.speaker,
        listener=args.listener,
        engine_options=_engine_options(args),
        voices=args.voices,
        language_model=args.language_model,
        snr=args.snr,
        sample=args.sample,
        form=args.form,
        longest=args.longest,
        normalisation=args.normalisation,
        calibration=args.calibration,
        audio=args.audio,
    )
    root = str(args.sgd or sample_root())
    corpus = read_corpus(root, listed(args.split))
    cache = (args.cache or f"{args.output}/{CACHE}").rstrip("/")
    train = train_files(read_corpus(root, None))
    perturbation.set_up(corpus.files, train, cache, try_engines=not args.dry_run)
    for line in [*corpus.problems, *perturbation.setup.warnings]:
        logging.warning("%s", line)
    _say_model(perturbation.setup)
    return Config(args.output, root, corpus, perturbation, args.split, args.max_bad, args.dry_run)


def _say_model(setup: Setup) -> None:
    """Why ``--language_model auto`` took another model than that of the split train."""
    from parapet.transforms.speech.language_model import limit_of

    if setup.perplexity is not None and setup.made_with["language_model"] == "mixed":
        lowest = min(setup.config.targets)
        logging.info(
            "the split train alone gives a language model of perplexity %g on these turns (a rate of %g needs %g or "
            "less): it is trained on these turns, too (--language_model train: on train alone)",
            *(setup.perplexity, lowest, limit_of(lowest)),
        )


def _engine_options(args: argparse.Namespace) -> dict[str, str | int]:
    """The flags of the engines. Raises InputError where one belongs to an engine that is not used."""
    options: dict[str, str | int] = {}
    for name, flags in _FLAGS_OF.items():
        present = {flag: getattr(args, flag) for flag in flags if getattr(args, flag) is not None}
        if present and name not in (args.speaker or args.engine, args.listener or args.engine):
            raise InputError(f"is for --engine {name}, and this is {args.engine}", f"--{next(iter(present))}")
        options |= present
    return options


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Dialogue files -> texts -> a sample transcribed -> every turn transcribed -> the sets, their rows and a page."""
    from parapet.transforms import files
    from parapet.transforms.perturbed_files import PerturbCorpus
    from parapet.transforms.runs import RunInfo

    files.prepare(config.output, "speech_errors")
    perturbation = config.perturbation
    options = {"split": config.split, **perturbation.options(), "max_bad": float(config.max_bad)}
    header = plugins.recorded(*perturbation.config.engines.values())
    info = RunInfo("speech_errors", config.output, options, config.max_bad, "transcribed", header)
    _ = pipeline | "Speech errors" >> PerturbCorpus(perturbation, config.corpus, info)


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints the word error rate of each set; of a dry run, the amount of speech and its price."""
    if config.dry_run:
        _say_cost(config)
        return
    from parapet.transforms.counts import Counts
    from parapet.transforms.files import MANIFEST, read_written

    counts = Counts.of_json(json.loads(read_written(config.output, MANIFEST))["counts"])
    for name, numbers in json.loads(read_written(config.output, "statistics.json"))["sets"].items():
        say(_summary(name, numbers, counts.sum("not_spoken", set=name)))
    warn_dead_letters(config.output, config.perturbation.tallies, "left out, or turns that keep their utterance")


def _summary(name: str, numbers: dict[str, Any], not_spoken: int) -> str:
    if numbers["wer"] is None:
        return f"{name}: no turn was transcribed"
    interval = f"{numbers['wer_low']:.1%} to {numbers['wer_high']:.1%}"
    kept = "" if numbers["slot_survival"] is None else f", {numbers['slot_survival']:.0%} of slot values kept"
    silent = f"; {counted(not_spoken, 'turn')} not spoken" if not_spoken else ""
    return (
        f"{name}: word error rate {numbers['wer']:.2%} ({interval}), {counted(numbers['words'], 'word')} in "
        f"{counted(numbers['turns'], 'turn')}{kept}{silent}"
    )


def _say_cost(config: Config) -> None:
    from parapet.transforms.speech.turns import size_of

    setup = config.perturbation.setup
    synthesiser, recogniser = setup.channel.synthesiser, setup.channel.recogniser
    size = size_of(config.corpus.files, setup.speakers)
    ratios = len(setup.config.ratios if setup.calibrated is None else setup.calibrated.ratios)
    hours = size.seconds / 3600 * ratios
    speech_price = size.characters * synthesiser.dollars_per_million / 1e6
    say(f"{counted(size.turns, 'user turn')} to speak, {counted(size.texts, 'distinct text')}")
    say(f"text to speech: {counted(size.characters, 'character')} by {synthesiser.name}: ${speech_price:,.2f}")
    say(
        f"ASR: at most {counted(size.texts * ratios, 'recording')}, about {hours:.1f} hours, by {recogniser.name}: "
        f"${hours * recogniser.dollars_per_hour:,.2f}"
    )
    say("transcripts in the cache are not requested again; the prices are built in: check them")


if __name__ == "__main__":
    sys.exit(run())
