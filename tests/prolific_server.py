"""Prolific's API on this machine, as its documentation has it: studies, submissions, bonuses; with faults by order."""

import json
import re

from local_http import Answer, LocalService

TOKEN = "prolific-test-token"
FEE = 0.25
PAGE = 2  # submissions on a page


class ProlificServer(LocalService):
    """An account.

    Args:
      faults: of one changing request after the other (POST but for the calculator); "" is nothing. ``busy`` is 429,
        ``down`` 503 before anything is done, ``broken`` 500 and ``cut`` a cut connection after it was done,
        ``refused`` 400 with participants' ids, ``html`` a page after it was done.
      lies: key to value of what it answers about a study or a bonus in place of the truth.
    """

    def __init__(self, faults=(), **lies):
        super().__init__(faults)
        self.lies, self.studies, self.submissions, self.bulks, self.paid, self.posts = lies, {}, {}, {}, [], []
        self.url += "/api/v1"

    def join(self, study, n, status="AWAITING REVIEW"):
        """Participants take part; their submissions' ids."""
        ids = [f"{len(self.submissions) + i:024x}" for i in range(1, n + 1)]
        begun = {"status": status, "study": study, "started_at": "2026-11-01T10:00:00Z", "bonus": 0}
        self.submissions |= {name: {"id": name, "participant_id": f"beef{name[4:]}", **begun} for name in ids}
        return ids

    def get(self, path, page):
        if path == "/studies/":
            return {
                "results": [{key: study[key] for key in ("id", "internal_name")} for study in self.studies.values()]
            }
        if match := re.fullmatch(r"/studies/(\w+)/", path):
            study = self.studies.get(match[1])
            return {**study, **self.lies} if study else None
        study = re.fullmatch(r"/studies/(\w+)/submissions/", path)[1]
        every = [one for one in self.submissions.values() if one["study"] == study]
        more = {"next": {"href": f"{self.url}{path}?page={page + 1}"}} if len(every) > PAGE * page else {}
        return {"results": every[PAGE * (page - 1) : PAGE * page], "_links": more}

    def post(self, path, body):
        if path == "/study-cost-calculator/":
            return {"total_cost": round(body["reward"] * body["total_available_places"] * (1 + FEE))}
        if path == "/studies/":
            name = f"{len(self.studies) + 0xABC:024x}"
            self.studies[name] = {**body, "id": name, "status": "UNPUBLISHED"}
            return {**self.studies[name], **self.lies}
        if path == "/submissions/bonus-payments/":
            rows = [line.split(",") for line in body["csv_bonuses"].split()]
            amount = round(100 * sum(float(text) for _, text in rows))
            name = f"bulk-{len(self.bulks)}"
            self.bulks[name] = rows
            fees = round(amount * FEE)
            return {"id": name, "amount": amount, "fees": fees, "vat": 0, "total_amount": amount + fees, **self.lies}
        kind, name, action = path.strip("/").split("/")
        if action == "pay":
            self.paid += self.bulks[name]  # again for a second request, as the documentation warns
            return f"Bulk bonus payment with ID {name} is being processed asynchronously."
        if kind == "studies":
            self.studies[name]["status"] = "ACTIVE"
            return self.studies[name]
        submission = self.submissions[name]
        if submission["status"] == "AWAITING REVIEW":
            submission["status"] = {"APPROVE": "APPROVED", "REJECT": "REJECTED"}[body["action"]]
        status = self.lies.get("status", submission["status"])
        return {"id": name, "status": status, "participant": submission["participant_id"]}

    def answer(self, request):
        path, fault = request.path.removeprefix("/api/v1"), ""
        token = request.headers["Authorization"]
        with self.lock:
            if request.method == "POST" and path != "/study-cost-calculator/":
                self.posts.append((path, request.json))
                fault = self.fault()
            if fault == "busy":
                return Answer({"detail": "Request was throttled."}, 429, {"Retry-After": "0.01"})
            if fault == "down":
                return Answer({"detail": "try later"}, 503)
            if fault == "refused":
                return Answer({"error": {"detail": f"wrong: beef{1:020x} {token}"}}, 400)
            if token != f"Token {TOKEN}":
                return Answer({"error": {"detail": f"Invalid token {token}"}}, 401)
            if request.method == "GET":
                answer = self.get(path, int(request.query.get("page", 1)))
            else:
                answer = self.post(path, request.json)
        if fault == "cut":
            return self.break_off(stall=False)
        if fault == "broken":
            return Answer({"detail": "oops"}, 500)
        if fault == "html":
            return Answer("<html>hello</html>")
        if answer is None:
            return Answer({"error": {"detail": "Not found."}}, 404)
        return Answer(json.dumps(answer).encode(), 202 if isinstance(answer, str) else 200)
