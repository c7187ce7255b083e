"""``parapet speech_errors``: user turns as a recogniser hears them, at stated word error rates."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
from parapet.transforms.speech import LONGEST, RATIOS, SAMPLE

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.dead_letters import Tallies
    from parapet.transforms.speech.setup import Setup

EXAMPLE = """\
  parapet speech_errors --wer 0.2 --language_model own --output heard        # the sample's test dialogues
  parapet speech_errors --sgd sgd --split dev --wer 0.1,0.2,0.3 --noise babble --audio flac --output heard
  parapet speech_errors --sgd sgd --engine azure --azure_region westeurope --output heard --dry_run"""

KEPT = ".heard"  # below the output: what was heard, by content; it stays, for the next run
ENGINES = plugins.Names(plugins.SPEECH_ENGINES)
# The flags that only one of the engines has a use for.
_FLAGS_OF = {"azure": ("azure_region", "azure_endpoint", "parallel_calls")}


def parser() -> Parser:
    """The flags."""
    what = (
        "Dialogues -> text to speech -> noise -> recognition -> the same dialogues as they were heard, one set for\n"
        "each word error rate: OUT/SR-20/test/dialogues_001.json, and a row for every turn in OUT/SR-20/turns."
    )
    made = Parser("speech_errors", what, EXAMPLE)
    add = made.add_argument
    add("--sgd", metavar="ROOT", help="corpus (default: the bundled sample)")
    add_split(made, many=True)
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
        help="who speaks and listens: %(choices)s (default embedded: offline)",
    )
    add("--speaker", choices=ENGINES, metavar="ENGINE", help="who speaks, where that is another")
    add("--listener", choices=ENGINES, metavar="ENGINE", help="who listens, where that is another")
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
        help="of the embedded listener: train (made of the user turns of the split train), mixed (of those and the "
        "very turns that are heard, which makes fewer errors), own (of the latter alone), a file in the ARPA format, "
        "or auto: train where that expects these turns well enough for the lowest rate, else mixed (default auto)",
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
        help=f"texts that are heard first, to check the rates (default {SAMPLE})",
    )
    add("--calibration", metavar="FILE", help="calibration.json of another run, whose noises and levels are kept")
    add(
        "--form",
        choices=("heard", "restored"),
        default="heard",
        help="write words as they were heard, or those heard right as the original has them (default heard)",
    )
    add("--audio", choices=("wav", "flac"), default="", help="also write what was listened to, in OUT/SR-20/audio")
    add(
        "--longest",
        type=int,
        metavar="N",
        default=LONGEST,
        help="characters of a turn that is still said (default %(default)s)",
    )
    add("--normalisation", metavar="FILE", help="rules of the spoken form, in place of ours (docs/speech_errors.md)")
    add("--seed", default="0", help="of noise, voices and draws: any text (default 0)")
    add("--cache", metavar="DIR", help="where what was heard is kept and found again (default OUT/.heard)")
    add_max_bad(made, "dialogues, or turns that cannot be heard,")
    add("--dry_run", action="store_true", help="print what would be said and what it costs; ask and write nothing")
    azure = made.add_argument_group("azure: Azure AI Speech, with the extra 'azure' and the key in AZURE_SPEECH_KEY")
    azure.add_argument("--azure_region", metavar="NAME", help="such as westeurope (default: AZURE_SPEECH_REGION)")
    azure.add_argument("--azure_endpoint", metavar="URL", help="another address: wss://HOST, or ws://127.0.0.1:PORT")
    azure.add_argument("--parallel_calls", type=int, metavar="N", help="requests at a time, up to 32 (default 4)")
    return made


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the dialogues, and recordings."""
    from parapet.transforms.speech.noise import KINDS

    found = [("--sgd", str(args.sgd or sample_root())), ("--cache", args.cache)]
    return found if args.noise in KINDS else [*found, ("--noise", args.noise)]


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads flags, corpus, noise and language model, and makes the engines. Raises InputError where it cannot work."""
    from parapet.transforms.corpora import read_corpus, train_files
    from parapet.transforms.speech.language_model import limit_of
    from parapet.transforms.speech.setup import prepare, read_options

    check_apart(args.output, sgd=args.sgd, noise=args.noise)
    speaker, listener = args.speaker or args.engine, args.listener or args.engine
    engine_options: dict[str, Any] = {}
    for name, flags in _FLAGS_OF.items():
        given = {flag: getattr(args, flag) for flag in flags if getattr(args, flag) is not None}
        if given and name not in (speaker, listener):
            raise InputError(f"is for --engine {name}, and this is {args.engine}", f"--{next(iter(given))}")
        engine_options |= given
    config = read_options(
        wer=args.wer,
        snr=args.snr,
        sample=args.sample,
        seed=args.seed,
        noise=args.noise,
        speaker=speaker,
        listener=listener,
        engine_options=engine_options,
        voices=args.voices,
        language_model=args.language_model,
        normalisation=args.normalisation,
        longest=args.longest,
        form=args.form,
        calibration=args.calibration,
    )
    root = args.sgd or sample_root()
    args.corpus = read_corpus(root, [split.strip() for split in args.split.split(",") if split.strip()])
    for line in args.corpus.problems:
        logging.warning("%s", line)
    args.cache = (args.cache or f"{args.output}/{KEPT}").rstrip("/")
    train = train_files(read_corpus(root, None))
    args.setup = setup = prepare(config, args.corpus.files, train, args.cache, try_engines=not args.dry_run)
    for line in setup.warnings:
        logging.warning("%s", line)
    if setup.model and setup.model.kind == "mixed" and setup.model.perplexity is not None:
        lowest = min(config.targets)
        logging.info(
            "the split train alone expects these turns too little (perplexity %g, up to %g would do for %g): "
            "the language model is made of their text, too (--language_model train: of train alone)",
            *(setup.model.perplexity, limit_of(lowest), lowest),
        )
    return args


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that shape the content."""
    setup: Setup = args.setup
    perplexity = setup.model.perplexity if setup.model else None
    return {
        "split": args.split,
        "wer": setup.config.targets,
        "form": args.form,
        "audio": args.audio,
        "longest": args.longest,
        "seed": args.seed,
        "snr": setup.config.ratios,
        "sample": setup.config.sample,
        "calibrated_elsewhere": setup.calibrated is not None,
        **({} if perplexity is None else {"perplexity": perplexity}),
        "max_bad": float(args.max_bad),
    }


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Dialogue files -> texts -> a sample heard -> every turn heard -> the sets, their rows, numbers and a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.dead_letters import DeadLettersFile
    from parapet.transforms.speech import listening, outputs, writing
    from parapet.transforms.speech.setup import write_model

    setup: Setup = args.setup
    files.prepare(args.output, "speech_errors")
    write_model(setup)
    dialogues = pipeline | "Dialogue files" >> beam.Create(args.corpus.files)
    heard = dialogues | "Listen" >> listening.Listen(setup)
    sets = writing.Sets(args.output, setup.speakers, setup.sound, args.form, args.audio)
    written = (dialogues, heard.turns) | "Sets" >> writing.WriteSets(sets, heard.calibration)
    about = outputs.About(args.setup.made_with, options_of(args), args.corpus.schemas)
    numbers = (heard.curve, *outputs.summed(written))
    small = heard.calibration | "Metadata files" >> beam.FlatMap(
        outputs.metadata_files, about, *(beam.pvalue.AsList(one) for one in numbers)
    )
    letters = written[writing.DEAD] | "Dead letters" >> DeadLettersFile(
        written[writing.COUNTS], tallies_of(args), args.max_bad, "heard"
    )
    balance = partial(writing.check_invariants, sets=setup.config.sets)
    others = (small, letters) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    (
        (written.written, others)
        | "All files" >> beam.Flatten()
        | "Publish" >> files.Publish(args.output, header(args), written[writing.COUNTS], balance)
    )


def tallies_of(args: argparse.Namespace) -> Tallies:
    """What is held against ``--max_bad``."""
    from functools import partial

    from parapet.transforms.speech.plan import tallies

    return partial(tallies, sets=args.setup.config.sets)


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    options = {**options_of(args), **args.setup.made_with}
    return {**run_header("speech_errors", options), **plugins.recorded(*args.setup.config.engines.values())}


def report(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Says what each set came to; of a dry run, what would be asked."""
    if args.dry_run:
        _tell_cost(args)
        return
    from parapet.transforms.files import MANIFEST, read_written

    counts = json.loads(read_written(args.output, MANIFEST))["counts"]
    if not args.quiet:
        for name, one in json.loads(read_written(args.output, "statistics.json"))["sets"].items():
            print(_summary(name, one, counts))
    warn_left_out(args.output, tallies_of(args), "left out, or turns as they were written")


def _summary(name: str, one: dict[str, Any], counts: dict[str, int]) -> str:
    if one["wer"] is None:
        return f"{name}: nothing was heard"
    interval = f"{one['wer_low']:.1%} to {one['wer_high']:.1%}"
    survival = "" if one["slot_survival"] is None else f", {one['slot_survival']:.0%} of slot values survive"
    silent = counts.get(f"not_spoken/{name}", 0)
    return (
        f"{name}: {one['wer']:.2%} of {counted(one['words'], 'word')} heard wrong ({interval}) in "
        f"{counted(one['turns'], 'turn')}{survival}" + (f"; {silent:,} with nothing to say" if silent else "")
    )


def _tell_cost(args: argparse.Namespace) -> None:
    from parapet.transforms.speech.plan import size_of

    setup: Setup = args.setup
    sound = setup.sound
    size = size_of(args.corpus.files, setup.speakers)
    times = size.texts * len(setup.config.ratios if setup.calibrated is None else setup.calibrated.ratios)
    hours = size.seconds / 3600
    spoken = size.characters * sound.synthesiser.dollars_per_million / 1e6
    heard = hours * sound.recogniser.dollars_per_hour * times / max(size.texts, 1)
    print(f"{counted(size.turns, 'user turn')} with something to say, {counted(size.texts, 'different text')}")
    print(f"to speak: {counted(size.characters, 'character')} by {sound.synthesiser.name}: ${spoken:,.2f}")
    print(
        f"to hear: at most {counted(times, 'recording')}, about {hours * times / max(size.texts, 1):.1f} hours, by "
        f"{sound.recogniser.name}: ${heard:,.2f}"
    )
    print("what an earlier run has heard is not asked for again; prices are from memory: check them")


if __name__ == "__main__":
    sys.exit(run())
