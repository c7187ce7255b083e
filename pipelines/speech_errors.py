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
from parapet.pipelines.flags import Parser, add_max_bad, add_split
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
  parapet speech_errors --wer 0.2 --language_model own --output heard        # the sample's test dialogues
  parapet speech_errors --sgd sgd --split dev --wer 0.1,0.2,0.3 --noise babble --audio flac --output heard
  parapet speech_errors --sgd sgd --engine azure --azure_region westeurope --output heard --dry_run"""

CACHE = ".heard"  # below the output: transcripts by content; it stays, for the next run
ENGINES = plugins.Names(plugins.SPEECH_ENGINES)
# The flags that only one of the engines has.
_FLAGS_OF = {"azure": ("azure_region", "azure_endpoint", "parallel_calls")}


def parser() -> Parser:
    """The flags."""
    what = (
        "Dialogues -> text to speech -> noise -> ASR -> the same dialogues with transcripts as user turns, a set for\n"
        "each word error rate: OUT/SR-20/test/dialogues_001.json, and a row for every turn in OUT/SR-20/turns."
    )
    parser = Parser("speech_errors", what, EXAMPLE)
    add = parser.add_argument
    add("--sgd", metavar="ROOT", help="corpus (default: the bundled sample)")
    add_split(parser, many=True)
    add("--wer", metavar="LIST", default="0.1,0.2,0.3", help="word error rates, one set each (default 0.1,0.2,0.3)")
    add(
        "--noise",
        metavar="KIND",
        default="pink",
        help="pink, white, babble, or a folder of recordings, WAV, FLAC, Ogg or MP3 (default pink)",
    )
    add(
        "--engine",
        choices=ENGINES,
        default="embedded",
        metavar="ENGINE",
        help="text-to-speech and ASR engine: %(choices)s (default embedded: offline)",
    )
    add("--speaker", choices=ENGINES, metavar="ENGINE", help="text-to-speech engine, if it is another")
    add("--listener", choices=ENGINES, metavar="ENGINE", help="ASR engine, if it is another")
    add(
        "--voices",
        metavar="LIST",
        help="each dialogue has one of them: eSpeak's (klatt4, adam:150 for 150 words a minute, ...) or Azure's "
        "(default klatt4, en-US-JennyNeural; rms of flite)",
    )
    add(
        "--language_model",
        metavar="KIND",
        default="auto",
        help="of the embedded ASR engine: train (trained on the user turns of the split train), mixed (on those and "
        "the turns that are transcribed, which makes fewer errors), own (on the latter alone), a file in the ARPA "
        "format, or auto: train where its perplexity on these turns is low enough for the lowest rate, else mixed "
        "(default auto)",
    )
    add(
        "--snr",
        metavar="LIST",
        help=f"signal-to-noise ratios that may be used, dB (default {RATIOS})",
    )
    add(
        "--sample",
        type=int,
        metavar="N",
        help=f"texts that are transcribed first, to check the rates (default {SAMPLE})",
    )
    add("--calibration", metavar="FILE", help="calibration.json of another run, whose ratios and levels are used")
    add(
        "--form",
        choices=("heard", "restored"),
        default="heard",
        help="heard: the transcript itself; restored: words that were recognised correctly have the original's "
        "spelling (default heard)",
    )
    add(
        "--audio", choices=("wav", "flac"), default="", help="also write the sound that was recognised, OUT/SR-20/audio"
    )
    add(
        "--longest",
        type=int,
        metavar="N",
        default=LONGEST,
        help="maximum length of a turn that is spoken, in characters (default %(default)s)",
    )
    add("--normalisation", metavar="FILE", help="normalisation rules, in place of ours (docs/speech_errors.md)")
    add("--seed", default="0", help="of noise, voices and draws: any text (default 0)")
    add("--cache", metavar="DIR", help="folder in which transcripts are cached (default OUT/.heard)")
    add_max_bad(parser, "dialogues, or turns without a transcript,")
    add(
        "--dry_run", action="store_true", help="print the amount of speech and its price; call no engine, write nothing"
    )
    azure = parser.add_argument_group("azure: Azure AI Speech, with the extra 'azure' and the key in AZURE_SPEECH_KEY")
    azure.add_argument("--azure_region", metavar="NAME", help="such as westeurope (default: AZURE_SPEECH_REGION)")
    azure.add_argument("--azure_endpoint", metavar="URL", help="another address: wss://HOST, or ws://127.0.0.1:PORT")
    azure.add_argument("--parallel_calls", type=int, metavar="N", help="concurrent requests, up to 32 (default 4)")
    return parser


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
    return run_command(parser(), argv, check, build, report, inputs)


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
