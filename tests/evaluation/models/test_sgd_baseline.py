"""SGD Baseline: what the net reads, labels and the states that they make, choices, predictions alone and together."""

import math

import msgspec
import pytest
import torch
from kit import SEED
from tiny_checkpoints import save_bert
from tiny_dialogues import FOOD, TAXI, texts, write_corpus

from parapet.evaluation.dst.frames import State
from parapet.evaluation.models import sgd_baseline as baseline
from parapet.evaluation.models.configs import SgdBaselineConfig
from parapet.evaluation.models.dst import read_labels
from parapet.evaluation.models.saving import BY_MODEL
from parapet.evaluation.models.sgd_baseline import ANY, IGNORED, KEPT, NEW, Outputs
from parapet.evaluation.models.sgp_dst import NEVER, Texts, labelled_turns, load_encoder
from parapet.evaluation.models.sgp_rules import START, needed
from parapet.schemas.service import Service
from parapet.transforms.core.checkpoints import inspect

FOODS, TAXIS = msgspec.convert(FOOD, Service), msgspec.convert(TAXI, Service)
EXCHANGE = ("there is Zum Hirsch .", "i want pizza")


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    return read_labels(str(write_corpus(tmp_path_factory.mktemp("toy") / "corpus")), "train").rows


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert") / "bert", texts(), positions=128, spread=0.5)
    return inspect(str(folder), BY_MODEL["sgd_baseline"])


@pytest.fixture(scope="module")
def loaded(bert):
    return load_encoder(bert)


@pytest.fixture(scope="module")
def elements(bert):
    return baseline.ElementEncoder(*load_encoder(bert), 64)


def net_of(encoder):
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        return baseline.BaselineNet(encoder).eval()


def turns_of(frames):
    for memory, turn, states in labelled_turns(frames):
        for service in turn.services:
            yield turn.exchange, service, memory.state(service), states[service.service_name]


def texts_in(tokenizer, frames):
    return Texts(tokenizer, ["", *(text for frame in frames for _, text in frame.asked.history)])


def test_rows(elements):
    tokenizer = elements.tokenizer
    words = Texts(tokenizer, EXCHANGE)
    limits = ((FOODS, 80), (TAXIS, 9), (TAXIS, 4))
    rows = [baseline.row_of(words, EXCHANGE, service, limit) for service, limit in limits]
    batch = baseline.TurnRows(rows, elements).batch(torch.tensor([0, 1, 2]))

    def read(row, chosen):
        return tokenizer.decode(batch.tokens[row][chosen[row].bool()])

    assert read(0, batch.mask) == "[CLS] there is zum hirsch. [SEP] i want pizza [SEP]"
    sources = ["[CLS]", "there is zum hirsch.", "i want pizza"]
    assert [read(0, batch.sources == source) for source in range(3)] == sources
    assert read(0, batch.types) == "i want pizza [SEP]"
    assert (rows[0].system, rows[0].user) == (1, 7)
    assert tokenizer.tokenize(EXCHANGE[0]) == ["there", "is", "zum", "hirsch", "."]
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
    bare = msgspec.structs.replace(TAXIS, slots=[], intents=[])
    alone = elements.elements([bare])
    assert [column.shape[1] for column in alone] == [1, 1, 1, 2, 1, 1, 1]  # no dimension is empty
    assert torch.equal(elements.elements([TAXIS]).slots[0], both.slots[1, :2])


def test_what_a_turn_changes(elements):
    words = Texts(elements.tokenizer, EXCHANGE)
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
    assert baseline.next_state(row, some, before) == State(
        "BookTable", [], {"dish": ["pizza"], "area": ["north"], "place": ["Zum Hirsch"]}
    )
    # A value that neither utterance has is not predicted; the others stay.
    assert baseline.next_state(row, other, before).slot_values == {"dish": ["dontcare"], "area": ["dontcare"]}
    assert baseline.next_state(row, nothing, before).slot_values == before.slot_values
    assert baseline.with_values(FOODS) == ([FOODS.slots[1]], [FOODS.slots[0], FOODS.slots[2]])  # nobody gives a phone


def plain_state(before, after, exchange, service):
    """The state after a turn with right choices, written out: what cannot be predicted stays as it was."""
    values = dict(before.slot_values)
    for slot in service.slots:
        new = after.slot_values.get(slot.name)
        if slot.name not in needed(service) or not new or set(new) & set(before.slot_values.get(slot.name, [])):
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

    def shares(logits):
        powers = [math.exp(logit) for logit in logits]
        return [power / sum(powers) for power in powers]

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
    words = Texts(elements.tokenizer, EXCHANGE)
    rows = [baseline.row_of(words, EXCHANGE, service, 80) for service in (FOODS, TAXIS) * 20]
    batch = baseline.TurnRows(rows, elements).batch(torch.arange(40))
    with torch.no_grad():
        scores = net_of(elements.encoder)(batch)
    generator = torch.Generator().manual_seed(SEED)
    noise = Outputs(*(torch.where(one > NEVER, torch.randn(one.shape, generator=generator), one) for one in scores))
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
        losses = [
            math.log(sum(math.exp(other) for other in options)) - options[number]
            for row, numbers in zip(logits.tolist(), right.tolist(), strict=True)
            for options, number in zip(row, numbers, strict=True)
            if number != IGNORED
        ]
        means.append(sum(losses) / len(losses) if losses else 0.0)
    assert float(baseline.loss_of(scores, labels)) == pytest.approx(sum(means) / 7, abs=1e-5)


@pytest.mark.parametrize("kept", [["dish"], ["area"], ["phone"]])
def test_services_may_lack_a_kind_of_slot(kept, bert, frames):
    intent = msgspec.structs.replace(FOODS.intents[0], required_slots=[], optional_slots=dict.fromkeys(kept, "x"))
    slots = [slot for slot in FOODS.slots if slot.name in kept]
    service = msgspec.structs.replace(FOODS, slots=slots, intents=[intent])
    rows = [
        msgspec.structs.replace(frame, asked=msgspec.structs.replace(frame.asked, service=service, frames=()))
        for frame in frames[:4]
    ]
    learner = baseline.BaselineLearner(SgdBaselineConfig(checkpoint=bert.path, max_length=64), bert, rows, rows)
    learner.loss(torch.arange(4)).backward()
    assert 0 <= learner.dev() <= 1


def test_predictions_depend_on_the_example_alone(loaded, elements, frames):
    net = net_of(loaded[1])
    for name, weight in net.heads.named_parameters():  # or a random model may say the same to all
        if name.endswith("scores.weight"):
            weight.data.mul_(10)
    asked = [one.asked for one in frames[:12]]
    together = baseline.BaselineTracker(elements, net, 64, 64).predict(asked)
    assert len({str(state) for state in together}) > 1
    assert baseline.BaselineTracker(elements, net, 64, 5).predict(asked[::-1])[::-1] == together
    alone = baseline.BaselineTracker(elements, net, 64, 1)
    assert ([alone.predict([one])[0] for one in asked], alone.predict([])) == (together, [])
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
    assert START.slot_values == {}


@pytest.mark.parametrize("architecture", ["distilbert", "electra", "roberta"])
def test_encoders_of_other_kinds(architecture, loaded, elements):
    from transformers import AutoConfig, AutoModel

    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    if architecture == "distilbert":
        shape = {"dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 8}
    config = AutoConfig.for_model(architecture, vocab_size=len(loaded[0]), **shape)
    torch.manual_seed(SEED)
    rows = [baseline.row_of(Texts(loaded[0], EXCHANGE), EXCHANGE, FOODS, 80)]
    scores = net_of(AutoModel.from_config(config))(baseline.TurnRows(rows, elements).batch(torch.tensor([0])))
    assert [tuple(column.shape) for column in scores[:2]] == [(1, 1, 3), (1, 4, 2)]
