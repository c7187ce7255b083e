"""Language models behind an endpoint, for each task: what they are asked, what their answers say, faults, and costs."""

import json
import sqlite3
import time

import killed
import kit
import pytest
from babi_toy import CANDIDATES, dialogues
from chat_server import ChatServer
from kit import cases, corpus, json_of, lacking, raised, refused, rows_of, run, sample_dialogues, write
from local_http import Answer

from parapet.evaluation.dst.model import Example
from parapet.evaluation.endpoint import models
from parapet.evaluation.endpoint.asking import prompt_of
from parapet.evaluation.models.turns import Answer as Said
from parapet.pipelines.app import command_line
from parapet.pipelines.progress import Run, text_of
from parapet.pipelines.suite.graph import Graph
from parapet.pipelines.suite.page import _asked
from parapet.pipelines.suite.suite_file import command_of, read_suite
from parapet.schemas.errors import InputError
from parapet.schemas.service import parse_service
from parapet.transforms.core.replies import Reply, Unreadable, object_in
from parapet.transforms.simulators.formats import Exchange, candidates_text, dialogue_text

SLOTS = [kit.slot("to", "Where to"), kit.slot("time", "When"), kit.slot("seats", "How many", "1", "2")]
SLOTS.append(kit.slot("wifi", "WiFi", "True", "False"))
BUSES = parse_service(kit.service("Buses_1", SLOTS, [kit.intent("FindBus", "Find one")], "Bus tickets"))
FIRST = "Two seats to Fresno, half past 5 in the evening on March 3rd"
SAID = (("USER", FIRST), ("SYSTEM", "By 6 pm?"), ("USER", "No."))
ASKED = Example("1", 2, BUSES, SAID)


@cases(
    "slot value said",
    ("time", "17:30", "half past 5 in the evening"),
    ("time", "18:00", "6 pm"),
    ("time", "2019-03-03", "March 3rd"),
    ("time", "3rd of March", "March 3rd"),
    ("to", "FRESNO", "Fresno"),
    ("to", "Reno", "Reno"),
    ("to", "any", "dontcare"),
    ("seats", "two", "2"),
    ("seats", "9", "9"),
    ("wifi", "yes", "True"),
    ("wifi", "Don't care", "dontcare"),
)
def test_values_as_the_schema_and_the_dialogue_have_them(slot, value, said):
    assert models.as_said(next(one for one in BUSES.slots if one.name == slot), value, SAID) == said


@cases(
    "style reply said",
    ("json", Reply('{"active_intent": "FindBus", "to": "fresno", "wifi": "", "seats": 2, "colour": "red"}'), {}),
    ("json", Reply('Sure!\n```json\n{"active_intent": "FindBus", "to": "Fresno", "seats": "two"}\n```'), {}),
    ("json", Reply('{"to": ...}? No: {"active_intent": "FindBus", "to": "Fresno", "seats": 2}, and {"to": "x"}.'), {}),
    ("tools", Reply("", [("Buses_1", '{"active_intent": "FindBus", "to": "Fresno", "seats": "2"}')]), {}),
    ("tools", Reply('{"active_intent": "FindBus", "to": "Fresno", "seats": "2"}'), {}),
    ("text", Reply("active_intent = FindBus\n- to: Fresno\n**seats** = 2\nwifi = none\nThat is all."), {}),
    ("json", Reply('{"active_intent": "Fly", "to": null, "requested_slots": ["time", "colour"]}'),
     {"active_intent": "NONE", "requested_slots": ["time"], "slot_values": {}}),
    ("text", Reply("requested_slots = wifi, time"),
     {"active_intent": "NONE", "requested_slots": ["time", "wifi"], "slot_values": {}}),
)  # fmt: skip
def test_what_an_answer_says(style, reply, said):
    usual = {"active_intent": "FindBus", "requested_slots": [], "slot_values": {"to": ["Fresno"], "seats": ["2"]}}
    assert models.state_of(reply, ASKED, style) == (said or usual)


@cases(
    "style reply why",
    ("json", Reply("I cannot say."), "not_json"),
    ("json", Reply('["a"]'), "not_json"),
    ("json", Reply('{"to": "Fre'), "not_json"),
    ("json", Reply("{" * 5_000), "not_json"),
    ("tools", Reply("Let me see."), "no_call"),
    ("tools", Reply("", [("FindHotel", "{}")]), "wrong_function"),
    ("tools", Reply("", [("Buses_1", "{")]), "not_json"),
    ("text", Reply("They want a bus."), "no_lines"),
)
def test_an_answer_that_says_nothing_is_wrong(style, reply, why):
    raised(Unreadable, models.state_of, reply, ASKED, style, match=f"^{why}$")
    assert models.unreadable_state(BUSES)["slot_values"] == {slot.name: [models.UNPARSED] for slot in BUSES.slots}


@pytest.mark.parametrize("style", models.STYLES)
def test_the_request_has_schema_and_dialogue(style):
    messages, parameters = models.request(ASKED, style, prompt_of("states"))
    text = "".join(one["content"] for one in messages) + json.dumps(parameters)
    assert all(part in text for part in ("Buses_1", "Bus tickets", "FindBus", "Where to", "half past 5", "WiFi"))
    whole = models.json_schema(BUSES, whole=True)
    assert set(whole["required"]) == set(whole["properties"])
    assert models.json_schema(BUSES, whole=False)["properties"]["seats"]["enum"] == ["1", "2", "dontcare"]


def oracle(root):
    """Answers a request with the gold state of its frame, in the style in which it is asked."""
    gold = {}
    for dialogue in root:
        said = []
        for turn in dialogue["turns"]:
            said.append(f"{'User' if turn['speaker'] == 'USER' else 'Assistant'}: {turn['utterance']}")
            for frame in turn["frames"] if turn["speaker"] == "USER" else ():
                gold[frame["service"], "\n".join(said)] = frame["state"]

    def answer(body):
        system, user = (one["content"] for one in body["messages"])
        service = system.split("Service: ")[1].split(":")[0]
        state = gold[service, user.split("Conversation:\n")[1].split("\n\nThe state after")[0]]
        flat = {key: state[key] for key in ("active_intent", "requested_slots")}
        flat |= {slot: values[0] for slot, values in state["slot_values"].items()}
        if "tools" in body:
            call = {"id": "1", "type": "function", "function": {"name": service, "arguments": json.dumps(flat)}}
            return {"content": None, "tool_calls": [call]}
        if "response_format" in body:
            return json.dumps(flat)
        return "\n".join(f"{key} = {', '.join(of) if isinstance(of, list) else of}" for key, of in flat.items())

    return answer


@pytest.fixture(scope="module")
def gold(sample):
    return oracle(sample_dialogues())


def scored(folder, **more):
    """The metrics over all services of the predictions in ``states``, without confidence intervals."""
    flags = {"predictions": folder / "states/predictions", "output": folder / "scores", "replicates": 0, **more}
    return run("evaluate", task="dst", **flags).json("metrics.json")["#ALL_SERVICES"]


@pytest.mark.parametrize("style", models.STYLES)
def test_who_knows_the_states_is_right_in_every_style(tmp_path, gold, style):
    with ChatServer(gold) as server:
        flags = {"model": "m", "style": style, "output": tmp_path / "states"}
        made = run("predict", "llm", "--endpoint", server.url, **flags)
        sent = len(server.requests)
        assert "50 frames\n0 answers that could not be read" in made.output
        before = {path: data for path, data in made.files.items() if path[0] != "."}
        if style == "json" or kit.THOROUGH:
            run("predict", "llm", "--endpoint", server.url, **flags)
        assert len(server.requests) == sent == 50  # a rerun asks nobody
        assert made.files.items() >= before.items()
    numbers = scored(tmp_path)
    names = ("joint_goal_accuracy", "active_intent_accuracy", "requested_slots_f1")
    assert [numbers[name] for name in names] == [1.0] * 3
    rows = rows_of(tmp_path / "states/answers/original.jsonl")
    assert len(rows) == 50
    assert not any(row["unread"] for row in rows)


def test_turns_with_a_frame_of_every_service(tmp_path, sample):
    """As MultiWOZ 2.2 has them, most of them idle."""
    dialogues = sample_dialogues()[:6]
    services = sorted({frame["service"] for one in dialogues for turn in one["turns"] for frame in turn["frames"]})
    idle = {"active_intent": "NONE", "requested_slots": [], "slot_values": {}}
    for dialogue in dialogues:
        dialogue["services"] = services
        for turn in dialogue["turns"]:
            there = {frame["service"] for frame in turn["frames"]}
            more = [service for service in services if service not in there and turn["speaker"] == "USER"]
            turn["frames"] += [{"service": service, "slots": [], "actions": [], "state": idle} for service in more]
    root = corpus(tmp_path / "woz", json_of(sample / "test/schema.json"), test=dialogues)
    with ChatServer(oracle(dialogues)) as server:
        run("predict", "llm", "--endpoint", server.url, model="m", sgd=root, output=tmp_path / "states")
    numbers = scored(tmp_path, reference=root)
    assert (numbers["joint_goal_accuracy"], numbers["active_intent_accuracy"]) == (1.0, 1.0)


def test_a_prediction_that_is_killed_goes_on(tmp_path, gold):
    """Whenever it dies: what was answered is asked once, and the end is the same."""
    with ChatServer(lambda body: time.sleep(0.02) or gold(body)) as server:
        argv = ["predict", "llm", "--endpoint", server.url, "--model", "m", "--output", str(tmp_path / "states")]
        argv += ["--reference", str(kit.SAMPLE["root"]), "--parallel_calls", "2"]
        kills = range(5, 46, 4) if kit.THOROUGH else (12,)
        for at in kills:
            process = killed.start(killed.command, argv)
            while len(server.requests) < at and process.is_alive():
                time.sleep(0.01)
            process.kill()
            assert killed.ended(process) == -9
        run("predict", "llm", endpoint=server.url, model="m", output=tmp_path / "states")
        assert len(server.requests) <= 50 + 2 * len(kills)  # what was on its way at each kill
        run("predict", "llm", endpoint=server.url, model="m", output=tmp_path / "whole")
    for path in ("predictions/original/test/dialogues_001.json", "answers/original.jsonl"):
        assert (tmp_path / "states" / path).read_bytes() == (tmp_path / "whole" / path).read_bytes()


def refusing(answer, nth):
    """The same answers, but the n-th request, and what is equal to it, is refused."""
    seen = []

    def reply(body):
        seen.append(body["messages"])
        return Answer({"error": "not this one"}, 400) if body["messages"] in seen[nth : nth + 1] else answer(body)

    return reply


def test_faults_are_absorbed_wrong_or_refused_and_counted(tmp_path, gold):
    faults = ["busy", "down", "cut", "not_json", "empty", "long", "bad"] * 2
    with ChatServer(gold, faults) as server:
        flags = {"endpoint": server.url, "model": "m", "output": tmp_path / "states", "parallel_calls": 1}
        made = run("predict", "llm", **flags, max_bad="8%")
    counts = made.json("run.json")["counts"]
    assert counts["predicted/original"] == 50
    rows = rows_of(tmp_path / "states/answers/original.jsonl")
    wrong = [row["unread"].partition(":")[0] for row in rows if row["unread"]]
    refused_ones = [row["refused"].partition(":")[0] for row in rows if row.get("refused")]
    assert counts["unread/original"] == len(wrong) == 4  # no choice, a megabyte: twice
    assert counts["refused/original"] == len(refused_ones) == 4  # an HTML page, a refusal: twice
    assert set(refused_ones) == {"wrong_answer", "invalid"}
    assert counts["answers_had/original"] == 46
    assert "4 answers that could not be read" in made.output
    assert "4 of 50 requests were refused and will not be scored" in made.errors
    scores = {"predictions": tmp_path / "states/predictions", "output": tmp_path / "scores"}
    made = run("evaluate", task="dst", replicates=0, **scores)
    n = made.json("run.json")["counts"]["refused_frames/original"]
    assert f"original: {n} frames refused by the endpoint, not scored" in made.errors
    numbers = made.json("robustness.json")["sets"]["original"]
    assert numbers["failures"]["frames"] == 50 - n
    accuracy = numbers["metrics"]["#ALL_SERVICES"]["joint_goal_accuracy"]
    assert accuracy == pytest.approx(1 - 4 / (50 - n), abs=0.01)
    assert "refused, not scored" in (tmp_path / "scores/report.html").read_text()


def test_a_dry_run_says_what_it_would_take_and_nothing_is_paid_twice(tmp_path, gold):
    with ChatServer(gold) as server:
        flags = {"endpoint": server.url, "model": "m", "output": tmp_path / "states", "price": "1,2"}
        assert "50 calls to make, 0 more are answered already" in run("predict", "llm", "--dry_run", **flags).output
        assert not (tmp_path / "states").exists()
        assert server.requests == []
        stopped = run("predict", "llm", **flags, max_calls=30, parallel_calls=1, status=1)
        assert "max_calls: 30 calls were made" in stopped.errors
        assert not (tmp_path / "states/run.json").exists()
        second = run("predict", "llm", "--dry_run", **flags).output
        assert "20 calls to make, 30 more are answered already" in second
        run("predict", "llm", **flags)
        assert "0 calls to make, 50 more are answered already" in run("predict", "llm", "--dry_run", **flags).output
        assert (len(server.requests), json.dumps(server.requests).count("Conversation:")) == (50, 50)
    assert "1,200 tokens of answers, $" in second


def test_no_key_is_kept_or_shown(tmp_path, gold, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-secret-of-mine")
    with ChatServer(gold, ["key"]) as server:
        flags = {"endpoint": server.url, "model": "m", "output": tmp_path / "states", "key_variable": "MY_KEY"}
        told = run("predict", "llm", **flags, status=1)
        assert "key" in told.errors
        assert "secret-of-mine" not in told.errors
        run("predict", "llm", **flags)
        assert set(server.keys) == {"Bearer sk-secret-of-mine"}
    files = [path for path in (tmp_path / "states").rglob("*") if path.is_file()]
    assert not [path for path in files if b"secret-of-mine" in path.read_bytes()]
    with sqlite3.connect(tmp_path / "states/.answers.sqlite") as db:
        assert db.execute("SELECT count(*) FROM answers").fetchone() == (50,)


@cases(
    "flags told",
    ([], "--endpoint"),
    (["--endpoint", "ftp://x", "--model", "m"], "is not an address"),
    (["--endpoint", "http://127.0.0.1:9/v1"], "--model"),
    (["--endpoint", "http://127.0.0.1:9/v1", "--model", "m", "--parallel_calls", "0"], "--parallel_calls"),
)
def test_flags_that_cannot_be(tmp_path, flags, told):
    assert told in refused("predict", "llm", *flags, "--output", str(tmp_path / "out"))


SYSTEM = 'title = "t"\n[[systems]]\nname = "mine"\nendpoint = "{}"\n'


def test_the_page_of_a_suite_says_how_a_model_was_asked(tmp_path, gold):
    """Calls, tokens, cost, the share that could not be read; and the raw answer with a wrong frame."""
    answers = iter(range(10_000))

    def answer(body):
        return "I would <b>rather</b> not." if next(answers) % 10 == 0 else gold(body)

    name = "predictions/mine/dst"
    with ChatServer(answer) as server:
        flags = {"endpoint": server.url, "model": "m", "price": "1000,2000", "parallel_calls": 1}
        run("predict", "llm", **flags, output=tmp_path / name)
    graph = Graph(read_suite(str(write(tmp_path / "suite.toml", SYSTEM.format(server.url) + 'model = "m"\n')), ()))
    (row,) = _asked({name: graph.steps[name]}, tmp_path).rows
    assert row == ["mine/dst", f"m\n{server.url}", "50", "10.0%", "0", "$0.65"]
    scored(tmp_path, predictions=tmp_path / name / "predictions")
    failures = (tmp_path / "scores/failures/original.html").read_text()
    assert "I would &lt;b&gt;rather&lt;/b&gt; not. [not readable: not_json]" in failures


def test_the_page_of_a_suite_without_usage_or_with_refusals(tmp_path, gold):
    """What the endpoint does not report is said to be so; what it refused or does not take is beside the answers."""
    name = "predictions/mine/dst"

    def without_usage(body):
        return Answer({"choices": [{"message": {"role": "assistant", "content": gold(body)}}]})

    seedless, no_seed = refusing(without_usage, 0), Answer({"error": {"message": "no", "param": "seed"}}, 400)
    with ChatServer(lambda body: no_seed if "seed" in body else seedless(body)) as server:
        flags = {"endpoint": server.url, "model": "m", "price": "1000,2000", "parallel_calls": 1, "max_bad": "5%"}
        made = run("predict", "llm", **flags, temperature="none", output=tmp_path / name)
        assert not [body for body in server.requests if "temperature" in body]
    assert "0 tokens of requests and 0 tokens of answers" in made.output
    assert "left out of all requests, as the endpoint does not take it: seed" in made.errors
    more = 'model = "m"\ntemperature = "none"\nmax_tokens = 9\nextra_body = { top_k = 1 }\nmax_bad = "5%"\n'
    more += 'insecure_key = true\nstyle = "tools"\napi_key_env = "MY_KEY"\nprice = {input=0.15, output=0.6}\n'
    graph = Graph(read_suite(str(write(tmp_path / "suite.toml", SYSTEM.format(server.url) + more)), ()))
    assert graph.steps["scores/mine/dst"].options["predictions"] == f"@{name}/predictions"
    step = graph.steps[name]
    line = " ".join(command_line(command_of(step, tmp_path)))
    wanted = ("--temperature=none", "--max_tokens=9", '--extra_body={"top_k": 1}', "--max_bad=5%", "--insecure_key")
    assert not lacking(line, *wanted, "predict llm", "--style=tools", "--key_variable=MY_KEY", "--price=0.15,0.6")
    (row,) = _asked({name: step}, tmp_path).rows
    assert row[2:] == ["49", "0.0%", "1", "–"]
    assert json_of(tmp_path / name / "run.json")["counts"]["refusals/invalid: HTTP 400: not this one"] == 1


def test_a_frame_without_an_answer_is_compared_with_nothing(tmp_path, gold):
    """Neither right on the original nor lost in a set."""
    with ChatServer(refusing(gold, 0)) as server:
        flags = {"endpoint": server.url, "model": "m", "output": tmp_path / "states", "parallel_calls": 1}
        sets = [f"{name}={kit.SAMPLE['root']}" for name in ("one", "two")]
        run("predict", "llm", "--sets", *sets, **flags, max_bad="5%")
    scores = {"predictions": tmp_path / "states/predictions", "output": tmp_path / "scores"}
    made = run("evaluate", "--sets", *sets, task="dst", **scores)
    assert made.errors.count("refused by the endpoint, not scored") == 3
    sets_of_run = made.json("robustness.json")["sets"]
    assert {entry["metrics"]["#ALL_SERVICES"]["joint_goal_accuracy"] for entry in sets_of_run.values()} == {1.0}
    assert {entry["failures"]["wrong"] for entry in sets_of_run.values()} == {0}
    run("compare", "--systems", *(f"{name}={tmp_path / 'scores'}" for name in "ab"), output=tmp_path / "compared")


# Turns out of domain, utterances, bAbI dialogues and judges.


def user_of(body):
    return body["messages"][-1]["content"]


@cases(
    "text said",
    ('{"out_of_domain": true, "confidence": 90}', Said("ood", 0.9)),
    ('```json\n{"out_of_domain": false, "confidence": 90}```', Said("in_domain", 0.1)),
    ('{"out_of_domain": false, "confidence": 0}', Said("in_domain", 0.49)),
    ('{"out_of_domain": true, "confidence": 1000}', Said("ood", 1.0)),
    ('{"out_of_domain": true, "confidence": "high"}', Said("ood", 1.0)),
    ('{"out_of_domain": "yes"}', "no_answer"),
    ("Yes.", "not_json"),
    ("} {", "not_json"),
)
def test_what_an_answer_says_of_a_turn(text, said):
    if isinstance(said, str):
        raised(Unreadable, models._domain, Reply(text), match=said)
    else:
        assert models._domain(Reply(text)) == said


def test_answers_that_say_nothing():
    raised(Unreadable, models._label, Reply('{"label": "maybe"}'), match="no_label")
    assert models._label(Reply('{"label": "Entailment"}')) == (1.0, 0.0, 0.0)
    raised(Unreadable, models._utterance, Reply(" \n"), match="empty")
    assert models._utterance(Reply('"It is\nred."')).candidates[0].utterance == "It is red."
    raised(Unreadable, object_in, "[1]", match="not_json")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory, sample):
    return run("ood", rates="0.2", output=tmp_path_factory.mktemp("ood") / "ood").folder


def test_turns_out_of_domain(tmp_path, foreign):
    """Who knows is right; an answer that says nothing is wrong, whatever is right."""
    rows = [row for path in foreign.rglob("turns/**/*.parquet") for row in rows_of(path)]
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
    said = [labels[row["utterance"]] != (row["utterance"] in speechless) for row in rows]
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
    "body told", ("", "block user"), ("{% block user %}", "line 1"), ("{% block user %}{{ xyz }}{% endblock %}", "xyz")
)
def test_prompts_that_cannot_be(tmp_path, body, told):
    path = write(tmp_path / "mine.jinja", f"Hi{body}")
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
    text = SYSTEM.format("http://127.0.0.1:8080/v1") + 'model = "m"\nstyle = "text"\nood = {}\n'
    text += 'generation = { scorer = "lexical" }\n'
    text += 'ranking = { reference = ["tst.txt"], examples = "trn.txt", candidates = "all.txt" }\n'
    steps = Graph(read_suite(str(write(tmp_path / "suite.toml", text)))).steps
    asked = {name: step.command[1] for name, step in steps.items() if step.command[0] == "predict"}
    models = {"dst": "llm", "ood": "llm_ood", "generation": "llm_utterances", "ranking": "llm_babi"}
    assert asked == {f"predictions/mine/{task}": model for task, model in models.items()}
    assert {step.options["model"] for step in steps.values() if step.command[0] == "predict"} == {"m"}
    assert "style" not in steps["predictions/mine/ood"].options
    assert "candidates" in steps["scores/mine/ranking"].options
    assert steps["scores/mine/generation"].options["scorer"] == "lexical"


def test_refused_requests_are_not_scored(tmp_path, foreign):
    """Neither as wrong nor as right, in any task; they are counted wherever numbers are."""
    few = corpus(tmp_path / "few", test=sample_dialogues()[:4])
    babi = write(tmp_path / "task1-tst.txt", "".join(dialogue_text(one.lines) for one in dialogues()[:4]))
    function = {"name": "f", "parameters": {}}
    questions = [[[{"role": "user", "content": text}]] for text in "abcd"]
    calls = [{"id": f"irrelevance_{i}", "question": text, "function": [function]} for i, text in enumerate(questions)]
    every = {
        "llm_tools": (("tool_calls", write(tmp_path / "calls.jsonl", calls)), lambda _: "No.", "accuracy"),
        "llm_ood": (("ood", foreign), lambda _: '{"out_of_domain": true, "confidence": 80}', "accuracy"),
        "llm_utterances": (("generation", few), lambda _: "Hm.", "slot_error_rate"),
        "llm_babi": (("ranking", babi), lambda _: "Hm.", "per_response"),
    }
    for model, ((task, reference), answer, metric) in every.items():
        predictions, scores = tmp_path / model, tmp_path / f"scores_{model}"
        with ChatServer(refusing(answer, 2)) as server:
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
    with ChatServer(refusing(lambda _: '{"label": "neutral"}', 2)) as server:
        flags = {"endpoint": server.url, "model": "m", "reference": few, "scorer": "llm", "predictions": "reference"}
        made = run("evaluate", "--task", "generation", **flags, output=tmp_path / "scores", status=1)
    assert "invalid: HTTP 400: not this one" in made.errors
    assert not (tmp_path / "scores/metrics.json").exists()
