"""DAMD: spans as words, what can be copied, decoders that depend on nothing else, other acts of the same state."""

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from inn_toy import CITIES, STARS, dialogues, inns
from kit import SEED, raised

from parapet.evaluation.dst.frames import State
from parapet.evaluation.models import damd
from parapet.evaluation.models.configs import DamdConfig
from parapet.evaluation.models.saving import MODEL, WEIGHTS, card_bytes, weights_bytes
from parapet.evaluation.models.systems import (
    ACT,
    SERVICE,
    SLOT,
    VALUE,
    Database,
    Step,
    act_parts,
    acts_of,
    belief_of,
    belief_parts,
    steps_of,
)
from parapet.evaluation.response.goals import Knowledge
from parapet.schemas.dialogue import Action, Dialogue, Turn
from parapet.schemas.errors import InputError

KNOWN = Database(Knowledge({"Inns_1": [row for city in CITIES for stars in STARS for row in inns(city, stars)]}))
STEPS = [step for one in msgspec.convert(dialogues(), list[Dialogue]) for step in steps_of(one, KNOWN)]
TEXTS = [damd.texts_of(step) for step in STEPS]


NAMES = st.sampled_from(["a", "B_1", "Ü", "x y"])
VALUES = st.lists(st.from_regex(r"[\w$%.,:'!?]{1,6}", fullmatch=True), min_size=1, max_size=3).map(" ".join)
STATES = st.builds(
    State,
    NAMES,
    st.lists(NAMES, unique=True).map(sorted),
    st.dictionaries(NAMES, st.lists(VALUES, min_size=1, max_size=1), max_size=3),
)


@settings(max_examples=60)
@given(st.dictionaries(NAMES, STATES, max_size=2))
def test_a_belief_state_comes_back_as_training_writes_it(belief):
    """With the letters' case and the spaces of its values, where no other value has the same words."""
    parts = belief_parts(belief, "")
    surfaces = damd.surfaces_of([Step("1", 0, (("<|user|>", ""),), parts)])
    written = damd.spelled(damd.parts_of(damd.span_of(parts)), (), surfaces, ())
    values = [(" ".join(damd.words_of(text)), text) for mark, text in parts if mark == VALUE]
    if len({words for words, _ in values}) == len(values):
        assert belief_of(written) == belief
    assert [mark for mark, _ in written] == [mark for mark, _ in parts]


def test_a_value_is_written_as_before_as_in_training_or_as_it_was_said():
    surfaces = {"city": {"san jose": "San José's"}, "stars": {"two": "2"}}

    def value(slot, words, before="", *said):
        parts, earlier = [(SLOT, slot), (VALUE, words)], [(VALUE, before)] if before else []
        return damd.spelled(parts, earlier, surfaces, said)[1][1]

    assert value("city", "san jose", "San Jose", "SAN JOSE") == "San Jose"
    assert value("city", "san jose", "", "SAN JOSE") == "San José's"
    assert value("place", "san jose", "", "I said San  Jose!", "san jose") == "San  Jose"
    assert value("place", "6:30 p.m", "", "no", "at 6:30 P.M.?") == "6:30 P.M"
    assert value("place", "lost words", "", "words lost") == "lost words"


@settings(max_examples=60)
@given(st.text(max_size=12))
def test_no_word_of_a_text_is_a_name(text):
    """Nobody can say a mark or a placeholder, and every word can be written to a file."""
    for word in damd.words_of(text):
        assert word.encode()
        assert not word.startswith("<|")
        assert word == "[" or not word.startswith("[")


def test_a_users_values_are_replaced_by_placeholders():
    belief = [(SERVICE, "Inns_1"), (SLOT, "city"), (VALUE, "New York"), (SLOT, "near"), (VALUE, "York"), (VALUE, "")]
    said = damd.words_of("in new york , near York , york")
    assert damd.delexicalised(said, belief) == [
        "in",
        "[inns_1_city]",
        ",",
        "near",
        "[inns_1_near]",
        ",",
        "york",
    ]
    assert damd.delexicalised([], belief) == []


def test_names_come_first_into_the_vocabulary_and_then_frequent_words():
    names = sorted({word for one in TEXTS for word in (*one.belief, *one.acts) if word[0] == "<"})
    placeholders = sorted({word for one in TEXTS for word in one.response or () if word[0] == "["} | {"[inns_1_stars]"})
    room = len(damd.SPECIAL) + len(names) + len(placeholders)
    assert damd.vocabulary_of(TEXTS, room).words == [*damd.SPECIAL, *names, *placeholders]
    assert len(damd.vocabulary_of(TEXTS, room + 3)) == room + 3
    assert {"please", "rome"} <= {*damd.vocabulary_of(TEXTS, 3000).words}
    raised(InputError, damd.vocabulary_of, TEXTS, room - 1, match="the names and placeholders alone are")


def config(**own):
    plain = {"batch_size": 8, "learning_rate": 0.01, "epochs": 1, "patience": 1, "seed": str(SEED), "threads": 1}
    net = {"device": "cpu", "vocabulary": 3000, "embedding": 6, "hidden": 8}
    return msgspec.convert({**plain, **net, **own}, DamdConfig)


@pytest.fixture(scope="module")
def learner():
    torch.manual_seed(SEED)
    return damd.DamdLearner(config(), STEPS, STEPS[:9])


@pytest.fixture(scope="module")
def model(learner):
    """Of random weights: what it writes is long, and depends on all that is before it."""
    words = learner.vocabulary.words
    card = damd.Card(words=words, surfaces={}, embedding=6, hidden=8, belief=14, acts=9, response=9)
    torch.manual_seed(SEED)
    net = damd.Net(len(words), 6, 8)
    for parameter in net.parameters():
        parameter.data *= 4  # of usual ones all states are alike
    return damd.Damd(card, net, KNOWN, torch.device("cpu"), 8)


def test_of_long_utterances_the_last_words_are_read(model):
    said = [f"w{n}" for n in range(300)]
    step = Step("x", 2, (("<|system|>", "hi"), ("<|user|>", " ".join(said))))
    assert damd.texts_of(step).user == said[100:]
    assert [model.answers([one])[0].long for one in (step, STEPS[0])] == [True, False]


def turn(speaker, *actions):
    acts = [{"act": act, "slot": slot, "values": values} for act, slot, values in actions]
    frames = [{"service": "A", "actions": acts}, {"service": "B"}]
    return msgspec.convert({"speaker": speaker, "utterance": "", "frames": frames}, Turn)


def test_acts_come_back_without_values():
    said = turn(
        "SYSTEM",
        ("INFORM", "city", ["Rome"]),
        ("REQ_MORE", "", []),
        ("INFORM", "stars", ["2"]),
        ("OFFER_INTENT", "intent", ["Book"]),
        ("INFORM", "city", ["Oslo"]),
    )
    parts = act_parts(said)
    assert [text for _, text in parts] == ["A", "INFORM", "city", "stars", "REQ_MORE", "OFFER_INTENT", "Book"]
    acts = [("INFORM", "city", []), ("INFORM", "stars", []), ("REQ_MORE", "", []), ("OFFER_INTENT", "intent", ["Book"])]
    assert acts_of(damd.parts_of(damd.span_of(parts))) == {"A": [Action(*one) for one in acts]}
    assert acts_of([(ACT, "X"), (SLOT, "s"), (SERVICE, "A"), (SLOT, "s"), (VALUE, "v")]) == {"A": []}


def test_folders_that_do_not_fit(model, tmp_path):
    (tmp_path / MODEL).write_bytes(card_bytes(model.card))
    (tmp_path / WEIGHTS).write_bytes(weights_bytes(model.net.state_dict()))
    assert damd.load(str(tmp_path), KNOWN, "cpu", 8).answers(STEPS[:3]) == model.answers(STEPS[:3])
    good = (tmp_path / MODEL).read_bytes()
    for old, new, said in (
        (b'"damd"', b'"soloist"', "is a model of another kind"),
        (b'"hidden": 8', b'"hidden": 0', "is damaged, or was not written by Parapet"),
        (b'"acts": 9', b'"acts": -1', "is damaged, or was not written by Parapet"),
        (b'"embedding": 6', b'"embedding": "6"', "is damaged, or was not written by Parapet"),
    ):
        assert old in good
        (tmp_path / MODEL).write_bytes(good.replace(old, new, 1))
        raised(InputError, damd.check, str(tmp_path), match=said)
    (tmp_path / MODEL).write_bytes(good.replace(b'"hidden": 8', b'"hidden": 9'))
    raised(InputError, damd.load, str(tmp_path), KNOWN, "cpu", 8, match="does not match")


AUTHORS_PARAMETERS = 1_985_700  # experiments/all_multi_acts_sample3_sd666_lr0.005_bs80_sp5_dc3/config.json


BOOKING = 2 * 2 * 3 * 100  # two bits of the pointer, in two decoders with three gates


NEVER_USED = (2 * 100 * 100 + 100 + 100) + 2 * (100 * 100 + 100)  # of the action decoder: an attention, two copies


def test_a_decoder_has_the_states_that_it_was_taught(model):
    """What it writes, taught as if it were right, leads to the same states and is the most likely at each place."""
    net, (numbers, _) = model.net, model.vocabulary.numbered(TEXTS[1])
    with torch.inference_mode():
        encoded = [
            net.encoded(encoder, torch.tensor([row, row]), torch.ones(2, len(row), dtype=torch.bool))
            for encoder, row in (
                (net.user, numbers["user"]),
                (net.utterance, numbers["previous"]),
                (net.span, numbers["before"]),
            )
        ]
        sources, first = [source for source, _ in encoded], encoded[0][1]
        written = net.decoded(net.belief, first, sources, most=12)
        taught = net.decoded(net.belief, first, sources, right=(written.numbers, written.mask))
        assert torch.allclose(written.states, taught.states)
        assert damd.likeliest(*net.belief.scores(taught.states, sources), 0).tolist() == written.numbers.tolist()


def test_a_batch_changes_nothing(model):
    steps = [*STEPS[:9], *(Step("x", turn, (("<|user|>", "Zürich " * turn + "two"),)) for turn in (0, 2, 9))]
    model.batch = 8
    many = model.answers(steps)
    model.batch = 1
    assert model.answers(steps) == many
    assert [one for n in (0, 3, 6, 9) for one in model.answers(steps[n : n + 3])] == many
    model.batch = 8
    assert model.answers(steps[6:] + steps[:6]) == many[6:] + many[:6]
    assert len({one.response for one in many}) > 1
    assert model.answers([]) == []


def test_the_net_has_as_many_parameters_as_the_authors():
    """Theirs has an attention and two copies of spans that its settings switch off, and a pointer to bookings."""
    net = damd.Net(words=3000, embedding=50, hidden=100)
    assert sum(one.numel() for one in net.parameters()) == AUTHORS_PARAMETERS - NEVER_USED - BOOKING == 1_944_100


def test_dev_is_what_would_be_written():
    """The share of belief spans that are right after the right words is that of writing them word by word."""
    torch.manual_seed(SEED)
    learner = damd.DamdLearner(config(hidden=24, embedding=12, learning_rate=0.02, batch_size=12), STEPS, STEPS[:9])
    before = learner.dev()
    for _ in range(5):
        for batch in learner.batches(torch.Generator().manual_seed(SEED)):
            learner.optimiser.zero_grad()
            learner.loss(batch).backward()
            learner.optimiser.step()
    card = msgspec.json.decode(learner.files()[MODEL], type=damd.Card)
    net = damd.Net(len(card.words), card.embedding, card.hidden)
    net.load_state_dict(learner.net.state_dict())
    found, of = damd.Damd(card, net, KNOWN, torch.device("cpu"), 4), STEPS[:9]
    with torch.inference_mode():
        rows = learner._decoded(learner._dev, torch.arange(9))["belief"]
        words = damd.likeliest(*rows.decoder.scores(rows.output.states, rows.sources), 0)
        taught = ((words == rows.output.numbers) | ~rows.output.mask).all(1).tolist()
        assert [found._answers([step])[0][0].belief == belief_of(step.belief) for step in of] == taught
        assert any(taught)
        assert learner.dev() > before
