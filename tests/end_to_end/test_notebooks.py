"""The notebooks of docs/notebooks: each runs elsewhere, offline, and prints what its committed outputs say.

They are committed with their outputs, since GitHub and the site show them as they are. "make notebooks" renews these.
"""

import re
import sys

import nbformat
import pytest
from kit import holding, json_of, run
from notebooks import FOLDER, execute

import parapet

pytestmark = pytest.mark.thorough  # all three are executed

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(scope="module")
def executed():
    """Each notebook after a run; one whose cell fails raises."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PARAPET_DATA", raising=False)
        patch.setenv("http_proxy", "http://127.0.0.1:9")  # nobody answers there
        patch.setenv("https_proxy", "http://127.0.0.1:9")
        return {path.stem: execute(path) for path in NOTEBOOKS}


def outputs(notebook):
    """(cell, text) of all outputs; of a picture, that there is one."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            text = "picture" if "image/png" in data else output.get("text") or data.get("text/plain")
            found.append((cell["id"], sorted(text.splitlines()) if output.output_type == "stream" else text))
    return found


def text_of(notebook, code):
    """The outputs of the cell that has this code, as texts."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and code in cell.source]
    return "\n".join(output.get("text") or output["data"]["text/plain"] for output in cell.outputs)


def rows_of(notebook, code):
    """The table that a cell shows: the first cell of each row to the others."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and code in cell.source]
    (table,) = [html for output in cell.outputs if (html := output.get("data", {}).get("text/html"))]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", table, re.S)]
    return {first: others for first, *others in rows}


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["crowd_to_variants", "robust_tracker", "your_perturbation"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_committed_outputs_are_what_the_code_prints(path, executed):
    committed = nbformat.read(path, as_version=4)
    nbformat.validate(committed)
    assert outputs(executed[path.stem]) == outputs(committed), "run: make notebooks"
    assert "stderr" not in {output.get("name", "") for cell in committed.cells for output in cell.get("outputs", ())}
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"/(?:tmp|home|root|work)/\w+", text)  # places on the machine that wrote them
    assert not holding(text, "<script", "javascript")
    assert len(text) < 150_000


@pytest.mark.usefixtures("bundled_sample")
def test_the_scores_are_those_of_the_command(executed, tmp_path):
    """The original and v5, scored by ``parapet evaluate`` with the tracker of the notebook in a file."""
    notebook = executed["robust_tracker"]
    (cell,) = [cell for cell in notebook.cells if "class Tracker" in cell.source]
    code = cell.source.replace("Tracker(corpus)", "Tracker(parapet.load_corpus())")
    head = "import re\nfrom collections import Counter, defaultdict\n\nimport parapet\n\n\n"
    (tmp_path / "tracker.py").write_text(head + code)
    corpus = parapet.load_corpus()
    crowd = parapet.sample_root() / "crowd"
    batches = ["--responses", str(crowd / "names.csv"), str(crowd / "descriptions.csv")]
    decisions = ["--decisions", str(crowd / "decisions.csv"), "--schemas", str(parapet.sample_root())]
    run("compose", *batches, *decisions, output=tmp_path / "variants")
    run("rewrite", "--variants", str(tmp_path / "variants"), "--output", str(tmp_path / "dialogues"), max_bad="30%")
    parapet.perturb(corpus, "unseen_entities", seed=1).save(tmp_path / "unseen")
    flags = ["--model", f"{tmp_path / 'tracker.py'}:tracker", "--variants", str(tmp_path / "dialogues"), "--quiet"]
    run("evaluate", *flags, "--sets", f"unseen={tmp_path / 'unseen'}", "--output", str(tmp_path / "out"), task="dst")
    numbers = json_of(tmp_path / "out" / "robustness.json")
    table = rows_of(notebook, "table.map(")
    original = numbers["sets"]["original"]["metrics"]["#ALL_SERVICES"]
    for name, row in (("original", "original"), ("v2", "v2"), ("v5", "v5"), ("unseen", "unseen entities")):
        of_set = numbers["sets"][name]["metrics"]["#ALL_SERVICES"]
        expected = [
            f"{value:.1%}"
            for metric in ("joint_goal_accuracy", "average_goal_accuracy")
            for value in (of_set[metric], original[metric] - of_set[metric])
        ]
        assert table[row] == [*expected, f"{of_set['active_intent_accuracy']:.1%}"]
    sensitivity = numbers["variants"]["table"]["#ALL_SERVICES"]["schema_sensitivity"]
    assert f"{sensitivity:.1%}  joint goal accuracy" in text_of(notebook, "schema_sensitivity").splitlines()


def test_the_variants_are_those_of_the_command(executed, tmp_path):
    notebook = executed["crowd_to_variants"]
    crowd = parapet.sample_root() / "crowd"
    flags = ["--responses", str(crowd / "names.csv"), str(crowd / "descriptions.csv"), "--quiet"]
    decisions = ["--decisions", str(crowd / "decisions.csv"), "--schemas", str(parapet.sample_root())]
    services = run("compose", *flags, *decisions, output=tmp_path / "out").json("v5/test/schema.json")
    (repairs,) = [service for service in services if service["service_name"] == "Repairs_15"]
    names = [row[-1] for first, row in rows_of(notebook, "pd.DataFrame(names").items() if first not in ("", "original")]
    assert names == [slot["name"] for slot in repairs["slots"]]
    statistics = json_of(tmp_path / "out" / "statistics.json")
    after = {disposition: row[1] for disposition, row in rows_of(notebook, "before review").items()}
    assert {key: after[key] for key in ("used", "rejected", "review")} == {
        key: str(statistics["answers"][key]) for key in ("used", "rejected", "review")
    }
    distances = rows_of(notebook, "distance.round(2)")
    for column in zip(*[[float(number) for number in distances[f"v{i}"]] for i in range(1, 6)], strict=True):
        assert list(column) == sorted(set(column))


def test_the_perturbation_is_sound_and_becomes_a_plugin(executed):
    notebook = executed["your_perturbation"]
    assert text_of(notebook, "check_perturbation(Hesitation") == "[]"
    assert "the dialogue was modified in place" in text_of(notebook, "check_perturbation(Careless")
    assert text_of(notebook, 'load_corpus("hesitant_corpus")') == "True"
    assert text_of(notebook, "by_name.rows == hesitant.rows") == "(True, True)"
    printed = text_of(notebook, "beam.Pipeline")
    assert re.search(r"^\d+ turns have changed$", printed, re.M)
    assert "broken was left out: not_sgd" in printed


def test_they_run_without_what_only_the_tests_need():
    """Each import of the notebooks is of the core, of the extra ``notebooks``, or of Python."""
    allowed = {"apache_beam", "matplotlib", "pandas", "parapet", *sys.stdlib_module_names}
    for path in NOTEBOOKS:
        code = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
        assert set(re.findall(r"^(?:import|from) (\w+)", code, re.M)) <= allowed, path
