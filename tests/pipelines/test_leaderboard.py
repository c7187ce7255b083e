"""``parapet leaderboard``: submissions to a release that are good, incomplete, of another release, or hostile."""

import csv
import io
import json
import os
import re
import shutil
from functools import cached_property, partial
from html.parser import HTMLParser

import pytest
from kit import cases, edit, holding, json_of, raised, refused, run, write
from release_folder import sample_corpora, write_release

SETS = ("original", "noisy")
EVIL = "<script>alert(1)</script>"
JGA = "joint_goal_accuracy"


def predicted(folder, corpora, wrong=0):
    """States and responses: the reference's, but in the first ``wrong`` user turns of dialogues of the noisy set."""
    for name in SETS:
        dialogues = json.loads(json.dumps(corpora[name]["test"]["dialogues_001.json"]))
        rows = []
        for dialogue in dialogues:
            for i, turn in enumerate(dialogue["turns"]):
                if turn["speaker"] == "SYSTEM":
                    said = "what?" if name == "noisy" and i < 2 * wrong else turn["utterance"]
                    rows.append({"dialogue_id": dialogue["dialogue_id"], "turn": i, "response": said})
                elif name == "noisy" and i < 2 * wrong:
                    for frame in turn["frames"]:
                        frame["state"]["slot_values"] = {}
        write(folder / "predictions" / name / "test" / "dialogues_001.json", dialogues)
        write(folder / "responses" / name / "test" / "all.jsonl", rows)


def described(folder, **change):
    """Replaces lines of the template: ``system`` to a TOML value."""
    text = (folder / "submission.toml").read_text()
    for key, value in change.items():
        text, n = re.subn(rf"(?m)^{key} = .*$", lambda _, line=f"{key} = {value}": line, text)
        assert n == 1, key
    write(folder / "submission.toml", text)


class Place:
    """A release, and submissions to it."""

    def __init__(self, root):
        self.root, self.corpora = root, sample_corpora(3)
        self.release = write_release(root / "releases", self.corpora, {})
        self.submissions = root / "submissions"

    @cached_property
    def right(self):
        """A submission without mistakes, from the template."""
        folder = self.root / "right"
        run("leaderboard", "--template", release=self.release, output=folder)
        predicted(folder, self.corpora)
        return folder

    def submit(self, name, wrong=0, **change):
        folder = shutil.copytree(self.right, self.submissions / name)
        if wrong:
            predicted(folder, self.corpora, wrong)
        described(folder, **change)
        return folder

    def board(self, *flags, status=0):
        given = {"release": self.release, "submissions": self.submissions, "output": self.root / "board"}
        average = [JGA, "combined", "noisy/active_intent_accuracy"]
        return run("leaderboard", *flags, **given, average=average, status=status)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("board"))
    place.submit("good", system=json.dumps(f"=1+1 {EVIL}"), authors=f'["Ada", "{EVIL}"]',
                 link='"https://example.org/?a=1&b=%22"', description=f'"""{EVIL}\\nin two lines `x`"""')  # fmt: skip
    place.submit("weak", 2, system='"Weak"')
    states = place.submit("a-states", system='"States alone"')
    shutil.rmtree(states / "responses")
    toml = states / "submission.toml"
    write(toml, toml.read_text().replace('response = "responses"', ""))
    incomplete = place.submit("incomplete")
    shutil.rmtree(incomplete / "responses" / "noisy")
    edit(incomplete / "predictions" / "noisy" / "test" / "dialogues_001.json", lambda dialogues: dialogues[:1])
    place.submit("old", version='"0.9.0"')
    place.submit("other", manifest_sha256='"00"')
    place.submit("<img src=x onerror=alert(2)>", link='"javascript:alert(3)"')
    os.symlink("/etc/passwd", place.submit("linked") / "predictions" / "original" / "test" / "passwd.json")
    place.submit("outside", dst='"../good/predictions"')
    (place.submissions / "empty").mkdir()
    (place.submissions / ".hidden").mkdir()
    (place.submissions / "twin").symlink_to(place.submissions / "good")
    write(place.submit("damaged") / "predictions" / "noisy" / "test" / "dialogues_001.json", "[" * 5000)
    place.board()
    return place


def published(place):
    return json_of(place.root / "board" / "leaderboard.json")


class Page(HTMLParser):
    """The tags of a page, and where its links lead."""

    def __init__(self, path):
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


def test_the_pages_are_harmless(place):
    out = place.root / "board"
    pages = [out / "index.html", *sorted((out / "submissions").iterdir())]
    assert len(pages) == 4
    for path in pages:
        page = Page(path)
        assert not holding(page.tags, "script", "img")
        for link in page.links:
            assert link == "https://example.org/?a=1&b=%22" or (path.parent / link).resolve().is_relative_to(out)
            assert link.startswith("https://example.org/") or (path.parent / link).is_file()
    assert "&lt;img src=x onerror=alert(2)&gt;" in (out / "index.html").read_text()
    own = (out / published(place)["submissions"][1]["page"]).read_text()
    for title in ("Accuracy by slot", "Domains, of 100", "Joint goal accuracy by domain and set, of 100"):
        assert title in own


@pytest.mark.thorough
def test_only_what_changed_is_scored_again(place):
    out = place.root / "board"

    def contents():
        files = (path for path in sorted(out.rglob("*")) if path.is_file())
        return {str(path.relative_to(out)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    before = contents()
    place.board()
    after = contents()
    assert {name: data for name, (data, _) in after.items()} == {name: data for name, (data, _) in before.items()}
    assert {name for name in after if name[:6] == "scores" and after[name] != before[name]} == set()
    changed = place.submissions / "weak" / "predictions" / "noisy" / "test" / "dialogues_001.json"
    kept = changed.read_bytes()
    shutil.copy(place.submissions / "good" / "predictions" / "noisy" / "test" / "dialogues_001.json", changed)
    place.board()
    # The states are those of another submission now, which were scored already; their old scores are gone.
    folders = {name.split("/")[1] for name in contents() if name[:6] == "scores"}
    assert folders < {name.split("/")[1] for name in before if name[:6] == "scores"}
    weak = next(one for one in published(place)["submissions"] if one["folder"] == "weak")
    assert next(one["value"] for one in weak["values"] if one["set"] == "noisy" and one["metric"] == JGA) == 1.0
    changed.write_bytes(kept)
    place.board()
    then, now = ({name: of[name][0] for name in of if name[:6] != "scores"} for of in (before, contents()))
    assert now == then


@cases(
    "flags reason",
    (["--tasks", "ranking"], "'ranking': must be one of dst, response, intent, ood, and appear once"),
    (["--tasks", "dst=original,far"], "the release has no set 'far', only original, noisy"),
    (["--tasks", "dst=noisy"], "the sets must include 'original'"),
    (["--tasks", "ood"], "task ood requires --ood"),
    (["--split", "dev"], "the release has no dialogues in sgd/original/dev"),
    (["--template"], "give exactly one of the two"),
    (["--timeout", "0"], "--timeout: must be 1 or more"),
    (["--output", "submissions/board"], "lies inside --submissions"),
    (["--average", "far/combined"], "no task of the leaderboard has 'far/combined'"),
)
def test_flags_that_cannot_work(place, flags, reason, monkeypatch):
    monkeypatch.chdir(place.root)
    given = ["--release", place.release, "--submissions", "submissions", "--output", "none", *flags]
    assert reason in refused("leaderboard", *given)


def test_a_release_that_was_changed(place, tmp_path):
    release = shutil.copytree(place.release, tmp_path / "release")
    path = release / "sgd" / "noisy" / "test" / "dialogues_001.json"
    path.write_bytes(path.read_bytes() + b" ")
    told = refused("leaderboard", release=release, submissions=place.submissions, output=tmp_path / "board")
    assert "differs from the file that MANIFEST.json lists" in told


def test_a_template_is_never_replaced(place):
    folder = place.submissions / "weak"
    assert "exists already" in refused("leaderboard", "--template", release=place.release, output=folder, status=1)
    assert 'system = "Weak"' in (folder / "submission.toml").read_text()


@pytest.mark.thorough
def test_labels_that_participants_do_not_have(tmp_path):
    place = Place(tmp_path)
    private = place.release
    for corpus in place.corpora.values():
        for dialogue in corpus["test"]["dialogues_001.json"]:
            for turn in dialogue["turns"]:
                turn["frames"] = [{"service": frame["service"], "slots": []} for frame in turn["frames"]]
    place.release = write_release(tmp_path / "public", place.corpora, {})
    place.corpora = sample_corpora(3)
    place.submit("good", 1)
    place.board("--private", private, "--tasks", "dst", "response=original")
    (only,) = published(place)["submissions"]
    assert {one["set"] for one in only["values"] if one["task"] == "response"} == {"#ALL"}  # of one set
    place.corpora["noisy"]["test"]["dialogues_001.json"].pop()
    shorter = write_release(tmp_path / "shorter", place.corpora, {})
    assert "set 'noisy' has different dialogues than in" in place.board("--private", shorter, status=2).errors


def swap(old, new):
    return lambda text: text.replace(old, new)


BAD = {
    "no system": (swap("system =", "name ="), "Object missing required field `system`|unknown field"),
    "empty": (swap('"My system"', '" "'), "system: must not be empty"),
    "long": (swap("My system", "x" * 101), "system: has more than 100 characters"),
    "controls": (swap("My system", "a\\u202eb"), "system: contains control characters"),
    "lines": (swap("My system", "a\\nb"), "system: contains control characters"),
    "a Cyrillic letter": (swap("My system", "My syst\u0435m"), "mixes Cyrillic and Latin letters"),
    "Greek capitals": (swap("My system", "\u03a4\u039f\u039c 5"), "all letters are Greek, but look like"),
    "no width": (swap("My system", "My\u200b system"), "system: contains invisible characters"),
    "a filler": (swap("My system", "My system\u1160"), "system: contains invisible characters"),
    "wide letters": (swap("My system", "\uff2dy system"), "forms of characters: write 'My system'"),
    "two spaces": (swap("My system", "My  system"), "forms of characters: write 'My system'"),
    "a dash": (swap("My system", "My\u2010system"), "forms of characters: write 'My-system'"),
    "no authors": (swap('["Ada Example"]', "[]"), "authors: must have 1 to 50"),
    "no TOML": (lambda text: text + "[[[", "is not TOML"),
    "date": (lambda text: re.sub(r"date = .*", 'date = "soon"', text), "date"),
    "task": (swap("dst =", "chess ="), "this leaderboard has no task 'chess', only dst, response"),
    "place": (swap('"predictions"', '"/etc"'), "'/etc' is not a folder of the submission"),
    "gone": (swap('"predictions"', '"there"'), "there is no 'there'"),
    "too long": (lambda text: text + "#" * 70_000, "has more than 64 KB"),
}


def test_submissions_that_are_not_read(place, tmp_path):
    from parapet.evaluation.board.submission import open_released, read_submission
    from parapet.schemas.errors import InputError

    folder = shutil.copytree(place.right, tmp_path / "one")
    read = partial(read_submission, folder, open_released(str(place.release), None, "test").of, ["dst", "response"])
    foreign = ("Syst\u00e8me n\u00b0 2", "\u5bf9\u8bdd BERT", "\u0421\u043e\u0432\u0430")
    for name in ("T5-DST (large, 3 beams)", *foreign, "My system"):
        described(folder, system=f'"{name}"')
        assert read().submission.system == name
    for limits in ({"most_files": 3}, {"megabytes": 0}):
        raised(InputError, read, match="has more than", **limits)
    good = (folder / "submission.toml").read_text()
    for change, reason in BAD.values():
        write(folder / "submission.toml", change(good))
        raised(InputError, read, match=reason)


def test_where_none_is_accepted_the_reason_is_an_error(place, tmp_path):
    """With --quiet, too: a folder of something else ended with 1 and without a word."""
    (tmp_path / "submissions").mkdir()
    given = {"release": place.release, "submissions": tmp_path / "submissions", "output": tmp_path / "board"}
    told = refused("leaderboard", "--quiet", **given, status=1)
    assert told == "error: --submissions: no submission was accepted: the folder contains none\n"
    (tmp_path / "submissions" / "train").mkdir()
    error = "error: --submissions: no submission was accepted; the first: train: there is no submission.toml\n"
    assert refused("leaderboard", "--quiet", **given, status=1) == error
    assert json_of(tmp_path / "board" / "leaderboard.json")["submissions"] == []
    assert "there is no submission.toml" in (tmp_path / "board" / "index.html").read_text()
    shutil.copytree(place.submissions / "weak", tmp_path / "submissions" / "train", dirs_exist_ok=True)
    described(tmp_path / "submissions" / "train", system='"We\u200bak"')
    told = refused("leaderboard", "--quiet", **given, status=1)
    assert "train: submission.toml: system: contains invisible characters" in told


def test_states_alone_have_a_rank_where_only_states_are_scored(place, tmp_path):
    shutil.copytree(place.submissions / "a-states", tmp_path / "some" / "a-states")
    shutil.copytree(place.root / "board", tmp_path / "out")  # its scores serve again
    given = {"release": place.release, "submissions": tmp_path / "some", "output": tmp_path / "out"}
    board = run("leaderboard", **given, tasks="dst").json("leaderboard.json")
    assert [(one["rank"], one["average"]["value"]) for one in board["submissions"]] == [(1, 100.0)]
    assert board["selection"]["average"] == ["dst/original/joint_goal_accuracy", "dst/noisy/joint_goal_accuracy"]


def test_the_ranking(place):
    board = published(place)
    found = [(one["rank"], one["system"], one["folder"]) for one in board["submissions"]]
    assert found == [(1, f"=1+1 {EVIL}", "good"), (2, "Weak", "weak"), (None, "States alone", "a-states")]
    best, weak, states = board["submissions"]
    assert states["average"]["value"] is None
    refused_folders = {"incomplete", "old", "other", "linked", "outside", "empty", "twin", "damaged"}
    assert {one["folder"] for one in board["refused"]} == {*refused_folders, "<img src=x onerror=alert(2)>"}
    assert best["average"]["value"] == pytest.approx((100 + 100 + 200 + 200 + 100) / 5)
    values = {(one["set"], one["metric"]): one for one in weak["values"] if one["group"] == "all"}
    assert values["original", JGA]["value"] == 1.0
    assert 0 < values["noisy", JGA]["value"] < 1
    assert values["noisy", JGA]["low"] <= values["noisy", JGA]["value"] <= values["noisy", JGA]["high"]
    assert values["noisy", "combined"]["value"] < 200
    assert board["release"]["version"] == "1.0.0"
    rows = list(csv.DictReader(io.StringIO((place.root / "board" / "leaderboard.csv").read_text())))
    assert [row["rank"] for row in rows] == ["1", "2", ""]
    assert rows[0]["system"] == f"'=1+1 {EVIL}"
    assert float(rows[1]["noisy JGA"]) == pytest.approx(100 * values["noisy", JGA]["value"])
    assert rows[2]["average"] == rows[2]["noisy Combined"] == ""
