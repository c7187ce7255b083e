"""The page and the card of ``speech_errors``: word error rates, where the errors are, and how the sets were made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parapet.transforms.report import (
    Bars,
    Curve,
    Dot,
    Dots,
    Example,
    Examples,
    Line,
    Lines,
    Part,
    Report,
    Section,
    Series,
    Table,
    Text,
    Tile,
    edited_words,
)
from parapet.transforms.speech.language_model import SEEN
from parapet.transforms.text import counted, percent

if TYPE_CHECKING:
    from parapet.transforms.speech.setup import Config

TERMS = {
    "Word error rate": "substituted, deleted and inserted words, divided by the words of the reference. Words are "
    "lower case without punctuation, numbers spelled out.",
    "95% interval": "a percentile bootstrap over dialogues: how much another such corpus might differ.",
    "Slot values kept": "values whose words were all recognised correctly and together. The others have no span.",
    "Perfect": "turns without a recognition error.",
    "60% or more": "turns with a word error rate of 60% or more.",
    "Quartiles": "of the word error rates of turns; each turn counts once, however long.",
    "SNR": "signal-to-noise ratio: quartiles over the turns.",
}

_MODELS = {
    "train": "a trigram model of the user turns of the split train",
    "mixed": "a trigram model of the user turns of the split train and of the transcribed turns",
    "own": "a trigram model of the transcribed turns",
    "a file": "a file that the user gave",
    "": "the engine's own",
}
_FORMS = {
    "heard": "Turns are plain transcripts: lower case, numbers spelled out",
    "restored": "Words that were recognised correctly have the original's spelling",
}
_SEEN = (
    "The recogniser has seen the text: its language model was trained on these turns, too. It makes fewer errors, of "
    "fewer kinds, than one that has not."
)
_TENTHS = ["none", *(f"to {10 * n}%" for n in range(1, 11)), "more"]


def report_of(
    statistics: Mapping[str, Any],
    examples: Mapping[str, Sequence[Example]],
    config: Config,
    calibrated_elsewhere: bool,
) -> Report:
    """The report.

    Args:
      statistics: ``statistics.json``.
      examples: by set, some turns with errors.
      config: the options of the run.
      calibrated_elsewhere: whether ratios and levels are those of another run.
    """
    made_with = statistics["made_with"]
    sets = {name: numbers for name, numbers in statistics["sets"].items() if numbers["wer"] is not None}
    turns = max((numbers["turns"] for numbers in sets.values()), default=0)
    noise = made_with["noise"].partition(":")[0]
    return Report(
        command="speech_errors",
        title="Speech errors",
        headline="User turns as ASR transcripts",
        lead=f"{counted(turns, 'user turn')}, spoken by {made_with['synthesiser']}, mixed with {noise} noise, "
        f"recognised by {made_with['recogniser'].partition(':')[0]}. States and actions are those of the original.",
        tiles=[Tile(f"word error rate of {name}", percent(numbers["wer"])) for name, numbers in sets.items()][:4],
        notes=[_SEEN] if made_with["language_model"] in SEEN else [],
        sections=[
            *_set_sections(statistics["sets"], sets),
            *_curve(statistics["curve"]),
            *(_parts(title, kind, sets) for title, kind in (("domain", "domains"), ("voice", "voices"))),
            *(Examples(title=f"Turns of {name} with errors", examples=shown) for name, shown in examples.items()),
            Text(title="How the sets were made", paragraphs=_made(made_with, config, calibrated_elsewhere)),
        ],
        terms=TERMS,
        links={
            "statistics.json": "all numbers",
            "calibration.json": "ratios and levels, for `--calibration` of another run",
            "SET/turns": "a row for every user turn",
            "dead_letters.jsonl": "records that could not be used",
        },
    )


def _set_sections(every: Mapping[str, Any], sets: Mapping[str, Any]) -> list[Section]:
    dots = [Dot(name, numbers["wer"], numbers["wer_low"], numbers["wer_high"]) for name, numbers in sets.items()]
    columns = ["set", "target", "word error rate", "95% interval", "words", "substituted", "deleted", "inserted"]
    sections: list[Section] = [
        *([Dots(title="Word error rate", dots=dots)] if dots else []),
        Table(
            title="Word error rate by set",
            columns=[*columns, "slot values kept"],
            rows=[_set_row(name, numbers) for name, numbers in every.items()],
        ),
        Table(
            title="Word error rate of single turns",
            columns=["set", "perfect", "60% or more", "quartiles", "SNR, dB"],
            rows=[_turns_row(name, numbers) for name, numbers in sets.items()],
        ),
    ]
    if sets:
        first_and_last = dict([*sets.items()][:: max(len(sets) - 1, 1)])
        tenths = {name: numbers["turn_wer"]["tenths"] for name, numbers in first_and_last.items()}
        series = [Series(name, tuple(n / sum(of) for n in of)) for name, of in tenths.items()]
        note = "Share of the turns by word error rate."
        sections.append(
            Bars(title="Turns by word error rate", categories=_TENTHS, series=series, note=note, percent=True)
        )
    return sections


def _set_row(name: str, numbers: Mapping[str, Any]) -> list[str]:
    counts = [f"{numbers[kind]:,}" for kind in ("words", "substitutions", "deletions", "insertions")]
    interval = f"{percent(numbers['wer_low'])} to {percent(numbers['wer_high'])}"
    wer = percent(numbers["wer"], 2)
    return [name, percent(numbers["target"]), wer, interval, *counts, percent(numbers["slot_survival"])]


def _turns_row(name: str, numbers: Mapping[str, Any]) -> list[str]:
    turns = numbers["turn_wer"]
    quartiles = ", ".join(percent(quartile, 0) for quartile in turns["quartiles"])
    ratios = ", ".join(f"{snr:g}" for snr in numbers["turn_snr"])
    return [name, percent(turns["perfect"]), percent(turns["garbled"]), quartiles, ratios]


def _curve(points: Sequence[Mapping[str, Any]]) -> Iterable[Section]:
    """The calibration curve, from the loudest noise to the quietest."""
    if points:
        curve = Curve("sample", sorted((point["snr"], point["wer"]) for point in points))
        yield Lines(
            title="Word error rate by noise",
            x_label="signal-to-noise ratio, dB",
            y_label="word error rate",
            series=[curve],
            note="Of the sample by which the run was calibrated.",
            percent=True,
            digits=1,
        )


def _parts(title: str, kind: str, sets: Mapping[str, Mapping[str, Any]]) -> Table:
    """Word error rate and slot values kept, of each domain or voice in each set."""
    rows = []
    for part in sorted({part for numbers in sets.values() for part in numbers[kind]}):
        by_set = [numbers[kind].get(part) for numbers in sets.values()]
        turns = max((numbers["turns"] for numbers in by_set if numbers), default=0)
        cells = [percent(numbers[key]) if numbers else "–" for numbers in by_set for key in ("wer", "slot_survival")]
        rows.append([part, f"{turns:,}", *cells])
    columns = [heading for name in sets for heading in (f"{name}: WER", f"{name}: slot values kept")]
    return Table(title=f"By {title}", columns=[title, "turns", *columns], rows=rows, in_card=False)


def _made(made_with: Mapping[str, Any], config: Config, calibrated_elsewhere: bool) -> list[str]:
    lines = [
        f"Text to speech: {made_with['synthesiser']}, {', '.join(made_with['voices'])}.",
        f"Noise: {made_with['noise'].partition(':')[0]}, at a signal-to-noise ratio of its own for each turn. The "
        "share of a turn's words that should be wrong is drawn, once for all sets, from a triangular distribution "
        "around the level of the set; the turn has the transcript of the ratio that comes nearest.",
        f"ASR: {made_with['recogniser']}; language model: {_MODELS[made_with['language_model']]}.",
        f"{_FORMS[config.form]}; normalisation rules: version {made_with['normalisation']}.",
        f"Seed: `{config.seed}`.",
    ]
    if calibrated_elsewhere:
        lines.append("The ratios and the levels are those of another run.")
    return lines


def example_of(row: Mapping[str, Any]) -> Example:
    """A turn with its recognition errors marked.

    Args:
      row: of ``ASR_TURNS``.
    """
    words = edited_words(_pair(word) for word in row["alignment"].split(" "))
    lines = [Line("original", [Part(row["original"])]), Line("recognised", words)]
    lost = [f"{slot['slot']}: {slot['value']}" for slot in row["slots"] if slot["status"] == "lost"]
    if lost:
        lines.append(Line("lost slot values", [Part(", ".join(lost))]))
    place = f"dialogue {row['dialogue_id']}, turn {row['turn']}"
    return Example(f"{place}: {percent(row['wer'])} of the words wrong at {row['snr']:g} dB", lines)


def _pair(word: str) -> tuple[str, str]:
    """A word of an alignment: reference and hypothesis."""
    reference, arrow, hypothesis = word.partition(">")
    return reference, hypothesis if arrow else reference
