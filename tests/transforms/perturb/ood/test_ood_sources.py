"""Sources: told apart by name, read row by row."""

from kit import cases, raised, write

from parapet.schemas.errors import InputError
from parapet.transforms.perturb.ood import utterances

TURN = {"speaker": "USER", "utterance": "Why do wolves howl?", "frames": []}
TALK = [
    {"dialogue_id": "1", "services": [], "turns": [TURN, {**TURN, "utterance": "Could you send it there by boat?"}]}
]


def rows(path):
    """(source, text) or (where, reason id) of each row of each file."""
    found = []
    for file in utterances.list_sources(str(path)):
        for row in utterances.read_source(file):
            if isinstance(row, InputError):
                found.append((f"{row.path}: {row.where}", row.reason.partition(":")[0]))
            else:
                found.append((row.source, row.text))
    return found


def test_plain_text(tmp_path):
    path = tmp_path / "talk.txt"
    path.write_bytes(b"\xef\xbb\xbf[laughs] good one\r\n\n  two   words \nbad \xff byte\n" + '"é" ｆull\n'.encode())
    assert rows(path) == [
        ("talk.txt:1", "[laughs] good one"),
        ("talk.txt:3", "two words"),
        ("talk.txt: line 4", "not_utf8"),
        ("talk.txt:5", '"é" ｆull'),
    ]


def test_sgd(sample):
    files = utterances.list_sources(str(sample))
    assert [file.name for file in files] == [
        f"{name}/dialogues_00{n}.json" for name, n in (("dev", 1), ("test", 1), ("train", 1), ("train", 2))
    ]
    first = next(iter(utterances.read_source(files[1])))
    assert not isinstance(first, InputError)
    assert (first.source, first.about, first.splits) == ("test/dialogues_001.json:1_00000:0", ("Repairs",), ())


def test_several_sources(tmp_path):
    text = write(tmp_path / "a, b.txt", "Why do wolves howl?")
    turns = write(tmp_path / "talk.json", TALK)
    found = utterances.list_sources(f"own, chat,{turns}")
    assert [(file.name, file.path) for file in found] == [("chat", ""), ("talk.json", str(turns))]
    assert [file.name for file in utterances.list_sources(str(text))] == ["a, b.txt"]
    statuses = [row.status for row in utterances.read_source(found[1]) if not isinstance(row, InputError)]
    assert statuses == ["kept", "refers_back"]  # "there"
    assert utterances.list_sources("own") == []
    raised(InputError, utterances.list_sources, ",", match="must be one or more of own, chat, files and folders")


@cases("source", "talk", "talk/a.jsonl")
def test_what_has_no_utterances(source, tmp_path):
    write(tmp_path / "talk" / "a.jsonl", "x")
    raised(InputError, utterances.list_sources, str(tmp_path / source), match="contains no utterances; give own, chat")
