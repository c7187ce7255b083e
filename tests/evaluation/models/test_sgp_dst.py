"""SGP-DST: labels of what a turn changes, rows and spans, the rules, and predictions that depend on no batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import torch
from seeding import SEED
from tiny_bert import save_bert
from tiny_dialogues import FOOD, TAXI, texts, write_corpus

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models.dst.data import Labelled, read_labels
from parapet.evaluation.models.dst.pairs import Stretch
from parapet.evaluation.models.dst.sgp.encoding import Batch, Questions
from parapet.evaluation.models.dst.sgp.labels import Label, Place, SlotLabels, found_last, intent_label, slot_labels
from parapet.evaluation.models.dst.sgp.learning import by_service, dialogues_in, examples_of
from parapet.evaluation.models.dst.sgp.net import LONGEST, NEVER, Modules, Scores, best_spans
from parapet.evaluation.models.dst.sgp.rules import START, Said, intents_of, needed, next_state, slot_of
from parapet.evaluation.models.dst.sgp.tracking import ARCHITECTURES, SgpTracker, load_encoder
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.checkpoints import inspect

FOODS, TAXIS = msgspec.convert(FOOD, Service), msgspec.convert(TAXI, Service)
DISH, AREA, PLACE, PHONE = FOODS.slots
HISTORY = (("USER", "hi"), ("SYSTEM", "Opa, or Roma? Opa!"), ("USER", "opa, with soup"))


def test_what_the_modules_read() -> None:
    assert intents_of(FOODS).head == "do # places to eat"
    assert intents_of(FOODS).options == ("the same", "none", "look for food # find food", "book # book table")
    assert slot_of(FOODS, AREA, "categorical").head == "sort # places to eat # area # part of town"
    assert slot_of(FOODS, AREA, "categorical").options == ("null", "do not care", "north", "south")
    assert slot_of(FOODS, DISH, "free").options == ("null", "do not care", "said")
    assert slot_of(FOODS, DISH, "transfer").options == ("null", "said before")
    assert needed(FOODS) == {"dish", "area", "place"}
    assert needed(Service("x", "", FOODS.slots, [])) == {"dish", "area", "place", "phone"}


def test_where_a_value_was_said_last() -> None:
    assert found_last(["Opa"], HISTORY) == Place(2, 0, 3)
    assert found_last(["Opa"], HISTORY[:2]) == Place(1, 14, 17)
    assert found_last(["Roma", "or Roma"], HISTORY) == Place(1, 5, 12)  # of those that end there the longest
    assert found_last(["so", ""], HISTORY) is None  # no word of its own
    assert found_last([], HISTORY) is None


def labelled(slot: Any, values: dict[str, list[str]], before: dict[str, list[str]] | None = None) -> SlotLabels:
    return slot_labels(slot, State("x", [], before or {}), State("x", ["dish"], values), HISTORY)


def test_what_a_turn_changes() -> None:
    nothing, asked = Label(0), Label(0, None, True)
    assert labelled(DISH, {"dish": ["soup"]}) == SlotLabels(Label(2, Place(2, 10, 14), True), nothing)
    assert labelled(DISH, {"dish": ["soup"]}, {"dish": ["a soup", "soup"]}) == SlotLabels(asked, nothing)
    assert labelled(DISH, {"dish": ["dontcare"]}) == SlotLabels(Label(1, None, True), nothing)
    assert labelled(DISH, {"dish": ["curry"]}) == SlotLabels(asked, nothing, lost=True)
    assert labelled(PLACE, {"place": ["Roma"]}) == SlotLabels(nothing, Label(1, Place(1, 8, 12)))
    assert labelled(AREA, {"area": ["south"]}) == SlotLabels(Label(3), nothing)
    assert labelled(AREA, {"area": ["dontcare"]}) == SlotLabels(Label(1), nothing)
    assert labelled(AREA, {"area": ["east"]}) == SlotLabels(nothing, nothing, lost=True)
    assert labelled(AREA, {}) == SlotLabels(nothing, nothing)
    assert slot_labels(DISH, START, None, HISTORY) == SlotLabels(nothing, nothing)


def test_which_intent_a_turn_has() -> None:
    before = State("FindFood", [], {})
    assert intent_label(FOODS, before, None) == Label(0)
    assert intent_label(FOODS, before, before) == Label(0)
    assert intent_label(FOODS, before, State("BookTable", [], {})) == Label(3)
    assert intent_label(FOODS, before, State("NONE", [], {})) == Label(1)
    assert intent_label(FOODS, START, START) == Label(0)


def said(**options: Said) -> dict[str, Said]:
    return {slot.name: options.get(slot.name, Said(0)) for slot in FOODS.slots}


def test_the_rules() -> None:
    one = next_state(START, FOODS, 2, said(dish=Said(2, "soup"), area=Said(3), phone=Said(0, "", True)), {})
    assert one == State("FindFood", ["phone"], {"dish": ["soup"], "area": ["south"]})
    # What is said goes before what was said earlier, which fills what is empty; the rest stays.
    turn = said(dish=Said(2, "curry"), area=Said(1))
    two = next_state(one, FOODS, 0, turn, {"place": Said(1, "Opa"), "dish": Said(1, "pizza")})
    assert two == State("FindFood", [], {"dish": ["curry"], "area": ["dontcare"], "place": ["Opa"]})
    # A slot that is asked for has no possible value; one that no intent takes has none at all; a span may be empty.
    turn = said(area=Said(2, "", True), phone=Said(2, "123"), dish=Said(2, ""))
    three = next_state(two, FOODS, 3, turn, {"place": Said(0)})
    assert three == State("BookTable", ["area"], two.slot_values)
    assert next_state(three, FOODS, 1, said(), {}).active_intent == "NONE"
    assert State("NONE", [], {}) == START


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> list[Labelled]:
    return read_labels(str(write_corpus(tmp_path_factory.mktemp("toy") / "corpus")), "train").rows


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    folder = save_bert(tmp_path_factory.mktemp("bert") / "bert", texts(), positions=128)
    return load_encoder(inspect(str(folder), ARCHITECTURES))


def test_rows_and_where_values_may_be(loaded: tuple[Any, Any]) -> None:
    tokenizer = loaded[0]
    history = (("USER", "i want pizza"), ("SYSTEM", "there is Zum Hirsch ."), ("USER", "book it"))
    questions = Questions(tokenizer, [history], 50)
    places = questions.places[0]
    whole, past = Stretch(places[0].start, places[2].end), Stretch(places[0].start, places[2].start)
    assert questions.ask("transfer", FOODS, PLACE, whole, past) == 0
    assert questions.ask("transfer", FOODS, PLACE, places[2], Stretch(0, 0)) == 1
    rows = questions.rows("transfer")
    batch = rows.batch(torch.tensor([1, 0]))
    text = "[CLS] user : book it [SEP] copy # places to eat # place # the house [SEP] null [SEP] said before [SEP]"
    assert tokenizer.decode(batch.tokens[0][batch.mask[0].bool()]) == text
    tokens = tokenizer.convert_ids_to_tokens(batch.tokens[1])
    told = [tokens[begin:end] for begin, end in batch.options[1].tolist()]
    assert told == [["null"], ["said", "before"]]
    assert tokens[int(batch.types[1].argmax()) - 1] == "[SEP]"
    opened = [token for token, is_open in zip(tokens, batch.open[1].tolist(), strict=True) if is_open]
    assert tokenizer.convert_tokens_to_string(opened) == "i want pizza there is zum hirsch."
    assert not batch.open[0].any()
    first, last = questions.tokens_of(places[1], 9, 19) or (0, 0)
    assert questions.text_of(first, last) == "Zum Hirsch"
    column = int(rows.column(torch.tensor([0]), torch.tensor([first]))[0])
    assert (tokens[column], rows.place(0, column)) == ("zum", first)
    short = Questions(tokenizer, [history], 33)
    short.ask("transfer", FOODS, PLACE, whole, past)
    cut = short.rows("transfer")
    assert cut.pairs.cut == 1
    assert cut.column(torch.tensor([0]), torch.tensor([0])).tolist() == [-1]
    with pytest.raises(InputError, match=r"--max_length.*Food_1 place.*takes \d+ of 20 tokens"):
        Questions(tokenizer, [history], 20).ask("transfer", FOODS, PLACE, whole, past)


def plain_best(starts: Sequence[float], ends: Sequence[float], said: Sequence[int]) -> tuple[int, int]:
    pairs = [
        (starts[i] + ends[j], -i, -j)
        for i in range(len(starts))
        for j in range(i, min(len(ends), i + LONGEST))
        if said[i] == said[j]
    ]
    best = max(pairs)
    return -best[1], -best[2]


def test_spans_are_those_of_a_plain_loop() -> None:
    generator = torch.Generator().manual_seed(SEED)
    starts, ends = torch.randn(2, 50, 60, generator=generator).unbind(0)
    said = (torch.rand(50, 60, generator=generator) < 0.1).cumsum(1)
    blocked = torch.rand(50, 60, generator=generator) < 0.3
    starts, ends = starts.masked_fill(blocked, NEVER), ends.masked_fill(blocked, NEVER)
    empty = torch.zeros(0)
    batch = Batch(empty, empty, empty, empty, ~blocked, said)
    begins, stops, margins = best_spans(Scores(empty, starts, ends, empty), batch)
    for row in range(50):
        expected = plain_best(starts[row].tolist(), ends[row].tolist(), said[row].tolist())
        assert (int(begins[row]), int(stops[row])) == expected
    assert (margins > 0).all()


def test_dialogues_are_told_apart(frames: list[Labelled]) -> None:
    found = list(dialogues_in([*frames[:4], *frames[:4], *frames[:1]]))
    assert [len(one) for one in found] == [3, 1, 3, 1, 1]
    ((food, history, states),) = by_service(found[0])
    assert food == FOODS
    assert len(history) == 5
    assert sorted(states) == [0, 2, 4]
    last = list(dialogues_in(frames))[1]
    assert [(one.service_name, sorted(states)) for one, _, states in by_service(last)] == [
        ("Food_1", [0, 2, 4]),
        ("Taxi_1", [6]),
    ]


def test_what_is_learned_from(loaded: tuple[Any, Any], frames: list[Labelled]) -> None:
    found, lost = examples_of(loaded[0], list(dialogues_in(frames))[1], 128)
    assert lost == 0
    # Three user turns of Food_1, and four of Taxi_1: it is asked about all turns until its last.
    assert {kind: len(one.rows) for kind, one in found.items()}["intent"] == 7
    taxi = found["intent"].options[3:].tolist()
    assert taxi == [0, 0, 0, 2]
    transfers = found["transfer"]
    spoken = [(transfers.rows.pairs.lengths[number] > 0, transfers.options[number].item()) for number in transfers.full]
    assert len(spoken) == 2  # the place in Food_1, the goal in Taxi_1
    assert (transfers.spans[transfers.full] >= 0).all()
    assert (transfers.spans[transfers.empty] == -1).all()


def test_predictions_depend_on_the_example_alone(loaded: tuple[Any, Any], frames: list[Labelled]) -> None:
    tokenizer, encoder = loaded
    with torch.random.fork_rng():
        torch.manual_seed(SEED + 1)
        modules = Modules([encoder]).eval()
    for name, weight in modules.named_parameters():  # or a random model may say the same to all
        if "Norm" not in name:
            weight.data.mul_(1.5)
    asked: list[Example] = [one.asked for one in frames[:12]]
    together = SgpTracker(tokenizer, modules, 128, 64).predict(asked)
    assert len({str(state) for state in together}) > 1
    assert SgpTracker(tokenizer, modules, 128, 5).predict(asked[::-1])[::-1] == together
    alone = SgpTracker(tokenizer, modules, 128, 1)
    assert [alone.predict([one])[0] for one in asked] == together
    assert alone.predict([]) == []
