"""How well vetting by meaning tells a right answer from a wrong one, on published variants: fits its thresholds.

Run ``python -m benchmarks.meaning SGD SGD_X``: folders with ``{train,dev,test}/schema.json``, and with ``v1`` to ``v5``
of them (SGD-X's ``data``). Services whose name hashes to 0 of 3 are kept aside for the figures. A right answer is a
published paraphrase beside its element, among the other four; a wrong one is the same text beside another element of
its kind (``nearest``: beside the one that it resembles most).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parapet.schemas.service import TASKS, Element, elements_of, parse_service
from parapet.transforms.crowd.meaning import THRESHOLDS, Doubt, Meaning, Thresholds
from parapet.transforms.reports.meaning import has_model

MARGIN, FLOOR = 0.05, 0.01  # false alarms that the thresholds are fitted for


def services_of(root: Path) -> dict[str, Any]:
    """The services of all splits, by name."""
    found = [one for path in sorted(root.glob("*/schema.json")) for one in json.loads(path.read_bytes())]
    return {one["service_name"]: one for one in found}


def is_aside(service: str) -> bool:
    """Whether a service is kept for the figures."""
    return hashlib.sha256(service.encode()).digest()[0] % 3 == 0


def doubts_of(sgd: Path, sgd_x: Path, measure: str) -> Iterator[tuple[bool, str, str, Doubt]]:
    """(aside, task, what, doubt): ``right``, ``wrong``, ``nearest`` of each published answer."""
    variants = [services_of(sgd_x / f"v{k}") for k in range(1, 6)]
    for name, raw in services_of(sgd).items():
        of_service = [parse_service(variant[f"{name}{k}"]) for k, variant in enumerate(variants, 1)]
        service = parse_service(raw)
        for task in TASKS:
            said = [elements_of(variant, task) for variant in of_service]
            texts = {one.field: [of[i].text(task) for of in said] for i, one in enumerate(elements_of(service, task))}
            for kind in ("intent", "slot"):
                elements = [one for one in elements_of(service, task) if one.kind == kind]
                judge = Meaning(task, elements, texts, measure)
                for element in elements:
                    for text in texts[element.field]:
                        yield is_aside(name), task, "right", judge.doubt(element, text)
                        yield from _wrong(judge, elements, element, text, name)


def _wrong(judge: Meaning, elements: list[Element], element: Element, text: str, name: str) -> Iterator[Any]:
    others = [one for one in elements if one.field != element.field]
    found = [judge.doubt(other, text) for other in others]
    yield from ((is_aside(name), judge.task, "wrong", doubt) for doubt in found)
    if found:
        yield is_aside(name), judge.task, "nearest", max(found, key=lambda doubt: doubt.margin or 0)


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
    print(
        f"{'measure':9}{'task':14}{'margin':>8}{'floor':>8}{'false alarms':>14}{'wrong found':>13}{'nearest found':>15}"
    )
    for measure in dict.fromkeys(measure for measure, _ in THRESHOLDS):
        began = time.process_time()
        if measure == "MiniLM" and not has_model():
            print(f"{measure:9}not installed: the extra meaning")
            continue
        found = list(doubts_of(sgd, sgd_x, measure))
        for task in TASKS:
            of_task = [(aside, what, doubt) for aside, of, what, doubt in found if of == task]
            right = [doubt for aside, what, doubt in of_task if what == "right" and not aside]
            limits = Thresholds(
                _at(MARGIN, [doubt.margin for doubt in right if doubt.margin is not None]),
                _at(FLOOR, [doubt.similarity for doubt in right]),
            )
            shares = [
                _share(bool(doubt.reason(limits)) for aside, of, doubt in of_task if aside and of == what)
                for what in ("right", "wrong", "nearest")
            ]
            print(
                f"{measure:9}{task:14}{limits.margin:8.3f}{limits.floor:8.3f}{shares[0]:14.1%}{shares[1]:13.1%}"
                f"{shares[2]:15.1%}"
            )
        print(f"{measure:9}{time.process_time() - began:.0f} CPU seconds for {len(found):,} comparisons")
    return 0


def _at(share: float, values: list[float]) -> float:
    """The value that this share of the values is below."""
    return round(sorted(values)[int(share * len(values))], 3)


def _share(given: Iterator[bool]) -> float:
    values = list(given)
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    sys.exit(main())
