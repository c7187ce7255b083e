"""The small tracker: what it reads, and that its answers do not depend on company."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kit import SEED

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import training
from parapet.evaluation.models.configs import TinyConfig
from parapet.evaluation.models.dst import tiny
from parapet.evaluation.models.dst.data import Labelled, read_labels
from parapet.evaluation.models.examples import held_out
from parapet.schemas.service import Intent, Service, Slot

BARE = Service("Bare_1", "nothing", [], [])
TABLES = Service(
    "Tables_1",
    "tables in restaurants",
    [
        Slot("city", "town of the restaurant"),
        Slot("time", "when to come"),
        Slot("number_of_seats", "how many people", True, ["1", "2", "3"]),
        Slot("outdoors", "whether to sit outside", True, ["True", "False"]),
        Slot("style", "what is cooked", False, ["home made", "vegan"]),
    ],
    [Intent("FindTable", "look for a table"), Intent("BookTable", "keep a table")],
)
HISTORY = (
    ("USER", "A table for two in Bad Orb, please."),
    ("SYSTEM", "When? There is Zum Hirsch at 7:30 pm."),
    ("USER", "Yes, that one. Home-made food! Or home made."),
)


def asked(history=HISTORY, service=TABLES, name="d"):
    return Example(name, len(history) - 1, service, history)


@pytest.fixture(scope="module")
def frames(sample):
    return read_labels(str(sample), "train").rows


@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(["at", "7:30", "pm", "Zum", "and", "the 12th", "of", "May,", "$5", "\u0130", "in", ".", "?"])
    ).map(" ".join)
)
def test_mentions_are_parts_of_what_was_said(utterance):
    said = tiny.read(utterance, True)
    assert len(said.spans) == len(said.texts) == len(said.flags)
    assert len(set(said.spans)) == len(said.spans)
    for (first, behind), text in zip(said.spans, said.texts, strict=True):
        assert text in utterance
        assert 0 <= first < behind <= len(said.rows)


def test_values_lose_their_spelling():
    assert tiny.normal("Twelve") == tiny.normal("12") == "12"
    assert tiny.normal("Six PM") == tiny.normal("6 pm") != tiny.normal("7 pm")
    assert tiny.normal("?!") == "?!"


def test_rows_of_words_are_the_same_on_every_machine():
    assert tiny.row_of("Hotels") == tiny.row_of("hotel") == 6517
    assert tiny.row_of("12") == tiny.row_of("34") != tiny.row_of("345")


def test_grouping_follows_histories():
    other = asked((("USER", "hello"),))
    every = [asked(HISTORY[:1]), asked(HISTORY[:1], name="e"), asked(), other, asked(), asked(HISTORY, BARE)]
    groups = list(tiny.grouped([Labelled(example, State("NONE", [], {})) for example in every]))
    numbers = {id(example): number for number, example in enumerate(every)}
    assert sorted([numbers[id(frame.asked)] for frame in group] for group in groups) == [[0, 2], [1], [3], [4], [5]]


ODD = [
    asked((("USER", ""),), name="empty"),
    asked((("SYSTEM", "Hello?"), ("USER", "...")), name="system first"),
    asked((("USER", "two"), ("USER", "three at noon"), ("SYSTEM", "2"), ("SYSTEM", "3"), ("USER", "ok"))),
    asked(HISTORY, BARE, "no slots"),
    asked(HISTORY, Service("One_1", "x", [Slot("\u00e9", "")], []), "no words"),
]


def tracker(batch):
    torch.manual_seed(SEED)
    net = tiny.TinyNet(8)
    for parameter in net.parameters():  # far from where training begins, so that all options are taken
        torch.nn.init.normal_(parameter, std=0.5)
    return tiny.Tracker(net.double().eval(), batch)


def learner(frames):
    config = TinyConfig(size=8, learning_rate=0.01, epochs=1, patience=1, seed=str(SEED), device="cpu")
    return tiny.TinyLearner(config, frames, frames[:4])


def test_services_without_slots_or_intents_are_learned_beside_others(frames):
    trained = learner([*[Labelled(example, State("NONE", [], {})) for example in ODD], *frames[:6]])
    assert trained.loss(torch.arange(len(trained.dialogues))).isfinite()
    assert all(trained.loss(torch.tensor([number])).isfinite() for number in range(len(ODD)))


@pytest.mark.thorough
def test_a_hundred_dialogues_of_a_service_teach_it(real_data, tmp_path):
    """Held-out dialogues of the service that was learned; what training has most often, nothing, is right in 5 %."""
    train, chosen = held_out(read_labels(str(real_data / "sgd"), "train").rows, 0.2, "0", lambda frame: frame.opening)
    config = TinyConfig(epochs=8, patience=8, seed=str(SEED), device="cpu")
    assert training.train(config, lambda: tiny.TinyLearner(config, train, chosen), str(tmp_path), {}).best.dev > 0.2


def test_learns_in_half_precision_as_on_a_gpu(frames):
    trained = learner(frames)
    trained.module.train()
    with torch.autocast("cpu", torch.bfloat16):
        loss = trained.loss(torch.arange(6))
    loss.backward()
    assert loss.dtype == torch.float32
    gradients = {name: value.grad for name, value in trained.module.named_parameters()}
    assert not [name for name, gradient in gradients.items() if gradient is None or not gradient.isfinite().all()]


def test_the_right_options_of_one_frame():
    slot_values = {"city": ["bad orb"], "number_of_seats": ["2"], "style": ["dontcare"], "time": ["noon"]}
    frame = tiny.encode(asked())
    right = tiny.right_options(frame, State("BookTable", [], slot_values))
    texts = [[frame.texts[number - 2] for number in row.nonzero()[0].tolist() if number > tiny.ANY] for row in right]
    assert texts == [["Bad Orb"], [], ["2"], [], []]
    assert right[:, tiny.NONE].tolist() == [False, False, False, True, False]
    assert right[:, tiny.ANY].tolist() == [False, False, False, False, True]


def test_systems_name_things_and_say_no_phrases():
    texts = set(tiny.read("Opa has cheap food at 12", False).texts)
    assert {"Opa", "12"} < texts
    assert all("Opa" in text or "12" in text for text in texts)
