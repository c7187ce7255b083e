"""Sources: told apart by content, read row by row."""

import json

from kit import cases, raised, write

from parapet.schemas.errors import InputError
from parapet.transforms.perturbations.ood import sources

DRIVE = [
    {"turn": "driver", "data": {"end_dialogue": False, "utterance": "where is the next petrol station"}},
    {"turn": "assistant", "data": {"utterance": "2 miles away"}},
    {"turn": "driver", "data": {"utterance": "  set the gps for there "}},
]
KVRET = [{"dialogue": DRIVE, "scenario": {}}, {"dialogue": [{"turn": "driver", "data": {}}, "?"]}, {}]
HEARD = [[{"asr-hyp": "cheap food", "score": -1}], [{"asr-hyp": "in the south"}], []]
INPUTS = [*({"output": {}, "input": {"live": {"asr-hyps": hypotheses}}} for hypotheses in HEARD), {"input": {}}]
LOG = {"session-id": "voip-1", "turns": INPUTS}
LABEL = {"session-id": "voip-1", "turns": [{"transcription": "cheap food noise"}, {"transcription": "unintelligible"}]}


def rows(path):
    """(source, text) or (where, reason id) of each row of each file."""
    found = []
    for file in sources.list_sources(str(path)):
        for row in sources.read_source(file):
            if isinstance(row, InputError):
                found.append((f"{row.path}: {row.where}", row.reason.partition(":")[0]))
            else:
                found.append((row.source, row.text))
    return found


def test_plain_text(tmp_path):
    path = tmp_path / "talk.txt"
    path.write_bytes(b"\xef\xbb\xbf[laughs] good one\r\n\n  two   words \nbad \xff byte\n" + '"é" ｆull\n'.encode())
    assert sources.kind_of(path) == sources.TEXT
    assert rows(path) == [
        ("talk.txt:1", "[laughs] good one"),
        ("talk.txt:3", "two words"),
        ("talk.txt: line 4", "not_utf8"),
        ("talk.txt:5", '"é" ｆull'),
    ]


def test_json_lines(tmp_path):
    path = tmp_path / "posts"
    good = ['{"text": "one two"}', '{"id": 3, "utterance": "three"}']
    path.write_text("\n".join([*good, "", "{", "[1]", '{"text": 5}', r'{"text": "\ud800"}']))
    assert sources.kind_of(path) == sources.JSON_LINES
    assert rows(path) == [
        ("posts:1", "one two"),
        ("posts:2", "three"),
        ("posts: line 4", "not_json"),
        ("posts: line 5", "no_utterance"),
        ("posts: line 6", "no_utterance"),
        ("posts: line 7", "not_json"),
    ]


def test_key_value(tmp_path):
    path = write(tmp_path / "kvret.json", json.dumps(KVRET, indent=1))
    assert sources.kind_of(path) == sources.KEY_VALUE
    assert rows(path) == [
        ("kvret.json:[0].dialogue[0]", "where is the next petrol station"),
        ("kvret.json:[0].dialogue[2]", "set the gps for there"),
        ("kvret.json: [1].dialogue[0]", "no_utterance"),
        ("kvret.json: [1].dialogue[1]", "no_utterance"),
        ("kvret.json: [2].dialogue", "no_utterance"),
    ]


def test_dstc2(tmp_path):
    """Transcriptions where there are some, the recogniser's first guess where not; noise is nothing said."""
    for call in ("b", "a"):
        write(tmp_path / "data" / call / "log.json", LOG)
    (tmp_path / "data" / "a" / "label.json").write_text(json.dumps(LABEL))
    assert {file.kind for file in sources.list_sources(str(tmp_path))} == {sources.DSTC2}
    assert rows(tmp_path) == [
        ("data/a/log.json:turns[0]", "cheap food"),
        ("data/a/log.json: turns[3]", "no_utterance"),
        ("data/b/log.json:turns[0]", "cheap food"),
        ("data/b/log.json:turns[1]", "in the south"),
        ("data/b/log.json: turns[3]", "no_utterance"),
    ]
    assert sources.kind_of(tmp_path / "data" / "a" / "log.json") == sources.DSTC2


def test_sgd(sample):
    files = sources.list_sources(str(sample))
    assert {file.kind for file in files} == {sources.SGD}
    assert [file.name for file in files] == [
        f"{name}/dialogues_00{n}.json" for name, n in (("dev", 1), ("test", 1), ("train", 1), ("train", 2))
    ]
    first = next(iter(sources.read_source(files[1])))
    assert not isinstance(first, InputError)
    assert (first.source, first.about, first.splits) == ("test/dialogues_001.json:1_00000:0", ("Repairs",), ())
    assert sources.kind_of(sample / "test" / "dialogues_001.json") == sources.SGD


def test_several_sources(tmp_path):
    text = write(tmp_path / "a, b.txt", "Why do wolves howl?")
    turns = write(tmp_path / "kvret.json", json.dumps(KVRET))
    found = sources.list_sources(f"own, chat,{turns}")
    assert [(file.kind, file.name) for file in found] == [("small talk", "chat"), ("Stanford key-value", "kvret.json")]
    assert [file.name for file in sources.list_sources(str(text))] == ["a, b.txt"]
    statuses = [row.status for row in sources.read_source(found[1]) if not isinstance(row, InputError)]
    assert statuses == ["kept", "refers_back"]  # "there"
    assert sources.list_sources("own") == []
    raised(InputError, sources.list_sources, ",", match="must be one or more of own, chat, files and plug-ins")


@cases(
    "name content told",
    ("a.bin", b"\x00\x01", "is not text"),
    ("a.json", b'{"a": 1}', "is JSON of an unknown kind"),
    ("a.json", b'[{"a": 1}]', "is JSON of an unknown kind"),
    ("a.json", b"[1, 2", "not JSON"),
    ("a.json", b'{\n"text": "x"}', "must be JSON lines"),
)
def test_files_of_no_kind(name, content, told, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert told in str(raised(InputError, sources.list_sources, str(tmp_path / name)))
