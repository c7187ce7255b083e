"""``parapet perturb NAME`` on chats, of which only what the user says changes, and on agents' tasks."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import BUNDLED, TWO_WORKERS, cases, files_of, refused, rows_of, run, write

from parapet.evaluation.tools.tasks import read_tasks
from parapet.schemas.dialogue import LINE, line_text, read_messages, user_turn, values_in
from parapet.transforms.perturb.files import reworded_tasks, texts_of_tasks
from parapet.transforms.perturb.toolkits import Catalogue, may_be_same, things_of


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **arguments):
    call = {"id": "c1", "type": "function", "function": {"name": "book", "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": text, **({"tool_calls": [call]} if arguments else {})}


TAXI = [
    {"role": "system", "content": "You book taxis."},
    user("I would like to book a taxi to Port Alder for two people"),
    assistant(None, destination="Port Alder"),
    {"role": "tool", "tool_call_id": "c1", "content": "booked"},
    assistant("Your taxi is booked."),
    user("Thank you very much"),
]
PICTURE = [{"type": "text", "text": "Please describe the picture for me"}, {"type": "image_url", "image_url": {}}]
CHATS = [
    {"messages": TAXI, "split": "train", "weight": 1.5},
    {"id": "b", "messages": [user(PICTURE)]},
    {"id": 7, "messages": [user("Bonjour, où est la gare, please tell me"), assistant("Là-bas.")]},
    {"messages": [assistant("Hello!")]},
]


def as_lines(chats, **options):
    return "".join(f"{json.dumps(chat, **options)}\n" for chat in chats)


def lines_of(path):
    return path.read_bytes().decode().splitlines()


@pytest.fixture
def chats(tmp_path):
    return write(tmp_path / "chats.jsonl", as_lines(CHATS))


@pytest.mark.parametrize("kind", ["typos", "paraphrase"])
def test_only_what_the_user_says_changes(kind, chats, tmp_path):
    made = run("perturb", kind, messages=chats, seed=1, output=tmp_path / "out")
    found = rows_of(tmp_path / f"out/{kind}/chats.jsonl")
    texts = {}
    for name, before, after in zip(["line_0000001", "b", "7", "line_0000004"], CHATS, found, strict=True):
        for i, (old, new) in enumerate(zip(before["messages"], after["messages"], strict=True)):
            if old != new:
                assert old["role"] == "user"
                texts[name, i] = new["content"][0]["text"] if isinstance(new["content"], list) else new["content"]
                new["content"] = old["content"]
    assert found == CHATS
    rows = [row for row in made.rows() if row["status"] == "varied"]
    assert {(row["dialogue_id"], row["turn"]): row["utterance"] for row in rows} == texts != {}
    assert "Port Alder" in texts.get(("line_0000001", 1), "Port Alder")  # which the call of the function needs
    assert made.manifest["counts"]["dialogues"] == len(CHATS)
    assert not made.dead_letters
    assert "schema.json" not in "".join(made.files)


def test_lines_without_a_change_keep_their_bytes_and_others_their_style(tmp_path):
    kept = ['{"messages":[{"role":"user","content":"ok"}], "weight": 1e2}', '{"messages": [ ], "z": "\\u00e9"}']
    compact = json.dumps(CHATS[1], separators=(",", ":"))
    text = "\r\n".join([*kept, compact, json.dumps(CHATS[2]), json.dumps(CHATS[2] | {"id": 8}, ensure_ascii=False)])
    write(tmp_path / "chats.jsonl", f"\ufeff{text}\n\n")
    run("perturb", "typos", messages=tmp_path / "chats.jsonl", output=tmp_path / "out")
    lines = lines_of(tmp_path / "out/typos/chats.jsonl")
    assert lines[:2] == kept
    assert '":"' in lines[2]
    assert '": ' not in lines[2]
    assert r"o\u00f9" in lines[3]
    assert "où" in lines[4]
    originals = [CHATS[1]["messages"], CHATS[2]["messages"]]
    assert not [line for line in lines[2:] if json.loads(line)["messages"] in originals]


def text(of):
    return {"type": "text", "text": of}


WISH, THANKS = "I would like to book a taxi to Port Alder please", "Thank you very much for your help"
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [text("The taxi to Port Alder is booked.")]}
CALL = {"type": "tool_use", "id": "t1", "name": "book", "input": {"destination": "Port Alder"}}
IMAGE = {"type": "image", "source": {"type": "base64", "data": "aGVsbG8gd29ybGQgb2YgdGF4aXM="}}


@cases(
    "contents texts",
    ([[text(WISH)], [RESULT], [text(THANKS)]], {(0, 0): WISH, (2, 0): THANKS}),
    ([[IMAGE], WISH], {(1, None): WISH}),
    ([[text(WISH), IMAGE, text(THANKS)]], {(0, 0): WISH, (0, 2): THANKS}),
    ([[RESULT, text(THANKS)], None, [], [{"type": "input_text", "text": WISH}]], {(0, 1): THANKS, (3, 0): WISH}),
    ([[WISH, IMAGE]], {(0, 0): WISH}),
)
def test_each_text_of_a_user_changes_and_nothing_else(contents, texts, tmp_path):
    messages = [user(contents[0]), {"role": "assistant", "content": [text("One moment, please."), CALL]}]
    messages += map(user, contents[1:])
    chats = write(tmp_path / "chats.jsonl", as_lines([{"system": "Help.", "messages": messages}]))
    result = run("perturb", "verbose", messages=chats, output=tmp_path / "out")
    (found,) = rows_of(tmp_path / "out/verbose/chats.jsonl")
    assert not result.dead_letters
    said = [message for message in found["messages"] if message["role"] == "user"]
    for (i, part), before in texts.items():
        holder, key = (said[i], "content") if part is None else (said[i]["content"], part)
        holder, key = (holder[key], "text") if isinstance(holder[key], dict) else (holder, key)
        assert len(holder[key]) > len(before)
        assert "Port Alder" in holder[key] or before == THANKS
        holder[key] = before
    assert found == {"system": "Help.", "messages": messages}


def test_several_files_in_mixes_which_go_in_again(chats, tmp_path):
    write(tmp_path / "more.jsonl", as_lines(CHATS[:2]))
    flags = {"messages": [chats, tmp_path / "more.jsonl"], "env": "0.5"}
    run("language_variations", **flags, kinds="typos", output=tmp_path / "one")
    for folder in ("typos", "typos-env1"):
        assert {path.name for path in (tmp_path / "one" / folder).glob("*.jsonl")} == {"chats.jsonl", "more.jsonl"}
    again = run("perturb", "verbose", messages=tmp_path / "one/typos/chats.jsonl", output=tmp_path / "again")
    assert again.manifest["counts"]["dialogues"] == len(CHATS)


BAD = {
    "not json": "not_json",
    '{"messages": "Hi"}': "not_messages: expected",
    "[1]": "not_messages: expected",
    '{"prompt": "Hi"}': "not_messages: expected",
    '{"messages": ["Hi"]}': "not_messages: expected",
    '{"messages": [{"role": "human", "content": "Hi"}]}': "not_messages: unknown role 'human': expected one of user,",
    '{"messages": [{"role": "user", "content": 5}]}': "not_messages: expected a text, or a list of parts",
    '{"messages": [{"role": "user", "content": {"text": "a"}}]}': "not_messages: expected a text",
    '{"messages": [{"role": "user", "content": "\\ud800"}]}': "not_json: ",
    '{"id": "b", "messages": []}': "duplicate_id: dialogue 'b' appears twice",
}


def test_bad_lines_are_dead_letters_with_file_and_line(tmp_path):
    path = write(tmp_path / "chats.jsonl", as_lines(CHATS) + "\n".join(BAD))
    made = run("perturb", "typos", messages=path, max_bad="80%", output=tmp_path / "out")
    letters = sorted(made.dead_letters, key=lambda letter: int(letter["where"].split(":")[0].split()[1]))
    assert [letter["where"].partition(":")[0] for letter in letters] == [f"line {5 + i}" for i in range(len(BAD))]
    assert {letter["file"] for letter in letters} == {"chats.jsonl"}
    for letter, reason in zip(letters, BAD.values(), strict=True):
        assert letter["reason"].startswith(reason)
    assert letters[4]["where"] == "line 9: messages[0]"
    assert len(lines_of(tmp_path / "out/typos/chats.jsonl")) == len(CHATS)
    said = run("perturb", "typos", messages=path, output=tmp_path / "no", status=1).errors
    assert f"{len(BAD)} of {len(BAD) + len(CHATS)} dialogues" in said
    assert not (tmp_path / "no/run.json").exists()


@cases(
    "content reason",
    ("", "has no chat messages: expected lines such as"),
    ('{"text": "Hi"}', "has no chat messages"),
    ('[{"messages": []}]', "a JSON list, and not JSON lines: write one conversation a line"),
)
def test_files_without_messages(content, reason, tmp_path):
    path = write(tmp_path / "chats.jsonl", content)
    said = refused("perturb", "typos", messages=path, output=tmp_path / "out", status=(1, 2))
    assert ("chats.jsonl" in said, reason in said) == (True, True)


def test_flags_that_contradict(chats, tmp_path):
    flags = {"messages": chats, "output": tmp_path / "out"}
    assert "--messages: give either --sgd or --messages" in refused("perturb", "typos", **flags, sgd=chats)
    for name in ("ood", "unseen_entities"):
        said = refused("perturb", name, **flags)
        assert f"--messages: {name} needs schemas and states, which chat messages do not have" in said
    flags["messages"] = [chats, write(tmp_path / "other/chats.jsonl", as_lines(CHATS))]
    assert "two files are called 'chats.jsonl': rename one" in refused("perturb", "typos", **flags)
    said = refused("perturb", "typos", sgd=chats, output=tmp_path / "out")
    assert "'parapet perturb typos --messages FILE'" in said


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.text(max_size=20))), st.booleans())
def test_lines_come_back(messages, is_ascii):
    record = {"messages": [{"role": role, "content": text} for role, text in messages]}
    line = json.dumps(record, ensure_ascii=is_ascii).encode()
    (dialogue,) = read_messages(line + b"\n", "chats.jsonl")
    assert line_text(dialogue[LINE], dialogue["turns"]) == line + b"\n"
    changed = [{**turn, "utterance": f"{turn['utterance']}!"} for turn in dialogue["turns"]]
    expected = [text + "!" * (role == "user") for role, text in messages]
    assert [one["content"] for one in json.loads(line_text(dialogue[LINE], changed))["messages"]] == expected


BOOK = {"name": "hotel.book", "description": "Books", "parameters": {"type": "dict", "properties": {}, "required": []}}
TASK = {"id": "simple_0", "function": [BOOK], "more": 1}


@cases(
    "calls values",
    ([{"f": {"city": ["New York, NY"]}}], {"New York, NY", "New York", "NY", "New", "York"}),
    ([{"f": {"n": [2, 2.5, True], "of": [{"x": [["a b"]]}]}}], {"2", "2.5", "a b"}),
    ([], set()),
)
def test_what_right_calls_need(calls, values):
    assert set(values_in(calls)) == values


@given(st.text("ab 1,.'", min_size=1, max_size=40).filter(str.strip))
def test_tasks_are_a_corpus_and_come_back(text):
    task = {"id": "a_0", "question": [[{"role": "system", "content": "S"}, {"role": "user", "content": text}]]}
    texts, _ = texts_of_tasks([task], {"a_0": {"id": "a_0", "ground_truth": [{"f": {"x": ["a", "b 1"]}}]}})
    ((name, (said, values)),) = texts.items()
    assert said == text
    assert reworded_tasks([task], {name: text}) == ([task], 0)
    ((changed,), n) = reworded_tasks([task], {name: "Bye."})
    assert (n, changed["question"][0][1]["content"], task["question"][0][1]["content"]) == (1, "Bye.", text)
    frame = user_turn(text, values)["frames"][0]
    said = [text[span["start"] : span["exclusive_end"]].lower() for span in frame["slots"]]
    assert set(said) <= {"a", "b", "b 1", "1"}


def test_requests_are_perturbed_and_what_the_calls_need_stays(tmp_path):
    request = "Please find the cheapest room in New York for two people from Friday"
    task = {**TASK, "question": [[user(request)]]}
    truth = {"id": "simple_0", "ground_truth": [{"hotel.book": {"city": ["New York, NY"], "guests": [[]]}}]}
    write(tmp_path / "tasks/simple.json", json.dumps(task))
    write(tmp_path / "tasks/possible_answer/simple.json", json.dumps(truth))
    flags = {"tasks": tmp_path / "tasks", "output": tmp_path / "out"}
    assert "out/typos: 1 of 1 message changed" in run("perturb", "typos", **flags).output
    (found,) = rows_of(tmp_path / "out/typos/simple.json")
    said = found["question"][0][0]["content"]
    assert said != request
    assert "New York" in said
    assert {**found, "question": task["question"]} == task
    assert rows_of(tmp_path / "out/typos/possible_answer/simple.json") == [truth]
    flags["output"] = tmp_path / "no"
    reasons = {"ood": "single turn", "speech_errors": "single turn", "language_variations": "use typos"}
    for name, reason in reasons.items():
        assert reason in refused("perturb", name, **flags)


def test_only_the_texts_of_the_user_change_in_a_conversation(tmp_path):
    talk = [*TAXI[:1], user([text(WISH), IMAGE]), *TAXI[2:4], user([RESULT, text(THANKS)]), user(WISH)]
    tasks = with_calls(tmp_path / "tasks", ([TAXI[2]["tool_calls"][0]["function"]["name"]], ["book"]))
    write(tasks, [{**task, "question": [talk[:3], talk[3:]]} for task in rows_of(tasks)])
    made = run("perturb", "typos", tasks=tasks, output=tmp_path / "out")
    assert "3 of 3 messages changed" in made.output
    (found,) = made.rows("typos/tasks.jsonl")
    changed = [message for turn in found["question"] for message in turn]
    for i, place in ((1, 0), (4, 1)):
        assert changed[i]["content"][place]["text"] != talk[i]["content"][place]["text"]
        changed[i]["content"][place] = talk[i]["content"][place]
    assert changed[5]["content"] != talk[5]["content"]
    assert changed[:5] == talk[:5]


def tools_named(*names):
    return [{"name": name, "description": f"Does {name.replace('_', ' ')}", "parameters": {}} for name in names]


NAMES = ["find_room", "rooms.search", "get_room_details", "book_room", "room_price", "find_train", "book_train", "sum"]


@cases(
    "name other same",
    ("rooms.search", "get_room_details", True),
    ("Weather_1_GetWeather", "weather.forecast", True),
    ("t_test", "run_two_sample_ttest", True),
    ("get_order_v2", "fetchOrders", True),
    ("book_room", "hotel.booking", False),
    ("math.lcm", "math.gcd", False),
    ("country_info.capital", "country_info.population", False),
    ("search", "weather_at", False),
)
def test_names_of_tools_that_may_do_the_same(name, other, same):
    assert may_be_same(name, other) == may_be_same(other, name) == same


def test_similar_tools_are_no_equivalent_ones():
    wrapped = {"type": "function", "function": tools_named(NAMES[0])[0]}
    tools = [*tools_named(*NAMES[1:]), wrapped, {"type": "web_search"}]
    similar = Catalogue(tools).similar(["find_room"], ["room_price"])
    assert not {"rooms.search", "find_room", "get_room_details", "room_price"} & set(similar)
    assert {"find_train", "book_train", "sum"} <= set(similar)
    assert things_of("rooms.search") == things_of("get_room_details") == {"room"}


def with_calls(place, *tasks):
    """A file of tasks with these tools and right calls."""
    rows = [{"question": [[user("Go")]], "function": tools_named(*names)} for names, _ in tasks]
    truths = [{"ground_truth": [{name: {}} for name in right]} for _, right in tasks]
    for path, content in {"tasks": rows, "possible_answer/tasks": truths}.items():
        write(place / f"{path}.jsonl", [{"id": f"simple_{i}", **row} for i, row in enumerate(content)])
    return place / "tasks.jsonl"


def names_of(path):
    return [[tool["name"] for tool in task["function"]] for task in rows_of(path)]


def test_no_distractor_does_the_same_as_any_of_the_right_tools(tmp_path):
    """Nor as another tool of the task; of two right ones, both go, with what does the same as they do."""
    others = [(["geometry.area_circle"], ["geometry.area_circle"]), (["Weather_1"], []), (["play_song"], ["play_song"])]
    first = ["sum", "area_circle.calculate", "weather_forecast"]
    tasks = with_calls(tmp_path, (first, first[:2]), *others, ([], []))
    made = run("perturb", "distractors", tasks=tasks, count=[1, 3], output=tmp_path / "out")
    found = names_of(tmp_path / "out/distractors-3/tasks.jsonl")
    assert (set(found[0]), found[4]) == ({*first, "play_song"}, [])
    assert "distractors-3: 5 tasks, 2 of them with fewer tools than asked for" in made.output
    run("perturb", "missing_tool", tasks=tasks, output=tmp_path / "less")
    assert names_of(tmp_path / "less/missing_tool/tasks.jsonl")[0] == ["weather_forecast", "play_song"]
    shared = ["get_weather", "weather_forecast", "translate_text", "translator", "math.lcm", "delete_file"]
    tasks = with_calls(tmp_path / "shared", (shared, ["get_weather"]), (shared, ["translator", "math.lcm"]))
    run("perturb", "missing_tool", tasks=tasks, output=tmp_path / "none")
    weather, others = names_of(tmp_path / "none/missing_tool/tasks.jsonl")
    assert (weather, others) == (shared[2:], ["get_weather", "weather_forecast", "delete_file"])


@cases("name", "typos", "distractors", "missing_tool", "corrupted")
def test_two_workers_share_the_files_and_write_the_same_bytes(name, tmp_path):
    """Distractors are tools of all files, whichever worker writes a task."""
    rows, truths = (rows_of(BUNDLED / "tools" / path) for path in ("tasks.jsonl", "possible_answer/tasks.jsonl"))
    for i in (0, 20):
        write(tmp_path / f"tasks/{i}.jsonl", rows[i : i + 20])
        write(tmp_path / f"tasks/possible_answer/{i}.jsonl", truths[i : i + 20])
    run("perturb", name, tasks=tmp_path / "tasks", output=tmp_path / "one")
    run("perturb", name, *TWO_WORKERS, tasks=tmp_path / "tasks", output=tmp_path / "two")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_a_toolkit_that_all_tasks_share_has_no_distractors(tmp_path):
    shared = ["get_order", "cancel_order", "track_parcel"]
    tasks = with_calls(tmp_path, (shared, ["get_order"]), (shared, ["track_parcel"]))
    told = run("perturb", "distractors", tasks=tasks, count=5, output=tmp_path / "out", status=(1, 2)).errors
    assert "the tasks have no other tools to add: all offer the same ones" in told
    planned = run("suite", "tools", "--dry_run", tasks=tasks, output=tmp_path / "suite")
    assert "left out: sets/distractors: the tasks have no other tools to add" in planned.errors
    assert "sets/distractors" not in planned.output
    assert "sets/missing_tool" in planned.output
    alone = with_calls(tmp_path / "one", (["get_order"], ["get_order"]))
    told = run("perturb", "missing_tool", tasks=alone, output=tmp_path / "no", status=(1, 2)).errors
    assert "or no tool would be left" in told


def test_distractors_and_missing_tools(tmp_path):
    tasks = with_calls(tmp_path / "tasks", *(([name], [name]) for name in NAMES))
    flags = {"tasks": tasks, "output": tmp_path / "out"}
    run("perturb", "distractors", "--count", "2", "3", **flags)
    found = names_of(tmp_path / "out/distractors-2/tasks.jsonl")
    assert {len(names) for names in found} == {3}
    assert len({names.index(name) for names, name in zip(found, NAMES, strict=True)}) > 1  # at different places
    answers = "possible_answer/tasks.jsonl"
    assert rows_of(tmp_path / "out/distractors-3" / answers) == rows_of(tmp_path / "tasks" / answers)
    assert {len(names) for names in names_of(tmp_path / "out/distractors-3/tasks.jsonl")} <= {3, 4}
    run("perturb", "missing_tool", tasks=tasks, output=tmp_path / "missing")
    left = tmp_path / "missing/missing_tool/tasks.jsonl"
    assert all(name not in names for names, name in zip(names_of(left), NAMES, strict=True))
    assert all(one.calls == [] for one in read_tasks(str(left)).values())
    assert "--count" in refused("perturb", "distractors", "--count", "0", **flags)
    alone = {"tasks": with_calls(tmp_path / "none", *(([name], []) for name in NAMES)), "output": tmp_path / "no"}
    assert "there is no tool to remove" in run("perturb", "missing_tool", **alone, status=(1, 2)).errors


def test_corrupted_tools_and_their_calls(tmp_path):
    """Each name is another of the corpus or has its words in another order; the calls have it, too."""
    path = BUNDLED / "tools/tasks.jsonl"
    made = run("perturb", "corrupted", tasks=path, output=tmp_path / "out", seed="7")
    assert [line.split(": ")[1] for line in made.output.splitlines()] == ["40 tasks"] * 3
    originals = read_tasks(str(path))
    for name in ("replace", "order", "both"):
        # Reading checks that the calls are of the tools.
        tasks = read_tasks(str(tmp_path / f"out/corrupted-{name}/tasks.jsonl"))
        both = [(originals[key].task.function, task.task.function) for key, task in tasks.items()]
        pairs = [pair for old, new in both for pair in zip(old, new, strict=True)]
        assert {name for old, new in pairs for name in [new.name] if old.name != new.name}
        for old, new in pairs:
            assert old.name.rpartition(".")[0] == new.name.rpartition(".")[0]
            words = [re.findall(r"[a-z]+", text.lower()) for text in (old.description, new.description)]
            if name == "order":
                assert sorted(words[0]) == sorted(words[1])
        for key, task in tasks.items():
            assert task.task.question == originals[key].task.question
            assert [[*of.values()] for call in task.calls for of in call.values()] == [
                [*of.values()] for call in originals[key].calls for of in call.values()
            ] or "receiver" in str(originals[key].calls)  # whose keys have other names
