"""Trackers that are trained: what SGP-DST, SGD Baseline and T5DST read, labels, choices, losses and predictions."""

import math
from itertools import combinations_with_replacement

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kit import ONE_EPOCH, SEED, cases
from msgspec.structs import replace
from tiny_checkpoints import save_bert, save_t5
from tiny_dialogues import FOOD, TAXI, texts, write_corpus

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Context
from parapet.evaluation.models import saving, sgp_dst, t5dst
from parapet.evaluation.models import sgd_baseline as baseline
from parapet.evaluation.models import sgp_rules as rules
from parapet.evaluation.models.configs import SgdBaselineConfig, T5DstConfig
from parapet.evaluation.models.dst import Labelled, read_labels
from parapet.evaluation.models.sgd_baseline import ANY, IGNORED, KEPT, NEW, Outputs
from parapet.evaluation.models.sgp_rules import Decision, Label, Memory
from parapet.evaluation.models.training import Pairs, Tokens
from parapet.pipelines.app import Parser, read_config
from parapet.pipelines.models import train_command
from parapet.schemas.dialogue import Action
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.core.checkpoints import inspect

FOODS, TAXIS = msgspec.convert(FOOD, Service), msgspec.convert(TAXI, Service)
DISH, AREA, PLACE, PHONE = FOODS.slots
GOAL, _ = TAXIS.slots
EXCHANGE = ("there is Zum Hirsch .", "i want pizza")


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    return read_labels(str(write_corpus(tmp_path_factory.mktemp("toy") / "corpus")), "train").rows


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert") / "bert", texts(), positions=128, spread=0.5)
    return inspect(str(folder), saving.BY_MODEL["sgp_dst"])


@pytest.fixture(scope="module")
def loaded(bert):
    return sgp_dst.load_encoder(bert)


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    return inspect(str(save_t5(tmp_path_factory.mktemp("t5") / "t5", texts())), saving.BY_MODEL["t5dst"])


@pytest.fixture(scope="module")
def loaded_t5(t5):
    return saving.load(t5, "AutoModelForSeq2SeqLM")


def texts_in(tokenizer, frames):
    return sgp_dst.Texts(tokenizer, ["", *(text for frame in frames for _, text in frame.asked.history)])


def enlarge(heads, end):
    """Multiplies weights, or a random model may say the same to all."""
    for name, weight in heads.named_parameters():
        if name.endswith(end):
            weight.data.mul_(10)


def decoded(tokenizer, batch, row, chosen=None):
    return str(tokenizer.decode(batch.tokens[row][(batch.mask if chosen is None else chosen)[row].bool()]))


def shares(logits):
    powers = [math.exp(logit) for logit in logits]
    return [power / sum(powers) for power in powers]


def predicted_alike(tracker_of, asked):
    """The states of a tracker for each batch size, which depend on the example alone."""
    together = tracker_of(64).predict(asked)
    assert tracker_of(5).predict(asked[::-1])[::-1] == together
    alone = tracker_of(1)
    assert ([alone.predict([one])[0] for one in asked], alone.predict([])) == (together, [])
    return together


# SGP-DST.


def heard(memory, service, *actions):
    """Of (act, slot, value); empty for none."""
    frame = Context(service, tuple(Action(act, slot, [value] if value else []) for act, slot, value in actions))
    memory.hear("said", [frame])


def test_the_context_features_of_a_dialogue():
    """A slot that nobody spoke of, that the system asks for, for which it gave a value, and both."""
    memory = Memory()

    def features(service):
        return {slot.name: memory.combine_feature(service, slot) for slot in service.slots}

    assert features(FOODS) == {"dish": 0, "area": 0, "place": 0, "phone": 0}
    memory.conclude({"Food_1": State("FindFood", [], {"dish": ["soup"]})}, [FOODS])
    assert features(FOODS) == {"dish": 0, "area": 0, "place": 0, "phone": 0}  # the user's own values do not count
    heard(memory, FOODS, ("REQUEST", "area", ""), ("OFFER", "place", "Opa"), ("INFORM_COUNT", "count", "3"))
    assert features(FOODS) == {"dish": 0, "area": rules.REQUESTED, "place": rules.GIVEN, "phone": 0}
    assert features(TAXIS) == {"goal": 0, "seats": 0}
    heard(memory, FOODS, ("INFORM", "phone", "12"), ("REQUEST", "dish", "pizza"), ("REQUEST", "place", ""))
    both = rules.GIVEN + rules.REQUESTED
    assert features(FOODS) == {"dish": rules.GIVEN, "area": 0, "place": both, "phone": rules.GIVEN}

    source = next(source for _, source in memory.cross_questions(TAXIS, ()) if source.slot is PLACE)
    assert (source.service, source.values) == ("Food_1", ["Opa"])
    assert memory.cross_feature(TAXIS, GOAL, "Ride", source) == rules.REQUIRED
    assert memory.cross_feature(TAXIS, GOAL, "NONE", source) == 0
    heard(memory, FOODS, ("NOTIFY_SUCCESS", "", ""))
    heard(memory, TAXIS, ("CONFIRM", "goal", "Roma"))
    assert memory.cross_feature(TAXIS, GOAL, "Ride", source) == rules.REQUIRED + rules.HAD_VALUE + rules.SUCCEEDED
    assert rules.role_of("seats", "Ride", TAXIS) == rules.OPTIONAL


def test_what_a_turn_changes():
    memory = Memory()
    heard(memory, FOODS, ("OFFER", "place", "Roma"), ("CONFIRM", "area", "north"), ("REQUEST", "dish", "curry"))
    memory.states["Food_1"] = State("FindFood", [], {"dish": ["a soup", "soup"]})

    def label(slot, **values):
        after = State("FindFood", ["dish"], values)
        return rules.slot_label(FOODS, slot, memory, after, "opa, with pizza, down the hill")

    assert label(DISH, dish=["pizza"]) == Label(0, (10, 15), True, "user")
    assert label(DISH, dish=["soup"]) == label(DISH) == Label(0, None, True)
    assert label(DISH, dish=["dontcare"]) == Label(1, None, True, "user")
    assert label(DISH, dish=["curry"]) == Label(0, None, True, "system")
    assert label(DISH, dish=["stew"]) == Label(0, None, True, "other")
    assert label(PLACE, place=["Roma"]) == Label(origin="system")
    assert label(PLACE, place=["Opa"]) == Label(0, (0, 3), False, "user")
    assert label(AREA, area=["south"]) == Label(3, origin="user")
    assert label(AREA, area=["north"]) == Label(origin="system")
    assert label(AREA, area=["dontcare"]) == Label(1, origin="user")
    assert label(AREA, area=["east"]) == Label(origin="other")
    names = ("FindFood", "BookTable", "NONE")
    assert [rules.intent_label(FOODS, State(name, [], {})) for name in names] == [0, 1, 2]
    assert tuple(rules.intent_name(FOODS, option) for option in range(3)) == names


def test_the_rules():
    assert (rules.value_of(DISH, Decision(), "soup"), rules.value_of(DISH, Decision(1), "soup")) == ("soup", "dontcare")
    assert rules.value_of(AREA, Decision(3), "") == "south"
    assert rules.value_of(AREA, Decision(3, yes=True), "") == ""  # a requested slot has no possible value
    assert rules.value_of(AREA, Decision(0), "up there") == ""
    said = {"dish": "soup", "area": "south", "phone": "12"}
    one = rules.next_state(rules.START, FOODS, "FindFood", ["phone"], said, {}, {})
    assert one == State("FindFood", ["phone"], {"dish": ["soup"], "area": ["south"]})
    # What is said goes before what is copied, and that from another service before what the system gave.
    two = rules.next_state(one, FOODS, "NONE", [], {"dish": "stew"}, {"place": "Opa"}, {"place": "Roma", "dish": "pie"})
    assert two == State("NONE", [], {"dish": ["stew"], "area": ["south"], "place": ["Opa"]})
    assert (one.slot_values["dish"], State("NONE", [], {})) == (["soup"], rules.START)
    asked = [("goal", "Opa"), ("goal", "Roma"), ("goal", "Turin"), ("seats", "2")]
    decisions = iter([Decision(yes=True, score=3), Decision(yes=True, score=4), Decision(score=5), Decision(), None])
    assert sgp_dst.likeliest(asked, decisions) == {"goal": "Roma"}
    assert next(decisions, 0) is None  # of the next frame


def test_rows_of_the_other_modules(loaded):
    tokenizer = loaded[0]
    words = sgp_dst.Texts(tokenizer, ["", *EXCHANGE])
    intents = sgp_dst.Questions(words, "intents", 60)
    for previous in (0, 2):
        intents.ask(("", EXCHANGE[1]), rules.intents_of(FOODS, True), previous)
    batch = intents.batch(torch.tensor([0, 1]))
    said = "[CLS] keep [SEP] sys : usr : i want pizza [SEP]"
    assert decoded(tokenizer, batch, 0) == f"{said} look for food # find food [SEP] book # book table [SEP] none [SEP]"
    assert batch.features[0].sum() == 0
    assert decoded(tokenizer, batch, 1, batch.features) == "book # book table"
    assert not batch.open.any()
    crosses = sgp_dst.Questions(words, "cross_copy", 60)
    crosses.ask(EXCHANGE, rules.cross_of(GOAL, PLACE), 9)
    batch = crosses.batch(torch.tensor([0]))
    assert decoded(tokenizer, batch, 0).endswith("pizza [SEP] goal # where to go [SEP] place # the house [SEP]")
    assert decoded(tokenizer, batch, 0, batch.types) == "place # the house [SEP]"
    assert batch.options.numel() == 0


def test_what_is_too_long(loaded):
    exchange = (5 * EXCHANGE[0], EXCHANGE[1])
    words = sgp_dst.Texts(loaded[0], exchange)
    short = sgp_dst.Questions(words, "combine", 32)
    short.ask(exchange, rules.slot_of(DISH), 0)
    batch = short.batch(torch.tensor([0]))
    assert short.pairs.cut == 1
    assert decoded(loaded[0], batch, 0, batch.open) == "i want pizza null"  # the oldest part goes
    with pytest.raises(InputError, match=r"--max_length.*tag # dish.*takes \d+ of 20 tokens"):
        sgp_dst.Questions(words, "combine", 20).ask(exchange, rules.slot_of(DISH), 0)


def plain_best(starts, ends, open, null):
    """The best span by hand, from probabilities."""
    first, last = shares(starts), shares(ends)
    spans = [(i, j) for i, j in combinations_with_replacement(range(len(starts)), 2) if open[i] and open[j]]
    total, i, j = max((first[i] + last[j], i, j) for i, j in spans if (i == null) == (j == null))
    return i, j, total


def test_spans_are_those_of_a_plain_loop():
    generator = torch.Generator().manual_seed(SEED)
    starts, ends = torch.randn(2, 40, 20, generator=generator).unbind(0)
    open = torch.rand(40, 20, generator=generator) < 0.7
    null = torch.randint(20, (40,), generator=generator)
    open[torch.arange(40), null] = True
    starts, ends = starts.masked_fill(~open, sgp_dst.NEVER), ends.masked_fill(~open, sgp_dst.NEVER)
    empty = torch.zeros(0)
    batch = sgp_dst.Batch(empty, empty, empty, empty, empty, open, null)
    begins, stops, sums, leads = sgp_dst.best_spans(starts, ends, batch.sources)
    for row in range(40):
        i, j, total = plain_best(starts[row].tolist(), ends[row].tolist(), open[row].tolist(), int(null[row]))
        assert (int(begins[row]), int(stops[row]), float(sums[row])) == (i, j, pytest.approx(total, abs=1e-5))
    assert (leads > 0).all()


def test_what_is_learned_from(loaded, frames):
    questions, labels, lost = sgp_dst.questions_of(texts_in(loaded[0], frames), frames, 128)
    assert lost == 0
    # 18 dialogues: three turns of Food_1 each, its four slots asked about but for a place that is copied; in twelve of
    # them a turn of Taxi_1, with two slots.
    expected = {"intents": 18 * 3 + 12, "combine": 18 * 3 * 4 - 12 + 12 * 2, "copy_slot": 18, "cross_copy": 30}
    assert {kind: len(one) for kind, one in questions.items()} == expected

    def answers(kind):
        return sum((one.option, one.place, one.requested) != (0, None, False) for one in labels[kind])

    # A dish and an area in each; a phone in six; seats in twelve.
    assert [answers(kind) for kind in ("copy_slot", "cross_copy", "combine")] == [12, 12, 18 * 2 + 6 + 12]


def test_predictions_of_sgp_dst_depend_on_the_example_alone(loaded, frames):
    tokenizer, encoder = loaded
    with torch.random.fork_rng():
        torch.manual_seed(SEED + 1)
        modules = sgp_dst.Modules([encoder] * len(rules.KINDS)).eval()
    enlarge(modules.heads, "weight")
    asked = [one.asked for one in frames[:12]]
    states = predicted_alike(lambda batch: sgp_dst.SgpTracker(tokenizer, modules, 128, batch), asked)
    assert len({str(state) for state in states}) > 1


def plain_adam(weights, gradients, rates, decay):
    """BertAdam of one tensor, written out."""
    means, squares = [0.0] * len(weights), [0.0] * len(weights)
    for gradient, rate in zip(gradients, rates, strict=True):
        norm = math.sqrt(sum(value * value for value in gradient))
        for i, value in enumerate([value * min(1.0, 1.0 / (norm + 1e-6)) for value in gradient]):
            means[i] = 0.9 * means[i] + 0.1 * value
            squares[i] = 0.999 * squares[i] + 0.001 * value * value
            weights[i] -= rate * (means[i] / (math.sqrt(squares[i]) + 1e-6) + decay * weights[i])
    return weights


@cases("alternate", False, True)
def test_bert_adam_is_the_plain_one_also_for_modules_that_take_turns(alternate):
    generator = torch.Generator().manual_seed(SEED)
    start = torch.randn(2, 5, generator=generator, dtype=torch.float64)
    gradients = 2 * torch.randn(8, 2, 5, generator=generator, dtype=torch.float64)
    named = [("dense.weight", start[0].clone().requires_grad_()), ("dense.bias", start[1].clone().requires_grad_())]
    unused = torch.ones(2, requires_grad=True)
    optimiser = sgp_dst.BertAdam(sgp_dst.groups_of([*named, ("pooler.weight", unused)], steps=8, warmup=0.25), 0.1)
    for gradient in gradients:
        for (_, parameter), own in zip(named, gradient, strict=True):
            parameter.grad = own.clone()
            if alternate:
                optimiser.step()
                optimiser.zero_grad(set_to_none=True)
        optimiser.step()
    rates = [0.1 * share for share in (0, 0.5, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6)]
    for number, decay in enumerate((0.01, 0.0)):  # no decay of a bias
        expected = plain_adam(start[number].tolist(), gradients[:, number].tolist(), rates, decay)
        assert named[number][1].tolist() == pytest.approx(expected, abs=1e-9)
    assert unused.tolist() == [1.0, 1.0]


@cases("more combine", ([], 3), (["--module_epochs", "combine=1"], 1))
def test_steps_of_the_papers_preset(more, combine):
    """32 inputs a step; one epoch of each encoder, but for "combine" on the original training set."""
    argv = ["--preset", "sgdx", "--checkpoint", "bert", "--output", "out", *more]
    kind = train_command("sgp_dst")
    config = read_config(kind, vars(Parser(kind).parse(argv)[0]))
    sizes = {"intents": 3200, "combine": 32000, "copy_slot": 321, "cross_copy": 31}
    steps = {"intents": 100, "combine": combine * 1000, "copy_slot": 11, "cross_copy": 1}
    assert sgp_dst.steps_of(config, sizes) == steps
    assert (config.learning_rate, config.warmup, config.by_module("warmup")["copy_slot"]) == (2e-5, 0.1, 0.7)
    assert (config.schedule, config.clip, config.clipped_norm) == ("linear", 1, 0)
    assert config.by_module("epochs")["combine"] == combine
    assert [config.by_module("negatives")[kind] for kind in ("combine", "copy_slot", "cross_copy")] == [0.3, 0.1, 0.01]


def test_rows_of_combine(loaded):
    tokenizer = loaded[0]
    words = sgp_dst.Texts(tokenizer, EXCHANGE)
    questions = sgp_dst.Questions(words, "combine", 60)
    assert questions.ask(EXCHANGE, rules.slot_of(AREA), rules.GIVEN) == 0
    assert questions.ask(EXCHANGE, rules.slot_of(DISH), rules.REQUESTED) == 1
    batch = questions.batch(torch.tensor([1, 0]))
    said = "[CLS] sys : there is zum hirsch. usr : i want pizza null [SEP]"
    assert decoded(tokenizer, batch, 0) == f"{said} tag # dish # what to eat [SEP] null [SEP] do not care [SEP]"
    options = "null [SEP] do not care [SEP] north [SEP] south [SEP]"
    assert decoded(tokenizer, batch, 1) == f"{said} sort # area # part of town [SEP] {options}"
    assert decoded(tokenizer, batch, 1, batch.types) == f"sort # area # part of town [SEP] {options}"
    assert decoded(tokenizer, batch, 0, batch.open) == "i want pizza null"
    assert tokenizer.convert_ids_to_tokens(batch.tokens[0, batch.null[0]].item()) == "null"
    assert [of.unique().tolist() for of in batch.features] == [[rules.REQUESTED], [rules.GIVEN]]
    told = [tokenizer.decode(batch.tokens[1][columns[columns > 0]]) for columns in batch.options[1]]
    assert told == ["null", "do not care", "north", "south"]
    assert [int((columns > 0).sum()) for columns in batch.options[0]] == [1, 3, 0, 0]
    first, last = words.tokens_of(EXCHANGE[1], 7, 12) or (0, 0)
    assert (words.text_of(EXCHANGE[1], first, last), words.tokens_of(EXCHANGE[1], 12, 12)) == ("pizza", None)
    assert tokenizer.decode(batch.tokens[1, int(questions.first(torch.tensor([0]))[0]) + first]) == "pizza"


def test_what_may_be_copied():
    memory = Memory()
    heard(memory, FOODS, ("OFFER", "place", "Opa"), ("INFORM", "phone", "12"), ("CONFIRM", "area", "north"))
    assert [slot.name for slot in memory.copy_questions(FOODS, ())] == ["area", "place"]
    assert [slot.name for slot in memory.copy_questions(FOODS, {"area"})] == ["place"]
    heard(memory, FOODS, ("INFORM", "place", "Opa"))  # an answer is not an offer
    assert [slot.name for slot in memory.copy_questions(FOODS, {"area"})] == []
    memory.conclude({"Food_1": State("FindFood", [], {"dish": ["dontcare"], "area": ["south"]})}, [FOODS])
    pairs = [(slot.name, source.slot.name, source.values) for slot, source in memory.cross_questions(TAXIS, ())]
    assert pairs == [("goal", "area", ["south"]), ("goal", "place", ["Opa"]), ("goal", "phone", ["12"])]
    assert list(memory.cross_questions(TAXIS, {"goal"})) == []
    assert memory.goes_on([FOODS])
    assert not memory.goes_on([FOODS, TAXIS])


# SGD Baseline.


@pytest.fixture(scope="module")
def elements(loaded):
    return baseline.ElementEncoder(*loaded, 64)


def net_of(encoder):
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        return baseline.BaselineNet(encoder).eval()


def turns_of(frames):
    for memory, turn, states in sgp_dst.labelled_turns(frames):
        for service in turn.services:
            yield turn.exchange, service, memory.state(service), states[service.service_name]


def test_rows(elements):
    tokenizer = elements.tokenizer
    words = sgp_dst.Texts(tokenizer, EXCHANGE)
    limits = ((FOODS, 80), (TAXIS, 9), (TAXIS, 4))
    rows = [baseline.row_of(words, EXCHANGE, service, limit) for service, limit in limits]
    batch = baseline.TurnRows(rows, elements).batch(torch.tensor([0, 1, 2]))

    def read(row, chosen):
        return decoded(tokenizer, batch, row, chosen)

    assert read(0, batch.mask) == "[CLS] there is zum hirsch. [SEP] i want pizza [SEP]"
    sources = ["[CLS]", "there is zum hirsch.", "i want pizza"]
    assert [read(0, batch.sources == source) for source in range(3)] == sources
    assert read(0, batch.types) == "i want pizza [SEP]"
    assert (rows[0].system, rows[0].user) == (1, 7)
    # The oldest part is cut off.
    assert read(1, batch.mask) == "[CLS] zum hirsch. [SEP] i want pizza [SEP]"
    assert [read(1, batch.sources == source) for source in (1, 2)] == ["zum hirsch.", "i want pizza"]
    assert read(2, batch.mask) == "[CLS] want pizza [SEP]"
    assert [read(2, batch.sources == source) for source in (1, 2)] == ["", "want pizza"]
    assert [row.system < 1 for row in rows] == [False, True, True]

    def span(row, *values):
        return (columns := rows[row].span_of(values)) and rows[row].text_of(*columns)

    assert [span(row, "Pizza") for row in range(3)] == ["pizza"] * 3
    assert [span(row, "nothing", "zum hirsch") for row in range(3)] == ["Zum Hirsch", "Zum Hirsch", None]
    assert [span(row, "there", "i") for row in range(3)] == ["i", "i", None]  # of the user first
    assert rows[0].text_of(0, 0) == ""


def test_elements(elements, loaded):
    """Each as its own text, however many others there are; the rest is padding."""
    tokenizer, encoder = loaded

    def vector(*pair):
        with torch.no_grad():
            return encoder(**tokenizer(*pair, return_tensors="pt")).last_hidden_state[0, 0]

    both = elements.elements([FOODS, TAXIS])
    for number, service in enumerate((FOODS, TAXIS)):
        for vectors, named in ((both.intents, service.intents), (both.slots, service.slots)):
            for place, element in enumerate(named):
                expected = vector(service.description, f"{element.name} {element.description}")
                assert torch.allclose(vectors[number, place], expected, atol=1e-5)
    for place, (slot, value) in enumerate((("area part of town", "north"), ("area part of town", "south"))):
        assert torch.allclose(both.values[0, place], vector(slot, value), atol=1e-5)
    assert (both.counts.tolist()[:2], both.owners.tolist()[:2]) == ([[2, 4], [1, 2]], [[0, 0], [0, 0]])
    assert (both.categorical.tolist()[:2], both.free.tolist()[:2]) == ([[1], [1]], [[0, 2], [0, -1]])
    bare = replace(TAXIS, slots=[], intents=[])
    alone = elements.elements([bare])
    assert [column.shape[1] for column in alone] == [1, 1, 1, 2, 1, 1, 1]  # no dimension is empty
    assert torch.equal(elements.elements([TAXIS]).slots[0], both.slots[1, :2])


def test_what_a_turn_changes_for_sgd_baseline(elements):
    words = sgp_dst.Texts(elements.tokenizer, EXCHANGE)
    row = baseline.row_of(words, EXCHANGE, FOODS, 80)
    before = State("FindFood", [], {"dish": ["soup"], "area": ["south"]})

    def label(*requested, **values):
        return baseline.labels_of(row, before, State("BookTable", [*requested], values))

    nothing = label("phone", dish=["a soup", "soup"], area=["south"])
    assert nothing == Outputs([1], [0, 0, 0, 1], [KEPT], [IGNORED], [KEPT, KEPT], [IGNORED] * 2, [IGNORED] * 2)
    some = label(dish=["a pizza", "pizza"], area=["north"], place=["Zum Hirsch"])
    assert some == Outputs([1], [0, 0, 0, 0], [NEW], [0], [NEW, NEW], [9, 3], [9, 4])
    other = label(dish=["dontcare"], area=["dontcare"], place=["Opa"])
    assert other == Outputs([1], [0, 0, 0, 0], [ANY], [IGNORED], [ANY, NEW], [IGNORED, 0], [IGNORED, 0])
    assert label(area=["east"]).values == [IGNORED]
    after = State("BookTable", [], {"dish": ["pizza"], "area": ["north"], "place": ["Zum Hirsch"]})
    assert baseline.next_state(row, some, before) == after
    # A value that neither utterance has is not predicted; the others stay.
    assert baseline.next_state(row, other, before).slot_values == {"dish": ["dontcare"], "area": ["dontcare"]}
    assert baseline.next_state(row, nothing, before).slot_values == before.slot_values
    assert baseline.with_values(FOODS) == ([FOODS.slots[1]], [FOODS.slots[0], FOODS.slots[2]])  # nobody gives a phone


def plain_state(before, after, exchange, service):
    """The state after a turn with right choices, written out: what cannot be predicted stays as it was."""
    values = dict(before.slot_values)
    for slot in service.slots:
        new = after.slot_values.get(slot.name)
        if slot.name not in rules.needed(service) or not new or set(new) & set(before.slot_values.get(slot.name, [])):
            continue
        if new[0] == "dontcare" or (slot.is_categorical and new[0] in slot.possible_values):
            values[slot.name] = [new[0]]
        elif not slot.is_categorical and any(value.lower() in text.lower() for value in new for text in exchange):
            values[slot.name] = new
    return State(after.active_intent, sorted(after.requested_slots), values)


@pytest.mark.parametrize("corpus", ["toy", "sample"])
def test_right_choices_make_right_states(corpus, elements, frames, sample):
    rows = frames if corpus == "toy" else read_labels(str(sample), "train").rows
    words = texts_in(elements.tokenizer, rows)
    lost = 0
    for exchange, service, before, after in turns_of(rows):
        row = baseline.row_of(words, exchange, service, 500)
        state = baseline.next_state(row, baseline.labels_of(row, before, after), before)
        expected = plain_state(before, after, exchange, service)
        assert (state.active_intent, sorted(state.requested_slots)) == (after.active_intent, expected.requested_slots)
        assert set(state.slot_values) == set(expected.slot_values)
        for name, values in state.slot_values.items():
            assert {value.lower() for value in values} <= {value.lower() for value in expected.slot_values[name]}
        lost += set(state.slot_values) != set(after.slot_values)
    assert lost == 12 if corpus == "toy" else lost < 0.1 * len(rows)  # a taxi "there": of another service


def plain_choice(scores, service):
    """The best options of a row and the smallest lead, by loops."""
    leads = []

    def best(options):
        order = sorted(range(len(options)), key=lambda i: -options[i])
        leads.append(options[order[0]] - options[order[1]])
        return order[0]

    categorical, free = baseline.with_values(service)
    intents, requested = best(scores.intents[0]), [best(pair) for pair in scores.requested[: len(service.slots)]]
    chosen = [best(status) for status in scores.categorical[: len(categorical)]]
    values = [best(scores.values[i]) if status == NEW else None for i, status in enumerate(chosen)]
    statuses = [best(status) for status in scores.free[: len(free)]]
    spans = []
    for i, status in enumerate(statuses):
        first, last = shares(scores.starts[i]), shares(scores.ends[i])
        # [CLS] is column 0, the system's utterance 1 to 5, the user's 7 to 9.
        texts_ = ([0], range(1, 6), range(7, 10))
        pairs = sorted((-first[a] - last[b], a, b) for text in texts_ for a in text for b in text if a <= b)
        leads += [pairs[1][0] - pairs[0][0]] if status == NEW else []
        spans.append(pairs[0][1:] if status == NEW else None)
    return (intents, requested, chosen, values, statuses, spans), min(leads)


def test_choices_are_those_of_a_plain_loop(elements):
    words = sgp_dst.Texts(elements.tokenizer, EXCHANGE)
    rows = [baseline.row_of(words, EXCHANGE, service, 80) for service in (FOODS, TAXIS) * 20]
    batch = baseline.TurnRows(rows, elements).batch(torch.arange(40))
    with torch.no_grad():
        scores = net_of(elements.encoder)(batch)
    generator = torch.Generator().manual_seed(SEED)
    drawn = [torch.randn(one.shape, generator=generator) for one in scores]
    noise = Outputs(*(torch.where(one > sgp_dst.NEVER, of, one) for one, of in zip(scores, drawn, strict=True)))
    options, leads = baseline.choose(noise, batch)
    for i, row in enumerate(rows):
        expected, lead = plain_choice(Outputs(*(column[i].tolist() for column in noise)), row.service)
        chosen = Outputs(*(column[i].tolist() for column in options))
        spans = list(zip(chosen.starts, chosen.ends, strict=True))
        columns = ([chosen.intents[0]], chosen.requested, chosen.categorical, chosen.values, chosen.free, spans)
        for found, right in zip(columns, ([expected[0]], *expected[1:]), strict=True):
            assert [None if b is None else a for a, b in zip(found, right, strict=False)] == right
        assert float(leads[i]) == pytest.approx(lead, abs=1e-5)


def test_the_loss_is_the_plain_one():
    generator = torch.Generator().manual_seed(SEED)
    scores = Outputs(*torch.randn(7, 5, 3, 4, generator=generator))
    labels = Outputs(*torch.randint(4, (7, 5, 3), generator=generator))
    labels.values[1:] = IGNORED
    labels.starts[:] = IGNORED
    means = []
    for logits, right in zip(scores, labels, strict=True):
        pairs = zip(logits.flatten(0, 1).tolist(), right.flatten().tolist(), strict=True)
        losses = [-math.log(shares(options)[number]) for options, number in pairs if number != IGNORED]
        means.append(sum(losses) / len(losses) if losses else 0.0)
    assert float(baseline.loss_of(scores, labels)) == pytest.approx(sum(means) / 7, abs=1e-5)


@pytest.mark.parametrize("kept", [["dish"], ["area"], ["phone"]])
def test_services_may_lack_a_kind_of_slot(kept, bert, frames):
    intent = replace(FOODS.intents[0], required_slots=[], optional_slots=dict.fromkeys(kept, "x"))
    slots = [slot for slot in FOODS.slots if slot.name in kept]
    service = replace(FOODS, slots=slots, intents=[intent])
    rows = [replace(frame, asked=replace(frame.asked, service=service, frames=())) for frame in frames[:4]]
    learner = baseline.BaselineLearner(SgdBaselineConfig(checkpoint=bert.path, max_length=64), bert, rows, rows)
    learner.loss(torch.arange(4)).backward()
    assert 0 <= learner.dev() <= 1


def test_predictions_of_sgd_baseline_depend_on_the_example_alone(loaded, elements, frames):
    net = net_of(loaded[1])
    enlarge(net.heads, "scores.weight")
    asked = [one.asked for one in frames[:12]]
    states = predicted_alike(lambda batch: baseline.BaselineTracker(elements, net, 64, batch), asked)
    assert len({str(state) for state in states}) > 1
    lengths = [len(loaded[0](*exchange)["input_ids"]) for exchange, *_ in turns_of(frames[:12])]
    states, cut = baseline.BaselineTracker(elements, net, 8, 4).tracked(asked)
    assert (len(states), cut) == (12, sum(length > 8 for length in lengths))
    assert 0 < cut < 12


def test_the_state_is_carried_over(elements, frames, monkeypatch):
    """By service, whatever other services there are in between; a turn that changes nothing keeps it."""
    words = texts_in(elements.tokenizer, frames)
    right = {}
    for exchange, service, before, after in turns_of(frames):
        row = baseline.row_of(words, exchange, service, 80)
        right[id(service), exchange] = baseline.labels_of(row, before, after)
    monkeypatch.setattr(
        baseline.BaselineTracker, "_options", lambda self, rows: [right[id(row.service), row.exchange] for row in rows]
    )
    asked = [frame.asked for frame in frames]
    states = baseline.BaselineTracker(elements, None, 80, 8).predict(asked)
    for frame, state in zip(frames, states, strict=True):
        reachable = {name: values[:1] for name, values in frame.state.slot_values.items() if name != "goal"}
        assert state.slot_values == reachable
    assert rules.START.slot_values == {}


@pytest.mark.parametrize("architecture", ["distilbert", "electra", "roberta"])
def test_encoders_of_other_kinds(architecture, loaded, elements):
    """Their embeddings take the context feature as BERT's do, also where they are smaller than the hidden states."""
    from transformers import AutoConfig, AutoModel

    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    if architecture == "distilbert":
        shape = {"dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 8}
    more = {"embedding_size": 4} if architecture == "electra" else {}
    config = AutoConfig.for_model(architecture, vocab_size=len(loaded[0]), **shape, **more)
    torch.manual_seed(SEED)
    encoders = [AutoModel.from_config(config) for _ in rules.KINDS]
    modules, words, options = sgp_dst.Modules(encoders).eval(), sgp_dst.Texts(loaded[0], EXCHANGE), []
    for feature in (0, rules.GIVEN):
        questions = sgp_dst.Questions(words, "combine", 60)
        questions.ask(EXCHANGE, rules.slot_of(DISH), feature)
        options.append(modules("combine", questions.batch(torch.tensor([0]))).options)
    assert options[0].shape == (1, 2)
    assert not torch.allclose(*options)
    rows = [baseline.row_of(words, EXCHANGE, FOODS, 80)]
    scores = net_of(encoders[0])(baseline.TurnRows(rows, elements).batch(torch.tensor([0])))
    assert [tuple(column.shape) for column in scores[:2]] == [(1, 1, 3), (1, 4, 2)]


# T5DST.


def test_slots_alone_can_be_asked_for():
    prompts = t5dst.prompts_of(FOODS, "slots")
    assert prompts == [prompt for prompt in t5dst.prompts_of(FOODS) if prompt.kind == "slot"]
    state = t5dst.state_of(FOODS, [(prompt, "x") for prompt in prompts], "raw")
    assert state == State("NONE", [], {slot.name: ["x"] for slot in FOODS.slots})


def test_one_of_equal_values_is_drawn():
    """The same one for a seed and a place; over places all of them, of categorical slots too."""
    state = State("NONE", [], {"dish": ["Soup", "a soup", "broth"], "area": ["south", "north"], "place": ["there"]})
    dish, area, place, _ = t5dst.prompts_of(FOODS, "slots")
    histories = [(("USER", f"soup {i}"),) for i in range(60)]

    def drawn(prompt, seed):
        return [t5dst.target(prompt, FOODS, state, history, seed) for history in histories]

    assert (set(drawn(dish, "0")), set(drawn(area, "0"))) == ({"Soup", "a soup", "broth"}, {"south", "north"})
    assert set(drawn(place, "0")) == {"there"}
    assert drawn(dish, "0") == drawn(dish, "0") != drawn(dish, "1")


def test_of_several_values_that_is_taken_which_was_said_last():
    history = (("USER", "at 5 or 5 pm"), ("SYSTEM", "17:00, then"), ("USER", "yes"))
    assert t5dst.said_last(["5 pm", "17:00"], history) == "17:00"
    assert t5dst.said_last(["5 pm", "5"], history[:1]) == "5 pm"  # behind the other
    assert t5dst.said_last(["noon", "12"], history) == "noon"


@given(st.text(), st.text(), st.text())
def test_any_answers_make_a_state(value, intent, requested):
    told = {"slot": value, "intent": intent, "requested": requested}
    state = t5dst.state_of(FOODS, [(prompt, told[prompt.kind]) for prompt in t5dst.prompts_of(FOODS)])
    assert state.active_intent in ("NONE", "FindFood", "BookTable")
    assert set(state.requested_slots) <= {slot.name for slot in FOODS.slots}
    assert state.slot_values.get("area", ["north"])[0] in ("north", "south", "dontcare")
    free = [values for name, values in state.slot_values.items() if name != "area"]
    assert all(values == [" ".join(value.split())] != [""] for values in free)


TOKENS = st.integers(1, 9)
PARTS = st.tuples(st.lists(TOKENS, max_size=8), st.lists(TOKENS, min_size=1, max_size=5))


@given(st.lists(PARTS, min_size=1), st.integers(1, 10), st.sampled_from([None, 99]), st.randoms())
def test_rows_are_those_of_a_plain_loop(parts, limit, first, random):
    tokens = Tokens()
    pairs = Pairs(tokens, [(tokens.add(a), tokens.add(b)) for a, b in parts], limit, first)
    lead = [] if first is None else [first]
    expected = [lead + a[max(0, len(a) - max(0, limit - len(lead) - len(b))) :] + b for a, b in parts]
    assert pairs.lengths.tolist() == [len(row) for row in expected]
    assert pairs.cut == sum(len(row) < len(lead) + len(a) + len(b) for row, (a, b) in zip(expected, parts, strict=True))
    numbers = random.sample(range(len(parts)), random.randint(1, len(parts)))
    found, mask = pairs.padded(torch.tensor(numbers), -1)
    width = max(len(expected[number]) for number in numbers)
    assert found.tolist() == [expected[number] + [-1] * (width - len(expected[number])) for number in numbers]
    assert mask.tolist() == [[1] * len(expected[number]) + [0] * (width - len(expected[number])) for number in numbers]


def test_predictions_of_t5dst_depend_on_the_example_alone(loaded_t5, frames):
    card = t5dst.Card(length=512, answer=4)
    predicted_alike(lambda batch: t5dst.T5Tracker(*loaded_t5, card, batch), [one.asked for one in frames[:7]])


def test_inputs_and_answers_keep_to_their_lengths(t5, frames):
    """A dialogue and a value of thousands of tokens: the schema is whole, an answer has its end."""
    asked = replace(frames[0].asked, history=(("USER", "pizza or curry " * 900),))
    long = Labelled(asked, State("NONE", [], {"dish": ["soup " * 900]}))
    config = T5DstConfig(
        checkpoint="t5", max_output=256, prompts="slots", answers="raw", equal_values="random", negatives=1.0,
        dev_frames=0, batch_size=16, steps=1, eval_steps=1, device="cpu",
    )  # fmt: skip
    learner = t5dst.T5Learner(config, t5, [*frames, long], frames[:3])
    end, (dish, *_) = learner.tokenizer.eos_token_id, t5dst.prompts_of(FOODS, "slots")
    assert len(learner.inputs) == sum(len(frame.asked.service.slots) for frame in [*frames, long])
    assert (int(learner.inputs.lengths.max()), int(learner.answers.lengths.max())) == (512, 256)
    number = len(learner.inputs) - len(FOODS.slots)
    tokens, _ = learner.inputs.padded(torch.tensor([number]), 0)
    assert learner.tokenizer.decode(tokens[0]).endswith(f"{dish.text.strip()}</s>")
    answer, _ = learner.answers.padded(torch.tensor([number]), 0)
    assert int(answer[0, -1]) == end
    drawn = torch.cat(list(learner.batches(torch.Generator())))
    assert sorted(drawn.tolist()) == list(range(len(learner.inputs)))  # all without a value, too


def test_an_epoch_has_all_values_and_a_share_of_the_others(t5, frames):
    settings = {"learning_rate": 0.01, "warmup": 0.0, "max_length": 24, "negatives": 0.25, "dev_frames": 0}
    config = T5DstConfig(checkpoint="t5", batch_size=8, **settings, **ONE_EPOCH)
    learner = t5dst.T5Learner(config, t5, frames, frames[:3])
    generator = torch.Generator().manual_seed(SEED + 1)
    drawn, again = (sorted(i for batch in learner.batches(generator) for i in batch.tolist()) for _ in range(2))
    full = set(learner.full.tolist())
    assert full < set(drawn)
    assert len(set(drawn)) == len(drawn) == len(full) + round(0.25 * len(learner.empty))
    assert drawn != again
    assert learner.inputs.cut > 0
    assert torch.isfinite(learner.loss(torch.tensor([0, 5])))


def test_answers_end_at_their_limit(t5):
    """Of a T5 that never ends one: its token is never the most likely."""
    tokenizer, endless = saving.load(t5, "AutoModelForSeq2SeqLM")
    with torch.no_grad():
        endless.shared.weight[tokenizer.eos_token_id] = 0
    tokens = torch.tensor([[5, 9, tokenizer.eos_token_id]])
    for limit in (3, 256):
        tracker = t5dst.T5Tracker(tokenizer, endless, t5dst.Card(length=512, answer=limit), 8)
        with torch.inference_mode():
            ((answer, _),) = tracker.greedy(tokens, torch.ones_like(tokens))
        assert len(answer) == limit


@cases(
    "slot answer meant",
    *((AREA, answer, "north") for answer in ("north", "NORTH", "nort")),
    *((AREA, answer, "") for answer in ("NONE", "", "pizza")),
    (AREA, "dontcare", "dontcare"),
    (DISH, "pizza", "pizza"),
    (DISH, "NONE", ""),
)
def test_what_an_answer_means(slot, answer, meant):
    assert t5dst.value_of(answer, slot) == meant
    assert (t5dst.nearest("ab", []), t5dst.nearest("abcx", ["abcy", "abcz"])) == ("", "abcy")


def test_answers_are_those_of_generate(loaded_t5, frames):
    tokenizer, model = loaded_t5
    questions = t5dst.Questions(tokenizer, [one.asked for one in frames[:4]], 512)
    tokens, mask = questions.pairs.padded(torch.arange(len(questions.pairs)), tokenizer.pad_token_id)
    first = tokenizer.decode(tokens[0][mask[0].bool()])
    assert first.replace(" ", "") == "[USER]iwantpizza[domain]Food_1placestoeat[slot]dishwhattoeat</s>"
    with torch.inference_mode():
        theirs = model.generate(tokens, attention_mask=mask, max_new_tokens=6, do_sample=False, num_beams=1)
        ours = t5dst.T5Tracker(tokenizer, model, t5dst.Card(length=512, answer=6), 64).greedy(tokens, mask)
    for (found, margin), row in zip(ours, theirs[:, 1:].tolist(), strict=True):
        width = min(len(found), len(row))
        assert [token for token in found[:width] if token > 1] == [token for token in row[:width] if token > 1]
        assert margin > 0
