"""Studies at Prolific: made, published and paid once, whatever becomes of the answers; and nobody's id in a message."""

import json

import kit
import pytest
from kit import cases, run, write
from prolific_server import TOKEN, ProlificServer

from parapet.schemas.layout import sample_root
from parapet.transforms.crowd.collection import prolific_api

WHY = "Every answer was the same letter, in spite of the instructions on the form. Please write to us if this is wrong."


@pytest.fixture(scope="module")
def hits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hits") / "hits"
    run("hits", schemas=sample_root(), output=folder, assignments=2)
    return folder


@pytest.fixture(autouse=True)
def _account(monkeypatch):
    monkeypatch.setenv("PROLIFIC_TOKEN", TOKEN)
    monkeypatch.setattr(prolific_api.time, "sleep", lambda _: None)


class Requester:
    """Runs the command for a study, and looks for ids and the token in all that it says and keeps."""

    def __init__(self, folder, hits, server):
        self.folder, self.hits, self.server = folder, hits, server

    def run(self, action, status=0, **flags):
        own = {"hits": self.hits, "public_url": "https://crowd.example.org"} if action == "create" else {}
        asks = {} if action in ("create", "list") else {"yes": True}
        flags = {"study": self.folder / "study", "endpoint_url": self.server.url, **own, **asks, **flags}
        result = run("collect", "prolific", action, status=status, **flags)
        kept = b"".join(path.read_bytes() for path in (self.folder / "study").glob("*")).decode()
        for text in (result.output, result.errors, kept):
            assert TOKEN not in text
            assert "beef0000" not in text  # of participants' ids; a hash may have "beef" in it
        return result

    @property
    def study(self):
        (study,) = self.server.studies.values()
        return study

    def published(self, n):
        """Creates and publishes the study, in which so many take part."""
        self.run("create")
        self.run("publish")
        self.server.posts.clear()
        return self.server.join(self.study["id"], n)

    def statuses(self):
        return [one["status"] for one in self.server.submissions.values()]


@pytest.fixture
def requester(tmp_path, hits):
    with ProlificServer() as server:
        yield Requester(tmp_path, hits, server)


def test_from_create_to_bonus(requester, tmp_path):
    said = requester.run("create").output
    study = requester.study
    assert study["total_available_places"] == 24  # twelve forms, two people each, one form a person
    assert study["external_study_url"].startswith("https://crowd.example.org/start?PROLIFIC_PID={{%PROLIFIC_PID%}}&")
    assert (study["reward"], study["estimated_completion_time"], study["prolific_id_option"]) == (
        150,
        6,
        "url_parameters",
    )
    assert kit.lacking(said, "24 places, 1.50 each for 6 minutes", "cost: 45.00 with", study["id"]) == []
    code = study["completion_codes"][0]["code"]
    assert f"--completion_url 'https://app.prolific.com/submissions/complete?cc={code}'" in said
    assert "exists already" in requester.run("create").output
    assert "is published" in requester.run("publish").output
    assert "is published already, with status ACTIVE" in requester.run("publish").output
    ids = requester.server.join(study["id"], 5)
    requester.server.join(study["id"], 1, "RETURNED")
    assert kit.lacking(requester.run("list").output, "6 submissions, 5 AWAITING REVIEW, 1 RETURNED", *ids) == []
    answered = [{"WorkerId": requester.server.submissions[name]["participant_id"]} for name in ids[:3]]
    answers = write(tmp_path / "answers.jsonl", answered)
    approved = requester.run("approve", responses=answers)
    assert "3 submissions approved" in approved.output
    assert "2 submissions left unchanged" in approved.errors
    rejections = [{"submission_id": name, "category": "LOW_EFFORT", "message": WHY} for name in (ids[0], ids[3])]
    rejected = requester.run("reject", rejections=write(tmp_path / "no.csv", rejections))
    assert "1 submission left unchanged: APPROVED" in rejected.errors
    assert requester.statuses() == ["APPROVED"] * 3 + ["REJECTED", "AWAITING REVIEW", "RETURNED"]
    bonuses = write(tmp_path / "bonus.csv", [{"submission_id": name, "amount": "0.35"} for name in ids[:2]])
    assert "cost: 0.88 with" in requester.run("bonus", bonuses=bonuses).output
    posts = len(requester.server.posts)
    for again in ({"responses": answers}, {"rejections": tmp_path / "no.csv"}, {"bonuses": bonuses}):
        requester.run({"responses": "approve", "rejections": "reject", "bonuses": "bonus"}[next(iter(again))], **again)
    assert len(requester.server.posts) == posts  # twice does nothing
    assert requester.server.paid == [[ids[0], "0.35"], [ids[1], "0.35"]]


@cases("fault", "cut", "broken", "html")
def test_a_study_whose_answer_was_lost_is_found_again(fault, tmp_path, hits):
    with ProlificServer([fault]) as server:
        requester = Requester(tmp_path, hits, server)
        assert "checks first whether the study was created" in requester.run("create", status=1).errors
        assert "found again" in requester.run("create").output
        assert len(server.studies) == 1


@cases("fault posts", ("busy", 2), ("down", 1))
def test_a_study_that_was_not_made_is_made(fault, posts, tmp_path, hits):
    with ProlificServer([fault]) as server:
        requester = Requester(tmp_path, hits, server)
        requester.run("create", status=None)
        assert len(server.posts) == posts
        requester.run("create")
        assert len(server.studies) == 1


@cases("fault", "cut", "broken", "html", "busy", "down")
def test_publishing_is_looked_up(fault, requester):
    requester.run("create")
    requester.server.faults[:] = [fault]
    requester.run("publish", status=1 if fault == "down" else 0)
    requester.run("publish")
    assert requester.study["status"] == "ACTIVE"
    transitions = [path for path, _ in requester.server.posts if path.endswith("transition/")]
    assert len(transitions) == (2 if fault in ("busy", "down") else 1)


@cases("fault", "cut", "broken", "down", "busy")
def test_approvals_are_sent_again(fault, requester):
    requester.published(3)
    requester.server.faults[:] = [fault, "", fault]
    assert "3 submissions approved" in requester.run("approve", all=True).output
    assert requester.statuses() == ["APPROVED"] * 3


def test_one_refusal_costs_one_submission(requester):
    ids = requester.published(3)
    requester.server.faults[:] = ["", "refused"]
    errors = requester.run("approve", all=True, status=1).errors
    assert (
        f'1 submission not approved: invalid: {{"error": {{"detail": "wrong: … Token …"}}}} (400): {ids[1]}' in errors
    )
    assert "1 submission approved" in requester.run("approve", all=True).output


def bonus_file(tmp_path, ids):
    return write(tmp_path / "bonus.csv", [{"submission_id": name, "amount": "1.5"} for name in ids])


@cases("fault", "cut", "broken", "html")
@cases("paid", True, False)
def test_bonuses_are_never_sent_again_by_themselves(fault, paid, requester, tmp_path):
    bonuses = bonus_file(tmp_path, requester.published(2))
    requester.server.faults[:] = ["", fault]
    assert "it is not known whether" in requester.run("bonus", bonuses=bonuses, status=1).errors
    posts = len(requester.server.posts)
    assert "it is not known whether" in requester.run("bonus", bonuses=bonuses, status=1).errors
    assert len(requester.server.posts) == posts
    requester.run("bonus", last_payment="paid" if paid else "unpaid")
    requester.run("bonus", bonuses=bonuses)
    assert len(requester.server.paid) == (2 if paid else 4)  # in truth it was paid, and we said so or not


@cases("fault", "refused", "busy")
def test_bonuses_that_were_refused_are_sent_again(fault, requester, tmp_path):
    ids = requester.published(2)
    requester.server.faults[:] = ["", fault]
    requester.run("bonus", bonuses=bonus_file(tmp_path, ids), status=None)
    requester.run("bonus", bonuses=bonus_file(tmp_path, ids))
    assert [name for name, _ in requester.server.paid] == ids


@cases(
    "lies said",
    ({"reward": 15000}, "differs from what was requested: reward 15000"),
    ({"total_available_places": 240}, "total_available_places 240"),
    ({"external_study_url": "https://elsewhere.example"}, "external_study_url"),
    ({"id": "../users/me"}, "names no study"),
    ({"id": None}, "names no study"),
)
def test_a_study_that_is_not_what_was_asked_for(lies, said, tmp_path, hits):
    with ProlificServer(**lies) as server:
        assert said in Requester(tmp_path, hits, server).run("create", status=1).errors


@cases("lies", {"amount": 30000}, {"amount": None}, {"total_amount": 1}, {"id": "../../studies"})
def test_bonuses_that_are_not_what_was_asked_for(lies, requester, tmp_path):
    ids = requester.published(2)
    requester.server.lies.update(lies)
    if "id" in lies:
        requester.server.get = lambda path, page, get=requester.server.get: {
            **get(path, page),
            "id": requester.study["id"],
        }
    assert "nothing was paid" in requester.run("bonus", bonuses=bonus_file(tmp_path, ids), status=1).errors
    assert requester.server.paid == []


def test_an_approval_that_did_not_take(requester):
    requester.published(1)
    requester.server.lies["status"] = "AWAITING REVIEW"
    assert "not APPROVED" in requester.run("approve", all=True, status=1).errors


def test_nothing_is_sent_without_a_yes(requester, tmp_path, monkeypatch):
    answers = {"approve": {"all": True}, "bonus": {"bonuses": bonus_file(tmp_path, requester.published(2))}}
    for action, flags in answers.items():
        monkeypatch.setattr("sys.stdin.readline", lambda: "no\n")
        assert "the answer was not yes" in requester.run(action, yes=False, status=1, **flags).errors
        assert "dry run" in requester.run(action, dry_run=True, **flags).output
    assert {path for path, _ in requester.server.posts} <= {"/submissions/bonus-payments/"}  # which pays nothing


def test_a_wrong_token(requester, monkeypatch, hits):
    monkeypatch.setenv("PROLIFIC_TOKEN", "another-token")
    errors = requester.run("create", status=1).errors
    assert "PROLIFIC_TOKEN: the token is not valid" in errors
    assert "another-token" not in errors


def test_the_token_goes_to_no_other_address(requester):
    requester.published(1)
    elsewhere = {"results": [{"id": "1"}], "_links": {"next": {"href": "http://127.0.0.1:9/api"}}}
    plain = requester.server.get
    requester.server.get = lambda path, page: elsewhere if "submissions" in path else plain(path, page)
    assert "the next page is at another address" in requester.run("list", status=1).errors


@cases(
    "action flags said",
    ("create", {"hits": None}, "--hits"),
    ("create", {"public_url": "http://crowd.example.org"}, "--public_url"),
    ("create", {"reward": "1.505"}, "--reward"),
    ("create", {"places": 0}, "--places"),
    ("create", {"endpoint_url": "http://prolific.example.org"}, "--endpoint_url"),
    ("publish", {}, "contains no study"),
    ("approve", {}, "--responses FILE or --all"),
    ("approve", {"all": True, "bonuses": __file__}, "'approve' does not take this flag"),
    ("reject", {}, "--rejections: 'reject' requires this flag"),
    ("bonus", {}, "--bonuses FILE"),
)
def test_mistakes(action, flags, said, requester):
    assert said in requester.run(action, status=(1, 2), **flags).errors


@cases(
    "action rows said",
    ("reject", [{"submission_id": "1", "category": "LAZY", "message": WHY}], "row 2: category must be one of"),
    ("reject", [{"submission_id": "1", "category": "OTHER", "message": "bad"}], "at least 100 characters"),
    ("bonus", [{"submission_id": "a b", "amount": "1"}], "row 2: submission_id"),
    ("bonus", [{"submission_id": "1", "amount": "1e3"}], "'1e3' is not an amount"),
    ("bonus", [{"submission_id": "1", "amount": "0.00"}], "is not an amount"),
    ("bonus", [{"submission_id": "1", "amount": "1"}] * 2, "appears twice"),
    ("bonus", [{"submission_id": "1"}], "the header lacks amount"),
    ("bonus", [{"submission_id": "77", "amount": "1"}], "the study has no submission 77"),
)
def test_mistakes_in_files(action, rows, said, requester, tmp_path):
    requester.published(1)
    file = write(tmp_path / "rows.csv", rows)
    flag = {"reject": "rejections", "bonus": "bonuses"}[action]
    assert said in requester.run(action, status=(1, 2), **{flag: file}).errors
    assert requester.server.posts == []


def test_a_study_keeps_to_what_it_was_begun_with(requester):
    requester.run("create")
    errors = requester.run("create", reward="9.99", status=1).errors
    assert "contains a study that was created with another reward" in errors
    assert json.loads((requester.folder / "study/journal.jsonl").read_text().splitlines()[0])["event"] == "batch"


def test_a_dry_run_of_a_new_study_needs_no_token_and_asks_nobody(requester, monkeypatch):
    monkeypatch.delenv("PROLIFIC_TOKEN")
    shown = requester.run("create", dry_run=True)
    assert kit.lacking(shown.output, "24 places, 1.50 each for 6 minutes", "dry run: nothing was changed") == []
    assert (requester.server.posts, (requester.folder / "study").exists()) == ([], False)
    assert "PROLIFIC_TOKEN: is not set" in requester.run("create", status=2).errors
