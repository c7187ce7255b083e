"""T5DST: what is asked, what is understood, rows in batches, greedy answers, decisions that depend on no batch."""

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kit import ONE_EPOCH, SEED
from tiny_checkpoints import save_t5
from tiny_dialogues import FOOD, texts, write_corpus

from parapet.evaluation.dst.frames import State
from parapet.evaluation.models import t5dst
from parapet.evaluation.models.configs import T5DstConfig
from parapet.evaluation.models.dst import Labelled, read_labels
from parapet.evaluation.models.saving import BY_MODEL, load
from parapet.evaluation.models.training import Pairs, Tokens
from parapet.schemas.service import Service
from parapet.transforms.core.checkpoints import inspect

SERVICE = msgspec.convert(FOOD, Service)
DISH, AREA, PLACE, PHONE = SERVICE.slots


def test_slots_alone_can_be_asked_for():
    prompts = t5dst.prompts_of(SERVICE, "slots")
    assert prompts == [prompt for prompt in t5dst.prompts_of(SERVICE) if prompt.kind == "slot"]
    state = t5dst.state_of(SERVICE, [(prompt, "x") for prompt in prompts], "raw")
    assert state == State("NONE", [], {slot.name: ["x"] for slot in SERVICE.slots})


def test_one_of_equal_values_is_drawn():
    """The same one for a seed and a place; over places all of them, of categorical slots too."""
    state = State("NONE", [], {"dish": ["Soup", "a soup", "broth"], "area": ["south", "north"], "place": ["there"]})
    dish, area, place, _ = t5dst.prompts_of(SERVICE, "slots")
    histories = [(("USER", f"soup {i}"),) for i in range(60)]

    def drawn(prompt, seed):
        return [t5dst.target(prompt, SERVICE, state, history, seed) for history in histories]

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
    state = t5dst.state_of(SERVICE, [(prompt, told[prompt.kind]) for prompt in t5dst.prompts_of(SERVICE)])
    assert state.active_intent in ("NONE", "FindFood", "BookTable")
    assert set(state.requested_slots) <= {slot.name for slot in SERVICE.slots}
    assert state.slot_values.get("area", ["north"])[0] in ("north", "south", "dontcare")
    assert all(
        len(values) == 1 and values[0] == " ".join(value.split()) != ""
        for name, values in state.slot_values.items()
        if name != "area"
    )


@given(
    st.lists(
        st.tuples(st.lists(st.integers(1, 9), max_size=8), st.lists(st.integers(1, 9), min_size=1, max_size=5)),
        min_size=1,
    ),
    st.integers(1, 10),
    st.sampled_from([None, 99]),
    st.randoms(),
)
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


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    return read_labels(str(write_corpus(tmp_path_factory.mktemp("toy") / "corpus")), "train").rows


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_t5(tmp_path_factory.mktemp("t5") / "t5", texts())


@pytest.fixture(scope="module")
def loaded(checkpoint):
    return load(inspect(str(checkpoint), BY_MODEL["t5dst"]), "AutoModelForSeq2SeqLM")


def test_predictions_do_not_depend_on_batches(loaded, frames):
    tokenizer, t5 = loaded
    asked = [one.asked for one in frames[:7]]
    together = t5dst.T5Tracker(tokenizer, t5, t5dst.Card(length=512, answer=4), 64).predict(asked)
    assert t5dst.T5Tracker(tokenizer, t5, t5dst.Card(length=512, answer=4), 5).predict(asked[::-1])[::-1] == together
    alone = t5dst.T5Tracker(tokenizer, t5, t5dst.Card(length=512, answer=4), 1)
    assert ([alone.predict([one])[0] for one in asked], alone.predict([])) == (together, [])


def test_inputs_and_answers_keep_to_their_lengths(checkpoint, frames):
    """A dialogue and a value of thousands of tokens: the schema is whole, an answer has its end."""
    asked = msgspec.structs.replace(frames[0].asked, history=(("USER", "pizza or curry " * 900),))
    long = Labelled(asked, State("NONE", [], {"dish": ["soup " * 900]}))
    config = T5DstConfig(
        checkpoint="t5", max_output=256, prompts="slots", answers="raw", equal_values="random", negatives=1.0,
        dev_frames=0, batch_size=16, steps=1, eval_steps=1, device="cpu",
    )  # fmt: skip
    learner = t5dst.T5Learner(config, inspect(str(checkpoint), BY_MODEL["t5dst"]), [*frames, long], frames[:3])
    end, (dish, *_) = learner.tokenizer.eos_token_id, t5dst.prompts_of(SERVICE, "slots")
    assert len(learner.inputs) == sum(len(frame.asked.service.slots) for frame in [*frames, long])
    assert (int(learner.inputs.lengths.max()), int(learner.answers.lengths.max())) == (512, 256)
    number = len(learner.inputs) - len(SERVICE.slots)
    tokens, _ = learner.inputs.padded(torch.tensor([number]), 0)
    assert learner.tokenizer.decode(tokens[0]).endswith(f"{dish.text.strip()}</s>")
    answer, _ = learner.answers.padded(torch.tensor([number]), 0)
    assert int(answer[0, -1]) == end
    drawn = torch.cat(list(learner.batches(torch.Generator())))
    assert sorted(drawn.tolist()) == list(range(len(learner.inputs)))  # all without a value, too


def test_an_epoch_has_all_values_and_a_share_of_the_others(checkpoint, frames):
    settings = {"learning_rate": 0.01, "warmup": 0.0, "max_length": 24, "negatives": 0.25, "dev_frames": 0}
    config = T5DstConfig(checkpoint="t5", batch_size=8, **settings, **ONE_EPOCH)
    learner = t5dst.T5Learner(config, inspect(str(checkpoint), BY_MODEL["t5dst"]), frames, frames[:3])
    generator = torch.Generator().manual_seed(SEED + 1)
    drawn, again = (sorted(i for batch in learner.batches(generator) for i in batch.tolist()) for _ in range(2))
    full = set(learner.full.tolist())
    assert full < set(drawn)
    assert len(set(drawn)) == len(drawn) == len(full) + round(0.25 * len(learner.empty))
    assert drawn != again
    assert learner.inputs.cut > 0
    assert torch.isfinite(learner.loss(torch.tensor([0, 5])))


def test_answers_end_at_their_limit(checkpoint):
    """Of a T5 that never ends one: its token is never the most likely."""
    tokenizer, t5 = load(inspect(str(checkpoint), BY_MODEL["t5dst"]), "AutoModelForSeq2SeqLM")
    with torch.no_grad():
        t5.shared.weight[tokenizer.eos_token_id] = 0
    tokens = torch.tensor([[5, 9, tokenizer.eos_token_id]])
    for limit in (3, 256):
        tracker = t5dst.T5Tracker(tokenizer, t5, t5dst.Card(length=512, answer=limit), 8)
        with torch.inference_mode():
            ((answer, _),) = tracker.greedy(tokens, torch.ones_like(tokens))
        assert len(answer) == limit


@pytest.mark.parametrize(
    ("answer", "meant"),
    [("north", "north"), ("NORTH", "north"), ("nort", "north"), ("dontcare", "dontcare"), ("NONE", ""), ("", "")],
)
def test_answers_for_categorical_slots(answer, meant):
    assert t5dst.value_of(answer, AREA) == meant


def test_answers_are_those_of_generate(loaded, frames):  # type: ignore[no-untyped-def]
    tokenizer, t5 = loaded
    questions = t5dst.Questions(tokenizer, [one.asked for one in frames[:4]], 512)
    tokens, mask = questions.pairs.padded(torch.arange(len(questions.pairs)), tokenizer.pad_token_id)
    first = tokenizer.decode(tokens[0][mask[0].bool()])
    assert first.replace(" ", "") == "[USER]iwantpizza[domain]Food_1placestoeat[slot]dishwhattoeat</s>"
    with torch.inference_mode():
        theirs = t5.generate(tokens, attention_mask=mask, max_new_tokens=6, do_sample=False, num_beams=1)
        ours = t5dst.T5Tracker(tokenizer, t5, t5dst.Card(length=512, answer=6), 64).greedy(tokens, mask)
    for (found, margin), row in zip(ours, theirs[:, 1:].tolist(), strict=True):
        width = min(len(found), len(row))
        assert [token for token in found[:width] if token > 1] == [token for token in row[:width] if token > 1]
        assert margin > 0


def test_answers_that_are_near_nothing():
    assert (t5dst.value_of("pizza", AREA), t5dst.value_of("pizza", DISH), t5dst.value_of("NONE", DISH)) == (
        "",
        "pizza",
        "",
    )
    assert (t5dst.nearest("ab", []), t5dst.nearest("abcx", ["abcy", "abcz"])) == ("", "abcy")
