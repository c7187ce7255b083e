"""Workers who are played: they accept HITs, fill in the forms of the pages, and send them in."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from parapet.transforms.crowd.ingest import parse_answer_xml, parse_time, read_lines, split_answers
from parapet.transforms.crowd.serving.practice import made_up

from .question import Form, form_of
from .server import FakeMTurk
from .state import Refusal

_LINE_END = re.compile("\r\n?|\n")


@dataclass(frozen=True)
class Script:
    """What one worker would answer.

    Attributes:
      annotation: the RequesterAnnotation of the HITs that this is for.
      answers: form field to text.
      seconds: how long the worker is to have worked.
      hit_id: the one HIT that this is for; "" for whichever asks for these fields.
    """

    worker_id: str
    annotation: str
    answers: dict[str, str]
    seconds: int = 0
    hit_id: str = ""


def scripts_from_jsonl(path: Path) -> list[Script]:
    """The scripts in JSON lines of boto3 assignments."""
    found = []
    with path.open("rb") as handle:
        for line in read_lines(handle):
            item = json.loads(line.text or "")
            answers, others = split_answers(parse_answer_xml(str(item["Answer"])))
            accepted, submitted = parse_time(str(item["AcceptTime"])), parse_time(str(item["SubmitTime"]))
            seconds = submitted - accepted if accepted is not None and submitted is not None else 0
            worker_id = item["WorkerId"].partition(",")[0].strip()
            found.append(Script(worker_id, item["RequesterAnnotation"], answers | others, max(0, seconds)))
    return found


def invented(server: FakeMTurk, seed: int, workers: int) -> Iterator[Script]:
    """Answers to everything on offer, in words that mean nothing: as many workers a HIT as it wants and there are."""
    ids = ["A" + hashlib.sha256(f"{seed}:worker:{i}".encode()).hexdigest()[:13].upper() for i in range(workers)]
    for hit in list(server.state.hits.values()):
        form, left = form_of(hit.question), 0 if hit.expired else hit.remaining
        first = _number(f"{seed}:{hit.id}") % workers
        for i in range(min(left, workers)):
            worker_id = ids[(first + i) % workers]
            words = 7 if str(hit.annotation).endswith(":descriptions") else 3
            keys = {name: f"{seed}:{worker_id}:{hit.id}:{name}" for name in (*form.fields, *form.choices)}
            answers = {name: made_up(keys[name], words) for name in form.fields if name != "assignmentId"}
            answers |= {name: values[_number(keys[name]) % len(values)] for name, values in form.choices.items()}
            yield Script(worker_id, str(hit.annotation), answers, 60 + 30 * len(answers), hit.id)


def play(server: FakeMTurk, scripts: Iterable[Script]) -> int:
    """Plays scripts one after the other; gives the number of assignments that they make."""
    board = _Board(server)
    return sum(board.play(script) for script in scripts)


class _Board:
    """The HITs that were on offer at the start."""

    def __init__(self, server: FakeMTurk) -> None:
        self.server = server
        self.forms: dict[str, Form] = {}
        self.by_annotation: dict[str, list[str]] = {}
        for hit in server.state.hits.values():
            if hit.remaining and not hit.expired:
                self.by_annotation.setdefault(hit.annotation or "", []).append(hit.id)

    def names(self, hit_id: str) -> set[str]:
        form = self.form(hit_id)
        return {*form.fields, *form.choices}

    def form(self, hit_id: str) -> Form:
        if hit_id not in self.forms:
            self.forms[hit_id] = form_of(self.server.state.hits[hit_id].question)
        return self.forms[hit_id]

    def play(self, script: Script) -> int:
        """The number of assignments that a script makes: its fields may be on several pages."""
        left, made = dict(script.answers), 0
        ids = [script.hit_id] if script.hit_id else self.by_annotation.get(script.annotation, [])
        # Those that ask for most of it come first: a split task has a part of it on each page, a top-up only a few.
        for hit_id in sorted(ids, key=lambda hit_id: -len(script.answers.keys() & self.names(hit_id))):
            if not left or (script.answers and not left.keys() & self.names(hit_id)):
                continue
            form = self.form(hit_id)
            try:
                assignment_id = self.server.accept(hit_id, script.worker_id, script.seconds)
            except Refusal:
                continue
            fields = {name: left.get(name, value) for name, value in form.fields.items()}
            fields |= {name: left[name] for name in form.choices if name in left}
            # As browsers send line ends.
            self.server.submit(assignment_id, [(name, _LINE_END.sub("\r\n", text)) for name, text in fields.items()])
            made += 1
            left = {name: text for name, text in left.items() if name not in self.names(hit_id)}
        return made


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])
