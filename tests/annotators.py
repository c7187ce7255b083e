"""Many simulated annotators at once against a collection server that is killed again and again.

``python tests/annotators.py HITS [ANNOTATORS KILLS SEED]`` prints the figures of one run in an empty folder.
"""

import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import msgspec
from collect_site import Person, Process, free_port, links


class Figures(msgspec.Struct):
    """What a run has shown; all but the first five must be zero."""

    annotators: int
    kills: int
    acknowledged: int
    seconds: float
    median_submit_ms: float
    p99_submit_ms: float
    lost: int = 0
    changed: int = 0
    twice: int = 0
    not_blind: int = 0
    unacknowledged: int = 0
    unfinished: int = 0


class Annotator(threading.Thread):
    """Works until nothing is left, whatever the server does."""

    def __init__(self, link: str, seed: int, over: threading.Event):
        super().__init__(daemon=True)
        self.person, self.random, self.over = Person(link), random.Random(seed), over
        self.acknowledged: dict[str, dict[str, str]] = {}
        self.milliseconds: list[float] = []
        self.errors: list[str] = []

    def run(self):
        self._again(self.person.join)
        idle = 0
        while idle < 3 and not self.over.is_set():
            begun = self._again(self.person.begin)
            if begun is None:
                idle += 1
                time.sleep(0.5)
                continue
            idle = 0
            fields, names, _ = begun
            answers = {name: f"{name} {self.random.random()}" for name in names}
            response = self._submit(fields, answers)
            if response.status_code == 200:
                self.acknowledged[fields["assignmentId"]] = answers
                if self.random.random() < 0.2:  # the double click of someone who is not sure
                    assert self._submit(fields, answers).status_code == 200
            else:
                self.errors.append(f"{response.status_code} {response.text}")

    def _submit(self, fields, answers):
        """Sends answers until the server says yes or no, as the page does."""
        begin = time.perf_counter()

        def send():
            response = self.person.submit(fields, answers)
            assert response.status_code not in (429, 500, 503, 507)
            return response

        response = self._again(send)
        self.milliseconds.append((time.perf_counter() - begin) * 1000)
        return response

    def _again(self, act):
        """Does it until it is done, as a browser's user would: by loading the page again."""
        for _ in range(1_000):
            try:
                return act()
            except (httpx.TransportError, AssertionError, KeyError, TypeError):
                time.sleep(self.random.uniform(0.02, 0.3))
        raise AssertionError("the server does not come back")


def figures(folder: Path, hits: Path, annotators: int, kills: int, seed: int = 0) -> Figures:
    """Runs annotators against a server that is killed; compares what it acknowledged with what it exports."""
    draw, over = random.Random(seed), threading.Event()
    process = Process(folder, hits, free_port(), annotators)
    begin = time.monotonic()
    process.start()
    people = [Annotator(link, seed + i, over) for i, link in enumerate(links(folder / "a.invitations.csv"))]
    for each in people:
        each.start()
    for _ in range(kills):
        time.sleep(draw.uniform(0.05, 1.0))
        process.end(signal.SIGKILL)
        process.start()
    for each in people:
        each.join()
    seconds = time.monotonic() - begin
    assert process.end() == 0, (folder / "log").read_text()
    return _compare(folder, people, kills, seconds)


def _compare(folder, people, kills, seconds):
    rows = [json.loads(line) for line in (folder / "a.jsonl").read_text("utf-8").splitlines()]
    exported = {row["AssignmentId"]: row["Answers"] for row in rows}
    acknowledged = {name: said for each in people for name, said in each.acknowledged.items()}
    tasks = {(row["WorkerId"], *row["RequesterAnnotation"].rsplit(":", 1)) for row in rows}
    milliseconds = sorted(time for each in people for time in each.milliseconds)
    work = Counter((row["WorkerId"], row["RequesterAnnotation"]) for row in rows)
    return Figures(
        annotators=len(people),
        kills=kills,
        acknowledged=len(acknowledged),
        seconds=round(seconds, 1),
        median_submit_ms=round(milliseconds[len(milliseconds) // 2], 1),
        p99_submit_ms=round(milliseconds[len(milliseconds) * 99 // 100], 1),
        lost=len(acknowledged.keys() - exported.keys()),
        changed=sum(exported[name] != said for name, said in acknowledged.items() if name in exported),
        twice=len(rows) - len(exported) + sum(n - 1 for n in work.values()),
        not_blind=len(tasks) - len({(worker, service) for worker, service, _ in tasks}),
        unacknowledged=len(exported.keys() - acknowledged.keys()),
        unfinished=sum(len(each.errors) for each in people),
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        numbers = [int(argument) for argument in sys.argv[2:]] or [200, 20]
        print(figures(Path(scratch), Path(sys.argv[1]).resolve(), *numbers))
