"""The page of ``unseen_entities``: what was replaced, what was kept and why, and how turns read now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.transforms import svg
from parapet.transforms.entities.card import REASONS, SOURCES
from parapet.transforms.pages import render
from parapet.transforms.reports import plural

TERMS = {
    "Value": "A value of a slot in a dialogue, whatever the number of ways and places in which it is written.",
    "Leak": "A new value of one word that training has, or two words of one that stand together in training.",
    "Places": "Where values were replaced: what is said (marked by a span or not), states, actions, calls and results.",
}
_PLACES = {"service_call": "service calls"}


def report_page(numbers: Mapping[str, Any], options: Mapping[str, Any], examples: Sequence[Mapping[str, Any]]) -> str:
    """The page.

    Args:
      numbers: ``statistics.json``.
      options: flags that shape the content.
      examples: turns as they were and are, in parts.
    """
    rate = numbers["changed_rate"]
    tiles = [
        {"what": "of dialogues with open slots changed", "value": "–" if rate is None else f"{100 * rate:.1f}%"},
        {"what": "values replaced", "value": f"{numbers['values']['replaced']:,}"},
        {"what": "values kept", "value": f"{numbers['values']['kept']:,}"},
        {"what": "leaks", "value": str(numbers["leaks"])},
    ]
    return render(
        "unseen_entities.html.jinja",
        title="Unseen entities",
        brand="unseen entities",
        headline="Values that training does not have",
        lead=f"{plural(numbers['dialogues'], 'dialogue')}, {plural(numbers['turns'], 'turn')}; new values: "
        f"{SOURCES[options['values']]}.",
        tiles=tiles,
        categorical=options["categorical"] == "replace",
        kinds=[{"name": kind, **found} for kind, found in numbers["kinds"].items()],
        plots=_plots(numbers),
        kept=[{"name": reason, "n": n, "meaning": REASONS[reason]} for reason, n in numbers["kept"].items()],
        slots=[
            {
                "name": name,
                "kinds": ", ".join(found["kinds"]),
                "replaced": found["replaced"],
                "kept": ", ".join(f"{reason} {n:,}" for reason, n in found["kept"].items()),
            }
            for name, found in numbers["slots"].items()
        ],
        examples=examples,
        terms=[{"term": term, "meaning": meaning} for term, meaning in TERMS.items()],
    )


def _plots(numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
    places = {_PLACES.get(name, name): n for name, n in numbers["places"].items()}
    if not any(places.values()):
        return []
    said = ", ".join(f"{name} {n:,}" for name, n in places.items())
    series = [svg.Series("places", tuple(float(n) for n in places.values()))]
    drawn = svg.bars("places", "Places replaced", said, list(places), series, svg.number(0))
    return [{"title": "Where values were replaced", "hint": "places; spans are among the utterances", "svg": drawn}]
