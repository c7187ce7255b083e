"""Inform, Success, BLEU and Combined by domain, with intervals."""

import msgspec
import numpy as np
import pytest
from kit import act, dialogue, frame, intent, service, slot, state, turn

from parapet.evaluation import bootstrap
from parapet.evaluation.response.goals import Response, judge, reference_of
from parapet.evaluation.response.task import Bleu, dialogue_sums, own_responses, scores_of
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
    verdicts = {name: judge(goal, said.get(name, ()), of.knowledge) for name, goal in of.goals.items()}
    bleu = Bleu("13a")
    return scores_of(dialogue_sums(of, said, verdicts, bleu), bleu)


def numbers(scores):
    assert scores is not None
    return scores.inform, scores.success, scores.bleu, scores.combined


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

    assert (found.all.bleu, found.all) == (pytest.approx(bleu(list(of.goals))), found.domains["Inns"])
    drawn = np.array([bootstrap.weights("0", name) for name in of.goals])
    plain = [bleu([name for name, n in zip(of.goals, column, strict=True) for _ in range(n)])
             for column in drawn.T[:200] if column.any()]  # fmt: skip
    low, high = found.all.intervals["bleu"] or (0.0, 0.0)
    assert np.quantile(plain, [0.025, 0.975]) == pytest.approx((low, high), abs=6)
    assert low < (found.all.bleu or 0) < high


def test_nothing_to_judge():
    assert numbers(scored(reference(), {}).all) == (None, None, None, None)
    mute = scored(reference(("Inns_1",)), {"d0": [Response(1, ""), Response(3, "")]})
    assert numbers(mute.domains["Inns"]) == (0.0, 0.0, 0.0, 0.0)
