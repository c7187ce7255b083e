"""SGP-DST: what the modules read, their context features and labels, the rules, and predictions alone and together."""

import math

import msgspec
import pytest
import torch
from kit import SEED
from tiny_checkpoints import save_bert
from tiny_dialogues import FOOD, TAXI, texts, write_corpus

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Context
from parapet.evaluation.models import sgp_dst
from parapet.evaluation.models.dst import read_labels
from parapet.evaluation.models.saving import BY_MODEL
from parapet.evaluation.models.sgp_dst import BertAdam, groups_of, questions_of, steps_of
from parapet.evaluation.models.sgp_rules import (
    GIVEN,
    HAD_VALUE,
    KINDS,
    OPTIONAL,
    REQUESTED,
    REQUIRED,
    START,
    SUCCEEDED,
    Decision,
    Label,
    Memory,
    cross_of,
    intent_label,
    intent_name,
    intents_of,
    next_state,
    role_of,
    slot_label,
    slot_of,
    value_of,
)
from parapet.pipelines.app import Parser, read_config
from parapet.pipelines.models import train_command
from parapet.schemas.dialogue import Action
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.core.checkpoints import inspect

FOODS, TAXIS = msgspec.convert(FOOD, Service), msgspec.convert(TAXI, Service)
DISH, AREA, PLACE, PHONE = FOODS.slots
GOAL, _ = TAXIS.slots


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
    assert features(FOODS) == {"dish": 0, "area": REQUESTED, "place": GIVEN, "phone": 0}
    assert features(TAXIS) == {"goal": 0, "seats": 0}
    heard(memory, FOODS, ("INFORM", "phone", "12"), ("REQUEST", "dish", "pizza"), ("REQUEST", "place", ""))
    assert features(FOODS) == {"dish": GIVEN, "area": 0, "place": GIVEN + REQUESTED, "phone": GIVEN}

    source = next(source for _, source in memory.cross_questions(TAXIS, ()) if source.slot is PLACE)
    assert (source.service, source.values) == ("Food_1", ["Opa"])
    assert memory.cross_feature(TAXIS, GOAL, "Ride", source) == REQUIRED
    assert memory.cross_feature(TAXIS, GOAL, "NONE", source) == 0
    heard(memory, FOODS, ("NOTIFY_SUCCESS", "", ""))
    heard(memory, TAXIS, ("CONFIRM", "goal", "Roma"))
    assert memory.cross_feature(TAXIS, GOAL, "Ride", source) == REQUIRED + HAD_VALUE + SUCCEEDED
    assert role_of("seats", "Ride", TAXIS) == OPTIONAL


def test_what_a_turn_changes():
    memory = Memory()
    heard(memory, FOODS, ("OFFER", "place", "Roma"), ("CONFIRM", "area", "north"), ("REQUEST", "dish", "curry"))
    memory.states["Food_1"] = State("FindFood", [], {"dish": ["a soup", "soup"]})

    def label(slot, **values):
        return slot_label(FOODS, slot, memory, State("FindFood", ["dish"], values), "opa, with pizza, down the hill")

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
    assert [intent_label(FOODS, State(name, [], {})) for name in names] == [0, 1, 2]
    assert tuple(intent_name(FOODS, option) for option in range(3)) == names


def test_the_rules():
    assert (value_of(DISH, Decision(), "soup"), value_of(DISH, Decision(1), "soup")) == ("soup", "dontcare")
    assert value_of(AREA, Decision(3), "") == "south"
    assert value_of(AREA, Decision(3, yes=True), "") == ""  # a requested slot has no possible value
    assert value_of(AREA, Decision(0), "up there") == ""
    one = next_state(START, FOODS, "FindFood", ["phone"], {"dish": "soup", "area": "south", "phone": "12"}, {}, {})
    assert one == State("FindFood", ["phone"], {"dish": ["soup"], "area": ["south"]})
    # What is said goes before what is copied, and that from another service before what the system gave.
    two = next_state(one, FOODS, "NONE", [], {"dish": "curry"}, {"place": "Opa"}, {"place": "Roma", "dish": "pizza"})
    assert two == State("NONE", [], {"dish": ["curry"], "area": ["south"], "place": ["Opa"]})
    assert (one.slot_values["dish"], State("NONE", [], {})) == (["soup"], START)
    asked = [("goal", "Opa"), ("goal", "Roma"), ("goal", "Turin"), ("seats", "2")]
    decisions = iter([Decision(yes=True, score=3), Decision(yes=True, score=4), Decision(score=5), Decision(), None])
    assert sgp_dst.likeliest(asked, decisions) == {"goal": "Roma"}
    assert next(decisions, 0) is None  # of the next frame


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    return read_labels(str(write_corpus(tmp_path_factory.mktemp("toy") / "corpus")), "train").rows


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert") / "bert", texts(), positions=128)
    return sgp_dst.load_encoder(inspect(str(folder), BY_MODEL["sgp_dst"]))


EXCHANGE = ("there is Zum Hirsch .", "i want pizza")


def decoded(tokenizer, batch, row, chosen=None):
    return str(tokenizer.decode(batch.tokens[row][(batch.mask if chosen is None else chosen)[row].bool()]))


def test_rows_of_the_other_modules(loaded):
    tokenizer = loaded[0]
    words = sgp_dst.Texts(tokenizer, ["", *EXCHANGE])
    intents = sgp_dst.Questions(words, "intents", 60)
    for previous in (0, 2):
        intents.ask(("", EXCHANGE[1]), intents_of(FOODS, True), previous)
    batch = intents.batch(torch.tensor([0, 1]))
    said = "[CLS] keep [SEP] sys : usr : i want pizza [SEP]"
    assert decoded(tokenizer, batch, 0) == f"{said} look for food # find food [SEP] book # book table [SEP] none [SEP]"
    assert batch.features[0].sum() == 0
    assert decoded(tokenizer, batch, 1, batch.features) == "book # book table"
    assert not batch.open.any()
    crosses = sgp_dst.Questions(words, "cross_copy", 60)
    crosses.ask(EXCHANGE, cross_of(GOAL, PLACE), 9)
    batch = crosses.batch(torch.tensor([0]))
    assert decoded(tokenizer, batch, 0).endswith("pizza [SEP] goal # where to go [SEP] place # the house [SEP]")
    assert decoded(tokenizer, batch, 0, batch.types) == "place # the house [SEP]"
    assert batch.options.numel() == 0


def test_what_is_too_long(loaded):
    exchange = (5 * EXCHANGE[0], EXCHANGE[1])
    words = sgp_dst.Texts(loaded[0], exchange)
    short = sgp_dst.Questions(words, "combine", 32)
    short.ask(exchange, slot_of(DISH), 0)
    batch = short.batch(torch.tensor([0]))
    assert short.pairs.cut == 1
    assert decoded(loaded[0], batch, 0, batch.open) == "i want pizza null"  # the oldest part goes
    with pytest.raises(InputError, match=r"--max_length.*tag # dish.*takes \d+ of 20 tokens"):
        sgp_dst.Questions(words, "combine", 20).ask(exchange, slot_of(DISH), 0)


def plain_best(starts, ends, open, null):
    """The best span by hand, from probabilities."""

    def shares(logits):
        powers = [math.exp(logit) for logit in logits]
        return [power / sum(powers) for power in powers]

    first, last = shares(starts), shares(ends)
    pairs = [
        (first[i] + last[j], i, j)
        for i in range(len(starts))
        for j in range(i, len(starts))
        if open[i] and open[j] and (i == null) == (j == null)
    ]
    total, i, j = max(pairs)
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
    words = sgp_dst.Texts(loaded[0], ["", *(text for one in frames for _, text in one.asked.history)])
    questions, labels, lost = questions_of(words, frames, 128)
    assert lost == 0
    # 18 dialogues: three turns of Food_1 each, its four slots asked about but for a place that is copied; in twelve of
    # them a turn of Taxi_1, with two slots.
    expected = {"intents": 18 * 3 + 12, "combine": 18 * 3 * 4 - 12 + 12 * 2, "copy_slot": 18, "cross_copy": 30}
    assert {kind: len(one) for kind, one in questions.items()} == expected
    answers = {
        kind: sum((one.option, one.place, one.requested) != (0, None, False) for one in some)
        for kind, some in labels.items()
    }
    assert (answers["copy_slot"], answers["cross_copy"]) == (12, 12)
    # A dish and an area in each; a phone in six; seats in twelve.
    assert answers["combine"] == 18 * 2 + 6 + 12


def test_predictions_depend_on_the_example_alone(loaded, frames):
    tokenizer, encoder = loaded
    with torch.random.fork_rng():
        torch.manual_seed(SEED + 1)
        modules = sgp_dst.Modules([encoder] * len(KINDS)).eval()
    for name, weight in modules.heads.named_parameters():  # or a random model may say the same to all
        if name.endswith("weight"):
            weight.data.mul_(10)
    asked = [one.asked for one in frames[:12]]
    together = sgp_dst.SgpTracker(tokenizer, modules, 128, 64).predict(asked)
    assert len({str(state) for state in together}) > 1
    assert sgp_dst.SgpTracker(tokenizer, modules, 128, 5).predict(asked[::-1])[::-1] == together
    alone = sgp_dst.SgpTracker(tokenizer, modules, 128, 1)
    assert ([alone.predict([one])[0] for one in asked], alone.predict([])) == (together, [])


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


def test_bert_adam_is_the_plain_one():
    generator = torch.Generator().manual_seed(SEED)
    start = torch.randn(2, 5, generator=generator, dtype=torch.float64)
    gradients = 2 * torch.randn(8, 2, 5, generator=generator, dtype=torch.float64)
    named = [("dense.weight", start[0].clone().requires_grad_()), ("dense.bias", start[1].clone().requires_grad_())]
    unused = torch.ones(2, requires_grad=True)
    optimiser = BertAdam(groups_of([*named, ("pooler.weight", unused)], steps=8, warmup=0.25), 0.1)
    for gradient in gradients:
        for (_, parameter), own in zip(named, gradient, strict=True):
            parameter.grad = own.clone()
        optimiser.step()
    rates = [0.1 * share for share in (0, 0.5, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6)]
    for number, decay in enumerate((0.01, 0.0)):  # no decay of a bias
        expected = plain_adam(start[number].tolist(), gradients[:, number].tolist(), rates, decay)
        assert named[number][1].tolist() == pytest.approx(expected, abs=1e-9)
    assert unused.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("more", "combine"), [([], 3), (["--module_epochs", "combine=1"], 1)])
def test_steps_of_the_papers_preset(more, combine):
    """32 inputs a step; one epoch of each encoder, but for "combine" on the original training set."""
    argv = ["--preset", "sgdx", "--checkpoint", "bert", "--output", "out", *more]
    kind = train_command("sgp_dst")
    config = read_config(kind, vars(Parser(kind).parse(argv)[0]))
    sizes = {"intents": 3200, "combine": 32000, "copy_slot": 321, "cross_copy": 31}
    assert steps_of(config, sizes) == {"intents": 100, "combine": combine * 1000, "copy_slot": 11, "cross_copy": 1}
    assert (config.learning_rate, config.warmup, config.by_module("warmup")["copy_slot"]) == (2e-5, 0.1, 0.7)
    assert (config.schedule, config.clip, config.clipped_norm) == ("linear", 1, 0)
    assert config.by_module("epochs")["combine"] == combine
    assert [config.by_module("negatives")[kind] for kind in ("combine", "copy_slot", "cross_copy")] == [0.3, 0.1, 0.01]


def test_rows_of_combine(loaded):
    tokenizer = loaded[0]
    words = sgp_dst.Texts(tokenizer, EXCHANGE)
    questions = sgp_dst.Questions(words, "combine", 60)
    assert questions.ask(EXCHANGE, slot_of(AREA), GIVEN) == 0
    assert questions.ask(EXCHANGE, slot_of(DISH), REQUESTED) == 1
    batch = questions.batch(torch.tensor([1, 0]))
    said = "[CLS] sys : there is zum hirsch. usr : i want pizza null [SEP]"
    assert decoded(tokenizer, batch, 0) == f"{said} tag # dish # what to eat [SEP] null [SEP] do not care [SEP]"
    options = "null [SEP] do not care [SEP] north [SEP] south [SEP]"
    assert decoded(tokenizer, batch, 1) == f"{said} sort # area # part of town [SEP] {options}"
    assert decoded(tokenizer, batch, 1, batch.types) == f"sort # area # part of town [SEP] {options}"
    assert decoded(tokenizer, batch, 0, batch.open) == "i want pizza null"
    assert tokenizer.convert_ids_to_tokens(batch.tokens[0, batch.null[0]].item()) == "null"
    assert [batch.features[0].unique().tolist(), batch.features[1].unique().tolist()] == [[REQUESTED], [GIVEN]]
    told = [tokenizer.decode(batch.tokens[1][columns[columns > 0]]) for columns in batch.options[1]]
    assert told == ["null", "do not care", "north", "south"]
    assert [int((columns > 0).sum()) for columns in batch.options[0]] == [1, 3, 0, 0]
    first, last = words.tokens_of(EXCHANGE[1], 7, 12) or (0, 0)
    assert (words.text_of(EXCHANGE[1], first, last), words.tokens_of(EXCHANGE[1], 12, 12)) == ("pizza", None)
    assert tokenizer.decode(batch.tokens[1, int(questions.first(torch.tensor([0]))[0]) + first]) == "pizza"


@pytest.mark.parametrize("architecture", ["distilbert", "electra", "roberta"])
def test_encoders_of_other_kinds(architecture, loaded):
    """Their embeddings take the context feature as BERT's do, also where they are smaller than the hidden states."""
    from transformers import AutoConfig, AutoModel

    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    if architecture == "distilbert":
        shape = {"dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 8}
    more = {"embedding_size": 4} if architecture == "electra" else {}
    config = AutoConfig.for_model(architecture, vocab_size=len(loaded[0]), **shape, **more)
    torch.manual_seed(SEED)
    modules = sgp_dst.Modules([AutoModel.from_config(config) for _ in KINDS]).eval()
    for feature in (0, GIVEN):
        questions = sgp_dst.Questions(sgp_dst.Texts(loaded[0], EXCHANGE), "combine", 60)
        questions.ask(EXCHANGE, slot_of(DISH), feature)
        scores = modules("combine", questions.batch(torch.tensor([0])))
        if not feature:
            without = scores
    assert scores.options.shape == (1, 2)
    assert not torch.allclose(scores.options, without.options)


def test_modules_that_take_turns_are_trained_as_if_alone():
    def trained(order):
        weights = {name: torch.tensor([1.0, -2.0], requires_grad=True) for name in "ab"}
        groups = [{"params": [weights[name]], "weight_decay": 0.01, "steps": 4, "warmup": 0.5} for name in "ab"]
        optimiser = BertAdam(groups, 0.1)
        for name in order:
            optimiser.zero_grad(set_to_none=True)
            (weights[name] ** 3).sum().backward()
            optimiser.step()
        return {name: weight.tolist() for name, weight in weights.items()}

    assert trained("abababab") == trained("aaaabbbb") == trained("babbaaba")


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
