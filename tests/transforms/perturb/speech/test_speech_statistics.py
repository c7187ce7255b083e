"""The numbers of the sets against plain sums."""

import random

from parapet.transforms.core.counts import Counts
from parapet.transforms.perturb.speech import perturbation
from parapet.transforms.perturb.speech.perturbation import set_statistics

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
    for rows in dialogues:
        for name, n in perturbation.counts(rows).items():
            counts.add(name, n, set="SR-20", split="test")
    heard = [row for rows in dialogues for row in rows if row["status"] == "heard"]
    sums = {kind: sum(row[kind] for row in heard) for kind in ("words", *WRONG)}
    slots = [slot["status"] for row in heard for slot in row["slots"]]
    rates = [sum(row[kind] for kind in WRONG) / row["words"] for row in heard]
    wer = sum(sums[kind] for kind in WRONG) / sums["words"]
    assert set_statistics(0.2, counts) == {
        **{"target": 0.2, "turns": len(heard), **sums, "wer": wer},
        **{"slots": len(slots), "slots_kept": slots.count("kept"), "slot_survival": slots.count("kept") / len(slots)},
        **{"perfect_turns": rates.count(0), "perfect": rates.count(0) / len(rates)},
    }
    nothing = set_statistics(0.3, counts)
    assert {nothing[name] for name in ("wer", "slot_survival", "perfect")} == {None}
    assert nothing["words"] == 0
