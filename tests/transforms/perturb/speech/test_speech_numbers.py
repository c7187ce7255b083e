"""The options, the numbers and the page of speech errors."""

import random
import re

import pytest
from kit import cases, raised

pytest.importorskip("scipy")

from parapet.schemas.errors import InputError
from parapet.transforms.core.counts import Counts
from parapet.transforms.perturb.page import report_of
from parapet.transforms.perturb.speech import perturbation
from parapet.transforms.perturb.speech.alignment import set_name
from parapet.transforms.perturb.speech.perturbation import SpeechErrors, parse_ratios, parse_targets, set_statistics
from parapet.transforms.report.report import Table, card, page

ENGINES = {"synthesiser": "hibari", "recogniser": "moonshine tiny-en", "noise": "recordings:aaaabbbbcccc"}
MADE_WITH = {**ENGINES, "voices": ["heart", "fenrir"], "normalisation": "1", "samples_a_second": 16000}


def test_sets_without_a_transcript():
    sets = {set_name(target): set_statistics(target, Counts()) for target in (0.1, 0.125, 0.2)}
    made = report_of(SpeechErrors(), {"sets": sets, "made_with": MADE_WITH}, {}, {})
    tables = [one for one in made.sections if isinstance(one, Table) and one.title == "Word error rate by set"]
    (rows,) = (table.rows for table in tables)
    assert [cells[0] for cells in rows] == ["SR-10", "SR-12.5", "SR-20"]
    assert all((cells[1], cells[3], cells[-1]) == ("–", "0", "–") for cells in rows)
    assert "None" not in page(made) + card(made)


BAD, TWICE = ["0", "1", "10", "-0.1", "nan"], ["0.1,0.10", "0.2,0.20000000000001"]
RATIOS = ["", "10", "10,10.0", "61,5", "5,-21", "5,nan"]


@cases(
    "parse given said",
    *((parse_targets, given, f"--wer: {given} is no") for given in BAD),
    (parse_targets, "0.1;0.2", "--wer: '0.1;0.2'"),
    *((parse_targets, given, "--wer: each word error rate must appear once") for given in ("", ",", *TWICE)),
    *((parse_ratios, given, "--snr: must be two or more different ratios") for given in RATIOS),
    (parse_ratios, "10dB,5", "--snr: '10dB,5'"),
)
def test_targets_and_ratios_that_are_none(parse, given, said):
    raised(InputError, parse, given, match=re.escape(said))


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
