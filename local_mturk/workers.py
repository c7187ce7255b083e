"""Workers that are played over HTTP: they accept HITs, fill in the pages as these are served, and send them in."""

from __future__ import annotations

import hashlib
import http.client
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
import orjson

from parapet.local_mturk.marketplace import PREVIEW, WORKER_ID
from parapet.local_mturk.question import SUBMIT_PATH, Form, read_form
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.ingest import Unusable, parse_answer_xml, parse_time, read_lines, split_answers

_LINE_END = re.compile("\r\n?|\n")
_WORDS = [
    "amber",
    "basket",
    "candle",
    "early",
    "gentle",
    "harbour",
    "island",
    "kettle",
    "meadow",
    "pebble",
    "river",
    "velvet",
]


class Script(msgspec.Struct, frozen=True):
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


class Report(msgspec.Struct):
    """What became of the scripts.

    Attributes:
      submitted: assignments that were sent in. A script whose fields are on several pages makes several.
      reasons: why scripts led to none, and how many.
    """

    submitted: int = 0
    reasons: Counter[str] = msgspec.field(default_factory=Counter)

    def text(self) -> str:
        """The figures for people."""
        lines = [f"{self.submitted:,} {'assignment' if self.submitted == 1 else 'assignments'} submitted"]
        for reason, n in sorted(self.reasons.items()):
            lines.append(f"{n:,} {'script' if n == 1 else 'scripts'} without: {reason}")
        return "\n".join(lines)


def scripts_from_jsonl(path: Path) -> tuple[list[Script], Counter[str]]:
    """The scripts in JSON lines of boto3 assignments, and how many lines are none, by reason.

    Raises:
      InputError: the file cannot be read.
    """
    scripts, unusable = list[Script](), Counter[str]()
    try:
        with path.open("rb") as handle:
            for line in read_lines(handle):
                if line.text is None or line.text.strip():
                    try:
                        scripts.append(_script(line.text))
                    except Unusable as reason:
                        unusable[str(reason).partition(":")[0]] += 1
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from None
    return scripts, unusable


def _script(line: str | None) -> Script:
    try:
        item: Any = orjson.loads(line or "")
    except orjson.JSONDecodeError:
        raise Unusable("broken_row: not JSON") from None
    if not isinstance(item, dict):
        raise Unusable("broken_row: not an object")
    worker_id = str(item.get("WorkerId", "")).partition(",")[0].strip()
    if not WORKER_ID.fullmatch(worker_id):
        raise Unusable("worker_id: not the id of a worker")
    answers, others = split_answers(parse_answer_xml(str(item.get("Answer", ""))))
    accepted, submitted = parse_time(str(item.get("AcceptTime", ""))), parse_time(str(item.get("SubmitTime", "")))
    seconds = submitted - accepted if accepted is not None and submitted is not None else 0
    return Script(worker_id, str(item.get("RequesterAnnotation", "")), answers | others, max(0, seconds))


def invented(url: str, seed: int, workers: int) -> Iterator[Script]:
    """Answers to everything on offer, in words that mean nothing: as many workers a HIT as it wants and there are."""
    if workers < 1:
        raise InputError("a number of workers, 1 or more", "workers")
    ids = [_worker_id(seed, i) for i in range(workers)]
    with Board(url) as board:
        for hit in board.hits:
            form = board.form(hit["hit_id"])
            fields = [name for name in form.fields if name != "assignmentId"]
            first = _number(f"{seed}:{hit['hit_id']}") % workers
            for i in range(min(hit["left"], workers)):
                worker_id = ids[(first + i) % workers]
                words = 7 if str(hit["annotation"]).endswith(":descriptions") else 3
                answers = {name: _phrase(f"{seed}:{worker_id}:{hit['hit_id']}:{name}", words) for name in fields}
                for name, values in form.choices.items():
                    answers[name] = values[_number(f"{seed}:{worker_id}:{hit['hit_id']}:{name}") % len(values)]
                seconds = 60 + (20 + _number(worker_id) % 20) * len(answers)
                yield Script(worker_id, str(hit["annotation"] or ""), answers, seconds, hit["hit_id"])


def play(url: str, scripts: Iterable[Script]) -> Report:
    """Plays scripts one after the other, so that the same ones make the same assignments.

    Raises:
      InputError: there is no local MTurk at this address.
    """
    report = Report()
    with Board(url) as board:
        for script in scripts:
            submitted, reason = board.play(script)
            report.submitted += submitted
            if not submitted:
                report.reasons[reason] += 1
    return report


class Board:
    """The HITs that were on offer at the start, and a connection to work on them."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise InputError("the address of a local MTurk begins with http://", "--url", url)
        self._url = url
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=60)
        self._forms: dict[str, Form] = {}
        self.hits: list[dict[str, Any]] = self._get_json("/hits.json")
        self._by_annotation: dict[str, list[str]] = {}
        for hit in self.hits:
            self._by_annotation.setdefault(hit["annotation"] or "", []).append(hit["hit_id"])

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def form(self, hit_id: str) -> Form:
        """The form on a HIT's page."""
        if hit_id not in self._forms:
            status, body = self._ask("GET", f"/page?{urlencode({'assignmentId': PREVIEW, 'hitId': hit_id})}")
            form = read_form(body.decode()) if status == 200 else None
            self._forms[hit_id] = form or Form("", "")
        return self._forms[hit_id]

    def play(self, script: Script) -> tuple[int, str]:
        """The number of assignments that a script made, and why it made none."""
        left, submitted, reason = dict(script.answers), 0, "no_such_hit"
        for hit_id in self._suitable(script):
            form = self.form(hit_id)
            if script.answers and not left.keys() & self._names(form):
                continue
            why = self._work(hit_id, form, script, left)
            if why:
                reason = why if reason == "no_such_hit" else reason
                continue
            submitted += 1
            left = {name: text for name, text in left.items() if name not in self._names(form)}
            if not left:
                break
        return submitted, reason

    def _suitable(self, script: Script) -> list[str]:
        # Those that ask for most of it come first: a split task has a part of it on each page, a top-up only a few.
        ids = [script.hit_id] if script.hit_id else self._by_annotation.get(script.annotation, [])
        return sorted(ids, key=lambda hit_id: -len(script.answers.keys() & self._names(self.form(hit_id))))

    @staticmethod
    def _names(form: Form) -> set[str]:
        return form.fields.keys() | form.choices.keys()

    def _work(self, hit_id: str, form: Form, script: Script, answers: dict[str, str]) -> str:
        query = {"hit_id": hit_id, "worker_id": script.worker_id, "seconds": script.seconds}
        status, body = self._ask("POST", f"/accept?{urlencode(query)}")
        if status != 200:
            return _reason(body)
        fields = {name: answers.get(name, value) for name, value in form.fields.items()}
        fields |= {name: answers[name] for name in form.choices if name in answers}
        fields["assignmentId"] = orjson.loads(body)["assignment_id"]
        # As browsers send line ends.
        status, body = self._ask("POST", SUBMIT_PATH, {name: _LINE_END.sub("\r\n", fields[name]) for name in fields})
        return "" if status == 200 else _reason(body)

    def _get_json(self, path: str) -> list[dict[str, Any]]:
        status, body = self._ask("GET", path)
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError:
            found = None
        if status != 200 or not isinstance(found, list):
            raise InputError("what answers there is no local MTurk", "--url", self._url)
        return found

    def _ask(self, method: str, path: str, form: dict[str, str] | None = None) -> tuple[int, bytes]:
        headers = {"Accept": "application/json"}
        body = None
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(form).encode()
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise InputError(f"no local MTurk answers there: {error}", "--url", self._url) from None


def _reason(body: bytes) -> str:
    try:
        return str(orjson.loads(body)["reason"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "failed"


def _worker_id(seed: int, i: int) -> str:
    return "A" + hashlib.sha256(f"{seed}:worker:{i}".encode()).hexdigest()[:13].upper()


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])


def _phrase(key: str, words: int) -> str:
    number, chosen = int.from_bytes(hashlib.sha256(key.encode()).digest()), list[str]()
    for _ in range(words):
        number, place = divmod(number, len(_WORDS))
        chosen.append(_WORDS[place])
    return " ".join(chosen)
