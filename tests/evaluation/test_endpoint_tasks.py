"""Language models for turns out of domain, utterances, bAbI dialogues and as judges: oracles, and who says nothing."""

import json

import local_http
import pytest
from babi_toy import CANDIDATES, dialogues
from chat_server import ChatServer
from kit import cases, corpus, json_of, raised, refused, rows_of, run, sample_dialogues, write

from parapet.evaluation.endpoint.asking import prompt_of
from parapet.evaluation.endpoint.models import _domain, _label, _utterance
from parapet.evaluation.models.turns import Answer
from parapet.pipelines.progress import Run, text_of
from parapet.pipelines.suite.graph import Graph
from parapet.pipelines.suite.suite_file import read_suite
from parapet.schemas.errors import InputError
from parapet.transforms.core.replies import Reply, Unreadable, object_in
from parapet.transforms.simulators.formats import Exchange, candidates_text, dialogue_text


def user_of(body):
    return body["messages"][-1]["content"]


@cases(
    "text said",
    ('{"out_of_domain": true, "confidence": 90}', Answer("ood", 0.9)),
    ('```json\n{"out_of_domain": false, "confidence": 90}```', Answer("in_domain", 0.1)),
    ('{"out_of_domain": false, "confidence": 0}', Answer("in_domain", 0.49)),
    ('{"out_of_domain": true, "confidence": 1000}', Answer("ood", 1.0)),
    ('{"out_of_domain": true, "confidence": "high"}', Answer("ood", 1.0)),
    ('{"out_of_domain": "yes"}', "no_answer"),
    ("Yes.", "not_json"),
    ("} {", "not_json"),
)
def test_what_an_answer_says_of_a_turn(text, said):
    if isinstance(said, str):
        raised(Unreadable, _domain, Reply(text), match=said)
    else:
        assert _domain(Reply(text)) == said


def test_answers_that_say_nothing():
    raised(Unreadable, _label, Reply('{"label": "maybe"}'), match="no_label")
    assert _label(Reply('{"label": "Entailment"}')) == (1.0, 0.0, 0.0)
    raised(Unreadable, _utterance, Reply(" \n"), match="empty")
    assert _utterance(Reply('"It is\nred."')).candidates[0].utterance == "It is red."
    raised(Unreadable, object_in, "[1]", match="not_json")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory, sample):
    return run("ood", rates="0.2", output=tmp_path_factory.mktemp("ood") / "ood").folder


def test_turns_out_of_domain(tmp_path, foreign):
    """Who knows is right; an answer that says nothing is wrong, whatever is right."""
    import pyarrow.parquet as pq

    rows = [row for path in foreign.rglob("turns/**/*.parquet") for row in pq.read_table(path).to_pylist()]
    labels = {row["utterance"]: row["label"] == "ood" for row in rows}
    speechless = {sorted(text for text, is_ood in labels.items() if is_ood is kind)[0] for kind in (True, False)}

    def answer(body):
        text = user_of(body).removeprefix("The user says: ")
        return "Hm." if text in speechless else json.dumps({"out_of_domain": labels[text], "confidence": 80})

    with ChatServer(answer) as server:
        flags = {"endpoint": server.url, "model": "m", "reference": foreign, "output": tmp_path / "said"}
        assert f"{len(labels)} calls" in run("predict", "llm_ood", "--dry_run", **flags).output
        made = run("predict", "llm_ood", **flags)
        assert len(server.requests) == len(labels)
        assert all(service in server.requests[0]["messages"][0]["content"] for service in ("Gyms_1", "Ferries_1"))
    scores = {"reference": foreign, "predictions": tmp_path / "said/predictions", "output": tmp_path / "scores"}
    numbers = run("evaluate", "--task", "ood", **scores).json("metrics.json")["ood-20"]
    is_ood = [row["label"] == "ood" for row in rows]
    said = [
        not truth if row["utterance"] in speechless else labels[row["utterance"]]
        for row, truth in zip(rows, is_ood, strict=True)
    ]
    both = sum(a and b for a, b in zip(is_ood, said, strict=True))
    assert (numbers["precision"], numbers["recall"]) == (both / sum(said), both / sum(is_ood))
    counts = made.json("run.json")["counts"]
    assert (counts["unread"], counts["unread_not_json"], counts["answers_had"]) == (2, 2, len(labels))
    assert {row["unread"] for row in rows_of(tmp_path / "said/answers/turns.jsonl")} == {"", "not_json"}


def test_lines_of_turns_need_domains(tmp_path, sample):
    lines = write(tmp_path / "turns.jsonl", '{"id": "1", "utterance": "Is there a gym?", "label": "in_domain"}\n')
    flags = {"reference": lines, "model": "m", "output": tmp_path / "said"}
    assert "--domains" in refused("predict", "llm_ood", endpoint="http://127.0.0.1:9/v1", **flags)
    with ChatServer(lambda body: '{"out_of_domain": false, "confidence": 99}') as server:
        run("predict", "llm_ood", endpoint=server.url, domains=sample, **flags)
    assert rows_of(tmp_path / "said/predictions/ood.jsonl")[0]["predicted"] == "in_domain"


def test_utterances_and_a_judge(tmp_path):
    """Acts are said as they are given; the judge is the lexical one's opposite in one of ten pairs."""
    said = []

    def answer(body):
        if "entails" not in body["messages"][0]["content"]:
            return user_of(body)
        said.append(user_of(body))
        premise, _, sentence = user_of(body).removeprefix("Text: ").partition("\nSentence: ")
        label = "entailment" if sentence.rstrip(".") in premise else "neutral" if len(said) > 1 else "perhaps"
        return json.dumps({"label": label})

    few = sample_dialogues()[:2]
    with ChatServer(answer) as server:
        flags = {"endpoint": server.url, "model": "m", "reference": corpus(tmp_path / "few", test=few)}
        made = run("predict", "llm_utterances", **flags, output=tmp_path / "said")
        assert "0 answers that could not be read" in made.output
        scores = {"predictions": tmp_path / "said/predictions", "output": tmp_path / "scores"}
        judged = run("evaluate", "--task", "generation", "--no_validation", scorer="llm", **flags, **scores)
        asked = len(server.requests)
        run("evaluate", "--task", "generation", "--no_validation", scorer="llm", **flags, **scores)
        assert len(server.requests) == asked  # a rerun asks nobody
    assert said
    turns = sum(turn["speaker"] == "SYSTEM" for one in few for turn in one["turns"])
    assert len(rows_of(tmp_path / "said/predictions/original/test/utterances.jsonl")) == turns
    assert "scorer: llm (m, prompt " in judged.output
    assert judged.json("details.json")["scorer"]["unread"] == 1
    assert judged.json("metrics.json")["#ALL"]["sgsacc"] > 0.5
    assert "not by a model of language inference" in (tmp_path / "scores/report.html").read_text()


def test_babi_dialogues(tmp_path):
    """Who knows the next line is right; of candidates the most similar one is taken; an empty answer is wrong."""
    tests = dialogues()[:4]
    reference = write(tmp_path / "task1-tst.txt", "".join(dialogue_text(one.lines) for one in tests))
    candidates = write(tmp_path / "all.txt", candidates_text(CANDIDATES))
    gold = {}
    for one in tests:
        lines = []
        for line in one.lines:
            if isinstance(line, Exchange):
                gold["\n".join([*lines, f"User: {line.user}", "Bot:"])] = line.bot
                lines += [f"User: {line.user}", f"Bot: {line.bot}"]
            else:
                lines.append(f"Fact: {line.entity} {line.relation} {line.value}")
    silent = next(iter(gold))

    def answer(body):
        return "" if user_of(body) == silent else f"Bot: {gold[user_of(body)].upper()}\nUser: more"

    with ChatServer(answer) as server:
        flags = {"reference": reference, "examples": reference, "shots": 2, "candidates": candidates, "top": 2}
        run("predict", "llm_babi", endpoint=server.url, model="m", output=tmp_path / "said", **flags)
        assert server.requests[0]["messages"][0]["content"].count("A conversation:") == 2
    rows = rows_of(tmp_path / "said/predictions/original/task1-tst.jsonl")
    flat = [exchange.bot for one in tests for exchange in one.exchanges]
    right = sum(row["answer"] == bot for row, bot in zip(rows, flat, strict=True))
    wrong = [row for row in rows if not row["answer"]]
    assert len(wrong) >= 1
    assert right == len(rows) - len(wrong)
    assert all(len(row["answers"]) == 2 for row in rows if row["answer"])
    scores = {"predictions": tmp_path / "said/predictions", "candidates": candidates, "output": tmp_path / "scores"}
    run("evaluate", "--task", "ranking", "--reference", str(reference), **scores)
    flags = {"endpoint": "http://127.0.0.1:9/v1", "model": "m", "reference": reference, "top": 2}
    assert "--candidates" in refused("predict", "llm_babi", **flags, output=tmp_path / "no")


def test_a_prompt_of_ones_own(tmp_path):
    mine = write(tmp_path / "mine.jinja", "{% block user %}Say {{ acts }}{% endblock %}")
    with ChatServer(lambda body: user_of(body)) as server:
        run("predict", "llm_utterances", endpoint=server.url, model="m", prompt=mine, output=tmp_path / "said")
        assert {len(body["messages"]) for body in server.requests} == {1}
    assert json_of(tmp_path / "said/run.json")["prompt"]["template"].startswith("{% block user %}Say")
    assert rows_of(tmp_path / "said/predictions/original/test/utterances.jsonl")[0]["utterance"].startswith("Say ")


@cases(
    "template told",
    ("Say it.", "block user"),
    ("{% block user %}", "line 1"),
    ("{% block user %}{{ nothing }}{% endblock %}", "nothing"),
)
def test_prompts_that_cannot_be(tmp_path, template, told):
    path = write(tmp_path / "mine.jinja", template)
    raised(InputError, lambda: prompt_of("utterances", str(path)).messages(acts=""), match=told)


def test_what_is_spent_is_shown_beside_what_is_done(tmp_path):
    records = write(tmp_path / "counts", "0\t9\tturns\t\n40\t0\ttokens\tbesides\n2\t0\tturns\t\n")
    shown = []
    of = Run(shown.append, records.open("rb"))
    of.poll()
    with records.open("a") as file:
        file.write("1000\t0\ttokens\tbesides\n25000\t0\tmicrodollars\tbesides\n1\t0\terrors\tbesides\n")
    of.poll()
    told = ["2 of 9 turns, 40 tokens", "2 of 9 turns, 1,040 tokens, $0.03, 1 error"]
    assert [text_of(event) for event in shown] == told


def test_further_tasks_of_a_system_in_a_suite(tmp_path):
    text = """\
title = "t"
[[systems]]
name = "mine"
endpoint = "http://127.0.0.1:8080/v1"
model = "m"
style = "text"
ood = {}
generation = { scorer = "lexical" }
ranking = { reference = ["tst.txt"], examples = "trn.txt", candidates = "all.txt" }
"""
    steps = Graph(read_suite(str(write(tmp_path / "suite.toml", text)))).steps
    asked = {name: step.command[1] for name, step in steps.items() if step.command[0] == "predict"}
    models = {"dst": "llm", "ood": "llm_ood", "generation": "llm_utterances", "ranking": "llm_babi"}
    assert asked == {f"predictions/mine/{task}": model for task, model in models.items()}
    assert {step.options["model"] for step in steps.values() if step.command[0] == "predict"} == {"m"}
    assert "style" not in steps["predictions/mine/ood"].options
    assert "candidates" in steps["scores/mine/ranking"].options
    assert steps["scores/mine/generation"].options["scorer"] == "lexical"


def refusing_one(answer):
    """The same answers, but the third request, and what is equal to it, is refused."""
    seen = []

    def reply(body):
        seen.append(body["messages"])
        is_third = len(seen) > 2 and body["messages"] == seen[2]
        return local_http.Answer({"error": "not this one"}, 400) if is_third else answer(body)

    return reply


def test_refused_requests_are_not_scored(tmp_path, foreign):
    """Neither as wrong nor as right, in any task; they are counted wherever numbers are."""
    few = corpus(tmp_path / "few", test=sample_dialogues()[:4])
    babi = write(tmp_path / "task1-tst.txt", "".join(dialogue_text(one.lines) for one in dialogues()[:4]))
    function = {"name": "f", "parameters": {}}
    questions = [[[{"role": "user", "content": text}]] for text in "abcd"]
    calls = [{"id": f"irrelevance_{i}", "question": text, "function": [function]} for i, text in enumerate(questions)]
    tasks = {
        "llm_tools": (("tool_calls", write(tmp_path / "calls.jsonl", calls)), lambda _: "No.", "accuracy"),
        "llm_ood": (("ood", foreign), lambda _: '{"out_of_domain": true, "confidence": 80}', "accuracy"),
        "llm_utterances": (("generation", few), lambda _: "Hm.", "slot_error_rate"),
        "llm_babi": (("ranking", babi), lambda _: "Hm.", "per_response"),
    }
    for model, ((task, reference), answer, metric) in tasks.items():
        predictions, scores = tmp_path / model, tmp_path / f"scores_{model}"
        with ChatServer(refusing_one(answer)) as server:
            flags = {"endpoint": server.url, "model": "m", "reference": reference, "parallel_calls": 1}
            assert "not this one" in run("predict", model, **flags, output=predictions, max_bad="0.1%", status=1).errors
            made = run("predict", model, **flags, output=predictions, max_bad="50%")
        counts = made.json("run.json")["counts"]
        assert sum(n for name, n in counts.items() if name.partition("/")[0] == "refused") == 1, model
        assert "1 of " in made.errors
        said = {"reference": reference, "predictions": predictions / "predictions"}
        made = run("evaluate", task=task, **said, output=scores)
        assert "refused by the endpoint, not scored" in made.errors, model
        assert sum(n for name, n in made.json("run.json")["counts"].items() if name.startswith("refused")) >= 1
        assert "refused by the endpoint, not scored" in (scores / "report.html").read_text()
        assert made.json("metrics.json")["#ALL"][metric] is not None


def test_a_judge_that_refuses_ends_the_evaluation(tmp_path):
    few = corpus(tmp_path / "few", test=sample_dialogues()[:1])
    with ChatServer(refusing_one(lambda _: '{"label": "neutral"}')) as server:
        flags = {"endpoint": server.url, "model": "m", "reference": few, "scorer": "llm", "predictions": "reference"}
        made = run("evaluate", "--task", "generation", **flags, output=tmp_path / "scores", status=1)
    assert "invalid: HTTP 400: not this one" in made.errors
    assert not (tmp_path / "scores/metrics.json").exists()
