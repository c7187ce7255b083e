"""``parapet perturb NAME --messages``: chats as JSON lines, of which only what the user says changes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, refused, rows_of, run, write

from parapet.schemas.messages import LINE, line_text, read_messages


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
    assert len(found) == len(CHATS)
    texts = {}
    for line, (before, after) in enumerate(zip(CHATS, found, strict=True)):
        for i, (old, new) in enumerate(zip(before["messages"], after["messages"], strict=True)):
            if old != new:
                assert old["role"] == "user"
                texts[line, i] = new["content"][0]["text"] if isinstance(new["content"], list) else new["content"]
                new["content"] = old["content"]
    assert found == CHATS
    rows = {(row["dialogue_id"], row["turn"]): row for row in made.rows() if row["status"] == "varied"}
    ids = ["line_0000001", "b", "7", "line_0000004"]
    assert {place: row["utterance"] for place, row in rows.items()} == {
        (ids[line], i): text for (line, i), text in texts.items()
    }
    assert texts
    assert "Port Alder" in texts.get((0, 1), "Port Alder")  # which the call of the function needs
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
    (None, "there is no such file"),
)
def test_files_without_messages(content, reason, tmp_path):
    path = tmp_path / "chats.jsonl"
    if content is not None:
        write(path, content)
    said = refused("perturb", "typos", messages=path, output=tmp_path / "out", status=(1, 2))
    assert reason in said
    assert "chats.jsonl" in said


def test_flags_that_contradict(chats, tmp_path):
    flags = {"messages": chats, "output": tmp_path / "out"}
    assert "--messages: give either --sgd or --messages" in refused("perturb", "typos", **flags, sgd=chats)
    for name in ("ood", "unseen_entities"):
        said = refused("perturb", name, **flags)
        assert f"--messages: {name} needs schemas and states, which chat messages do not have" in said
    other = write(tmp_path / "other/chats.jsonl", as_lines(CHATS))
    flags["messages"] = [chats, other]
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
