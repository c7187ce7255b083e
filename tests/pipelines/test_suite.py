"""``parapet suite``: the graph of a file, what is made again, failures, kills, results."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kit import THOROUGH, cases, edit, files_of, json_of, lacking, raised, rows_of, run, sample_dialogues, write

from parapet.evaluation.results import ResultRow
from parapet.pipelines.app import command_line
from parapet.pipelines.main import main
from parapet.pipelines.suite.graph import Graph
from parapet.pipelines.suite.page import judge, over_seeds, pointed, shown_cell
from parapet.pipelines.suite.running import FOLDER, State, source_hash
from parapet.pipelines.suite.suite_file import RESULTS, command_of, read_suite, without
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root

# A set that fails while it runs: the sample has not half as many foreign utterances as a rate of 0.9 takes.
SMALL = """
title = "Small <suite>"
corpus = { sgd = "corpus" }
[[sets]]
perturbation = "typos"
[[sets]]
perturbation = "verbose"
name = "wordy"
env = [0.5]
[[systems]]
name = "names"
model = "parapet.evaluation.dst.trackers:Names"
[[tables]]
title = "Published"
source = "a paper"
columns = ["original", "typos"]
[[tables.rows]]
name = "names"
published = [50.0, nan]
ours = "@scores/names/robustness.json#/sets/{column}/metrics/#ALL_SERVICES/joint_goal_accuracy"
scale = 100
[[tables.rows]]
name = "theirs"
published = [70.0, 60.0]
needs = "a checkpoint of theirs"
"""
TYPOS = 'corpus = { sgd = "corpus" }\n[[sets]]\nperturbation = "typos"\n'


@pytest.fixture
def folder(tmp_path):
    """A folder with a corpus of the sample's test split, and a suite file."""
    return suite_in(tmp_path)


def suite_in(folder, text=SMALL):
    for split in ("train", "test"):
        shutil.copytree(sample_root() / split, folder / "corpus" / split)
    write(folder / "small.toml", text)
    return folder


def graph_of(path, *settings):
    return Graph(read_suite(str(path), settings))


def suite(folder, *flags, output="out", status=0):
    return run("suite", folder / "small.toml", *flags, output=folder / output, status=status)


def content(folder):
    """The files of an output, but for the suite's own state: it has times."""
    return {name: data for name, data in files_of(folder).items() if FOLDER not in Path(name).parts}


def append_to(folder, text):
    write(folder / "small.toml", (folder / "small.toml").read_text("utf-8") + text)


@cases("name", "sample", "llm_sample", "tools", "raddle")
def test_a_built_in_suite_does_not_call_the_users_data_ours(name, folder):
    """Without data of one's own it does, except where it has no sample."""
    sample, own = read_suite(name), read_suite(name, [f"corpus.sgd={folder}/My Corpus-2", "corpus.tasks="])
    words = re.compile("CC0|[Pp]ublic domain|twelve tools|authors of Parapet|Parapet's|[Oo]ur sample")
    said = [str((suite.title, suite.description, suite.corpus.description, suite.release)) for suite in (sample, own)]
    assert bool(words.search(said[0])) == (name != "raddle")
    assert not words.search(said[1])
    assert own.release is None or own.release["name"] == "my_corpus_2"


def test_a_step_goes_on_without_what_failed(folder):
    graph = graph_of(folder / "small.toml")
    scores = without(graph.steps["scores/names/dst"], ["sets/wordy"])
    assert scores is not None
    assert scores.options["sets"] == {"typos": "@sets/typos/typos"}
    assert without(graph.steps["comparison"], ["scores/names/dst"]) is None


def test_numbers_beside_those_of_a_paper_and_over_seeds(tmp_path):
    write(tmp_path / "a" / "numbers.json", '{"x": [{"y/z": 0.5, "none": null, "text": "1"}]}')
    assert pointed("@a/numbers.json#/x/0/y~1z", tmp_path) == 0.5
    for missing in ("x/0/none", "x/0/text", "x/1/y", "w", "x/0/y~1z/deeper"):
        assert pointed(f"@a/numbers.json#/{missing}", tmp_path) is None
    assert pointed("@b/numbers.json#/x", tmp_path) is None
    for values, of_paper, digits, shown in (
        ([52.04], 50.0, 1, "52.0\npaper 50.0, +2.0"),
        ([51.0, 53.0, 52.0], 50.0, 1, "52.0 ± 1.0\npaper 50.0, +2.0"),
        ([49.96], 50.0, 1, "50.0\npaper 50.0, +0.0"),
        ([], 50.0, 1, "–\npaper 50.0"),
        ([49.0], float("nan"), 0, "49"),
        # By hand: the mean of 1, 2 and 6 is 3; the squares of the differences, 4 + 1 + 9, by n - 1 are 7.
        ([1, 2, 6], float("nan"), 2, f"3.00 ± {7**0.5:.2f}"),
    ):
        assert shown_cell(values, of_paper, digits) == shown
    for seed, value in (("0", 1.0), ("1", 2.0), ("x", 6.0)):
        write(tmp_path / f"model-{seed}" / "metrics.json", {"a": value, "b": 2 * value + 2})
    a, b = "@model-{seed}/metrics.json#/a", "@model-{seed}/metrics.json#/b"
    for ours, relative_to, scale, seeds, expected in (
        (a, "", 100, "01x", [100, 200, 600]),
        (a, "", 1, "02", []),
        ("@model-x/metrics.json#/a", "", 1, "01", [6.0]),
        # Relative to the same seed's other number: 4 / 1 - 1, 6 / 2 - 1; and to one that has no seed.
        (b, a, 1, "01", [3, 2]),
        (a, "@model-1/metrics.json#/a", 1, "01", [-0.5, 0]),
    ):
        assert over_seeds(ours, relative_to, scale, tuple(seeds), tmp_path) == expected


SEEDED = """
[[steps]]
name = "{kind}-{seed}"
each = [{ kind = "typos" }, { kind = "verbose" }]
pipeline = "perturb {kind}"
sgd = "@corpus"
seed = "{seed}"
"""


@cases(
    "setting reason",
    ("seeds=[]", "length >= 1"),
    ("seeds=1,1", "another step is called 'typos-1'"),
    ("seeds=a b", "'typos-a b' cannot be used as a name"),
    ("seeds=[1.5]", "Expected"),
)
def test_entries_once_for_each_seed(setting, reason, folder):
    append_to(folder, SEEDED)
    assert {"typos-0", "verbose-0"} <= graph_of(folder / "small.toml").steps.keys()
    graph = graph_of(folder / "small.toml", "seeds=3,b")
    assert {"typos-3", "typos-b", "verbose-3", "verbose-b"} <= graph.steps.keys()
    assert "typos-0" not in graph.steps
    assert command_of(graph.steps["verbose-b"], Path("/out")).seed == "b"
    raised(InputError, graph_of, folder / "small.toml", setting, match=reason)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a suite that has run once. Tests must leave its output as it is."""
    folder = suite_in(tmp_path_factory.mktemp("made"))
    suite(folder)
    return folder


def runs(folder, *flags):
    """Runs the suite and returns the number of steps that ran."""
    return int(suite(folder, *flags).output.rsplit(" step", 1)[0].split()[-1])


def test_files_of_one_size_and_time_may_change_places(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).write_text(name[:5], encoding="utf-8")
        os.utime(tmp_path / name, (0, 0))
    state = State(tmp_path / "out")
    first, second = map(state.hash_of, (tmp_path / "first", tmp_path / "second"))
    for old, new in (("first", "other"), ("second", "first"), ("other", "second")):
        (tmp_path / old).rename(tmp_path / new)
    assert [state.hash_of(tmp_path / name) for name in ("first", "second")] == [second, first]


def test_a_release_is_built_again_when_what_it_holds_has_changed(folder):
    shutil.copytree(folder / "corpus", folder / "mine")
    text = TYPOS + 'seed = 1\n[[sets]]\npath = "mine"\n'
    text += '[release]\nname = "small"\nversion = "1.0.0"\nlicence = "LicenseRef-mine"\nlicence_file = "mine.txt"\n'
    write(folder / "small.toml", text)
    write(folder / "mine.txt", "Do as you like.\n")  # beside the suite file
    release = folder / "out/release/small/1.0.0"
    assert runs(folder) == 2
    assert "Do as you like." in (release / "LICENSE").read_text("utf-8")
    assert runs(folder, "--dry_run") == 0
    before = (release / "sgd/typos/test/dialogues_001.json").read_bytes()
    cut_one(folder / "mine/test/dialogues_001.json")
    assert runs(folder, "--dry_run") == 1
    write(folder / "small.toml", text.replace("seed = 1", "seed = 2"))
    assert runs(folder) == 2
    assert (release / "sgd/typos/test/dialogues_001.json").read_bytes() != before
    original, mine = (json_of(release / f"sgd/{name}/test/dialogues_001.json") for name in ("original", "mine"))
    assert len(original) == len(mine) + 1


def cut_one(path):
    """Removes the last dialogue of a file."""
    edit(path, lambda dialogues: dialogues[:-1])


def test_the_code_of_a_model_is_what_it_imports_from_its_folder_and_from_beside_the_suite(folder):
    write(folder / "tracker.py", "from helpers.base import Names\n")
    write(folder / "helpers/base.py", "from .deep import Names\n")  # a folder is a package without __init__.py, too
    write(folder / "models/mine.py", "def load(): from tracker import Names\n")
    targets = ("tracker.py:Names", "tracker:Names", "models/mine.py:load")

    def hashes():
        return [source_hash(target, folder) for target in targets]

    for path, other, is_part in (("helpers/deep.py", "", True), ("unused.py", "x = 1\n", False)):
        write(folder / path, "class Names: pass\n")
        before = hashes()
        write(folder / path, other)
        assert [one != two for one, two in zip(before, hashes(), strict=True)] == [is_part] * 3
    assert source_hash("tracker:Names") == "" not in hashes()


CHANGING = """
import json, pathlib
from parapet.evaluation.dst.trackers import Names
class Changing(Names):
    def __init__(self):
        super().__init__()
        path, mark = pathlib.Path("corpus/test/dialogues_001.json"), pathlib.Path("changed")
        if not mark.exists():
            path.write_text(json.dumps(json.loads(path.read_bytes())[1:]))
            mark.touch()
"""


def test_a_corpus_that_changes_while_the_suite_runs_fails_it(folder):
    text = '[gates]\njoint_goal_accuracy = ">= 0"\n[[systems]]\nname = "mine"\nmodel = "changing.py:Changing"\n'
    write(folder / "small.toml", TYPOS + text)
    write(folder / "changing.py", CHANGING)
    told = "inputs changed while the suite ran, so the results of 3 steps are not used", "run the suite again"
    missed = "gate missed: joint_goal_accuracy >= 0: the results contain no such number"
    assert not lacking(suite(folder, status=1).errors, *told, missed)
    manifest = json_of(folder / "out/run.json")
    assert (manifest["steps"], len(manifest["failed"])) == ({}, 3)
    assert not (folder / "out/table.csv").exists()
    assert "3 steps run, 0 unchanged" in suite(folder).output
    assert runs(folder, "--dry_run") == 0


def test_links_in_a_corpus_are_followed_and_the_suites_output_is_no_part_of_it(folder):
    (folder / "corpus/test").rename(folder / "elsewhere")
    (folder / "corpus/test").symlink_to(folder / "elsewhere")
    (folder / "elsewhere/above").symlink_to(folder)  # a circle, in which the output lies, too
    told = "corpus/out/sets/typos", "is the same as --sgd or lies inside it: choose another folder"
    assert not lacking(suite(folder, output="corpus/out", status=2).errors, *told)
    only = ["--only", "sets/typos"]
    assert [runs(folder, *only), runs(folder, *only)] == [1, 0]
    cut_one(folder / "elsewhere/dialogues_001.json")
    assert runs(folder, *only, "--dry_run") == 1


def test_a_folder_of_other_files_is_refused(folder):
    before = files_of(folder)
    for output in (".", "corpus"):
        for flags in ([], ["--dry_run"]):
            told = suite(folder, *flags, output=output, status=2).errors
            assert "contains files that no suite has written: choose a new folder" in told
    assert files_of(folder) == before


@pytest.mark.thorough
def test_a_failed_step_leaves_the_others_done(folder):
    append_to(folder, '[[sets]]\nperturbation = "ood"\nrates = [0.9]\n')
    append_to(folder, '[[steps]]\npipeline = "few_shot"\nsgd = "@sets/ood/ood-90"\n')
    told = suite(folder, status=1).errors
    assert "sets/ood failed: " in told
    assert "error: 1 step failed: sets/ood; not run, because they need what failed: few_shot" in told
    assert not lacking((folder / "out/index.html").read_text("utf-8"), "What is missing", ".suite/logs/sets/ood.log")
    assert {"typos", "wordy"} <= {row["set"] for row in rows_of(folder / "out/table.csv")}
    text = (folder / "small.toml").read_text("utf-8")
    write(folder / "small.toml", text.replace("rates = [0.9]", "rates = [0.1]").replace("ood-90", "ood-10"))
    suite(folder, "--only", "scores/*", "comparison")
    assert "ood-10" in {row["set"] for row in rows_of(folder / "out/table.csv")}


def test_only_and_skip(folder):
    assert "1 step would run" in suite(folder, "--only", "sets/typos", "--dry_run").output
    told = suite(folder, "--skip", "sets/wordy", "--dry_run")
    assert "sets/wordy" not in told.output
    assert "left out: sets/wordy: --skip names it" in told.errors
    for flag in ("--only", "--skip"):
        told = suite(folder, flag, "sets/typoes", status=2).errors
        assert f"{flag}: there is no step 'sets/typoes': did you mean 'sets/typos'?" in told
    assert not (folder / "out").exists()


def test_a_dry_run_lists_the_steps(folder, monkeypatch):
    told = suite(folder, "--dry_run")
    assert {" ".join(line.split()) for line in told.output.splitlines()} == {
        "sets/typos runs",
        "sets/wordy runs",
        "scores/names/dst runs after sets/typos, sets/wordy",
        "comparison runs after scores/names/dst",
        "4 steps would run, 0 unchanged",
        "this suite can show no difference between two systems, if they disagree on 20% of the 8 dialogues "
        "(power 80%; more by 'parapet plan')",
    }
    assert not (folder / "out").exists()
    monkeypatch.setattr("parapet.schemas.dialogue.dialogue_ids", lambda path: [*range(384)])
    assert "this suite can show differences of 7 points between two systems, " in suite(folder, "--dry_run").output


OWN = """
corpus = { sgd = "my_corpus", splits = ["dev"] }
release = { name = "my_robustness_set", version = "1.0.0" }
sets = [{ perturbation = "typos" }]
systems = [{ name = "ours", model = "tracker.py:Nothing" }, { name = "theirs", predictions = "their_states" }]
"""
TRACKER = """
class Nothing:
    def predict(self, batch):
        return [{"active_intent": "NONE", "requested_slots": [], "slot_values": {}} for _ in batch]
"""


def test_a_model_file_and_a_folder_of_predictions_on_a_corpus_of_ones_own(tmp_path):
    """Predictions of some sets: the others are scored without that system."""
    corpus, predictions = tmp_path / "my_corpus", tmp_path / "their_states"
    write(corpus / "dev/schema.json", (sample_root() / "test/schema.json").read_bytes())
    write(corpus / "dev/dialogues_007.json", sample_dialogues()[:4])
    shutil.copytree(corpus / "dev", predictions / "original" / "dev")  # the reference itself
    write(tmp_path / "tracker.py", TRACKER)
    write(tmp_path / "small.toml", OWN)
    suite(tmp_path)
    rows = [row for row in rows_of(tmp_path / "out/table.csv") if row["group"] == "all"]
    values = {(row["system"], row["set"]): row["value"] for row in rows if row["metric"] == "joint_goal_accuracy"}
    assert float(values["theirs", "original"]) == 1.0
    assert float(values["ours", "typos"]) == float(values["ours", "original"]) < 0.5
    assert values.get(("theirs", "typos"), "") == ""
    page = (tmp_path / "out/index.html").read_text("utf-8")
    assert not lacking(page, "their_states has none of typos", "scores/theirs/dst: typos")
    release = tmp_path / "out/release/my_robustness_set/1.0.0"
    assert "No licence was given" in (release / "LICENSE").read_text("utf-8")
    assert {"original", "typos"} <= {path.name for path in (release / "data").iterdir()}


@pytest.mark.thorough
def test_files_where_it_is_run_are_not_taken_for_modules(folder):
    for name in ("apache_beam.py", "parapet.py"):
        (folder / name).write_text("raise RuntimeError('this is not the module')\n", encoding="utf-8")
    words = [str(Path(sys.executable).with_name("parapet")), "suite", "small.toml", "--output", "out"]
    result = subprocess.run([*words, "--only", "sets/typos"], cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_results(made):
    out = made / "out"
    assert {path.name for path in out.iterdir() if path.is_file()} <= set(RESULTS)
    rows = {(row["set"], row["metric"]): row for row in rows_of(out / "table.csv") if row["group"] == "all"}
    accuracy = json_of(out / "scores/names/dst/metrics.json")["#ALL_SERVICES"]["joint_goal_accuracy"]
    row = rows["original", "joint_goal_accuracy"]
    assert float(row["value"]) == pytest.approx(accuracy)
    assert float(row["low"]) <= accuracy <= float(row["high"])
    assert {"original", "typos", "wordy", "wordy-env1"} <= {name for name, _ in rows}
    page = (out / "index.html").read_text(encoding="utf-8")
    command = "parapet perturb verbose --sgd=corpus --env=0.5 --output=out/sets/wordy"
    linked = [f"scores/names/dst/failures/{name}.html" for name in ("original", "typos", "wordy")]
    links = [f'href="{path}"' for path in (*linked, "sets/typos/report.html")]
    shown = "Small &lt;suite&gt;", f"{100 * accuracy:.1f}", "a checkpoint of theirs", command
    assert not lacking(page, *shown, *links)
    assert "Small <suite>" not in page
    assert all((out / path).is_file() for path in linked)
    assert json_of(out / "run.json")["steps"]["sets/typos"]["sha256"] == State(out).hash_of(out / "sets/typos")


def test_what_lacks_an_input_is_left_out_with_what_needs_it(folder):
    """Systems are scored on the other sets, and a release has these."""
    theirs = "train = { model = 't5dst', checkpoint = '' }\nneeds = '--set systems.theirs.predictions=DIR'\n"
    append_to(folder, f"[[systems]]\nname = 'theirs'\npredictions = ''\n{theirs}")
    (left_out,) = graph_of(folder / "small.toml").left_out
    assert (left_out.name, left_out.reason) == ("scores/theirs/dst", "predictions is not given")
    assert graph_of(folder / "small.toml", f"systems.theirs.predictions={folder}").systems == ["names", "theirs"]
    write(folder / "small.toml", SMALL)
    append_to(folder, '[[sets]]\nperturbation = "unseen_entities"\ntraining = "@more"\n')
    append_to(folder, '[[steps]]\nname = "more"\npipeline = "few_shot"\nsgd = ""\nneeds = "entities"\n')
    append_to(folder, '[release]\nname = "small"\nversion = "1.0.0"\n')
    graph = graph_of(folder / "small.toml")
    lacking_entities = dict.fromkeys(("more", "sets/unseen_entities"), "entities")
    assert {one.name: one.needs for one in graph.left_out} == lacking_entities
    assert list(graph.steps["scores/names/dst"].options["sets"]) == ["typos", "wordy", "wordy-env1"]
    assert graph.needs["scores/names/dst"] == graph.needs["release"] == {"sets/typos", "sets/wordy"}


def test_what_the_table_of_all_systems_has(folder):
    append_to(folder, '[compare]\nsets = ["wordy", "original"]\naverage = ["wordy/joint_goal_accuracy"]\n')
    comparison = graph_of(folder / "small.toml", "compare.replicates=9").steps["comparison"]
    assert set(shlex.join(command_line(command_of(comparison, Path("/out")))).split(" --")) == {
        *("compare", "sets wordy original", "average wordy/joint_goal_accuracy", "replicates=9"),
        *("systems names=/out/scores/names/dst", "output=/out/comparison"),
    }


@cases(
    "change again",
    ("option", 3),  # the set, scores, comparison
    ("input", 4),
    pytest.param("output", 1, marks=pytest.mark.thorough),  # the same bytes as before: what comes after is unchanged
    ("code", 4),
)
def test_what_has_changed_is_made_again(change, again, made, tmp_path, monkeypatch):
    """``make test`` only lists the steps to run, except for a lost output, where a run shows the others unchanged."""
    folder = shutil.copytree(made, tmp_path / "copy")
    if change == "option":
        write(folder / "small.toml", SMALL.replace('"typos"\n', '"typos"\nseed = "2"\n', 1))
    elif change == "input":
        cut_one(folder / "corpus/test/dialogues_001.json")
    elif change == "output":
        (folder / "out/sets/typos/report.html").unlink()
    elif change == "code":
        monkeypatch.setattr("parapet.pipelines.suite.running.code_sha256", lambda: "other code")
        write(folder / "out" / FOLDER / "state.json", "{")  # damaged: files are hashed again
    assert again <= runs(folder, "--dry_run") <= 4
    if THOROUGH or change == "output":
        assert f"{again} step{'s' * (again > 1)} run, {4 - again} unchanged" in suite(folder).output


def test_the_commands_of_the_page_run_when_they_are_pasted(tmp_path, monkeypatch):
    text = SMALL.replace('sgd = "corpus"', 'sgd = "@sample", splits = ["test"]').partition("[[tables]]")[0]
    write(tmp_path / "small.toml", text)
    suite(tmp_path, output="an output")
    page = (tmp_path / "an output/README.md").read_text(encoding="utf-8")
    commands = [line for line in re.findall(r"`(parapet [^`]+)`", page) if "--output" in line]
    assert ([line.split()[1] for line in commands], len([line for line in commands if "@sample" in line])) == (
        ["perturb", "perturb", "evaluate", "compare"], 3,
    )  # fmt: skip
    before = content(tmp_path / "an output")
    for name in ("sets", "scores", "comparison"):
        shutil.rmtree(tmp_path / "an output" / name)
    monkeypatch.chdir(tmp_path)
    for line in commands:
        assert main(shlex.split(line)[1:]) == 0
    assert content(tmp_path / "an output") == before


def test_gates_fail_a_build(folder, made):
    shutil.copytree(made / "out", folder / "out")
    met, missed = '"joint_goal_accuracy.typos" = ">= 0.0"\n', '"names.joint_goal_accuracy" = ">= 0.99"\n'
    write(folder / "small.toml", SMALL.replace("[[tables]]", f"[gates]\n{met}{missed}[[tables]]", 1))
    told = suite(folder, status=1)
    assert "gate met: joint_goal_accuracy.typos >= 0.0" in told.output
    assert "gate missed: names.joint_goal_accuracy >= 0.99" in told.errors
    write(folder / "small.toml", SMALL.replace("[[tables]]", f"[gates]\n{met}[[tables]]", 1))
    assert "0 steps run, 4 unchanged" in suite(folder).output
    before, after = content(made / "out"), content(folder / "out")
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed <= {"index.html", "README.md", "run.json"}  # which have the suite's file


NUMBERS = [
    *(("a", "joint_goal_accuracy", "original", 0.6), ("b", "joint_goal_accuracy", "original", 0.4)),
    *(("a", "joint_goal_accuracy", "typos", 0.5), ("a", "joint_goal_accuracy", "#VARIANTS", 0.3)),
    *(("a", "schema_sensitivity", "#VARIANTS", 0.2), ("b", "schema_sensitivity", "#VARIANTS", None)),
]


@cases(
    "gate told",
    ("joint_goal_accuracy >= 0.5", [("a", 0.6, True), ("b", 0.4, False)]),
    ("joint_goal_accuracy.typos < 0.5", [("a", 0.5, False)]),
    ("a.schema_sensitivity <= 1", [("a", 0.2, True)]),
    ("joint_goal_accuracy.variants > 0", [("a", 0.3, True)]),
    ("joint_goal_acuracy > 0", [("", None, False)]),
    ("schema_sensitivity <= 1", [("a", 0.2, True), ("b", None, False)]),
)
def test_what_gates_say(gate, told):
    name, _, condition = gate.partition(" ")
    numbers = [ResultRow(system, "dst", of_set, "all", metric, value) for system, metric, of_set, value in NUMBERS]
    found = list(judge({name: condition}, numbers))
    assert [(one.system, one.value, one.is_met) for one in found] == told
    assert ("contain no such number" in found[0].text()) == (told[0][1] is None)
    assert [one.system for one in found if "not defined" in one.text()] == ["b"] * (("b", None, False) in told)
