"""A corpus written as a folder in the SGD layout: whole files only, ``run.json`` last."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import as_path, is_there
from parapet.schemas.rows import parquet_bytes
from parapet.transforms import files
from parapet.transforms.corpora import Corpus, checked_items, item_text
from parapet.transforms.disk import writing
from parapet.transforms.perturbation.corpus import PerturbedCorpus, table_of_rows
from parapet.transforms.perturbation.files import SetFiles

PIPELINE = "save"  # what run.json says has made the folder


def save(corpus: Corpus, folder: str) -> None:
    """Writes a corpus, file by file. Raises InputError if a dialogue cannot be used, or the folder is in use."""
    for path in [file.path for file in corpus.files] + [of.path for of in corpus.folders.values()]:
        if path and is_there(path) and as_path(path).resolve().is_relative_to(as_path(folder).resolve()):
            raise InputError("the corpus was read from this folder: save it to another one", folder)
    with writing(folder):
        files.prepare(folder, PIPELINE)
        written = [files.write_staged(folder, path, content) for path, content in corpus.schemas]
        dialogues = 0
        for file in corpus.files:
            count, of_file = _write(corpus, file, folder)
            dialogues += count
            written += of_file
        header = run_header(PIPELINE, corpus.provenance())
        counts = {"files": len(corpus.files), "dialogues": dialogues}
        files.publish(folder, files.manifest_of(header, counts, written))


def _write(corpus: Corpus, file: DialogueFile, folder: str) -> tuple[int, list[files.Written]]:
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        whole = SetFiles(folder, [""], file.relative, stack)
        for item in checked_items(corpus, file):
            whole.add("", item_text(file, item))
            rows += item.rows
        whole.close()
    written = whole.written()
    if isinstance(corpus, PerturbedCorpus):
        path = f"{corpus.perturbation.rows_folder}/{file.relative.removesuffix('.json')}.parquet"
        table = table_of_rows(corpus.perturbation, rows)
        written.append(files.write_staged(folder, path, parquet_bytes(table)))
    return whole.dialogues[""], written
