"""JSON from elsewhere that is nested deeply ends no run: a reader takes it, or says what is wrong (InputError)."""

from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pytest

from parapet.evaluation.dst import frames as scored
from parapet.evaluation.dst.frames import read_predictions
from parapet.evaluation.generation.scoring import _read as judgements_in
from parapet.evaluation.sets import Keyed
from parapet.evaluation.sets import read_lines as read_rows
from parapet.schemas.dialogue import dialogue_text, parse_dialogues, read_each
from parapet.schemas.errors import InputError
from parapet.schemas.layout import parse_json, parse_json_line
from parapet.schemas.release import parse_manifest
from parapet.transforms.anonymise.chats import _of_line as chat_of
from parapet.transforms.crowd.journal import Journal
from parapet.transforms.crowd.mturk import collect as collected
from parapet.transforms.crowd.mturk.publish import read_hits
from parapet.transforms.crowd.rewritten_turns.tasks import read_tasks
from parapet.transforms.perturbation.corpora import typed
from parapet.transforms.perturbations.ood.sources import _of_line as utterance_of
from parapet.transforms.perturbations.rewritten import read_lines as read_rewritten
from parapet.transforms.release.reading import latest_version
from parapet.transforms.storage import files
from parapet.transforms.storage.checkpoints import read_json
from parapet.transforms.variants.matching import read_mapping

DIALOGUE = b'{"dialogue_id": "1", "services": [], "turns": [], "more": %s}'
LINE = b'{"AssignmentId": "1", "WorkerId": "1", "HITId": "1", "RequesterAnnotation": "1", "id": "1", "more": %s}'


def in_a_file(name, read):
    """A reader of a file of that name."""

    def reader(folder, data):
        (folder / name).write_bytes(data)
        found = read(folder)
        return list(found) if isinstance(found, Iterator) else found

    return reader


def rewritten_bytes(_, data):
    """A dialogue file read and written as ``rewrite`` does."""
    return [dialogue_text(raw, plain) for raw, plain in read_each(data, "a.json") if not isinstance(raw, InputError)]


READERS = {
    "any": (b"%s", lambda _, data: parse_json(data, "a.json")),
    "dialogues": (b"[" + DIALOGUE + b"]", lambda _, data: parse_dialogues(data, "a.json")),
    "typed dialogues": (b"[" + DIALOGUE + b"]", lambda _, data: [typed(raw) for raw, _ in read_each(data, "a.json")]),
    "rewritten dialogues": (b"[" + DIALOGUE + b"]", rewritten_bytes),
    "scored dialogues": (b"[" + DIALOGUE + b"]", lambda _, data: scored.parse_dialogues(data, "a.json")),
    "predictions": (LINE, in_a_file("a.jsonl", lambda folder: read_predictions(str(folder / "a.jsonl")))),
    "rows": (LINE, in_a_file("a.jsonl", lambda folder: read_rows(str(folder / "a.jsonl"), Keyed))),
    "rewritten turns": (LINE, in_a_file("a.jsonl", lambda folder: read_rewritten(str(folder / "a.jsonl")))),
    "judgements": (b"%s", in_a_file("a.jsonl", lambda folder: judgements_in(str(folder / "a.jsonl")))),
    "foreign utterances": (LINE, lambda _, data: utterance_of(data)),
    "chats": (LINE, lambda _, data: chat_of(data, frozenset())),
    "mapping": (b'{"v1": %s}', lambda _, data: read_mapping(data, "mapping.json")),
    "manifest": (LINE, lambda _, data: parse_manifest(data, "MANIFEST.json")),
    "latest": (LINE, in_a_file("latest.json", latest_version)),
    "run": (LINE, in_a_file("run.json", lambda folder: files._files_of(str(folder / "run.json"), str(folder)))),
    "model": (LINE, in_a_file("config.json", lambda folder: read_json(folder, "config.json"))),
    "journal": (LINE + b"\n", in_a_file("journal.jsonl", lambda folder: Journal(folder, writable=False))),
    "collected": (LINE, in_a_file(collected.FILE, collected.load)),
    "tasks": (LINE, in_a_file("manifest.jsonl", lambda folder: read_tasks([str(folder)]))),
    "hits": (LINE, in_a_file("run.json", lambda folder: read_hits(str(folder), "https://mturk.example"))),
}


@pytest.mark.parametrize("depth", [300, 1_100, 100_000])
@pytest.mark.parametrize("name", READERS)
def test_every_reader_bears_depth(name, depth, tmp_path):
    form, read = READERS[name]
    with suppress(InputError):
        read(tmp_path, form % (b"[" * depth + b"]" * depth))


def test_a_line_that_is_too_deep_is_a_value_error():
    with pytest.raises(ValueError, match="nested more than 64 levels deep"):
        parse_json_line("[" * 300 + "]" * 300)
    assert msgspec.json.encode(parse_json_line("[" * 64 + "]" * 64)) == b"[" * 64 + b"]" * 64
