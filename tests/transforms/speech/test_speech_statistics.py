"""The numbers of the sets against plain sums, and the interval against a resampling of our own."""

import math
import random

import pytest

pytest.importorskip("jiwer")

from parapet.transforms.perturbation.corpora import domain_of
from parapet.transforms.perturbations.speech.alignment import Setting
from parapet.transforms.perturbations.speech.replacing import statistics, turn_counts
from parapet.transforms.running.counts import Counts


def row_of(drawn):
    words = drawn.randrange(1, 15)
    slots = [{"status": drawn.choice(["kept", "lost"])} for _ in range(drawn.randrange(4))]
    errors = {kind: drawn.randrange(3) for kind in ("substitutions", "deletions", "insertions")}
    status = drawn.choice(["heard", "heard", "heard", "failed", "not_spoken"])
    return {"status": status, "words": words, **errors, "wer": sum(errors.values()) / words, "slots": slots}


def counts_of(rows):
    """Those of a set, summed as the driver sums them."""
    counts = Counts()
    for row, services in rows:
        for key, n in turn_counts(row, services):
            name, value = (key, "") if isinstance(key, str) else key
            counts.add(name, n, set="SR-20", split="test", value=value)
    return counts


def test_numbers_are_plain_sums_over_the_turns():
    drawn = random.Random(0)
    services = ["Hotels_1", "Hotels_2", "Travel_1", "Homes"]
    rows = [(row_of(drawn), drawn.sample(services, drawn.randrange(1, 4))) for _ in range(300)]
    counts = counts_of(rows)
    for i in range(40):
        counts.add("dialogue_errors", drawn.randrange(5), set="SR-20", value=f"f\0{i:06}")
        counts.add("dialogue_words", drawn.randrange(1, 30), set="SR-20", value=f"f\0{i:06}")
    curve = [(5.0, (30, 100)), (20.0, (4, 80)), (12.0, (0, 0))]
    found = statistics(counts, [Setting(0.3, 17), Setting(0.2, 4000)], curve)

    wrong = ("substitutions", "deletions", "insertions")

    def expected(of):
        sums = {kind: sum(row[kind] for row in of) for kind in ("words", *wrong)}
        slots = [slot["status"] for row in of for slot in row["slots"]]
        kept, errors = slots.count("kept"), sum(sums[kind] for kind in wrong)
        rates = {"wer": errors / sums["words"], "slot_survival": kept / len(slots)}
        return {"turns": len(of), **sums, "slots": len(slots), "slots_kept": kept, **rates}

    heard = [(row, of) for row, of in rows if row["status"] == "heard"]
    one = found["sets"]["SR-20"]
    whole = expected([row for row, _ in heard])
    assert {name: one[name] for name in whole} == whole
    assert one["domains"] == {
        domain: expected([row for row, of in heard if any(domain_of(service) == domain for service in of)])
        for domain in ("Homes", "Hotels", "Travel")
    }
    assert (one["target"], one["level"]) == (0.2, 0.4)
    rates = [sum(row[kind] for kind in wrong) / row["words"] for row, _ in heard]
    assert one["turn_wer"]["perfect"] == rates.count(0) / len(rates)
    assert one["turn_wer"]["garbled"] == sum(rate >= 0.6 for rate in rates) / len(rates)
    assert one["turn_wer"]["quartiles"] == [sorted(rates)[math.ceil(len(rates) * q / 4) - 1] for q in (1, 2, 3)]
    assert found["curve"] == [
        {"snr": 20.0, "words": 80, "errors": 4, "wer": 0.05},
        {"snr": 5.0, "words": 100, "errors": 30, "wer": 0.3},
    ]
    assert list(found["sets"]) == ["SR-20", "SR-30"]
    other = found["sets"]["SR-30"]
    assert {other[name] for name in ("wer", "slot_survival", "wer_low", "wer_high")} == {None}
    assert (other["words"], other["domains"]) == (0, {})
    assert other["turn_wer"] == {"quartiles": [], "perfect": None, "garbled": None}


def test_the_order_in_which_dialogues_come_does_not_matter():
    counted = [(name, f"f\0{i:06}", 5 + i % 7) for i in range(30) for name in ("dialogue_errors", "dialogue_words")]
    results = []
    for order in (counted, counted[::-1]):
        counts = Counts()
        for name, place, n in order:
            counts.add(name, n, set="SR-20", value=place)
        results.append(statistics(counts, [Setting(0.2, 0)], []))
    assert results[0] == results[1]
    assert results[0]["sets"]["SR-20"]["wer_low"] is not None
