"""Turns in the words of others: where values are found again, which texts are refused, files, and models."""

import pickle
from itertools import combinations

import pytest
from chat_server import ChatServer
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, corpus, dialogue, frame, lacking, refused, run, service, span, state, turn

from parapet.schemas.dialogue import Action, Frame, SlotSpan, Turn
from parapet.transforms.core.chat import Endpoint
from parapet.transforms.core.fence import Refused, Stopped
from parapet.transforms.core.replies import Reply, Unreadable
from parapet.transforms.perturb.rewrites import (
    Line,
    Rewrite,
    Rewriter,
    Rewritten,
    marked,
    read_lines,
    refusal,
    reworded,
)
from parapet.transforms.perturb.user_turns import Span as Place
from parapet.transforms.perturb.user_turns import UserTurn
from parapet.transforms.perturb.variations import KINDS, Verbose
from parapet.transforms.report import meaning

WORDS = [*["a", "2", "pm", "Port", "Alder", "I", "don't", "Café", "👍🏽", "ｗ", ",", ".", "no"], "2 pm", "Port Alder"]


class Lines(Rewritten):
    """Rewritten turns that are in no file."""

    def __init__(self, *lines):
        super().__init__(())
        self.lines = {line.key: line for line in lines}

    def get(self, key):
        return self.lines.get(key)


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)


def said(text, *values, at=(), **acts):
    """A turn with spans of the values, first occurrences, or at the places; acts have values without a span."""
    places = at or tuple((text.index(value), text.index(value) + len(value)) for value in values)
    spans = [SlotSpan(slot=f"slot{i}", start=start, exclusive_end=end) for i, (start, end) in enumerate(places)]
    actions = [Action(act="INFORM", slot=slot, values=[value]) for slot, value in acts.items()]
    turn = Turn(speaker="USER", utterance=text, frames=[Frame(service="S_1", slots=spans, actions=actions)])
    found = tuple(Place("S_1", f"slot{i}", *place) for i, place in enumerate(places))
    return UserTurn("1", 0, text, found, (), frozenset(), ("S_1",), (), turn)


@cases(
    "before values after found",
    ("For 2 at 2 pm", ("2", "2 pm"), "At 2 pm, for 2", ["2", "2 pm"]),
    ("For 2 at 2 pm", ("2", "2 pm"), "At 2 pm, for two", "value_lost: slot0"),
    ("For 2 people", ("2",), "For 12 people", "value_lost: slot0"),
    ("For 2 people", ("2",), "2 tables for 2", "value_unclear: slot0"),
    ("For 2 people, 2 tables", ("2",), "A pair of 2 at 2 tables", ["2"]),
    ("For two people", ("two",), "The two of us at two tables", "value_unclear: slot0"),
    ("Go to Fresno", ("Fresno",), "Fresno is where I go, Fresno", ["Fresno"]),
    ("Go to Fresno", ("Fresno",), "Go to fresno now", "value_lost: slot0"),
    ("Go to Fresno!", ("Fresno",), "go to Fresno", "copy"),
    ("In Port Alder now", ("Port Alder", "Alder"), "Now, Port Alder", ["Port Alder", "Alder"]),
)
def test_values_are_found_again(before, values, after, found):
    made = reworded(said(before, *values), after, "crowd")
    if isinstance(found, str):
        assert (made.reason, made.text) == (found, "")
    else:
        assert [after[slice(*place)] for place in made.places] == found
        assert made.text == after


def test_each_of_two_that_are_the_same_has_its_own_place():
    turn = said("From Rome to Rome", at=((5, 9), (13, 17)))
    assert reworded(turn, "To Rome I go, and from Rome", "crowd").places == [(3, 7), (23, 27)]
    assert reworded(turn, "Round and round in Rome", "crowd").reason == "value_lost: slot0, slot1"


@given(texts, texts, st.data())
def test_any_texts(before, after, data):
    """Spans stand where their values do; nothing is put where it was not."""
    ends = sorted(data.draw(st.sets(st.integers(0, len(before)), max_size=6)))
    places = tuple(data.draw(st.permutations(list(combinations(ends, 2))))[:3])
    lines = Lines(Line("1", 0, "verbose", after, "x"))
    (row,) = Verbose(rewritten=lines).rewrite_all([said(before, at=places)])
    if not row.text:
        assert row.reason
        return
    assert row.text == after
    for place, new in zip(places, row.places, strict=True):
        assert after[slice(*new)] == before[slice(*place)]
    if len({before[slice(*place)] for place in places}) == len(places) == len(set(row.places)):
        overlaps = [a[0] < b[1] and b[0] < a[1] for a, b in combinations(places, 2)]
        assert overlaps == [a[0] < b[1] and b[0] < a[1] for a, b in combinations(row.places, 2)]


def test_lines(tmp_path):
    path = tmp_path / "rewritten.jsonl"
    good = '{"dialogue_id": "1", "turn": 2, "kind": "typos", "utterance": " helo\\r\\n", "source": "w", "more": [1]}'
    bad = {
        good: "duplicate: rewritten.jsonl line 1 also has the typos of turn 2",
        "{": "not_json: ",
        "[]": "bad_line: Expected `object`, got `array`",
        good.replace("2", '"2"'): "bad_line: turn: Expected `int`, got `str`",
        good.replace("2", "-2"): "bad_line: turn: Expected `int` >= 0",
        good.replace('"turn": 2, ', ""): "bad_line: Object missing required field `turn`",
        good.replace("typos", "typo"): "unknown_kind: 'typo': must be one of paraphrase, typos, verbose, simple",
        good.replace("helo", ""): "no_text: the utterance is empty",
        '{"dialogue_id": "\\ud83d"': "not_json: ",
    }
    path.write_text("\ufeff" + "\n\n".join([good, *bad]) + "\n", encoding="utf-8")
    rewritten = Rewritten([path])
    assert rewritten.kinds() == {"typos"}
    letters = [letter for _, (letter,) in rewritten.unused((), ())]
    assert (rewritten.total(["typos"]), rewritten.total(["simple"])) == (len(bad) + 1, len(bad))
    assert next(iter(read_lines(str(path)))) == (1, Line("1", 2, "typos", "helo", "w"))
    assert [letter.where for letter in letters] == [f"line {2 * i + 1}" for i in range(1, len(bad) + 1)]
    for letter, reason in zip(letters, bad.values(), strict=True):
        assert letter.reason.startswith(reason)


def test_a_copy_has_the_same_words_and_a_typo_may():
    lines = Lines(*(Line("1", 0, kind, "Thats right", "x") for kind in ("typos", "paraphrase")))
    turn = said("That's right.")
    rewrites = {kind: KINDS[kind](rewritten=lines).rewrite_all([turn])[0] for kind in KINDS}
    assert rewrites["typos"].text == "Thats right"
    assert (rewrites["paraphrase"].reason, rewrites["simple"].reason) == ("copy", "not_rewritten")


@cases(
    "before after reason",
    ("I want to call a cab.", "I want to call a taxi.", ""),
    ("Okay, perfect. Reserve it.", "Okay, perfect. Book it.", ""),
    ("I am ok.", "I'm OK!", "copy"),
    ("Find me a cab.", "Sure! Here is it: Find me a taxi.", "boilerplate"),
    ("Find me a cab.", "Find me a taxi.\nThank you.", "boilerplate"),
    ("No that's everything, thank you.", "It's not all, thank you.", "polarity"),
    ("I need four one way flights.", "I need four flights.", "facts"),
    ("I'll go on March 9th instead.", "I go instead of March 9th.", "roles"),
    ("What bus station does it arrive at?", "What bus station arrives?", "roles"),
    ("What is their phone?", "What is your phone?", "person"),
    ("I depart soon.", "Childhood is over, says my aunt.", "meaning"),
)
@cases("model", False, meaning.has_model())
def test_what_is_refused(before, after, reason, model, monkeypatch):
    monkeypatch.setattr(meaning, "has_model", lambda: model)
    assert refusal(before, after, ["March 9th"]) == reason


@given(st.text(), st.text())
def test_similarity_is_a_cosine(left, right):
    assert -1e-9 <= meaning.of_grams(left, right) == meaning.of_grams(right, left) <= 1 + 1e-9
    assert refusal(left, left) == "copy"


BUS = "I need a bus to Fresno on May 2nd"
SERVICE = "Buses_1"
NO_RULE = Rewrite(reason="no_rule")


@cases(
    "kind before after reason",
    ("paraphrase", BUS, "Could you find me a bus to Fresno on May 2nd?", ""),
    ("simple", "Could you find me a bus to Fresno on May 2nd please?", "Find a bus to Fresno on May 2nd.", ""),
    ("paraphrase", BUS, "Could you find me a bus to Oakland on May 2nd?", "value_lost"),
    ("verbose", BUS, "I need the bus to Fresno on May 2nd", "length"),
    ("simple", BUS, "I really need a bus to Fresno on May 2nd", "length"),
)
def test_the_gate(kind, before, after, reason):
    values = ["Fresno", "May 2nd"]
    made = rewriter({marked(said(before, *values)): after}).rewrite(said(before, *values), kind, NO_RULE)
    if reason:
        assert made == Rewrite(reason="no_rule", refused=(f"llm: {reason}",))
    else:
        assert (made.source, [after[slice(*place)] for place in made.places]) == ("llm", values)


def rewriter(answers):
    """A rewriter whose model has these answers; those that are errors are raised."""

    def ask(messages, **parameters):
        answer = answers[messages[-1]["content"]]
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer)

    made = Rewriter(Endpoint("http://a/v1", "m"))
    made.chat.ask = ask
    return made


def test_no_answer_is_no_fault_of_the_rules():
    turn = said(BUS)
    busy = rewriter({BUS: Refused("unavailable: busy")}).rewrite(turn, "simple", NO_RULE)
    assert busy.reason == "not_answered: unavailable: busy"
    for answer in ("", Unreadable("no_message")):
        assert rewriter({BUS: answer}).rewrite(turn, "simple", NO_RULE).refused == ("llm: empty_answer",)


def test_after_a_stop_nothing_is_asked():
    turn, answers = said(BUS), {BUS: Stopped("key: wrong")}
    one = rewriter(answers)
    assert one.rewrite(turn, "simple", NO_RULE).reason == "not_answered: key: wrong"
    answers.clear()
    assert one.rewrite(turn, "simple", NO_RULE).reason == "not_answered: key: wrong"


def test_a_model_tries_three_times():
    answers = iter(["Sure! Here it is: a bus", "A bus.", "A bus to Fresno on May 2nd."])
    pytest.importorskip("httpx", reason="the extra llm is not installed")
    with ChatServer(lambda _: next(answers)) as server:
        one = pickle.loads(pickle.dumps(Rewriter(Endpoint(server.url, "m", seed=5))))
        text = "Please find me a bus to [Fresno] on [May 2nd]"
        turn = said("Please find me a bus to Fresno on May 2nd", "Fresno", "May 2nd")
        (made,) = one.rewrite_all([turn], "simple", [NO_RULE])
        assert made.text == "A bus to Fresno on May 2nd."
        assert [(one["temperature"], one["seed"]) for one in server.requests] == [(0, 5), (0.7, 6), (0.7, 7)]
        assert server.requests[0]["messages"][-1] == {"role": "user", "content": text}
        one.close()


def wordy(body):
    """Says more, or less, as it is asked; of a turn with a thank-you it makes nothing of use."""
    text = body["messages"][-1]["content"].replace("[", "").replace("]", "")
    if "Thank" in text:
        return "As an AI language model, I have no opinion."
    polite = f"I was wondering if it would be possible to ask: {text[0].lower()}{text[1:]}"
    return polite if "twice" in body["messages"][0]["content"] else text.split(".")[0]


@pytest.fixture
def buses(tmp_path):
    acts = frame(SERVICE, slots=[span("to", BUS, "Fresno"), span("date", BUS, "May 2nd")], state=state(to=["Fresno"]))
    others = ("Thank you so much for that help.", "Yes.")
    turns = [turn("USER", BUS, acts), *(turn("USER", text, frame(SERVICE, state=state())) for text in others)]
    return corpus(tmp_path / "buses", [service(SERVICE, [])], test=[dialogue("1", *turns)])


def test_the_command(buses, tmp_path):
    pytest.importorskip("httpx", reason="the extra llm is not installed")
    flags = {"sgd": buses, "kinds": "verbose,simple", "env": "none", "model": "m"}
    with ChatServer(wordy) as server:
        flags |= {"endpoint": server.url, "output": tmp_path / "out", "price": "1,2"}
        plan = run("language_variations", **flags, dry_run=True)
        assert plan.output.endswith("4 to 12 calls, $0.00 to $0.00; dry run: nothing was sent or written\n")
        assert not server.requests
        made = run("language_variations", **flags)
        calls = len(server.requests)
        verbose, thanks, yes = made.rows("verbose/turns/**/*.parquet")
        assert verbose["utterance"] == f"I was wondering if it would be possible to ask: i{BUS[1:]}"
        assert (verbose["source"], thanks["source"], yes["source"]) == ("llm", "rules", "")
        assert made.json("statistics.json")["sets"]["verbose"]["refused"] == {"llm: boilerplate": 1}
        assert not lacking(made.text("README.md"), "| engine | llm |", "| model | m,prompts=")
        run("language_variations", **flags)
        assert len(server.requests) == calls  # the answers are kept in the output


def test_a_wrong_key_fails_the_run(buses, tmp_path):
    pytest.importorskip("httpx", reason="the extra llm is not installed")
    with ChatServer(wordy, ["key"] * 20) as server:
        flags = {"kinds": "simple", "env": "none", "model": "m", "endpoint": server.url, "output": tmp_path / "out"}
        refused("language_variations", sgd=buses, **flags, status=1)
