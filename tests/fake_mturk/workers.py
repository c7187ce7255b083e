"""Workers who are played: they accept HITs, fill in the forms of the pages, and send them in."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from page_form import made_up

from parapet.transforms.crowd.answer_files import parse_answer_xml, read_lines, read_time, split_answers

from .operations import Form, form_of
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
            item = json.loads(line)
            answers, others = split_answers(parse_answer_xml(str(item["Answer"])))
            accepted, submitted = (read_time(str(item[name]))[0] for name in ("AcceptTime", "SubmitTime"))
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
    """Plays scripts one after the other, on the HITs on offer; returns the number of assignments that they make."""
    hits = {hit.id: hit for hit in server.state.hits.values() if hit.remaining and not hit.expired}
    forms = {hit_id: form_of(hit.question) for hit_id, hit in hits.items()}
    by_annotation: dict[str, dict[str, Form]] = {}
    for hit_id, form in forms.items():
        by_annotation.setdefault(hits[hit_id].annotation or "", {})[hit_id] = form
    played = 0
    for script in scripts:
        own = {script.hit_id: forms[script.hit_id]} if script.hit_id in forms else {}
        played += _play(server, script, own if script.hit_id else by_annotation.get(script.annotation, {}))
    return played


def _play(server: FakeMTurk, script: Script, forms: dict[str, Form]) -> int:
    """Returns the number of assignments that a script makes: its fields may be on several pages."""
    left, made = dict(script.answers), 0
    names = {hit_id: {*form.fields, *form.choices} for hit_id, form in forms.items()}
    # Those that ask for most of it come first: a split task has a part of it on each page, a top-up only a few.
    for hit_id in sorted(forms, key=lambda hit_id: -len(script.answers.keys() & names[hit_id])):
        if not left.keys() & names[hit_id]:
            continue
        try:
            assignment_id = server.accept(hit_id, script.worker_id, script.seconds)
        except Refusal:
            continue
        form = forms[hit_id]
        fields = {name: left.get(name, value) for name, value in form.fields.items()}
        fields |= {name: left[name] for name in form.choices if name in left}
        # As browsers send line ends.
        server.submit(assignment_id, [(name, _LINE_END.sub("\r\n", text)) for name, text in fields.items()])
        made += 1
        left = {name: text for name, text in left.items() if name not in names[hit_id]}
    return made


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])
