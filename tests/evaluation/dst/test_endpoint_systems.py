"""Language models behind an endpoint as trackers: what they are asked, what their answers say, faults, and costs."""

import json
import sqlite3
import time

import killed
import kit
import pytest
from chat_server import ChatServer
from kit import service, slot
from local_http import Answer

from parapet.evaluation.dst.model import Example
from parapet.evaluation.endpoint import models
from parapet.evaluation.endpoint.asking import prompt_of
from parapet.pipelines.app import command_line
from parapet.pipelines.suite.graph import Graph
from parapet.pipelines.suite.page import _asked
from parapet.pipelines.suite.suite_file import command_of, read_suite
from parapet.schemas.service import parse_service
from parapet.transforms.core.replies import Reply, Unreadable

SLOTS = [slot("to", "Where to"), slot("time", "When"), slot("seats", "How many", "1", "2")]
SLOTS.append(slot("wifi", "WiFi", "True", "False"))
BUSES = parse_service(service("Buses_1", SLOTS, [kit.intent("FindBus", "Find one")], "Bus tickets"))
SAID = (
    ("USER", "Two seats to Fresno, half past 5 in the evening on March 3rd"),
    ("SYSTEM", "By 6 pm?"),
    ("USER", "No."),
)
ASKED = Example("1", 2, BUSES, SAID)


@kit.cases(
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


@kit.cases(
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


@kit.cases(
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
    kit.raised(Unreadable, models.state_of, reply, ASKED, style, match=f"^{why}$")
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
    return oracle(kit.sample_dialogues())


def scored(folder, **more):
    """The metrics over all services of the predictions in ``states``, without confidence intervals."""
    flags = {"predictions": folder / "states/predictions", "output": folder / "scores", "replicates": 0, **more}
    return kit.run("evaluate", task="dst", **flags).json("metrics.json")["#ALL_SERVICES"]


@pytest.mark.parametrize("style", models.STYLES)
def test_who_knows_the_states_is_right_in_every_style(tmp_path, gold, style):
    with ChatServer(gold) as server:
        flags = {"model": "m", "style": style, "output": tmp_path / "states"}
        made = kit.run("predict", "llm", "--endpoint", server.url, **flags)
        sent = len(server.requests)
        assert "50 frames\n0 answers that could not be read" in made.output
        before = {path: data for path, data in made.files.items() if path[0] != "."}
        if style == "json" or kit.THOROUGH:
            kit.run("predict", "llm", "--endpoint", server.url, **flags)
        assert len(server.requests) == sent == 50  # a rerun asks nobody
        assert made.files.items() >= before.items()
    numbers = scored(tmp_path)
    names = ("joint_goal_accuracy", "active_intent_accuracy", "requested_slots_f1")
    assert [numbers[name] for name in names] == [1.0] * 3
    rows = kit.rows_of(tmp_path / "states/answers/original.jsonl")
    assert len(rows) == 50
    assert not any(row["unread"] for row in rows)


def test_turns_with_a_frame_of_every_service(tmp_path, sample):
    """As MultiWOZ 2.2 has them, most of them idle."""
    dialogues = kit.sample_dialogues()[:6]
    services = sorted({frame["service"] for one in dialogues for turn in one["turns"] for frame in turn["frames"]})
    idle = {"active_intent": "NONE", "requested_slots": [], "slot_values": {}}
    for dialogue in dialogues:
        dialogue["services"] = services
        for turn in dialogue["turns"]:
            there = {frame["service"] for frame in turn["frames"]}
            more = [service for service in services if service not in there and turn["speaker"] == "USER"]
            turn["frames"] += [{"service": service, "slots": [], "actions": [], "state": idle} for service in more]
    root = kit.corpus(tmp_path / "woz", kit.json_of(sample / "test/schema.json"), test=dialogues)
    with ChatServer(oracle(dialogues)) as server:
        kit.run("predict", "llm", "--endpoint", server.url, model="m", sgd=root, output=tmp_path / "states")
    numbers = scored(tmp_path, reference=root)
    assert (numbers["joint_goal_accuracy"], numbers["active_intent_accuracy"]) == (1.0, 1.0)


def test_a_prediction_that_is_killed_goes_on(tmp_path, gold):
    """Whenever it dies: what was answered is asked once, and the end is the same."""
    with ChatServer(slow(gold)) as server:
        argv = ["predict", "llm", "--endpoint", server.url, "--model", "m", "--output", str(tmp_path / "states")]
        argv += ["--reference", str(kit.SAMPLE["root"]), "--parallel_calls", "2"]
        kills = range(5, 46, 4) if kit.THOROUGH else (12,)
        for at in kills:
            process = killed.start(killed.command, argv)
            while len(server.requests) < at and process.is_alive():
                time.sleep(0.01)
            process.kill()
            assert killed.ended(process) == -9
        kit.run("predict", "llm", endpoint=server.url, model="m", output=tmp_path / "states")
        assert len(server.requests) <= 50 + 2 * len(kills)  # what was on its way at each kill
        kit.run("predict", "llm", endpoint=server.url, model="m", output=tmp_path / "whole")
    for path in ("predictions/original/test/dialogues_001.json", "answers/original.jsonl"):
        assert (tmp_path / "states" / path).read_bytes() == (tmp_path / "whole" / path).read_bytes()


def slow(answer):
    """The same answers, after a moment."""

    def later(body):
        time.sleep(0.02)
        return answer(body)

    return later


def test_faults_are_absorbed_wrong_or_refused_and_counted(tmp_path, gold):
    faults = ["busy", "down", "cut", "not_json", "empty", "long", "bad"] * 2
    with ChatServer(gold, faults) as server:
        flags = {"endpoint": server.url, "model": "m", "output": tmp_path / "states", "parallel_calls": 1}
        made = kit.run("predict", "llm", **flags, max_bad="8%")
    counts = made.json("run.json")["counts"]
    assert counts["predicted/original"] == 50
    rows = kit.rows_of(tmp_path / "states/answers/original.jsonl")
    wrong = [row["unread"].partition(":")[0] for row in rows if row["unread"]]
    refused_ones = [row["refused"].partition(":")[0] for row in rows if row.get("refused")]
    assert counts["unread/original"] == len(wrong) == 4  # no choice, a megabyte: twice
    assert counts["refused/original"] == len(refused_ones) == 4  # an HTML page, a refusal: twice
    assert set(refused_ones) == {"wrong_answer", "invalid"}
    assert counts["answers_had/original"] == 46
    assert "4 answers that could not be read" in made.output
    assert "4 of 50 requests were refused and will not be scored" in made.errors
    unscored = scored_and_told = kit.run(
        "evaluate", task="dst", predictions=tmp_path / "states/predictions", output=tmp_path / "scores", replicates=0
    )
    n = unscored.json("run.json")["counts"]["refused_frames/original"]
    assert f"original: {n} frames refused by the endpoint, not scored" in scored_and_told.errors
    numbers = unscored.json("robustness.json")["sets"]["original"]
    assert numbers["failures"]["frames"] == 50 - n
    accuracy = numbers["metrics"]["#ALL_SERVICES"]["joint_goal_accuracy"]
    assert accuracy == pytest.approx(1 - 4 / (50 - n), abs=0.01)
    assert "refused, not scored" in (tmp_path / "scores/report.html").read_text()


def test_a_dry_run_says_what_it_would_take_and_nothing_is_paid_twice(tmp_path, gold):
    with ChatServer(gold) as server:
        flags = {"endpoint": server.url, "model": "m", "output": tmp_path / "states", "price": "1,2"}
        assert "50 calls to make, 0 more are answered already" in kit.run("predict", "llm", "--dry_run", **flags).output
        assert not (tmp_path / "states").exists()
        assert server.requests == []
        stopped = kit.run("predict", "llm", **flags, max_calls=30, parallel_calls=1, status=1)
        assert "max_calls: 30 calls were made" in stopped.errors
        assert not (tmp_path / "states/run.json").exists()
        second = kit.run("predict", "llm", "--dry_run", **flags).output
        assert "20 calls to make, 30 more are answered already" in second
        kit.run("predict", "llm", **flags)
        assert "0 calls to make, 50 more are answered already" in kit.run("predict", "llm", "--dry_run", **flags).output
        assert (len(server.requests), json.dumps(server.requests).count("Conversation:")) == (50, 50)
    assert "1,200 tokens of answers, $" in second


def test_no_key_is_kept_or_shown(tmp_path, gold, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-secret-of-mine")
    with ChatServer(gold, ["key"]) as server:
        flags = {"endpoint": server.url, "model": "m", "output": tmp_path / "states", "key_variable": "MY_KEY"}
        told = kit.run("predict", "llm", **flags, status=1)
        assert "key" in told.errors
        assert "secret-of-mine" not in told.errors
        kit.run("predict", "llm", **flags)
        assert set(server.keys) == {"Bearer sk-secret-of-mine"}
    files = [path for path in (tmp_path / "states").rglob("*") if path.is_file()]
    assert not [path for path in files if b"secret-of-mine" in path.read_bytes()]
    with sqlite3.connect(tmp_path / "states/.answers.sqlite") as db:
        assert db.execute("SELECT count(*) FROM answers").fetchone() == (50,)


@kit.cases(
    "flags told",
    ([], "--endpoint"),
    (["--endpoint", "ftp://x", "--model", "m"], "is not an address"),
    (["--endpoint", "http://127.0.0.1:9/v1"], "--model"),
    (["--endpoint", "http://127.0.0.1:9/v1", "--model", "m", "--parallel_calls", "0"], "--parallel_calls"),
)
def test_flags_that_cannot_be(tmp_path, flags, told):
    assert told in kit.refused("predict", "llm", *flags, "--output", str(tmp_path / "out"))


SYSTEM = 'title = "t"\n[[systems]]\nname = "mine"\nendpoint = "{}"\n'


def test_the_page_of_a_suite_says_how_a_model_was_asked(tmp_path, gold):
    """Calls, tokens, cost, the share that could not be read; and the raw answer with a wrong frame."""
    answers = iter(range(10_000))

    def answer(body):
        return "I would <b>rather</b> not." if next(answers) % 10 == 0 else gold(body)

    name = "predictions/mine/dst"
    with ChatServer(answer) as server:
        flags = {"endpoint": server.url, "model": "m", "price": "1000,2000", "parallel_calls": 1}
        kit.run("predict", "llm", **flags, output=tmp_path / name)
    suite = kit.write(tmp_path / "suite.toml", SYSTEM.format(server.url) + 'model = "m"\n')
    graph = Graph(read_suite(str(suite), ()))
    (row,) = _asked({name: graph.steps[name]}, tmp_path).rows
    assert row == ["mine/dst", f"m\n{server.url}", "50", "10.0%", "0", "$0.65"]
    scored(tmp_path, predictions=tmp_path / name / "predictions")
    failures = (tmp_path / "scores/failures/original.html").read_text()
    assert "I would &lt;b&gt;rather&lt;/b&gt; not. [not readable: not_json]" in failures


def test_the_page_of_a_suite_without_usage_or_with_refusals(tmp_path, gold):
    """What the endpoint does not report is said to be so; what it refused or does not take is beside the answers."""
    name = "predictions/mine/dst"
    seen = []

    def answer(body):
        if "seed" in body:
            return Answer({"error": {"message": "no", "param": "seed"}}, 400)
        seen.append(body["messages"])
        if body["messages"] == seen[0]:
            return Answer({"error": "not this one"}, 400)
        return Answer({"choices": [{"message": {"role": "assistant", "content": gold(body)}}]})

    with ChatServer(answer) as server:
        flags = {"endpoint": server.url, "model": "m", "price": "1000,2000", "parallel_calls": 1, "max_bad": "5%"}
        made = kit.run("predict", "llm", **flags, temperature="none", output=tmp_path / name)
        assert not [body for body in server.requests if "temperature" in body]
    assert "0 tokens of requests and 0 tokens of answers" in made.output
    assert "left out of all requests, as the endpoint does not take it: seed" in made.errors
    more = 'model = "m"\ntemperature = "none"\nmax_tokens = 9\nextra_body = { top_k = 1 }\nmax_bad = "5%"\n'
    more += 'insecure_key = true\nstyle = "tools"\napi_key_env = "MY_KEY"\nprice = {input=0.15, output=0.6}\n'
    graph = Graph(read_suite(str(kit.write(tmp_path / "suite.toml", SYSTEM.format(server.url) + more)), ()))
    assert graph.steps["scores/mine/dst"].options["predictions"] == f"@{name}/predictions"
    step = graph.steps[name]
    line = " ".join(command_line(command_of(step, tmp_path)))
    wanted = ("--temperature=none", "--max_tokens=9", '--extra_body={"top_k": 1}', "--max_bad=5%", "--insecure_key")
    assert not kit.lacking(line, *wanted, "predict llm", "--style=tools", "--key_variable=MY_KEY", "--price=0.15,0.6")
    (row,) = _asked({name: step}, tmp_path).rows
    assert row[2:] == ["49", "0.0%", "1", "–"]
    numbers = kit.json_of(tmp_path / name / "run.json")
    assert numbers["counts"]["refusals/invalid: HTTP 400: not this one"] == 1


def test_a_frame_without_an_answer_is_compared_with_nothing(tmp_path, gold):
    """Neither right on the original nor lost in a set."""
    seen = []

    def answer(body):
        seen.append(body["messages"])
        return Answer({"error": "not this one"}, 400) if body["messages"] == seen[0] else gold(body)

    with ChatServer(answer) as server:
        flags = {"endpoint": server.url, "model": "m", "output": tmp_path / "states", "parallel_calls": 1}
        sets = [f"{name}={kit.SAMPLE['root']}" for name in ("one", "two")]
        kit.run("predict", "llm", "--sets", *sets, **flags, max_bad="5%")
    scores = {"predictions": tmp_path / "states/predictions", "output": tmp_path / "scores"}
    made = kit.run("evaluate", "--sets", *sets, task="dst", **scores)
    assert made.errors.count("refused by the endpoint, not scored") == 3
    sets_of_run = made.json("robustness.json")["sets"]
    assert {entry["metrics"]["#ALL_SERVICES"]["joint_goal_accuracy"] for entry in sets_of_run.values()} == {1.0}
    assert {entry["failures"]["wrong"] for entry in sets_of_run.values()} == {0}
    kit.run("compare", "--systems", *(f"{name}={tmp_path / 'scores'}" for name in "ab"), output=tmp_path / "compared")
