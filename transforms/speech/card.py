"""The README of the sets: what they are, how they were made, what they came to, and what one should know of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parapet.transforms.markdown import code

_MODELS = {
    "train": "a trigram model of the user turns of the split train; the recogniser has not seen the turns it hears",
    "mixed": "a trigram model of the user turns of the split train and of the very turns that are heard: the "
    "recogniser **has seen the text**, so that it makes fewer and less varied errors than one that has not",
    "own": "a trigram model of the very turns that are heard: the recogniser **has seen the text**, so that it makes "
    "fewer and less varied errors than one that has not",
    "a file": "a model that the user gave",
    "": "the service's own",
}


def card(numbers: Mapping[str, Any], made_with: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """The card in Markdown, given ``statistics.json``, what the sets were made with, and the flags."""
    rows = [_row(name, one) for name, one in numbers["sets"].items()]
    noise = made_with["noise"].partition(":")[0]
    lines = [
        "# Speech errors",
        "",
        "The same dialogues with each user turn as a recogniser heard it: spoken by a synthesiser, put through noise, "
        "and written down again. States and actions are those of the original; the span of a slot value is there where "
        "the value was heard right, and gone where it was not.",
        "",
        "| set | target | word error rate | 95 % | words | substituted | deleted | inserted | slot values kept |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        *rows,
        "",
        f"- Speaker: {made_with['synthesiser']}, {', '.join(made_with['voices'])}.",
        f"- Noise: {noise}, from turn to turn louder or quieter, so that the errors of the turns spread around one "
        "level: the share of its words that a turn is to have wrong is drawn, once for all sets, from a triangular "
        "distribution around the level, and the turn is heard through that of the ratios in `calibration.json` which "
        "comes nearest.",
        *_spread(numbers),
        f"- Listener: {made_with['recogniser']}; its language model is {_MODELS[made_with['language_model']]}.",
        f"- Written down {_FORMS[options['form']]}; rules of the spoken form: version {made_with['normalisation']}.",
        f"- Seed: {code(options['seed'])}."
        + (" Noises and levels were carried over from another run." if options["calibrated_elsewhere"] else ""),
        "",
        "`SET/turns` has a row for every user turn: what was said, what was heard, how they align, which slot values "
        "are lost. The word error rate counts lower-case words without punctuation, numbers spelled out.",
        "",
    ]
    return "\n".join(lines)


def _spread(numbers: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, one in numbers["sets"].items():
        if one["wer"] is not None:
            of = one["turn_wer"]
            low, middle, high = (f"{quartile:.0%}" for quartile in of["quartiles"])
            lines.append(
                f"- {name}, word error rates of single turns: quartiles {low}, {middle}, {high}; {of['perfect']:.0%} "
                f"of the turns are perfect, {of['garbled']:.0%} have 60% or more of their words wrong."
            )
    return lines


_FORMS = {
    "heard": "as it was heard: lower case, numbers spelled out",
    "restored": "as the original has it where it was heard right, else as it was heard",
}


def _row(name: str, one: Mapping[str, Any]) -> str:
    if one["wer"] is None:
        return f"| {name} | {one['target']:.1%} | | | 0 | | | | |"
    cells = [
        name,
        f"{one['target']:.1%}",
        f"{one['wer']:.2%}",
        f"{one['wer_low']:.1%}–{one['wer_high']:.1%}",
        f"{one['words']:,}",
        *(f"{one[kind]:,}" for kind in ("substitutions", "deletions", "insertions")),
        "–" if one["slot_survival"] is None else f"{one['slot_survival']:.0%}",
    ]
    return f"| {' | '.join(cells)} |"
