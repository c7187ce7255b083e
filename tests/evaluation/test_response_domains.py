"""Inform, Success, BLEU and Combined by domain, with intervals."""

import msgspec
import numpy as np
import pytest
from kit import act, dialogue, frame, intent, service, slot, state, turn

from parapet.evaluation import statistics
from parapet.evaluation.response.goals import Response, reference_of
from parapet.evaluation.response.task import METRICS, SetInputs, evaluate, own_responses
from parapet.schemas.dialogue import Dialogue
from parapet.schemas.service import parse_service

PLACES = {"Inns_1": "Anchor", "Bars_1": "Crown"}
SLOTS = ["city", "name", "phone"]
SERVICES = {
    name: parse_service(
        service(name, [slot(one, one) for one in SLOTS], [intent("Find", "find", "city", results=SLOTS)], name)
    )
    for name in PLACES
}


def asks(name):
    """Four turns: a search for a place of the service, and its phone."""
    place, searched = PLACES[name], state("Find", city=["Rome"])
    found = {"city": "Rome", "name": place, "phone": "12 34"}
    call = {"service_call": {"method": "Find", "parameters": {"city": "Rome"}}, "service_results": [found]}
    asked, offered = act("INFORM", "city", "Rome"), act("OFFER", "name", place)
    return [
        turn("USER", f"one of the {name} in Rome", frame(name, asked, state=searched)),
        turn("SYSTEM", f"The {place} is a good one .", frame(name, offered, **call)),
        turn("USER", "its phone?", frame(name, act("REQUEST", "phone"), state=searched)),
        turn("SYSTEM", "You can call them at 12 34 .", frame(name, act("INFORM", "phone", "12 34"))),
    ]


def reference(*dialogues):
    """A dialogue for each list of services, which are asked for one after the other."""
    made = [dialogue(f"d{i}", *(turn for one in of for turn in asks(one))) for i, of in enumerate(dialogues)]
    return reference_of(msgspec.convert(made, list[Dialogue]), SERVICES)


def scored(of, said):
    return evaluate({"": SetInputs(of, said)}, "13a")


def test_acts_are_right_if_all_are_and_no_others():
    """An offer; an offer for an inform; an offer with a further act; an inform of another service."""
    of = reference(("Inns_1",), ("Bars_1",))
    said = {
        "d0": [Response(turn, "", acts=frozenset({("Inns_1", "OFFER")})) for turn in (1, 3)],
        "d1": [
            Response(1, "", acts=frozenset({("Bars_1", "OFFER"), ("Bars_1", "REQ_MORE")})),
            Response(3, "", acts=frozenset({("Inns_1", "INFORM")})),
        ],
    }
    assert scored(of, said).metrics["#ALL"]["act_accuracy"] == 0.25
    said["d1"][1] = Response(3, "", acts=frozenset({("Bars_1", "INFORM")}))
    assert scored(of, said).metrics["#ALL"]["act_accuracy"] == 0.5
    said["d0"][0] = Response(1, "The Anchor .")  # whose acts are unknown
    assert "act_accuracy" not in scored(of, said).metrics["#ALL"]


def test_numbers_of_all_are_sacrebleus_and_the_interval_a_plain_loops():
    import sacrebleu

    of = reference(*[("Inns_1",)] * 6)
    said = own_responses(of.responses)
    for i in (1, 3, 4):
        said[f"d{i}"] = [Response(1, "The Crown is a bad one ."), Response(3, f"You can call them at 12 3{i} .")]
    found = scored(of, said)

    def bleu(names):
        pairs = [(one.response, of.responses[name][one.turn]) for name in names for one in said[name]]
        return sacrebleu.corpus_bleu([a for a, _ in pairs], [[b for _, b in pairs]], lowercase=True).score

    numbers = found.metrics["#ALL"]
    assert (numbers["inform"], numbers["success"]) == (0.5, 0.5)
    assert numbers["bleu"] == pytest.approx(bleu(list(of.goals)))
    assert found.domains["original"].domains["Inns"] == {**numbers, "dialogues": 6}
    assert found.intervals["#ALL", "success"] == statistics.wilson_interval(3, 6)
    drawn = np.array([statistics.weights("0", name) for name in of.goals])
    plain = [bleu([name for name, n in zip(of.goals, column, strict=True) for _ in range(n)])
             for column in drawn.T[:200] if column.any()]  # fmt: skip
    low, high = found.intervals["#ALL", "bleu"] or (0.0, 0.0)
    assert np.quantile(plain, [0.025, 0.975]) == pytest.approx((low, high), abs=6)
    assert low < (numbers["bleu"] or 0) < high


def test_nothing_to_judge():
    assert scored(reference(), {}).metrics["#ALL"] == dict.fromkeys(METRICS)
    mute = scored(reference(("Inns_1",)), {"d0": [Response(1, ""), Response(3, "")]})
    assert mute.domains["original"].mean == dict.fromkeys(METRICS, 0.0)
