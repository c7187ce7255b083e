"""The notebooks of docs/notebooks: each runs elsewhere, offline, and prints what its committed outputs say.

They are committed with their outputs, since GitHub and the site show them as they are. "make notebooks" renews these.
"""

import re
import sys

import nbformat
import pytest
from kit import holding
from notebooks import FOLDER, execute

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


def test_they_run_without_what_only_the_tests_need():
    """Each import of the notebooks is of the core, of the extra ``notebooks``, or of Python."""
    allowed = {"apache_beam", "matplotlib", "pandas", "parapet", *sys.stdlib_module_names}
    for path in NOTEBOOKS:
        code = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
        assert set(re.findall(r"^(?:import|from) (\w+)", code, re.M)) <= allowed, path
