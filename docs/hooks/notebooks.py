"""``docs/notebooks/*.ipynb`` as pages, with the outputs that they hold; nothing is executed."""

from __future__ import annotations

from pathlib import Path, PurePath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter


def on_config(config: MkDocsConfig) -> None:
    """Adds the notebooks to the navigation, in the order of their names."""
    for entry in config.nav or []:
        if "Notebooks" in entry:
            notebooks = sorted(Path(config.docs_dir).glob("notebooks/*.ipynb"))
            entry["Notebooks"] = [f"notebooks/{path.stem}.md" for path in notebooks]
    config.nav = [entry for entry in config.nav or [] if entry.get("Notebooks") != []]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Puts a page in the place of each notebook, and its pictures beside it."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        path = PurePath(notebook.src_uri)
        pictures = f"{path.stem}_files"
        body, resources = MarkdownExporter().from_filename(
            str(notebook.abs_src_path), {"unique_key": path.stem, "output_files_dir": pictures}
        )
        body = body.replace('<table border="1" class="dataframe">', "<table data-frame>")  # as the theme has tables
        files.remove(notebook)
        files.append(File.generated(config, str(path.with_suffix(".md")), content=body))
        for name, data in resources["outputs"].items():
            files.append(File.generated(config, str(path.parent / name), content=data))
    return files
