"""The small tracker: what it reads, against plain references; what it computes does not depend on company."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from seeding import SEED
from tiny_dialogues import write_corpus

from parapet.evaluation.dst.frames import State, best_match
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import training
from parapet.evaluation.models.configs import TinyConfig
from parapet.evaluation.models.dst.data import Labelled, read_labels
from parapet.evaluation.models.dst.tiny.baselines import Copy, Majority
from parapet.evaluation.models.dst.tiny.batch import batch_of, stacked, wanted_of
from parapet.evaluation.models.dst.tiny.learning import TinyLearner, loss_of, read_targets
from parapet.evaluation.models.dst.tiny.mentions import LOOKS, listed, read
from parapet.evaluation.models.dst.tiny.net import TinyNet
from parapet.evaluation.models.dst.tiny.reading import Matching, against, shares, weighed
from parapet.evaluation.models.dst.tiny.steps import Reader
from parapet.evaluation.models.dst.tiny.targets import ANY, KEEP, grouped, step_of
from parapet.evaluation.models.dst.tiny.tracking import Tracking, first_best, rows_of, text_of
from parapet.evaluation.models.dst.tiny.words import Lexicon, normal, stem, words_of_name
from parapet.evaluation.models.examples import held_out
from parapet.schemas.service import Intent, Service, Slot

CPU = torch.device("cpu")
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


def asked(history: tuple[tuple[str, str], ...] = HISTORY, service: Service = TABLES, name: str = "d") -> Example:
    return Example(name, len(history) - 1, service, history)


def tracking(seed: int = 1, size: int = 8) -> Tracking:
    torch.manual_seed(SEED + seed)
    net = TinyNet(97, size)
    for parameter in net.parameters():  # far from where training begins, so that all options are taken
        torch.nn.init.normal_(parameter, std=0.5)
    return Tracking(net.double().eval(), Reader(97), CPU)


@pytest.fixture(scope="module")
def frames(sample: Path) -> list[Labelled]:
    return read_labels(str(sample), "train").rows


@pytest.mark.parametrize(
    ("utterance", "found"),
    [
        ("on the 7th of March at half past 11.", {("7th of March", "date"), ("half past 11", "time")}),
        ("On the 12th at six pm", {("the 12th", "date"), ("six pm", "time")}),
        ("Sino in San Jose for 11 a.m.?", {("Sino", "name"), ("San Jose", "name"), ("11 a.m.", "time")}),
        ("No more than $30.50, for 2.", {("$30.50", "money"), ("2", "number")}),
        ("Freshwater fish or pizza and pasta", {("Freshwater fish", "phrase"), ("pizza and pasta", "phrase")}),
        ("I'd try P.f. Chang's, A16, or take-out", {("P.f. Chang's", "name"), ("A16", "name"), ("take-out", "phrase")}),
        ("Next Monday, or the day after tomorrow", {("Next Monday", "date"), ("the day after tomorrow", "date")}),
    ],
)  # fmt: skip
def test_what_looks_like_a_value_is_found(utterance: str, found: set[tuple[str, str]]) -> None:
    assert found <= {(one.text, one.look) for one in read(utterance, True).mentions}


def test_systems_name_things_and_say_no_phrases() -> None:
    assert {one.look for one in read("Opa has cheap food at noon", False).mentions} == {"name", "time"}


@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(["at", "7:30", "pm", "Zum", "and", "the 12th", "of", "May,", "$5", "\u0130", "in", ".", "?"])
    ).map(" ".join)
)
def test_mentions_are_parts_of_what_was_said(utterance: str) -> None:
    said = read(utterance, True)
    assert len(said.words) == len(said.tokens) == len(said.sentences)
    assert list(said.sentences) == sorted(said.sentences)
    assert set(said.sentences) == set(range(len(said.asks)))
    for one in said.mentions:
        assert one.text in utterance
        assert 0 <= one.first < one.behind <= len(said.words)
        assert one.look in LOOKS
    assert len({(one.first, one.behind, one.look) for one in said.mentions}) == len(said.mentions)


@given(
    st.lists(st.sampled_from("abc"), max_size=8),
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), max_size=4),
)
def test_of_listed_values_the_longest_is_taken(words: list[str], values: list[list[str]]) -> None:
    wanted = {tuple(value) for value in values}
    found = listed(words, wanted)
    assert all(tuple(words[first:behind]) in wanted for first, behind in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    taken = {i for first, behind in found for i in range(first, behind)}
    for first in range(len(words)):
        for behind in range(first + 1, len(words) + 1):
            if tuple(words[first:behind]) in wanted:
                assert taken & set(range(first, behind))


def test_words_lose_their_endings_and_values_their_spelling() -> None:
    assert {stem(word) for word in ("moderate", "moderately", "Moderates")} == {"moderat"}
    assert words_of_name("numberOfTheSeats") == ("number", "seat")
    assert words_of_name("the_of") == ("the", "of")
    assert normal("The Twelve") == normal("12") == "12"
    assert normal("Six PM") == normal("6 pm") != normal("7 pm")
    assert normal("?!") == "?!"


def test_numbers_of_words_are_the_same_on_every_machine() -> None:
    lexicon = Lexicon(8192)
    assert lexicon.all(["hotel", "12", "34", "hotel"]) == [1, 2, 3, 1]
    assert lexicon.rows[1][0] == 7188
    assert lexicon.rows[2] == lexicon.rows[3]  # a figure is as any of its length


def test_places_and_masks_of_a_track() -> None:
    track = Reader(97).track(TABLES, HISTORY)
    by_text = {text: m for m, text in enumerate(track.texts)}
    nowhere = len(track.words) - 1
    city, two = by_text["Bad Orb"], by_text["two"]
    assert track.own[city].tolist() == [5, 6, nowhere, nowhere]
    assert track.left[city].tolist() == [2, 3, 4]
    assert track.right[city].tolist() == [7, nowhere, nowhere]
    assert track.valid[:, two].tolist() == [True, True, True, False, True]
    assert track.keys[two] == track.value_keys[2, 1]
    home = by_text["home made"]
    assert track.valid[:, home].tolist()[2:] == [False, False, True]
    assert track.mention_steps()[[two, by_text["Zum Hirsch"]]].tolist() == [0, 1]
    assert track.key("dontcare") == 1
    assert track.key("nowhere to be found") == -1


def test_the_right_options_lead_to_the_states(frames: list[Labelled]) -> None:
    """What is to be learned gives, followed step by step, the states of the sample back."""
    tracks, targets = read_targets(Reader(97), frames)
    groups = list(grouped([one.asked for one in frames]))
    assert sum(map(len, groups)) == len(frames)
    changes = 0
    for track, target, group in zip(tracks, targets, groups, strict=True):
        room = track.value_keys.shape[1]
        states = {step_of(frames[i].asked): frames[i].state for i in group}
        now: dict[str, str] = {}
        for step in range(track.steps):
            options = np.concatenate([target.fixed[step], target.values[step], target.mentions[step]], 1)
            for s, slot in enumerate(track.schema.service.slots):
                (right,) = np.nonzero(options[s])
                if len(right) and right[0] != KEEP:
                    texts = {text_of(track, s, int(option), room) for option in right}
                    now[slot.name] = min(texts, key=len)
                    changes += 1
            if step in states:
                values = states[step].slot_values
                assert now.keys() == values.keys()
                assert all(best_match(values[slot], text) >= 0.8 for slot, text in now.items())
    assert changes > 140
    assert sum(one.lost() for one in targets) == 0


def test_targets_of_one_dialogue() -> None:
    states = {
        0: State("FindTable", ["time"], {"city": ["Bad Orb"], "number_of_seats": ["2"], "style": ["dontcare"]}),
        1: State(
            "BookTable",
            [],
            {"city": ["bad orb"], "number_of_seats": ["2"], "style": ["home-made"], "time": ["7:30pm"]},
        ),
    }
    labelled = [Labelled(asked(HISTORY[:1]), states[0]), Labelled(asked(), states[1])]
    (track,), (found,) = read_targets(Reader(97), labelled)
    texts = [{track.texts[m] for m in np.flatnonzero(found.mentions[1, s])} for s in range(5)]
    assert found.fixed[0].tolist() == [[False, False], [True, False], [False, False], [True, False], [False, True]]
    assert texts == [{"Bad Orb"}, {"7:30 pm"}, set(), set(), {"Home-made"}]  # another spelling of a value is the value
    assert found.values[0, 2].tolist() == [False, True, False]
    assert found.intent.tolist() == [0, 1]
    assert found.intent_before.tolist() == [2, 0]
    assert found.requested.tolist() == [[False, True, False, False, False], [False] * 5]
    assert (found.offered.tolist(), found.accepts.tolist()) == ([False, True], [False, True])
    assert found.before[1, :3, 0].tolist() == [track.key("Bad Orb"), 0, track.key("2")]


def test_grouping_follows_histories() -> None:
    other = asked((("USER", "hello"),))
    every = [asked(HISTORY[:1]), asked(HISTORY[:1], name="e"), asked(), other, asked(), asked(HISTORY, BARE)]
    assert sorted(grouped(every)) == [[0, 2], [1], [3], [4], [5]]


def test_matching_is_that_of_the_definition() -> None:
    torch.manual_seed(SEED + 2)
    vectors = torch.nn.functional.normalize(torch.randn(7, 4, dtype=torch.float64), dim=1)
    module = Matching().double()
    words, tokens = torch.tensor([[[[1, 2, 0]], [[3, 0, 0]]]]), torch.tensor([[4, 5, 1, 6]])
    telling = torch.randn(7, dtype=torch.float64)
    places = torch.tensor([[[0, 1], [2, 3], [3, 3]]])
    found = weighed(module(vectors, words, tokens), places, shares(words, telling))
    for e, element in enumerate(words[0, :, 0].tolist()):
        real = [word for word in element if word]
        weights = [math.exp(telling[word]) for word in real]
        for p, where in enumerate(places[0].tolist()):
            expected = 0.0
            for word, weight in zip(real, weights, strict=True):
                alike = [float(vectors[word] @ vectors[tokens[0, i]]) for i in where]
                expected += weight / sum(weights) * max(1 / (1 + math.exp(-8 * (a - 0.6))) for a in alike)
            assert float(found[0, e, 0, p].detach()) == pytest.approx(expected)


def test_against_is_the_lead_over_the_best_other() -> None:
    met = torch.tensor([[0.5, -2.0, 0.2, 9.0], [-1.0, 7.0, 7.0, 7.0]])[..., None]
    there = torch.tensor([[True, True, True, False], [True, False, False, False]])
    found = against(met, there)[..., 0]
    assert found[0, :3].tolist() == pytest.approx([0.3, -2.5, -0.3])
    assert found[1, 0] == against(met[1:, :1], there[1:, :1])[0, 0, 0] == -1.0


def test_of_equal_scores_the_first_is_best() -> None:
    assert first_best(torch.tensor([[0.1, 0.7, 0.7 + 1e-9, 0.2]])).tolist() == [1]


ODD = [
    asked((("USER", ""),), name="empty"),
    asked((("SYSTEM", "Hello?"), ("USER", "...")), name="system first"),
    asked((("USER", "two"), ("USER", "three at noon"), ("SYSTEM", "2"), ("SYSTEM", "3"), ("USER", "ok"))),
    asked(HISTORY, BARE, "no slots"),
    asked(HISTORY, Service("One_1", "x", [Slot("\u00e9", "")], []), "no words"),
]


@pytest.mark.parametrize("seed", [1, 2])
def test_neither_company_nor_batch_nor_order_changes_a_state(seed: int, frames: list[Labelled]) -> None:
    model = tracking(seed)
    examples = [*(one.asked for one in frames[:40]), *ODD]
    together = model.states(examples, 64)
    assert len({str(state) for state in together}) > 25
    assert model.states(examples[::-1], 3)[::-1] == together
    fresh = tracking(seed)  # words get other numbers
    assert [fresh.states([one], 1)[0] for one in examples[::-1]][::-1] == together
    for one, state in zip(examples, together, strict=True):
        assert state.slot_values.keys() <= {slot.name for slot in one.service.slots}
        assert all(len(value) == 1 and value[0] for value in state.slot_values.values())
        for slot in one.service.slots:
            if slot.is_categorical and slot.name in state.slot_values:
                assert state.slot_values[slot.name][0] in (*slot.possible_values, "dontcare")


def test_what_is_said_later_changes_no_state_before() -> None:
    model = tracking()
    longer = (*HISTORY, ("SYSTEM", "Done at noon in Rom."), ("USER", "Make it three, and True."))
    every = [asked(longer[:1]), asked(longer[:3]), asked(longer)]
    assert model.states(every[:2], 8) == model.states(every, 8)[:2]


def learner(frames: list[Labelled]) -> TinyLearner:
    config = TinyConfig(
        buckets=97, size=8, batch_size=4, learning_rate=0.01, epochs=1, patience=1, seed=str(SEED), threads=1,
        device="cpu",
    )  # fmt: skip
    return TinyLearner(config, frames, frames[:4])


def test_losses_of_padded_batches_are_those_of_single_dialogues(frames: list[Labelled]) -> None:
    """Of two dialogues side by side, each option's score is what it is alone."""
    made = learner(frames)
    made.module.double().eval()

    def scores(ids: list[int]) -> list[torch.Tensor]:
        tracks = [made.tracks[i] for i in ids]
        given = batch_of(tracks, CPU)
        wanted = wanted_of([made.targets[i] for i in ids], tracks, CPU)
        read = made.module.read(given, rows_of(made.reader.lexicon, given.vocabulary))
        found = made.module.score(read, 0, wanted.before, wanted.intent_before)
        return [found.fixed, found.values, found.mentions, found.intents[..., :-1], found.requested]

    ids = [0, 5, 20]
    together = scores(ids)
    for row, i in enumerate(ids):
        for side_by_side, alone in zip(together, scores([i]), strict=True):
            there = tuple(slice(size) for size in alone.shape[1:])
            assert torch.allclose(side_by_side[row][there], alone[0], atol=1e-9)


def test_learns_in_half_precision_as_on_a_gpu(frames: list[Labelled]) -> None:
    made = learner(frames)
    made.module.train()
    with torch.autocast("cpu", torch.bfloat16):
        loss = made.loss(torch.arange(6))
    loss.backward()
    assert loss.dtype == torch.float32
    gradients = {name: value.grad for name, value in made.module.named_parameters()}
    assert not [name for name, gradient in gradients.items() if gradient is None or not gradient.isfinite().all()]


def test_services_without_slots_or_intents_are_learned_beside_others(frames: list[Labelled]) -> None:
    bare = [Labelled(one, State("NONE", [], {})) for one in ODD]
    made = learner([*bare, *frames[:6]])
    loss = made.loss(torch.arange(len(made.tracks)))
    assert loss.isfinite()
    assert made.loss(torch.tensor([3])).isfinite()  # alone


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4))
@settings(deadline=None)
def test_stacked_arrays_are_the_arrays(shapes: list[tuple[int, int]]) -> None:
    arrays = [np.arange(a * b).reshape(a, b) for a, b in shapes]
    found = stacked(arrays, -1)
    for row, array in zip(found, arrays, strict=True):
        assert (row[: array.shape[0], : array.shape[1]] == array).all()
        assert (row >= 0).sum() == array.size


def test_baselines(tmp_path: Path) -> None:
    toy = read_labels(str(write_corpus(tmp_path / "toy")), "train").rows
    (state,) = Majority(toy).predict([toy[0].asked])
    assert state == State("FindFood", [], {"dish": ["curry"]}) or state.slot_values.keys() == {"dish"}
    (copied,) = Copy().predict([asked((("USER", "the town is Rome, for 2 people at noon"),))])
    assert copied.slot_values == {"city": ["Rome"], "number_of_seats": ["2"]}


def test_on_real_dialogues_nearly_every_value_is_found(real_data: Path) -> None:
    some = read_labels(str(real_data / "sgd"), "train").rows[:300]
    _, targets = read_targets(Reader(8192), some)
    changes = sum(int((~one.fixed[..., KEEP]).sum()) for one in targets)
    assert sum(one.lost() for one in targets) < 0.03 * changes
    assert sum(int(one.fixed[..., ANY].sum()) for one in targets) > 0


def test_the_loss_of_what_is_certain_is_small(frames: list[Labelled]) -> None:
    """Scores that say what is right leave nothing to be learned of values."""
    made = learner(frames)
    tracks, targets = made.tracks[:2], made.targets[:2]
    given, wanted = batch_of(tracks, CPU), wanted_of(targets, tracks, CPU)
    read_ = made.module.read(given, rows_of(made.reader.lexicon, given.vocabulary))
    scores = made.module.score(read_, 0, wanted.before, wanted.intent_before)
    scores.fixed.data[:] = 50.0 * wanted.fixed
    for options, right in ((scores.values, wanted.values), (scores.mentions, wanted.mentions)):
        options.data[:] = torch.where(right, 50.0, options.clamp(max=0.0))
    certain = loss_of(read_, scores, wanted)
    scores.fixed.data[..., ANY] = 60.0
    assert float((loss_of(read_, scores, wanted) - certain).detach()) > 20


@pytest.mark.thorough
def test_a_hundred_dialogues_of_a_service_teach_it(real_data: Path, tmp_path: Path) -> None:
    """Held-out dialogues of the service that was learned; what training has most often, nothing, is right in 5 %."""
    known = read_labels(str(real_data / "sgd"), "train").rows
    train, chosen = held_out(known, 0.2, "0", lambda one: one.opening)
    config = TinyConfig(
        size=64, batch_size=4, learning_rate=0.005, schedule="linear", clip=1.0, epochs=8, patience=8, seed=str(SEED),
        threads=1, device="cpu",
    )  # fmt: skip
    trained = training.train(config, lambda: TinyLearner(config, train, chosen), str(tmp_path), {})
    assert trained.best.dev > 0.3
