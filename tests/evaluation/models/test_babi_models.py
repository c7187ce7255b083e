"""The bAbI models against plain references, word by word and turn by turn; and the attention of a memory network."""

import math
import re
from collections import Counter

import msgspec
import pytest
import torch
from babi_toy import CANDIDATES, CUISINES, FACTS, dialogue, dialogues, unseen
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import ONE_EPOCH, SEED, THOROUGH, cases

from parapet.evaluation.models import babi
from parapet.evaluation.models import babi_models as nets
from parapet.evaluation.models.configs import BabiConfig
from parapet.evaluation.models.saving import MODEL
from parapet.transforms.simulators.formats import BabiDialogue, Exchange, Fact, Unanswered

CPU = torch.device("cpu")
KNOWLEDGE = babi.types_of(FACTS)
# One without history, one with facts first, one with nothing that is known, one long.
ODD = [
    BabiDialogue((Exchange("a thai table in rome", "on it"),)),
    BabiDialogue((Fact("resto_thai", "R_phone", "thai_phone"), Exchange("the phone", "here it is thai_phone"))),
    BabiDialogue((Exchange("zzz", "hello"), Exchange("yyy yyy", "on it"))),
    BabiDialogue(tuple(Exchange("hi", "hello") for _ in range(12))),
    BabiDialogue((Unanswered("a thai table"), Exchange("in rome", "on it"), Unanswered("zzz"))),
]


def vocabulary(match=True):
    lines = [line for one in dialogues() for line in one.exchanges]
    words = {word for line in lines for word in f"{line.user} {line.bot}".split()}
    return nets.Vocabulary(sorted(words), CANDIDATES, KNOWLEDGE if match else {})


def net(model="memn2n", match=True, hops=2, memory=9, **shape):
    torch.manual_seed(SEED + 3)
    known = vocabulary(match)
    return nets.make(model, known, babi.Shape(size=6, hops=hops, memory=memory, **shape)).double(), known


def texts_before(one):
    """Of each turn: (speaker and text of what stands before it, what the user says)."""
    found, before = [], []
    for line in one.lines:
        if isinstance(line, Fact):
            before.append((babi.USER, f"{line.entity} {line.relation} {line.value}"))
        elif isinstance(line, Unanswered):
            before.append((babi.USER, line.user))
        else:
            found.append((list(before), line.user))
            before += [(babi.USER, line.user), (babi.BOT, line.bot)]
    return found


def types_shared(candidate, texts):
    """The types whose word is in the candidate and in one of the texts."""
    there = {word for text in texts for word in text.split()}
    return [t for t, words in KNOWLEDGE.items() if any(w in words and w in there for w in candidate.split())]


def plain_scores(model, known, memory, said):
    """Section 4.4 word by word."""
    words = {word: model.words[i] for i, word in enumerate(known.words)}
    answers = sorted({word for text in known.candidates for word in text.split()})
    types = [t for t in known.knowledge if any(w in known.knowledge[t] for c in CANDIDATES for w in c.split())]
    zero = torch.zeros(model.words.shape[1], dtype=torch.float64)

    def bag(text):
        return sum((words[word] for word in text.split() if word in words), zero)

    cut = max(0, len(memory) - model.memory)
    memory = memory[cut:]
    slots = []
    for i, (speaker, text) in enumerate(memory):
        time = min(cut + i, model.memory - 1) if model.shape.time == "index" else len(memory) - 1 - i
        slots.append(bag(text) + model.ago[time] + model.speakers[speaker])
    query = bag(said)
    for _ in range(model.hops):
        if slots:
            powers = [math.exp(float(slot @ query)) for slot in slots]
            answer = sum((p / sum(powers) * slot for p, slot in zip(powers, slots, strict=True)), zero)
            query = query + model.answer.weight @ answer
    found = []
    for candidate in known.candidates:
        embedded = sum((model.answers[answers.index(word)] for word in candidate.split()), zero)
        for shared in types_shared(candidate, [text for _, text in memory] + [said]) if known.knowledge else ():
            embedded = embedded + model.types[types.index(shared)]
        found.append(float(query @ embedded))
    return found


@cases("match hops time", (True, 1, "back"), (False, 3, "back"), (True, 2, "index"))
def test_memn2n_computes_what_the_paper_says(match, hops, time):
    model, known = net(match=match, hops=hops, time=time)
    some = [*dialogues()[:3], *ODD, *unseen()[:1]]
    turns = nets.encode(some, babi.numbers_of(CANDIDATES), babi.numbers_of(known.words), model.matches.entities)
    with torch.inference_mode():
        scores = model(turns, torch.arange(len(turns.now)))
        expected = [plain_scores(model, known, *turn) for one in some for turn in texts_before(one)]
    assert torch.allclose(scores, torch.tensor(expected, dtype=torch.float64), atol=1e-12)


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6), st.data())
def test_ragged_rows_are_taken_as_lists_are(rows, data):
    ids = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
    values, offsets = nets.Ragged.of(rows).take(torch.tensor(ids, dtype=torch.long))
    assert values.tolist() == [value for i in ids for value in rows[i]]
    assert offsets.tolist() == [sum(len(rows[k]) for k in ids[:i]) for i in range(len(ids))]


def test_dialogues_of_facts_alone_have_no_answers():
    some = [BabiDialogue((Fact("a", "R_b", "c"),))] * 3
    for model in (nets.NetAnswers(*net(), CPU, batch=2), nets.TfIdf(CANDIDATES, {}, IDF, True)):
        assert model.answers(some) == [[], [], []]
    assert nets.encode([], {}, {}, {}).now.tolist() == []


def babi_config(**options):
    return BabiConfig(train=[], dev=[], candidates="", size=8, **ONE_EPOCH, **options)


WORDS = st.sampled_from([*CUISINES[:3], "rome", "thai_phone", "table", "hello", "\u00e9", "zzz"])


@settings(max_examples=40 if THOROUGH else 20)
@given(st.lists(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=5))
def test_match_types_are_those_of_the_definition(said):
    matches = nets.Matches(CANDIDATES, KNOWLEDGE)
    turns = nets.encode([BabiDialogue(tuple(Exchange(text, "hello") for text in said))], {}, {}, matches.entities)
    there = matches.there(turns, *turns.history(torch.arange(len(said))), len(said))
    for turn, found in enumerate(matches.features(there).sum(2).tolist()):
        assert found == [len(types_shared(text, said[: turn + 1])) for text in CANDIDATES]


LEARNED = dialogues()[::3]
IDF = nets.idf_of(LEARNED, CANDIDATES)


def nearest(similarity, *pairs):
    return nets.Nearest(*nets.Nearest.learn([BabiDialogue(tuple(Exchange(*pair) for pair in pairs))]), similarity)


def ranking(model, said, top):
    return model.ranked([BabiDialogue((Exchange(said, "?"),))], top)[0][0]


PAIRS = (("a b c", "long"), ("a b", "short"), ("b a", "later"), ("d e", "two"), ("d e", "one"), ("d e", "one"))


def test_nearest_by_overlap_takes_most_shared_words_then_fewest_words_then_the_first():
    model = nearest("overlap", *PAIRS)
    answers = [ranking(model, said, 1) for said in ("a b", "a a b", "a b c", "d", "zzz")]
    assert answers == [["short"], ["short"], ["long"], ["one"], ["one"]]
    assert ranking(model, "c b a e", 9) == ["long", "short", "later", "one", "two"]


def test_rankings_begin_with_the_answer_and_have_no_candidate_twice():
    equal, known = net(match=False)
    torch.nn.init.zeros_(equal.answers)  # of equal scores the first candidate counts
    assert nets.NetAnswers(equal, known, CPU, batch=8).answers([dialogue("thai", "rome")]) == [["hello"] * 3]
    some = [*dialogues()[::7], *ODD]
    for model in [
        nets.TfIdf(CANDIDATES, KNOWLEDGE, IDF, True),
        nets.NetAnswers(*net(), CPU, batch=8),
        nearest("overlap", *((one.user, one.bot) for talk in some for one in talk.exchanges)),
    ]:
        found = model.ranked(some, 3)
        assert [[one[0] for one in rankings] for rankings in found] == model.answers(some)
        assert all(len(one) == len(set(one)) == 3 for rankings in found for one in rankings)
        assert model.ranked(some[::-1], 3) == found[::-1]
        assert [[one[:3] for one in rankings] for rankings in model.ranked(some, 999)] == found


SHAPES = [
    ("memn2n", {}),
    ("memn2n", {"time": "index", "bigrams": True}),
    ("embeddings", {}),
    ("embeddings", {"input": "last"}),
    ("embeddings", {"share": True, "bigrams": True}),
]


@cases("model shape", *SHAPES)
def test_chosen_candidates_have_the_scores_that_they_have_among_all(model, shape):
    made, known = net(model, **shape)
    numbers = babi.numbers_of(CANDIDATES)
    turns = nets.encode([*dialogues()[:4], *ODD], numbers, babi.numbers_of(known.words), made.matches.entities)
    ids = torch.arange(len(turns.now))
    chosen = torch.randint(0, len(CANDIDATES), (len(ids), 7))
    with torch.inference_mode():
        assert torch.allclose(made(turns, ids, chosen), made(turns, ids).gather(1, chosen), atol=1e-12)


@cases("model shape", *(SHAPES if THOROUGH else SHAPES[1:5:3]))
def test_sparse_gradients_move_parameters_as_dense_ones_do(model, shape):
    corpus = babi.Corpus(dialogues(), dialogues(), CANDIDATES, KNOWLEDGE, "1")
    share = {"share": "on" if shape.get("share") else "off"}
    settings = {"hops": 2, "memory": 9, "optimiser": "sgd", **shape, **share}
    config = babi_config(model=model, batch_size=1, learning_rate=0.5, negatives=5, **settings)
    moved = []
    for sparse in (True, False):
        torch.manual_seed(SEED)
        learner = nets.BabiLearner(config, corpus)
        learner.nets[0].sparse = sparse
        before = {name: value.clone() for name, value in learner.module.state_dict().items()}
        for turn in (4, 7):
            learner.optimiser.zero_grad()
            learner.loss(torch.tensor([turn])).backward()
            learner.optimiser.step()
        assert learner.nets[0].words.grad is not None
        assert learner.nets[0].words.grad.is_sparse == sparse
        moved.append(learner.module.state_dict())
    assert all(torch.allclose(moved[0][name], value, atol=1e-6) for name, value in moved[1].items())
    assert not torch.equal(moved[0]["words"], before["words"])


def test_of_two_nets_the_better_one_on_dev_is_kept(monkeypatch):
    corpus = babi.Corpus(dialogues(), dialogues(), CANDIDATES, {}, "1")
    config = babi_config(model="embeddings", batch_size=1, learning_rate=0.5, negatives=5, share="auto")
    learner = nets.BabiLearner(config, corpus)
    for good, kept in enumerate(learner.nets):
        monkeypatch.setattr(learner, "_dev_of", lambda net, kept=kept: float(net is kept))
        card = msgspec.json.decode(learner.files()[MODEL])
        assert card["settings"].get("share", False) == kept.shape.share == bool(good)
        assert learner.result()[f"dev_share_{'on' if good else 'off'}"] == 1.0


EPOCHS = 8


@cases("model share", ("memn2n", "off"), ("embeddings", "auto"))
def test_turns_scored_ahead_are_trained_as_turn_by_turn(model, share, monkeypatch):
    def all_others(answers, candidates, _):
        return (answers[:, None] + torch.arange(1, candidates)) % candidates

    monkeypatch.setattr(nets, "negatives_of", all_others)
    corpus = babi.Corpus(dialogues()[:3], dialogues(), CANDIDATES, {}, "1")
    settings = {"batch_size": 1, "learning_rate": 0.1, "margin": 0.5, "negatives": 1, "memory": 9}
    config = babi_config(model=model, optimiser="sgd", share=share, **settings)
    weights, moved, longest = [], [], []
    for most in (1, 64):
        monkeypatch.setattr(nets, "MOST_AHEAD", most)
        torch.manual_seed(SEED)
        learner = nets.BabiLearner(config, corpus)
        steps = ahead = 0
        for epoch in range(EPOCHS):
            for batch in learner.batches(torch.Generator().manual_seed(epoch)):
                loss = learner.loss(batch)
                ahead = max(ahead, learner._ahead)
                steps += loss.requires_grad
                if loss.requires_grad:
                    learner.optimiser.zero_grad()
                    loss.backward()
                    learner.optimiser.step()
        weights.append(learner.module.state_dict())
        moved.append(steps)
        longest.append(ahead)
    assert longest[0] == 1 < longest[1]
    assert 0 < moved[0] == moved[1] < EPOCHS * len(learner.train.now)
    assert all(torch.allclose(value, weights[1][name], atol=1e-4) for name, value in weights[0].items())


def plain_tfidf(texts, said, match):
    """Section 4.2 and 4.5 with dictionaries: ``texts`` are compared with, ``said`` may match types."""
    bags = [Counter(text.split()) for text in CANDIDATES]
    users = [set(exchange.user.split()) for one in LEARNED for exchange in one.exchanges]
    idf = {w: math.log(len(users) / max(1, sum(w in user for user in users))) for w in {w for b in bags for w in b}}
    given_words = Counter(word for text in texts for word in text.split() if word in idf)
    weight = nets.TYPE_WEIGHT * max(idf.values())
    scores = []
    for text, bag in zip(CANDIDATES, bags, strict=True):
        vector = {word: n * idf[word] for word, n in bag.items()}
        vector |= {f"type {t}": weight for t in types_shared(text, said)} if match else {}
        product = sum(value * (given_words[w] * idf[w] if w in idf else weight) for w, value in vector.items())
        length = math.sqrt(sum(value**2 for value in vector.values()))
        scores.append(round(product / length, nets.DIGITS) if length else 0)
    return CANDIDATES[scores.index(max(scores))]


def test_without_history_a_type_is_recorded_whatever_the_input():
    made, known = net("embeddings", input="last")
    some = [BabiDialogue((Exchange("hi", "hello"), Exchange("a table in rome", "on it")))]
    turns = nets.encode(some, {}, babi.numbers_of(known.words), made.matches.entities)
    answers = sorted({word for text in CANDIDATES for word in text.split()})
    with torch.inference_mode():
        scores = made(turns, torch.arange(2))[1]
        query = sum(made.words[known.words.index(word)] for word in ("a", "table", "in", "rome"))
        for candidate, score in zip(CANDIDATES, scores.tolist(), strict=True):
            words = candidate.split()
            embedded = sum(made.answers[answers.index(word)] for word in words)
            for number, values in enumerate(KNOWLEDGE.values()):
                if set(values) & set(words):
                    embedded = embedded + made.types[number]
            assert score == pytest.approx(float(query @ embedded))


def test_bigrams_are_words_within_a_line():
    assert babi.tokens_of("a b c", bigrams=True) == ["a", "b", "c", "a b", "b c"]
    assert babi.tokens_of("a b c", bigrams=False) == ["a", "b", "c"]
    some = [BabiDialogue((Exchange("a b", "c"), Exchange("b a", "c")))]
    words = babi.numbers_of(["a", "b", "c", "a b", "b a", "b c"])
    turns = nets.encode(some, {}, words, {}, bigrams=True)
    assert [turns.words.take(turns.line[[i]])[0].tolist() for i in range(4)] == [[0, 1, 3], [2], [1, 0, 4], [2]]


@cases("history match", (True, True), (False, True), (True, False))
def test_tfidf_is_that_of_the_definition(history, match):
    some = [*dialogues()[::5], *ODD, *unseen()[:2]]
    found = nets.TfIdf(CANDIDATES, KNOWLEDGE if match else {}, IDF, history).answers(some)
    for one, answers in zip(some, found, strict=True):
        said: list[str] = []
        rest = iter(answers)
        for line in (line for line in one.lines if not isinstance(line, Fact)):
            said.append(line.user)
            if isinstance(line, Exchange):
                assert next(rest) == plain_tfidf(said if history else [line.user], said, match)
                said.append(line.bot)
        assert not list(rest)


def test_nearest_by_the_same_utterance_answers_the_most_frequent_response_to_all_others():
    model = nearest("exact", *PAIRS)
    answers = [ranking(model, said, 1) for said in ("b a", "a  b", "d e", "d", "a b c")]
    assert answers == [["later"], ["one"], ["one"], ["one"], ["long"]]
    assert ranking(model, "d e", 3) == ["one", "two", "long"]
    assert ranking(model, "b a", 9) == ["later", "one", "long", "short", "two"]


def test_the_page_shows_all_lines_with_their_attention():
    shares = [0.5, 0.004, 0.405, 0.0]
    lines = [babi.Memory(i + 1, "User", f"line {i + 1}", [share, share]) for i, share in enumerate(shares)]
    found = [babi.Response(0, 0, lines, "what", "ok", ["ok"]), babi.Response(1, 0, [], "why", "ok", ["no", "so", "ok"])]
    page = babi.page_of("task1-tst", found).decode()
    assert re.findall(r"<td>(\d+)</td><td>User</td><td dir=\"auto\">line \1</td>", page) == ["1", "2", "3", "4"]
    assert page.count('style="--p: 0.405">0.405</td>') == 2
    assert "1 of 2 responses are right in the first 2 dialogues of task1-tst" in page
    assert re.findall(r"\[(Correct|Incorrect)\]", page) == ["Correct", "Incorrect", "Incorrect", "Correct"]
    assert re.findall(r"Predicted answer( #\d)?<", page) == ["", " #1", " #2", " #3"]
    assert (page.count("<details open>"), page.count("<details>")) == (1, 1)
