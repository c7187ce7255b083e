"""Executes the notebooks of docs/notebooks and writes them back with their outputs: make notebooks."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"


def execute(path: Path) -> nbformat.NotebookNode:
    """A notebook after a run in an empty folder. Raises CellExecutionError where a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=120,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":  # Beam adds scripts that load others from the network
            cell.outputs = [one for one in cell.outputs if "application/javascript" not in one.get("data", {})]
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    return notebook


def main() -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(execute(path), path)
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
