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

from parapet.pipelines.command import (
    Parser,
    add_max_bad,
    add_split,
    check_apart,
    counted,
    run_command,
    run_header,
    say,
    warn_left_out,
)
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms import plugins
from parapet.transforms.speech import LONGEST, RATIOS, SAMPLE

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.corpora import Corpus
    from parapet.transforms.dead_letters import Tallies
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
    """The configuration of a run: where it reads and writes, and what the perturbation needs."""

    root: str
    split: str
    output: str
    corpus: Corpus
    setup: Setup
    audio: str
    max_bad: Fraction
    dry_run: bool

    @property
    def options(self) -> dict[str, Any]:
        """The options that determine the content."""
        config, model = self.setup.config, self.setup.model
        perplexity = model.perplexity if model else None
        return {
            "split": self.split,
            "wer": config.targets,
            "form": config.form,
            "audio": self.audio,
            "longest": config.longest,
            "seed": config.seed,
            "snr": config.ratios,
            "sample": config.sample,
            "calibrated_elsewhere": self.setup.calibrated is not None,
            **({} if perplexity is None else {"perplexity": perplexity}),
            "max_bad": float(self.max_bad),
        }

    @property
    def tallies(self) -> Tallies:
        """What is held against ``--max_bad``."""
        from functools import partial

        from parapet.transforms.speech.writing import tallies

        return partial(tallies, sets=self.setup.config.sets)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(config: Config) -> list[tuple[str, str]]:
    """What workers read: the dialogues, and recordings."""
    from parapet.transforms.speech.noise import KINDS

    setup = config.setup
    paths = [("--sgd", config.root), ("--cache", setup.channel.cache)]
    return paths if setup.config.noise in KINDS else [*paths, ("--noise", setup.config.noise)]


def check(args: argparse.Namespace) -> Config:
    """Reads the corpus, and creates the engines and the language model. Raises InputError where it cannot work."""
    from parapet.transforms.corpora import read_corpus, train_files
    from parapet.transforms.speech.language_model import limit_of
    from parapet.transforms.speech.perturbation import SpeechErrors
    from parapet.transforms.speech.setup import prepare

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
        max_bad=args.max_bad,
    )
    root = str(args.sgd or sample_root())
    corpus = read_corpus(root, [split.strip() for split in args.split.split(",") if split.strip()])
    for line in corpus.problems:
        logging.warning("%s", line)
    cache = (args.cache or f"{args.output}/{CACHE}").rstrip("/")
    train = train_files(read_corpus(root, None))
    setup = prepare(perturbation.config, corpus.files, train, cache, try_engines=not args.dry_run)
    for line in setup.warnings:
        logging.warning("%s", line)
    if setup.model and setup.model.kind == "mixed" and setup.model.perplexity is not None:
        lowest = min(setup.config.targets)
        logging.info(
            "the split train alone gives a language model of perplexity %g on these turns (a rate of %g needs %g or "
            "less): it is "
            "trained on these turns, too (--language_model train: on train alone)",
            *(setup.model.perplexity, lowest, limit_of(lowest)),
        )
    return Config(root, args.split, args.output, corpus, setup, args.audio, args.max_bad, args.dry_run)


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
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.dead_letters import DeadLettersFile
    from parapet.transforms.speech import outputs, transcribing, writing
    from parapet.transforms.speech.setup import write_model

    setup = config.setup
    files.prepare(config.output, "speech_errors")
    write_model(setup)
    dialogues = pipeline | "Dialogue files" >> beam.Create(config.corpus.files)
    transcribed = dialogues | "Transcribe" >> transcribing.Transcribe(setup)
    sets = writing.Sets(config.output, setup.speakers, setup.channel, setup.config.form, config.audio)
    written = (dialogues, transcribed.turns) | "Sets" >> writing.WriteSets(sets, transcribed.calibration)
    about = outputs.About(setup.made_with, config.options, config.corpus.schemas)
    numbers = (transcribed.curve, *outputs.summed(written))
    metadata = transcribed.calibration | "Metadata files" >> beam.FlatMap(
        outputs.metadata_files, about, *(beam.pvalue.AsList(numbers_of) for numbers_of in numbers)
    )
    dead_letters = written[writing.DEAD] | "Dead letters" >> DeadLettersFile(
        written[writing.COUNTS], config.tallies, config.max_bad, "transcribed"
    )
    invariants = partial(writing.check_invariants, sets=setup.config.sets)
    others = (metadata, dead_letters) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(config.output)
    (
        (written.written, others)
        | "All files" >> beam.Flatten()
        | "Publish" >> files.Publish(config.output, header(config), written[writing.COUNTS], invariants)
    )


def header(config: Config) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    options = {**config.options, **config.setup.made_with}
    return {**run_header("speech_errors", options), **plugins.recorded(*config.setup.config.engines.values())}


def report(config: Config, counters: dict[str, int]) -> None:
    """Prints the word error rate of each set; of a dry run, the amount of speech and its price."""
    if config.dry_run:
        _say_cost(config)
        return
    from parapet.transforms.files import MANIFEST, read_written

    counts = json.loads(read_written(config.output, MANIFEST))["counts"]
    for name, numbers in json.loads(read_written(config.output, "statistics.json"))["sets"].items():
        say(_summary(name, numbers, counts))
    warn_left_out(config.output, config.tallies, "left out, or turns that keep their utterance")


def _summary(name: str, numbers: dict[str, Any], counts: dict[str, int]) -> str:
    if numbers["wer"] is None:
        return f"{name}: no turn was transcribed"
    interval = f"{numbers['wer_low']:.1%} to {numbers['wer_high']:.1%}"
    survival = "" if numbers["slot_survival"] is None else f", {numbers['slot_survival']:.0%} of slot values kept"
    silent = counts.get(f"not_spoken/{name}", 0)
    return (
        f"{name}: word error rate {numbers['wer']:.2%} ({interval}), {counted(numbers['words'], 'word')} in "
        f"{counted(numbers['turns'], 'turn')}{survival}" + (f"; {counted(silent, 'turn')} not spoken" if silent else "")
    )


def _say_cost(config: Config) -> None:
    from parapet.transforms.speech.turns import size_of

    setup = config.setup
    synthesiser, recogniser = setup.channel.synthesiser, setup.channel.recogniser
    size = size_of(config.corpus.files, setup.speakers)
    ratios = len(setup.config.ratios if setup.calibrated is None else setup.calibrated.ratios)
    hours = size.seconds / 3600 * ratios
    speech_price = size.characters * synthesiser.dollars_per_million / 1e6
    print(f"{counted(size.turns, 'user turn')} to speak, {counted(size.texts, 'distinct text')}")
    print(f"text to speech: {counted(size.characters, 'character')} by {synthesiser.name}: ${speech_price:,.2f}")
    print(
        f"ASR: at most {counted(size.texts * ratios, 'recording')}, about {hours:.1f} hours, by {recogniser.name}: "
        f"${hours * recogniser.dollars_per_hour:,.2f}"
    )
    print("transcripts in the cache are not requested again; the prices are built in: check them")


if __name__ == "__main__":
    sys.exit(run())
