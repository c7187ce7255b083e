"""The documentation site: builds without a warning, has every flag, and asks nobody but the disk for anything."""

import base64
import os
import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import commands
import nbformat
import pytest
from kit import holding, lacking, write
from notebooks import FOLDER, execute

import parapet
from parapet.pipelines.main import PIPELINES, actions_of, parser_of

pytest.importorskip("material", reason="the extra docs is not installed")

ROOT = Path(__file__).parents[2]
# What a browser loads without being asked to, by element.
LOADED = {**dict.fromkeys(("script", "img", "iframe", "source", "video"), "src"), "link": "href", "use": "href"}


@pytest.fixture(scope="module")
def site(place):
    """Built strictly: a link or an anchor that leads nowhere, or a page that is not in the navigation, is an error."""
    folder = place / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    with commands.alone(place):
        if not folder.exists():
            run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            assert run.returncode == 0, run.stderr
    return folder


class Page(HTMLParser):
    """The addresses, the ids and the text of a page, without its code."""

    def __init__(self, path):
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.tags: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = {name: value or "" for name, value in attributes}
        self.ids.add(given.get("id", ""))
        self.tags.add(tag)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if given.get("rel") not in ("canonical", "prev", "next") and (address := given.get(LOADED.get(tag, ""))):
            self.loaded.append(address)
        self.loaded += re.findall(r"url\(([^)]+)\)", given.get("style", ""))
        if tag in ("script", "style", "code", "pre"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open[-1:] == [tag]:
            self.open.pop()

    def handle_data(self, data):
        if not self.open:
            self.text += data


@pytest.fixture(scope="module")
def pages(site):
    # 404.html is for servers: its addresses are from their root.
    return {path.relative_to(site).as_posix(): Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


@pytest.mark.parametrize("name", PIPELINES)
def test_every_flag_is_in_the_reference(name):
    page_of = runpy.run_path(str(ROOT / "docs/hooks/commands.py"))["page_of"]
    ids = set(re.findall('id="([^"]+)"', page_of(name)))
    for parser in [parser_of(name, action) for action in actions_of(name) or ("",)]:
        names = [[flag for flag in argument.option_strings if flag.startswith("--")] for argument in parser._actions]
        flags = {of[0] for of in names if of}
        assert len(flags) > 2
        assert {re.sub(r"\W+", "-", parser.prog) + flag for flag in flags - {"--help"}} <= ids


def test_every_address_is_a_file_of_the_site(site, pages):
    assert len(pages) > 70
    for name, page in pages.items():
        for address in [*page.loaded, *page.links]:
            parts = urlsplit(address)
            if parts.scheme in ("http", "https") and address in page.links:
                continue  # a person may follow it
            assert not parts.scheme + parts.netloc, f"{name} loads {address}"
            target = (site / name).parent / unquote(parts.path) if parts.path else site / name
            assert target.is_file(), f"{name}: {address}"
            if parts.fragment and target.suffix == ".html":
                there = pages[target.resolve().relative_to(site.resolve()).as_posix()]
                assert unquote(parts.fragment) in there.ids | {"__skip"}, f"{name}: {address}"
    for style in site.rglob("*.css"):
        outside = re.findall(r"""(?:url\(|@import)\s*["']?(?:https?:)?//[^)"']+""", style.read_text(encoding="utf-8"))
        assert not outside, style


def test_every_public_name_is_in_the_reference(pages):
    assert {f"parapet.{name}" for name in parapet.__all__ if name != "beam"} <= pages["api/index.html"].ids
    assert {"parapet.beam.Perturb", "parapet.beam.ApplyVariants"} <= pages["api/beam.html"].ids
    assert {"parapet.transforms.translate.memory", "parapet.transforms.perturb.speech.engine"} <= {
        name.rpartition(".")[0] for name in pages["api/plugins.html"].ids
    }


def test_no_markup_is_left_in_the_text(pages):
    for name, page in pages.items():
        assert not (name.startswith("api/") and "blockquote" in page.tags), f"{name}: a doctest outside 'Examples:'"
        left = re.findall(r"```|~~~|\]\(|^ *\|.*\|$|:(?:func|class|mod|meth):|\{ \.|no-test", page.text, re.MULTILINE)
        assert not left, name


@pytest.mark.thorough
def test_it_opens_and_is_searched_from_disk(site, browser):
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    asked = []
    errors = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in ("index", "mturk", "method", "commands/evaluate", "api/plugins", "project/changelog"):
        page.goto((site / f"{name}.html").as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, name
    page.get_by_role("textbox", name="Search").fill("self-BLEU")
    results = page.locator(".md-search-result__link")
    results.first.wait_for()
    found = [Path(urlsplit(link.get_attribute("href")).path).name for link in results.all()]
    assert "statistics.html" in found
    assert len(asked) > 20
    assert ([url for url in asked if not url.startswith(("file:", "blob:", "data:"))], errors) == ([], [])


TABLE = '<div><table border="1" class="dataframe"><tr><td>0.51</td></tr></table></div>'
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def test_a_notebook_is_a_page_with_its_outputs(tmp_path):
    table = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/html": TABLE}}
    picture = {"output_type": "display_data", "metadata": {}, "data": {"image/png": PIXEL, "text/plain": "<Figure>"}}
    stream = {"output_type": "stream", "name": "stdout", "text": "0 < 1\n"}
    code = {"execution_count": 1, "source": "raise_nothing()", "outputs": [table, picture, stream]}
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# How robust is *it*?"},
        {"cell_type": "code", "id": "b", "metadata": {}, **code},
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    write(tmp_path / "docs" / "notebooks" / "robust.ipynb", notebook)
    write(tmp_path / "docs/index.md", "# Home\n")
    hook = ROOT / "docs" / "hooks" / "notebooks.py"
    config = {"site_name": "Test", "hooks": [str(hook)], "nav": [{"Home": "index.md"}, {"Notebooks": []}]}
    write(tmp_path / "mkdocs.yml", config)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--no-directory-urls"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    html = (tmp_path / "site" / "notebooks" / "robust.html").read_text()
    assert not lacking(html, "How robust is <em>it</em>?", "raise_nothing()", "<table data-frame><tr><td>0.51</td>")
    assert "0 &lt; 1" in html
    (image,) = re.findall(r'<img alt="[^"]*" src="([^"]+)"', html)
    assert (tmp_path / "site" / "notebooks" / image).read_bytes() == base64.b64decode(PIXEL)
    assert 'href="notebooks/robust.html"' in (tmp_path / "site" / "index.html").read_text()


# The notebooks of docs/notebooks: each runs elsewhere, offline, and prints what its committed outputs say.


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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_they_run_without_what_only_the_tests_need():
    """Each import of the notebooks is of the core, of the extra ``notebooks``, or of Python."""
    allowed = {"apache_beam", "matplotlib", "pandas", "parapet", *sys.stdlib_module_names}
    assert [path.stem for path in NOTEBOOKS] == ["crowd_to_variants", "robust_tracker", "your_perturbation"]
    for path in NOTEBOOKS:
        code = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
        assert set(re.findall(r"^(?:import|from) (\w+)", code, re.M)) <= allowed, path
