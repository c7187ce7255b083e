"""The page of ``speech_errors``: what the sets came to, where the errors are, and how turns were heard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parapet.transforms import svg
from parapet.transforms.pages import render
from parapet.transforms.reports import plural
from parapet.transforms.speech.language_model import SEEN

TERMS = {
    "Word error rate": "Words heard as another, not heard, or heard and never said, for each word that was said.",
    "95 %": "Between these the rate lies in 95 of 100 resamples of the dialogues (percentile bootstrap).",
    "Slot values kept": "Values whose words were all heard right and together. The others have no span in the set.",
    "Perfect": "Turns of which every word was heard right.",
    "60 % or more": "Turns of which so many words were heard wrong.",
    "Quartiles": "A quarter of the turns has a word error rate up to the first, half up to the second, three quarters "
    "up to the third; each turn counts once, however long.",
    "Noise": "Signal-to-noise ratios: quartiles over the turns, the loudest first.",
}

_COLUMNS = [
    "Target",
    "Word error rate",
    "95 %",
    "Substituted",
    "Deleted",
    "Inserted",
    "Slot values kept",
]
_SPREAD_COLUMNS = ["Perfect", "60 % or more", "Quartiles", "Noise"]


def report_page(
    numbers: Mapping[str, Any], made_with: Mapping[str, Any], examples: Mapping[str, Sequence[Mapping[str, Any]]]
) -> str:
    """The page.

    Args:
      numbers: ``statistics.json``.
      made_with: engines, noise, voices.
      examples: set to rows of turns that were heard wrong.
    """
    sets = {name: one for name, one in numbers["sets"].items() if one["wer"] is not None}
    turns = max((one["turns"] for one in sets.values()), default=0)
    noise = made_with["noise"].partition(":")[0]
    return render(
        "speech_errors.html.jinja",
        title="Speech errors",
        brand="speech errors",
        headline="Dialogues as they were heard",
        lead=f"{plural(turns, 'user turn')}, spoken by {made_with['synthesiser']} through {noise} noise, heard by "
        f"{made_with['recogniser'].partition(':')[0]}.",
        tiles=[{"what": f"word error rate of {name}", "value": _percent(one["wer"])} for name, one in sets.items()][:4],
        seen=made_with["language_model"] in SEEN,
        columns=_COLUMNS,
        rows=[{"name": name, "cells": _cells(one)} for name, one in sets.items()],
        spread_columns=_SPREAD_COLUMNS,
        spread=[{"name": name, "cells": _spread_cells(one)} for name, one in sets.items()],
        plots=_plots(numbers["curve"], sets),
        tables=[
            _parts_table(title, kind, sets)
            for title, kind in (("Domain", "domains"), ("Voice", "voices"))
            if kind == "domains" or any(len(one[kind]) > 1 for one in sets.values())
        ],
        sets=list(sets),
        examples=[
            {"name": name, "rows": [_example(row) for row in rows]} for name, rows in sorted(examples.items()) if rows
        ],
        terms=[{"term": term, "meaning": meaning} for term, meaning in TERMS.items()],
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%"


def _cells(one: Mapping[str, Any]) -> list[str]:
    return [
        _percent(one["target"]),
        f"{100 * one['wer']:.2f}%",
        f"{_percent(one['wer_low'])} – {_percent(one['wer_high'])}",
        *(f"{one[kind]:,}" for kind in ("substitutions", "deletions", "insertions")),
        _percent(one["slot_survival"]),
    ]


def _spread_cells(one: Mapping[str, Any]) -> list[str]:
    return [
        _percent(one["turn_wer"]["perfect"]),
        _percent(one["turn_wer"]["garbled"]),
        ", ".join(f"{quartile:.0%}" for quartile in one["turn_wer"]["quartiles"]),
        f"{', '.join(f'{snr:g}' for snr in one['turn_snr'])} dB",
    ]


def _plots(curve: Iterable[Mapping[str, Any]], sets: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    plots = []
    points = list(curve)
    if points:
        said = ", ".join(f"{point['snr']:g} dB {_percent(point['wer'])}" for point in points)
        series = [svg.Series("sample", tuple(100 * point["wer"] for point in points))]
        plots.append(
            {
                "title": "Word error rate by noise",
                "hint": "of the sample, %; louder to the right",
                "svg": svg.lines(
                    "curve", "By noise", said, [f"{p['snr']:g} dB" for p in points], series, svg.number(1)
                ),
            }
        )
    if sets:
        said = ", ".join(f"{name} {_percent(one['slot_survival'])}" for name, one in sets.items())
        kept = [None if one["slot_survival"] is None else 100 * one["slot_survival"] for one in sets.values()]
        wrong = svg.Series("words heard wrong", tuple(100 * one["wer"] for one in sets.values()), "s2")
        series = [svg.Series("slot values kept", tuple(kept)), wrong]
        plots.append(_turns_plot(sets))
        plots.append(
            {
                "title": "What is left of the slots",
                "hint": "%, by set",
                "svg": svg.bars("kept", "Slot values kept, by set", said, list(sets), series, svg.number(1)),
            }
        )
    return plots


_TENTHS = ["none", *(f"to {10 * n} %" for n in range(1, 11)), "more"]


def _turns_plot(sets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """How many of the turns have how many of their words wrong, in the first and the last set."""
    series, said = [], []
    for i, (name, one) in enumerate(dict([*sets.items()][:: max(len(sets) - 1, 1)]).items()):
        tenths = one["turn_wer"]["tenths"]
        shares = tuple(100 * n / sum(tenths) for n in tenths)
        series.append(svg.Series(name, shares, f"s{i + 1}"))
        said.append(f"{name}: " + ", ".join(f"{what} {share:.0f}" for what, share in zip(_TENTHS, shares, strict=True)))
    drawn = svg.lines("turns", "Turns by word error rate", "; ".join(said), _TENTHS, series, svg.number(0))
    return {
        "title": "Turns by word error rate",
        "hint": "% of the turns with so many of their words wrong",
        "svg": drawn,
    }


def _parts_table(title: str, kind: str, sets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Word error rate and slot values kept, of each domain or voice in each set."""
    names = sorted({name for one in sets.values() for name in one[kind]})
    rows = []
    for name in names:
        of = [one[kind].get(name) for one in sets.values()]
        turns = max((found["turns"] for found in of if found), default=0)
        cells = [f"{turns:,}"]
        for found in of:
            cells += [_percent(found["wer"]), _percent(found["slot_survival"])] if found else ["–", "–"]
        rows.append({"name": name, "cells": cells})
    return {"title": title, "rows": rows}


def _example(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "original": row["original"],
        "words": [_word(pair) for pair in row["alignment"].split(" ")],
        "snr": f"{row['snr']:g} dB",
        "wer": _percent(row["wer"]),
        "lost": [f"{slot['slot']}: {slot['value']}" for slot in row["slots"] if slot["status"] == "lost"],
    }


def _word(pair: str) -> dict[str, str]:
    """A word of an alignment: what was said, and what was heard."""
    said, parted, heard = pair.partition(">")
    return {"said": said, "heard": heard if parted else said}
