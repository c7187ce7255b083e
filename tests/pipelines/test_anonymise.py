"""``parapet anonymise`` as a person runs it: formats, privacy of all that is written, strictness, the same bytes."""

import json

import pytest
from hypothesis import given as of
from hypothesis import reject
from hypothesis import strategies as st
from kit import cases, files_of, holding, json_of, rows_of, run, write

from parapet.schemas.errors import InputError
from parapet.transforms.anonymise.replacing import Chat, ChatTurn
from parapet.transforms.anonymise.writing import SplitConfig, list_chats, read_chats, split_of

SECRETS = ("Okonkwo", "okonkwo", "4155550132", "555-0132", "ann@", "x.com", "Chicago", "48213", "secret", "Zyx")


def anonymise(out, *flags, **more):
    return run("anonymise", *flags, output=out, **more)


def chat(chat_id, *turns):
    """A line, given texts of user and bot in turn."""
    return json.dumps({"chat_id": chat_id, "turns": messages("agent", *turns)}) + "\n"


def messages(other, *texts):
    return [{"speaker": ("user", other)[i % 2], "text": text} for i, text in enumerate(texts)]


ADA = ("Hi, my name is Ada Okonkwo", "Hello Ada! Which city?", "Chicago. call 415-555-0132")
OTHER = ("is okonkwo in?", "API_CALL opentable chicago", "thanks, zip 48213 is mine")
CHATS = [chat("okonkwo@x.com", *ADA), chat("2", *OTHER), chat("3", "table for four", "Sure.")]


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """The same in two formats, with some that are none."""
    folder = tmp_path_factory.mktemp("Okonkwo_chats")
    write(folder / "chats.jsonl", "".join(CHATS) + "not json with a secret\n" + '{"turns": [{"secret": 1}]}\n')
    rows = 'a,Ada Okonkwo,"Hi, it\'s me, ann@x.com"\na,Zyx,Hello ada\nb,user,bye\nc,short\n'
    write(folder / "chats.csv", f"chat_id,speaker,text\n{rows}")
    return folder


@pytest.fixture(scope="module")
def output(given, tmp_path_factory):
    flags = {"chats": [given / "chats.jsonl", given / "chats.csv"], "bots": "zyx", "max_bad": "100%"}
    return anonymise(tmp_path_factory.mktemp("anonymous") / "out", **flags).folder


def concierge(i):
    said = ["hey concierge", f"table for {i + 2} on Friday, my name is Ada Okonkwo"]
    told = ["api_call opentable", f"Hi Ada, checking place {'abcdefgh'[i % 8]} {'klmno'[i // 8]}"]
    turns = [("user", text) for text in said] + [("operator", text) for text in told]
    return {"turns": [{"speaker": speaker, "text": text} for speaker, text in turns]}


def test_a_set_as_the_papers_concierge(tmp_path):
    chats = [*map(concierge, range(40)), {"turns": [{"speaker": "user", "text": "hi"}]}]
    flags = {"chats": write(tmp_path / "chats.jsonl", chats), "placeholders": "paper", "splits": "0.75,0.15,0.1"}
    out = anonymise(tmp_path / "out", **flags).folder
    sets = {name: (out / f"concierge/dialog-concierge-{name}.txt").read_text() for name in ("trn", "dev", "tst")}
    assert [text.count("\n\n") for text in sets.values()] == [30, 6, 4]
    said = "1 hey concierge\t<SILENCE>\n2 table for <number> on <date>, my name is <person>\tapi_call\n"
    assert sets["dev"].startswith(f"{said}3 <SILENCE>\thi <person>, checking place ")
    candidates = [f"1 hi <person>, checking place {one} {other}" for one in "abcdefgh" for other in "klmno"]
    assert (out / "concierge/dialog-concierge-candidates.txt").read_text().splitlines() == ["1 api_call", *candidates]
    assert json_of(out / "statistics.json")["set"] == {
        "dialogues": {"train": 30, "dev": 6, "test": 4}, "utterances": 4, "user_utterances": 2, "bot_utterances": 2,
        "vocabulary": 29, "candidates": 41, "without_answer": 1,
    }  # fmt: skip
    assert holding((out / "report.html").read_text(), "11,482", "the same placeholder") == ["11,482"]
    answered = scores_of_nearest(out / "concierge", tmp_path)
    # Training has the call, and no other answer of the test.
    assert answered["api_call"] == 1
    assert answered["per_response"] == answered["per_response_top_10"] == answered["mean_reciprocal_rank"] == 0.5
    assert answered["per_dialogue_top_10"] == 0


def scores_of_nearest(folder, out):
    """A model learned from a set, within the top 10."""
    files = {name: folder / f"dialog-concierge-{name}.txt" for name in ("trn", "tst", "candidates")}
    run("train", "nearest", train=files["trn"], output=out / "model")
    asked = {"reference": files["tst"], "top": 10}
    run("predict", "nearest", **asked, model=out / "model", output=out / "answers")
    given = {"predictions": out / "answers" / "predictions", "candidates": files["candidates"]}
    return run("evaluate", task="ranking", **asked, **given, output=out / "scores").json("metrics.json")["#ALL"]


@of(st.lists(st.sampled_from("abcdefghij"), min_size=1), st.sampled_from([(0.8, 0.1, 0.1), (1, 0, 0), (0.4, 0.2, 0.4)]))
def test_splits_have_their_shares_up_to_repeats(texts, shares):
    config = SplitConfig(shares, "7")
    try:
        places = split_of(texts, config)
    except InputError:  # too few for a split
        reject()
    assert len({(text, place) for text, place in zip(texts, places, strict=True)}) == len(set(texts))
    most = max(texts.count(text) for text in texts)
    for i, size in enumerate(config.sizes):
        assert abs(places.count(i) - size * len(texts)) <= most + 1


def test_splits_that_cannot_be(tmp_path):
    flags = {"chats": write(tmp_path / "chats.jsonl", chat("1", "hi", "hello")), "splits": "0.8,0.1,0.1"}
    told = anonymise(tmp_path / "out", **flags, status=1).errors
    assert "1 different chats are too few, the split dev would be empty" in told
    assert not (tmp_path / "out" / "run.json").exists()


def test_what_a_second_look_suspects(output):
    """A name of another chat is known, and one that stands alone is not."""
    suspect = {"chat_id": "00001-000002", "turn": 0, "kind": "carried", "first": "o", "length": 7}
    assert rows_of(output / "suspects" / "00001.jsonl") == [suspect]
    numbers = json_of(output / "statistics.json")
    assert {kind: n for kind, n in numbers["suspects"].items() if n} == {"carried": 1}
    assert numbers["chats_with_suspects"] == 1


def test_no_file_reveals_what_was_replaced(output):
    """Nor the names of the input files; only the chats themselves have what was missed."""
    for path, data in files_of(output).items():
        leaked = [secret for secret in SECRETS if secret in data.decode()]
        assert leaked == (["okonkwo", "Chicago"] if path in ("chats/00001.jsonl", "babi/00001.txt") else [])


def test_a_model_and_a_list(tmp_path):
    """With a model that knows Chicago and a list that knows the name, in another order, nothing is suspected."""
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "GPE", "pattern": "Chicago"}])
    nlp.to_disk(tmp_path / "model")
    names = write(tmp_path / "names.txt", "PERSON\tOkonkwo\n")
    chats = write(tmp_path / "chats.jsonl", "".join(CHATS[::-1]))
    flags = {"chats": chats, "spacy_model": tmp_path / "model", "entities": names}
    rows = anonymise(tmp_path / "out", **flags).rows("chats/00001.jsonl")
    assert [[turn["text"] for turn in row["turns"]] for row in rows] == [
        ["table for four", "sure."],
        ["is <PERSON_1> in?", "api_call", "thanks, zip <ADDRESS_1> is mine"],
        ["Hi, my name is <PERSON_1>", "hello <PERSON_1>! which city?", "<LOCATION_1>. call <PHONE_1>"],
    ]


@cases(
    "flags message",
    (["--chats", "none.jsonl"], "there is no such file"),
    (["--keep", "name"], "there is no kind 'NAME': must be one of EMAIL"),
    (["--phone_regions", "xx"], "'XX' is not a region"),
    (["--spacy_model", "en_none"], "spaCy model 'en_none' is not installed: pip install -e "),
    (["--entities", "names.txt"], "line 1: a kind must be written in capitals"),
    *((["--splits", text], "--splits") for text in ("0.5,0.5", "0.5,0.4,0.2", "a,b,c", "5,1,1", "-1,1,1", "nan,1,1")),
)
def test_what_cannot_work(flags, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "names.txt", "person\tAnn\n")
    write(tmp_path / "chats.jsonl", chat("1", "hi", "hello"))
    assert message in anonymise(tmp_path / "out", "--chats", "chats.jsonl", *flags, status=2).errors


def read(path, data):
    path.write_bytes(data)
    (file,) = list_chats([str(path)])
    try:
        return [one if isinstance(one, Chat) else one.reason.partition(":")[0] for _, one in read_chats(file)]
    except Exception as error:
        return [str(error)]


def test_odd_files(tmp_path):
    header = b"text,chat_id,speaker\n"
    bye = Chat((ChatTurn("bot", "bye\nnow"),))
    assert read(tmp_path / "a.csv", header + b'"bye\nnow",a,SYSTEM\n') == [bye]
    latin = read(tmp_path / "a.csv", b"\xef\xbb\xbf" + header + b"\xe9,b,user\n" + b'"bye\nnow",a,bot\n')
    assert latin == ["not_unicode", bye]
    assert read(tmp_path / "a.csv", b"chat_id,text\n1,x\n") == ["00001: line 1: the header has no column for speaker"]
    half = b'{"turns": [{"speaker": "user", "text": "\\ud83d"}]}'
    none = b'{"chat_id": 7, "turns": []}'
    assert read(tmp_path / "a.jsonl", half + b"\n" + none) == ["not_json", "no_turns"]


def test_chats(output):
    assert [(one["chat_id"], one["turns"]) for one in rows_of(output / "chats" / "00001.jsonl")[:2]] == [
        ("00001-000001", messages("bot", "Hi, my name is <PERSON_1>", "hello <PERSON_1>! which city?",
                                  "Chicago. call <PHONE_1>")),
        ("00001-000002", messages("bot", "is okonkwo in?", "api_call", "thanks, zip <ADDRESS_1> is mine")),
    ]  # fmt: skip
    second = [messages("bot", "Hi, it's me, <EMAIL_1>", "hello <PERSON_1>"), messages("bot", "bye")]
    assert [one["turns"] for one in rows_of(output / "chats" / "00002.jsonl")] == second
