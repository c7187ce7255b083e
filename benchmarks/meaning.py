"""Measures how well vetting by meaning separates right from wrong answers on published variants; fits its thresholds.

Run ``python -m benchmarks.meaning SGD SGD_X``: folders with ``{train,dev,test}/schema.json``, and with ``v1`` to ``v5``
of them (SGD-X's ``data``). Services whose name hashes to 0 of 3 are held out for the figures. A right answer is a
published paraphrase with its element, among the other four; a wrong one is the same text with another element of its
kind (``nearest``: with the most similar one).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from parapet.schemas.service import TASKS, Element, elements_of, parse_service
from parapet.transforms.crowd.meaning import OTHERS, THRESHOLDS, Doubt, Meaning, Thresholds
from parapet.transforms.report.meaning import has_model

# Rates of false alarms for which thresholds are fitted. Other rules also hold descriptions; 8 % in total are allowed.
MARGIN = {"names": 0.05, "descriptions": 0.045}
FLOOR = {("MiniLM", "names"): 0.01}  # else 0.005


def services_of(root: Path) -> dict[str, Any]:
    """Returns the services of all splits, by name."""
    found = [service for path in sorted(root.glob("*/schema.json")) for service in json.loads(path.read_bytes())]
    return {service["service_name"]: service for service in found}


def is_aside(service: str) -> bool:
    """Whether a service is held out for the figures."""
    return hashlib.sha256(service.encode()).digest()[0] % 3 == 0


def doubts_of(sgd: Path, sgd_x: Path, measure: str, others: int) -> Iterator[tuple[bool, str, str, Doubt]]:
    """Yields (held out, task, kind, doubt), with kind ``right``, ``wrong`` or ``nearest``, for each published answer.

    ``others`` is the number of other paraphrases that each answer is compared with.
    """
    variants = [services_of(sgd_x / f"v{k}") for k in range(1, 6)]
    for name, raw in services_of(sgd).items():
        of_service = [parse_service(variant[f"{name}{k}"]) for k, variant in enumerate(variants, 1)]
        service = parse_service(raw)
        for task, kind in product(TASKS, ("intent", "slot")):
            elements = [element for element in elements_of(service, task) if element.kind == kind]
            said = [
                {element.field: element.text(task) for element in elements_of(variant, task)} for variant in of_service
            ]
            for first in range(5):
                answers = {
                    element.field: [said[(first + i) % 5][element.field] for i in range(others + 1)]
                    for element in elements
                }
                judge = Meaning(task, elements, answers, measure)
                for element in elements:
                    for what, doubt in _judged(judge, element, answers[element.field][0]):
                        yield is_aside(name), task, what, doubt


def _judged(judge: Meaning, element: Element, text: str) -> Iterator[tuple[str, Doubt]]:
    yield "right", judge.doubt(element, text)
    found = [judge.doubt(other, text) for other in judge.elements if other.field != element.field]
    yield from (("wrong", doubt) for doubt in found)
    if found:
        yield "nearest", max(found, key=lambda doubt: doubt.margin or 0)


def main() -> int:
    """Prints thresholds, false alarms and recall, by measure and task."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("sgd", nargs="?", type=Path)
    flags.add_argument("sgd_x", nargs="?", type=Path)
    args = flags.parse_args()
    data = os.environ.get("PARAPET_DATA")
    sgd = args.sgd or (Path(data) / "sgd" if data else None)
    sgd_x = args.sgd_x or (Path(data) / "sgd" / "sgd_x" / "data" if data else None)
    if sgd is None or sgd_x is None:
        print("not run: give the folders of SGD and of SGD-X's data, or set PARAPET_DATA")
        return 0
    columns = ("margin", "floor", "false alarms", "wrong found", "nearest found")
    print(f"{'measure':9}{'task':14}{'others':>7}" + "".join(f"{column:>15}" for column in columns))
    for measure in dict.fromkeys(measure for measure, _ in THRESHOLDS):
        began = time.process_time()
        if measure == "MiniLM" and not has_model():
            print(f"{measure:9}not installed: the extra meaning")
            continue
        for others in OTHERS:
            found = list(doubts_of(sgd, sgd_x, measure, others))
            for task in TASKS:
                limits, *shares = _fitted(
                    measure, task, [(*entry[::2], entry[3]) for entry in found if entry[1] == task]
                )
                print(
                    f"{measure:9}{task:14}{others:7}{limits.margins[0]:15.3f}{limits.floors[0]:15.3f}"
                    + "".join(f"{share:15.1%}" for share in shares)
                )
        print(f"{measure:9}{time.process_time() - began:.0f} CPU seconds")
    return 0


def _fitted(
    measure: str, task: str, found: Sequence[tuple[bool, str, Doubt]]
) -> tuple[Thresholds, float, float, float]:
    """Fits thresholds for a task; also returns the shares of held-out answers that they hold: right, wrong, nearest."""
    right = [doubt for aside, what, doubt in found if what == "right" and not aside]
    margin = _at(MARGIN[task], [doubt.margin for doubt in right if doubt.margin is not None])
    floor = _at(FLOOR.get((measure, task), 0.005), [doubt.similarity for doubt in right])
    limits = Thresholds((margin,) * len(OTHERS), (floor,) * len(OTHERS))

    def held(wanted: str) -> float:
        return _share(bool(doubt.reason(limits)) for aside, what, doubt in found if aside and what == wanted)

    return limits, held("right"), held("wrong"), held("nearest")


def _at(share: float, values: list[float]) -> float:
    """Returns the quantile of the values at a share."""
    return round(sorted(values)[int(share * len(values))], 3)


def _share(given: Iterator[bool]) -> float:
    values = list(given)
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    sys.exit(main())
