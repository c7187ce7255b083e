"""What the pages link outside ``docs/``: put on the site, so that a link that works on GitHub works here too.

Markdown becomes a page, any other file a page with its text, a folder a list of its files. Links are followed from
there. The package is linked together for mkdocstrings, which reads it and does not import it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLE = DOCS / "plugin_example"
PACKAGE = ROOT / "build" / "reference" / "parapet"
LANGUAGES = {".json": "json", ".py": "python", ".toml": "toml", ".yml": "yaml"}

# Found by who looks for them, not by who searches.
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"

_LINK = re.compile(r"\]\((?!https?:)([^)\s#]+)(#[^)\s]*)?\)")
_TEST_MARK = re.compile(r"^( *```\w+) [\w-]+$", re.MULTILINE)  # what test_docs.py reads
_TABLE_CODE = re.compile(r"`[^`\n]+`")


@event_priority(100)  # before mkdocstrings, which passes over paths that are not there
def on_config(config: MkDocsConfig) -> None:
    """Links the folders as the package that they are installed as."""
    shutil.rmtree(PACKAGE, ignore_errors=True)
    PACKAGE.mkdir(parents=True)
    for path in (*(ROOT / "parapet").glob("*.py"), *(init.parent for init in ROOT.glob("*/__init__.py"))):
        if path.name not in ("parapet", "tests", "benchmarks"):
            (PACKAGE / path.name).symlink_to(path)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each file and folder of the repository that a page links."""
    waiting = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    waiting += [path for file in files.documentation_pages() if file.abs_src_path for path in _links(file)]
    done = set()
    while waiting:
        path = waiting.pop()
        if path in done or _in_docs(path) or not path.exists():
            continue
        done.add(path)
        files.append(File.generated(config, _uri(path), content=_page(path)))
        waiting += _targets(path, _page(path)) if path.suffix == ".md" else _shown(path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points links to the pages above; of code, blocks and tables are written as Python-Markdown reads them."""
    uri = page.file.src_uri
    origin = _origin(uri)

    def link(match: re.Match[str]) -> str:
        target = (origin.parent / match[1]).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return match[0]
        return f"]({os.path.relpath(_uri(target), os.path.dirname(uri) or '.')}{match[2] or ''})"

    if uri.startswith("files/"):
        return markdown
    lines = _LINK.sub(link, _TEST_MARK.sub(r"\1", markdown)).split("\n")
    return "\n".join(_TABLE_CODE.sub(_bar, line) if line.startswith("|") else line for line in lines)


def _bar(code: re.Match[str]) -> str:
    return code[0].replace("\\|", "|")


def _in_docs(path: Path) -> bool:
    return path.is_relative_to(DOCS) and not path.is_relative_to(EXAMPLE)


def _uri(path: Path) -> str:
    """Where on the site a file of the repository is."""
    if _in_docs(path):
        page = path.with_suffix(".md") if path.suffix == ".ipynb" else path  # hooks/notebooks.py makes the page
        return page.relative_to(DOCS).as_posix()
    place = path.relative_to(ROOT).as_posix()
    if "/" not in place and path.suffix == ".md":
        return f"project/{place.lower()}"
    return f"files/{place}/index.md" if path.is_dir() else f"files/{place}.md"


def _origin(uri: str) -> Path:
    """The file of the repository that is at a place on the site."""
    name = uri.removeprefix("project/")
    return DOCS / uri if name == uri else ROOT / (Path(name).stem.upper() + ".md")


def _links(file: File) -> list[Path]:
    return _targets(Path(str(file.abs_src_path)), file.content_string)


def _targets(origin: Path, text: str) -> list[Path]:
    return [(origin.parent / link).resolve() for link, _ in _LINK.findall(text)]


def _shown(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix in LANGUAGES)


def _page(path: Path) -> str:
    place = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        return "\n".join([f"{UNSEARCHED}# {place}\n", *(f"- [{one.name}]({one.name}.md)" for one in _shown(path))])
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return UNSEARCHED + text if path.name == "README.md" else text
    return f"{UNSEARCHED}# {place}\n\n~~~~~~ {LANGUAGES.get(path.suffix, 'text')}\n{text}\n~~~~~~\n"
