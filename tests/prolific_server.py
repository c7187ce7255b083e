"""Prolific's API on this machine, as its documentation has it: studies, submissions, bonuses; with faults by order."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from local_http import LocalHandler, LocalServer

TOKEN = "prolific-test-token"
FEE = 0.25
PAGE = 2  # submissions on a page


class ProlificServer:
    """An account.

    Args:
      faults: of one changing request after the other (POST but for the calculator); "" is nothing. ``busy`` is 429,
        ``down`` 503 before anything is done, ``broken`` 500 and ``cut`` a cut connection after it was done,
        ``refused`` 400 with participants' ids, ``html`` a page after it was done.
      lies: key to value of what it answers about a study or a bonus in place of the truth.
    """

    def __init__(self, faults=(), **lies):
        self.faults, self.lies = list(faults), lies
        self.studies, self.submissions, self.bulks, self.paid = {}, {}, {}, []
        self.posts, self.lock = [], threading.Lock()

    def join(self, study, n, status="AWAITING REVIEW"):
        """Participants take part; their submissions' ids."""
        ids = [f"{len(self.submissions) + i:024x}" for i in range(1, n + 1)]
        for name in ids:
            self.submissions[name] = {
                "id": name, "participant_id": f"beef{name[4:]}", "status": status, "study": study,
                "started_at": "2026-11-01T10:00:00Z", "bonus": 0,
            }  # fmt: skip
        return ids

    def get(self, path, page):
        if path == "/studies/":
            return {
                "results": [{name: study[name] for name in ("id", "internal_name")} for study in self.studies.values()]
            }
        if match := re.fullmatch(r"/studies/(\w+)/", path):
            study = self.studies.get(match[1])
            return {**study, **self.lies} if study else None
        if match := re.fullmatch(r"/studies/(\w+)/submissions/", path):
            every = [one for one in self.submissions.values() if one["study"] == match[1]]
            more = {"next": {"href": f"{self.url}{path}?page={page + 1}"}} if len(every) > PAGE * page else {}
            return {"results": every[PAGE * (page - 1) : PAGE * page], "_links": more}
        return None

    def post(self, path, body):
        if path == "/studies/":
            name = f"{len(self.studies) + 0xABC:024x}"
            self.studies[name] = {**body, "id": name, "status": "UNPUBLISHED"}
            return {**self.studies[name], **self.lies}
        if match := re.fullmatch(r"/studies/(\w+)/transition/", path):
            self.studies[match[1]]["status"] = "ACTIVE"
            return self.studies[match[1]]
        if match := re.fullmatch(r"/submissions/(\w+)/transition/", path):
            one = self.submissions[match[1]]
            if one["status"] == "AWAITING REVIEW":
                one["status"] = {"APPROVE": "APPROVED", "REJECT": "REJECTED"}[body["action"]]
            return {
                "id": one["id"],
                "status": self.lies.get("status", one["status"]),
                "participant": one["participant_id"],
            }
        if path == "/submissions/bonus-payments/":
            rows = [line.split(",") for line in body["csv_bonuses"].split()]
            amount = round(100 * sum(float(text) for _, text in rows))
            name = f"bulk-{len(self.bulks)}"
            self.bulks[name] = rows
            fees = round(amount * FEE)
            return {"id": name, "amount": amount, "fees": fees, "vat": 0, "total_amount": amount + fees, **self.lies}
        if match := re.fullmatch(r"/bulk-bonus-payments/([\w-]+)/pay/", path):
            self.paid += self.bulks[match[1]]  # again for a second request, as the documentation warns
            return f"Bulk bonus payment with ID {match[1]} is being processed asynchronously."
        return None


@contextmanager
def prolific_server(faults=(), **lies) -> Iterator[ProlificServer]:
    """Serves for as long as it is open; ``url`` is the API's."""
    owner = ProlificServer(faults, **lies)
    http = LocalServer(owner, _Handler)
    owner.url = f"http://127.0.0.1:{http.server_address[1]}/api/v1"
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield owner
    finally:
        http.shutdown()
        http.server_close()


class _Handler(LocalHandler):
    def do_GET(self):
        path, _, query = self.path.removeprefix("/api/v1").partition("?")
        self._answer(lambda owner: owner.get(path, int(query.partition("page=")[2] or 1)))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.removeprefix("/api/v1")
        if path == "/study-cost-calculator/":
            total = round(body["reward"] * body["total_available_places"] * (1 + FEE))
            self._answer(lambda _: {"total_cost": total})
            return
        owner = self.server.owner
        with owner.lock:
            owner.posts.append((path, body))
            fault = owner.faults.pop(0) if owner.faults else ""
        if fault == "busy":
            self._send(429, {"detail": "Request was throttled."}, {"Retry-After": "0.01"})
        elif fault == "down":
            self._send(503, {"detail": "try later"})
        elif fault == "refused":
            self._send(400, {"error": {"detail": f"wrong: beef{1:020x} {self.headers['Authorization']}"}})
        else:
            self._answer(lambda owner: owner.post(path, body), fault)

    def _answer(self, act, fault=""):
        if self.headers.get("Authorization") != f"Token {TOKEN}":
            self._send(401, {"error": {"detail": f"Invalid token {self.headers.get('Authorization')}"}})
            return
        with self.server.owner.lock:
            answer = act(self.server.owner)
        if fault == "cut":
            self.close_connection = True
        elif fault == "broken":
            self._send(500, {"detail": "oops"})
        elif fault == "html":
            self._send(200, "<html>hello</html>")
        elif answer is None:
            self._send(404, {"error": {"detail": "Not found."}})
        elif isinstance(answer, str):
            self._send(202, json.dumps(answer))
        else:
            self._send(200, answer)
