"""Turns in the words of a language model: what it is sent, what is taken of what it says, what it costs."""

import pickle

import pytest
from chat_server import ChatServer
from kit import cases, corpus, dialogue, frame, lacking, refused, run, span, state, turn
from test_rewording import said

from parapet.transforms.core.chat import Endpoint
from parapet.transforms.core.fence import Refused, Stopped
from parapet.transforms.core.replies import Reply, Unreadable
from parapet.transforms.perturb.chat_rewriter import Rewriter, marked
from parapet.transforms.perturb.rewrites import Rewrite

BUS = "I need a bus to Fresno on May 2nd"
SERVICE = "Buses_1"
STORY = "My grandmother baked delicious apple pies and sang in a choir, to Fresno on May 2nd."
LLM = {"endpoint": "http://a/v1", "model": "m"}
NO_RULE = Rewrite(reason="no_rule")


@cases(
    "kind before after reason",
    ("paraphrase", BUS, "Could you find me a bus to Fresno on May 2nd?", ""),
    ("verbose", BUS, "I was hoping you could find me a bus that goes to Fresno on May 2nd.", ""),
    ("simple", "Could you find me a bus to Fresno on May 2nd please?", "Find a bus to Fresno on May 2nd.", ""),
    ("paraphrase", BUS, "Could you find me a bus to Oakland on May 2nd?", "value_lost"),
    ("paraphrase", BUS, "Could you find me a bus to Fresno from May 2nd?", "roles"),
    ("paraphrase", BUS, "Sure! Here is a bus to Fresno on May 2nd.", "boilerplate"),
    ("paraphrase", BUS, STORY, "meaning"),
    ("verbose", BUS, "I need the bus to Fresno on May 2nd", "length"),
    ("simple", BUS, "I really need a bus to Fresno on May 2nd", "length"),
)
def test_the_gate(kind, before, after, reason):
    values = ["Fresno", "May 2nd"]
    answers = {marked(said(before, *values)): after}
    made = rewriter(answers).rewrite(said(before, *values), kind, NO_RULE)
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
    assert rewriter({BUS: Refused("unavailable: busy")}).rewrite(turn, "simple", NO_RULE).reason == (
        "not_answered: unavailable: busy"
    )
    assert rewriter({BUS: ""}).rewrite(turn, "simple", NO_RULE).refused == ("llm: empty_answer",)
    assert rewriter({BUS: Unreadable("no_message")}).rewrite(turn, "simple", NO_RULE).refused == ("llm: empty_answer",)


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
    more = "twice" in body["messages"][0]["content"]
    polite = f"I was wondering if it would be possible to ask: {text[0].lower()}{text[1:]}"
    return polite if more else text.split(".")[0]


@pytest.fixture
def buses(tmp_path):
    acts = frame(SERVICE, slots=[span("to", BUS, "Fresno"), span("date", BUS, "May 2nd")], state=state(to=["Fresno"]))
    plain = frame(SERVICE, state=state())
    others = ("Thank you so much for that help.", "Yes.")
    turns = [turn("USER", BUS, acts), *(turn("USER", text, plain) for text in others)]
    schema = [{"service_name": SERVICE, "description": "", "slots": [], "intents": []}]
    return corpus(tmp_path / "buses", schema, test=[dialogue("1", *turns)])


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
        message = run("language_variations", sgd=buses, **flags, status=1).errors
    assert "Traceback" not in message


@cases(
    "flags reason",
    ({"model": "m"}, "--model: is for a language model: give its address with --endpoint"),
    ({"endpoint": "http://a/v1"}, "--model: is required: give the name of the model"),
    ({**LLM, "price": "1"}, "--price: '1' is not a price: give US dollars for a million"),
    ({**LLM, "kinds": "typos"}, "is for verbose, simple, paraphrase, which --kinds"),
)
def test_mistakes(flags, reason, tmp_path):
    assert reason in refused("language_variations", **flags, output=tmp_path / "out")
