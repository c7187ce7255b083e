"""Many simulated annotators at once against a collection server that is killed again and again."""

import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
from collect_site import Person, Process, free_port, links
from kit import rows_of


class Annotator(threading.Thread):
    """Works until nothing is left, whatever the server does."""

    def __init__(self, link: str, seed: int, over: threading.Event):
        super().__init__(daemon=True)
        self.person, self.random, self.over = Person(link), random.Random(seed), over
        self.acknowledged: dict[str, dict[str, str]] = {}
        self.errors = 0

    def run(self):
        self._again(self.person.join)
        idle = 0
        while idle < 3 and not self.over.is_set():
            if (begun := self._again(self.person.begin)) is None:
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
                self.errors += 1

    def _submit(self, fields, answers):
        """Sends answers until the server says yes or no, as the page does."""

        def send():
            response = self.person.submit(fields, answers)
            assert response.status_code not in (429, 500, 503, 507)
            return response

        return self._again(send)

    def _again(self, act):
        """Does it until it is done, as a browser's user would: by loading the page again."""
        for _ in range(1_000):
            try:
                return act()
            except (httpx.TransportError, AssertionError, KeyError, TypeError):
                time.sleep(self.random.uniform(0.02, 0.3))
        raise AssertionError("the server does not come back")


def figures(folder: Path, hits: Path, annotators: int, kills: int) -> tuple[int, dict[str, int]]:
    """Runs annotators against a server that is killed; compares what it acknowledged with what it exports.

    Returns:
      The number of submissions that the server acknowledged, and those of which something went wrong, by what.
    """
    draw, over = random.Random(0), threading.Event()
    process = Process(folder, hits, free_port(), annotators)
    process.start()
    people = [Annotator(link, i, over) for i, link in enumerate(links(folder / "a.invitations.csv"))]
    for each in people:
        each.start()
    for n in range(kills):  # spread over the work, whose speed is the machine's
        while sum(len(each.acknowledged) for each in people) < annotators * n / kills:
            assert any(each.is_alive() for each in people), "all have left"
            time.sleep(0.01)
        time.sleep(draw.uniform(0.0, 0.3))
        process.end(signal.SIGKILL)
        process.start()
    for each in people:
        each.join()
    assert process.end() == 0, (folder / "log").read_text()
    rows = rows_of(folder / "a.jsonl")
    exported = {row["AssignmentId"]: row["Answers"] for row in rows}
    acknowledged = {name: said for each in people for name, said in each.acknowledged.items()}
    tasks = {(row["WorkerId"], *row["RequesterAnnotation"].rsplit(":", 1)) for row in rows}
    work = Counter((row["WorkerId"], row["RequesterAnnotation"]) for row in rows)
    wrong = {
        "lost": len(acknowledged.keys() - exported.keys()),
        "changed": sum(exported[name] != said for name, said in acknowledged.items() if name in exported),
        "twice": len(rows) - len(exported) + sum(n - 1 for n in work.values()),
        "not_blind": len(tasks) - len({(worker, service) for worker, service, _ in tasks}),
        "unacknowledged": len(exported.keys() - acknowledged.keys()),
        "unfinished": sum(each.errors for each in people),
    }
    return len(acknowledged), {what: n for what, n in wrong.items() if n}
