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
from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.layout import sample_root
from parapet.transforms import plugins

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.dead_letters import Tallies
    from parapet.transforms.speech.engine import Part
    from parapet.transforms.speech.hearing import Sound
    from parapet.transforms.speech.language_model import Choice
    from parapet.transforms.speech.turns import Speakers

EXAMPLE = """\
  parapet speech_errors --wer 0.2 --language_model own --output heard        # the sample's test dialogues
  parapet speech_errors --sgd sgd --split dev --wer 0.1,0.2,0.3 --noise babble --audio flac --output heard
  parapet speech_errors --sgd sgd --engine azure --azure_region westeurope --output heard --dry_run"""

KEPT = ".heard"  # below the output: what was heard, by content; it stays, for the next run
ENGINES = plugins.Names(plugins.SPEECH_ENGINES)
RATIOS, SAMPLE = "20,15,13,11,9,7,5", 24
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
    add("--longest", type=int, metavar="N", default=1000, help="characters of a turn that is still said (default 1000)")
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
    return run_command(parser(), argv, build, check, report, inputs)


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What workers read: the dialogues, and recordings."""
    from parapet.transforms.speech.noise import KINDS

    found = [("--sgd", str(args.sgd or sample_root())), ("--cache", args.cache)]
    return found if args.noise in KINDS else [*found, ("--noise", args.noise)]


def check(args: argparse.Namespace) -> None:
    """Reads flags, corpus, noise and language model, and makes the engines. Raises InputError where it cannot work."""
    from parapet.transforms.corpora import read_corpus
    from parapet.transforms.speech import engine, plan
    from parapet.transforms.speech.spoken import load_normalisation
    from parapet.transforms.speech.turns import Speakers

    check_apart(args.output, sgd=args.sgd, noise=args.noise)
    if args.calibration and (args.snr or args.sample):
        raise InputError("carries noises over: leave --snr and --sample out", "--calibration")
    args.snr, args.sample = args.snr or RATIOS, SAMPLE if args.sample is None else args.sample
    args.targets, args.ratios = plan.parse_targets(args.wer), plan.parse_ratios(args.snr)
    if not args.seed.isprintable():
        raise InputError("give a text of printable characters", "--seed")
    for flag, least in (("sample", 1), ("longest", 1)):
        if getattr(args, flag) < least:
            raise InputError(f"{getattr(args, flag)} is too few: give {least} or more", f"--{flag}")
    args.speaker, args.listener = args.speaker or args.engine, args.listener or args.engine
    named: dict[Part, str] = {"speaker": args.speaker, "listener": args.listener}
    args.engines = {part: engine.choose(part, name) for part, name in named.items()}
    _check_extras(args)
    for name, flags in _FLAGS_OF.items():
        for flag in flags:
            if name not in named.values() and getattr(args, flag) is not None:
                raise InputError(f"is for --engine {name}, and this is {args.engine}", f"--{flag}")
    args.options = {flag: getattr(args, flag) for flags in _FLAGS_OF.values() for flag in flags}
    args.options = {flag: value for flag, value in args.options.items() if value is not None}
    args.synthesiser = engine.make("speaker", args.engines["speaker"], args.options)
    args.heard_by = engine.class_of("listener", args.engines["listener"])
    voices = tuple(one.strip() for one in (args.voices or args.synthesiser.default_voice).split(",") if one.strip())
    if not voices:
        raise InputError("give one or more voices, such as klatt4,adam", "--voices")
    rules = load_normalisation(args.normalisation)
    args.speakers = Speakers(voices, args.seed, rules, args.longest)
    root = args.sgd or sample_root()
    args.corpus = read_corpus(root, [split.strip() for split in args.split.split(",") if split.strip()])
    for line in args.corpus.problems:
        logging.warning("%s", line)
    args.cache = (args.cache or f"{args.output}/{KEPT}").rstrip("/")
    args.sound = _sound(args)
    args.synthesiser.check(list(voices))
    if not args.dry_run:  # a key that is missing is reported before anything is spoken
        # A language model is written when the run begins.
        for one in (args.synthesiser, *(() if args.model else (args.sound.recogniser,))):
            one.open()
            one.close()
    args.made_with = plan.made_with(names_of(args.sound, args.model), args.speakers)
    args.calibrated = None
    if args.calibration:
        args.calibrated, changed = plan.read_calibration(args.calibration, args.targets, args.made_with)
        for line in changed:
            logging.warning("%s", line)


def _check_extras(args: argparse.Namespace) -> None:
    from importlib.util import find_spec

    ours = (chosen.plugin for chosen in args.engines.values() if chosen.plugin.built_in)
    wanted = {extra for plugin in ours for extra in plugin.extras}
    wanted |= {"speech"} if args.noise == "babble" or not wanted else set()
    for package in ("jiwer", "num2words", "scipy", "soundfile"):  # that all of these extras have
        if find_spec(package) is None:
            raise MissingExtra(package, ",".join(sorted(wanted)))


def _sound(args: argparse.Namespace) -> Sound:
    """Who speaks, who listens, and the noise between them; the language model is made here, once."""
    from parapet.transforms.speech import engine, plan
    from parapet.transforms.speech.hearing import Sound

    args.model = None
    sentences: list[tuple[str, ...]] = []
    if getattr(args.heard_by, "uses_language_model", False):
        from parapet.transforms.speech.language_model import choose_model, limit_of

        root, lowest = args.sgd or sample_root(), min(args.targets)
        args.model = choose_model(args.language_model, root, args.corpus.files, args.speakers, lowest)
        sentences = args.model.sentences
        if args.model.kind == "mixed" and args.model.perplexity is not None:
            logging.info(
                "the split train alone expects these turns too little (perplexity %g, up to %g would do for %g): "
                "the language model is made of their text, too (--language_model train: of train alone)",
                *(args.model.perplexity, limit_of(lowest), lowest),
            )
    texts: list[str] = []
    if args.noise == "babble":
        texts = sorted({" ".join(words) for words in sentences or _sentences(args.corpus.files, args.speakers)})
        if not texts:
            raise InputError("nobody says a word there that others could babble", "--noise")
    noise = plan.make_noise(args.noise, texts)
    own = {"models": f"{args.cache}/models", "language_model": args.model.model.id} if args.model else {}
    recogniser = engine.make("listener", args.engines["listener"], args.options | own)
    return Sound(args.synthesiser, recogniser, noise, args.seed, args.speakers.rules, args.cache)


def _sentences(files: Sequence[Any], speakers: Speakers) -> list[tuple[str, ...]]:
    from parapet.transforms.speech.turns import sentences_of

    return list(sentences_of(files, speakers))


def names_of(sound: Sound, model: Choice | None) -> dict[str, str]:
    """Who speaks and who listens, for the records."""
    return {
        "synthesiser": sound.synthesiser.name,
        "recogniser": sound.recogniser.name,
        "language_model": model.kind if model else "",
        "noise": sound.noise.name,
    }


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that shape the content."""
    return {
        "split": args.split,
        "wer": args.targets,
        "form": args.form,
        "audio": args.audio,
        "longest": args.longest,
        "seed": args.seed,
        "snr": args.ratios,
        "sample": args.sample,
        "calibrated_elsewhere": args.calibrated is not None,
        **({} if args.model is None or args.model.perplexity is None else {"perplexity": args.model.perplexity}),
        "max_bad": float(args.max_bad),
    }


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Dialogue files -> texts -> a sample heard -> every turn heard -> the sets, their rows, numbers and a page."""
    from functools import partial

    import apache_beam as beam

    from parapet.transforms import files
    from parapet.transforms.dead_letters import DeadLettersFile
    from parapet.transforms.speech import listening, outputs, writing
    from parapet.transforms.speech.calibrate import set_name, with_levels
    from parapet.transforms.speech.turns import uses_of

    files.prepare(args.output, "speech_errors")
    if args.model is not None:
        for name, data in args.model.model.files().items():
            with files.whole(files.join(args.cache, f"models/{name}")) as handle:
                handle.write(data)
    names = [set_name(target) for target in args.targets]
    dialogues = pipeline | "Dialogue files" >> beam.Create(args.corpus.files)
    uses = dialogues | "Spread files" >> beam.Reshuffle() | "Texts" >> beam.FlatMap(uses_of, args.speakers)
    once = pipeline | "Once" >> beam.Create([args.targets], reshuffle=False)
    if args.calibrated is None:
        curve, failed = uses | "Sample" >> listening.Sample(args.sound, args.targets, args.ratios, args.sample)
        first = once | "Calibrate" >> beam.Map(
            listening.calibration_of, beam.pvalue.AsIter(curve), beam.pvalue.AsIter(failed)
        )
    else:
        curve = pipeline | "No curve" >> beam.Create([], reshuffle=False)
        first = pipeline | "Calibration" >> beam.Create([args.calibrated], reshuffle=False)
    heard = uses | "Hear" >> listening.HearTurns(args.sound, first)
    final = first | "Levels" >> beam.Map(with_levels, beam.pvalue.AsIter(listening.sum_bins(heard[listening.BINS])))
    sets = writing.Sets(args.output, args.speakers, args.sound, args.form, args.audio)
    written = (dialogues, heard.turns) | "Sets" >> writing.WriteSets(sets, final)
    about = outputs.About(args.made_with, options_of(args), args.corpus.schemas)
    numbers = (curve, *outputs.summed(written))
    small = final | "Small files" >> beam.FlatMap(
        outputs.small_files, about, *(beam.pvalue.AsList(one) for one in numbers)
    )
    letters = written[writing.DEAD] | "Dead letters" >> DeadLettersFile(
        written[writing.COUNTS], tallies_of(args), args.max_bad, "heard"
    )
    others = (small, letters) | "Other files" >> beam.Flatten() | "Write" >> files.WriteFiles(args.output)
    (
        (written.written, others)
        | "All files" >> beam.Flatten()
        | "Publish"
        >> files.Publish(args.output, header(args), written[writing.COUNTS], partial(writing.check_balance, sets=names))
    )


def tallies_of(args: argparse.Namespace) -> Tallies:
    """What is held against ``--max_bad``."""
    from functools import partial

    from parapet.transforms.speech.calibrate import set_name
    from parapet.transforms.speech.plan import tallies

    return partial(tallies, sets=[set_name(target) for target in args.targets])


def header(args: argparse.Namespace) -> dict[str, Any]:
    """What ``run.json`` says besides files and counts."""
    options = {**options_of(args), **args.made_with}
    return {**run_header("speech_errors", options), **plugins.recorded(*args.engines.values())}


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

    size = size_of(args.corpus.files, args.speakers)
    times = size.texts * len(args.ratios if args.calibrated is None else args.calibrated.ratios)
    hours = size.seconds / 3600
    spoken = size.characters * args.sound.synthesiser.dollars_per_million / 1e6
    heard = hours * args.sound.recogniser.dollars_per_hour * times / max(size.texts, 1)
    print(f"{counted(size.turns, 'user turn')} with something to say, {counted(size.texts, 'different text')}")
    print(f"to speak: {counted(size.characters, 'character')} by {args.sound.synthesiser.name}: ${spoken:,.2f}")
    print(
        f"to hear: at most {counted(times, 'recording')}, about {hours * times / max(size.texts, 1):.1f} hours, by "
        f"{args.sound.recogniser.name}: ${heard:,.2f}"
    )
    print("what an earlier run has heard is not asked for again; prices are from memory: check them")


if __name__ == "__main__":
    sys.exit(run())
