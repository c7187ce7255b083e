"""The numbers of the sets against plain sums."""

import random

import pytest

pytest.importorskip("jiwer")

from parapet.transforms.perturbations.speech import replacing
from parapet.transforms.perturbations.speech.alignment import Setting
from parapet.transforms.perturbations.speech.replacing import set_statistics
from parapet.transforms.running.counts import Counts

WRONG = ("substitutions", "deletions", "insertions")


def row_of(drawn):
    words = drawn.randrange(1, 15)
    slots = [{"status": drawn.choice(["kept", "lost"])} for _ in range(drawn.randrange(4))]
    errors = {kind: drawn.randrange(3) for kind in WRONG}
    status = drawn.choice(["heard", "heard", "heard", "failed", "not_spoken"])
    return {"status": status, "words": words, **errors, "wer": sum(errors.values()) / words, "slots": slots}


def test_numbers_are_plain_sums_over_the_turns():
    drawn = random.Random(0)
    dialogues = [[row_of(drawn) for _ in range(10)] for _ in range(30)]
    counts = Counts()
    for i, rows in enumerate(dialogues):
        for key, n in replacing.counts(("f", i), rows).items():
            name, value = (key, "") if isinstance(key, str) else key
            counts.add(name, n, set="SR-20", split="test", value=value)
    heard = [row for rows in dialogues for row in rows if row["status"] == "heard"]
    sums = {kind: sum(row[kind] for row in heard) for kind in ("words", *WRONG)}
    slots = [slot["status"] for row in heard for slot in row["slots"]]
    rates = [sum(row[kind] for kind in WRONG) / row["words"] for row in heard]
    numbers = set_statistics(Setting(0.2, 4000), counts)
    low, high = numbers.pop("wer_low"), numbers.pop("wer_high")
    wer = sum(sums[kind] for kind in WRONG) / sums["words"]
    assert numbers == {
        **{"target": 0.2, "level": 0.4, "turns": len(heard), **sums},
        **{"slots": len(slots), "slots_kept": slots.count("kept"), "slot_survival": slots.count("kept") / len(slots)},
        **{"perfect_turns": rates.count(0), "garbled_turns": sum(rate >= 0.6 for rate in rates), "wer": wer},
        **{"perfect": rates.count(0) / len(rates), "garbled": sum(rate >= 0.6 for rate in rates) / len(rates)},
    }
    assert low < wer < high
    nothing = set_statistics(Setting(0.3, 17), counts)
    empty = ("wer", "slot_survival", "wer_low", "wer_high", "perfect", "garbled")
    assert {nothing[name] for name in empty} == {None}
    assert nothing["words"] == 0


def test_the_order_in_which_dialogues_come_does_not_matter():
    counted = [(name, f"f\0{i:06}", 5 + i % 7) for i in range(30) for name in ("dialogue_errors", "dialogue_words")]
    results = []
    for order in (counted, counted[::-1]):
        counts = Counts()
        for name, place, n in order:
            counts.add(name, n, set="SR-20", value=place)
        results.append(set_statistics(Setting(0.2, 0), counts))
    assert results[0] == results[1]
    assert results[0]["wer_low"] is not None
