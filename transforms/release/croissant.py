"""croissant.json: the Parquet files of a release for tools that read Croissant 1.1 (MLCommons), and their columns.

A field is described as far as ``mlcroissant`` can read it: a plain column, a list of such values, a structure or a list
of structures with members of these kinds. More deeply nested members are named in the description of their column.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pyarrow as pa

from parapet.schemas.release import Author, Manifest, Source
from parapet.schemas.rows import WRITERS
from parapet.transforms.release.citation import KEYWORDS, author_name, bibtex, find, orcid_url, release_date, title_of
from parapet.transforms.reports.markdown import is_url, one_line, quoted
from parapet.transforms.reports.text import percent

Columns = Mapping[str, pa.Schema]  # by configuration

_ROW = {
    "position": "its place in its file, from 0",
    "layout": "how its file was laid out: published as SGD's, no_newline, or other",
    "source_json": "the record as its file has it, where the other columns cannot say all of it; else null",
}
# By the kind of row, and the column.
MEANINGS = {
    "dialogue": {
        **_ROW,
        "dialogue_id": "unique in its split",
        "file": "its file's name",
        "services": "those that it speaks of, by name",
        "turns": "the utterances and their annotation: frames with slots, actions, state and service calls, as in SGD",
    },
    "service": {
        **_ROW,
        "variant": "the corpus it is of",
        "service_name": "unique in its corpus and split",
        "description": "what the service does",
        "slots": "the slots that can be requested or given",
        "intents": "what can be done, and the slots that each of them needs, takes and gives",
    },
    "task": {
        "id": "unique in its set",
        "file": "its file's name",
        "question": "the messages, turn by turn, as JSON",
        "function": "the tools: name, description and parameters of each, as JSON",
        "ground_truth": "the right calls, with all right values of each parameter, as JSON; null where there are none",
    },
    "paraphrase": {
        "response_id": "of the answer: its assignment and the field of the form",
        "element_id": "what it is a paraphrase of: a service, intent or slot, by its original name",
        "field": "name or description: what the worker was asked for",
        "text": "as it was given",
        "canonical": "the form that a variant has, or would have",
        "disposition": "what became of it",
        "reason": "why it was not used",
        "variant": "the variant that has it; null if none",
        "distance": "to the original; null where it was not ranked",
        "work_seconds": "that the worker took for the whole form",
        "source": "where the answer comes from: mturk, prolific, in_house or llm",
        "keystrokes": "how often a key changed the text; null where the form did not count",
        "pastes": "how often text was pasted; null where the form did not count",
        "seconds": "for which the field had the focus; null where the form did not count",
    },
}


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's kinds of list."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def inner(kind: pa.DataType) -> pa.DataType:
    """Return the item type of a list; any other type unchanged."""
    return kind.value_type if is_list(kind) else kind


def in_words(kind: pa.DataType) -> str:
    """Format a type for readers: ``list of {speaker, utterance, frames}``."""
    if is_list(kind):
        return f"list of {in_words(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "{" + ", ".join(field.name for field in kind) + "}"
    return str(kind)


CONFORMS_TO = "http://mlcommons.org/croissant/1.1"

# The dash avoids conflicts with configurations, whose names have none.
_SPLITS = "split-names"
_PARQUET = "application/x-parquet"
# Members that a JSON path can name without quotes; Croissant uses JSON paths to access structures.
_MEMBER = re.compile(r"(?!(?:where|wherenot)\Z)[A-Za-z_][A-Za-z0-9_]*")
_DATA_TYPES = {
    "bool": "sc:Boolean",
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), "sc:Integer"),
    **dict.fromkeys(("halffloat", "float", "double"), "sc:Float"),
    **dict.fromkeys(("string", "large_string", "string_view"), "sc:Text"),
    "date32[day]": "sc:Date",
}


def croissant(manifest: Manifest, columns: Columns) -> str:
    """Create croissant.json. Of ``manifest.files`` only the Parquet files are needed.

    Args:
      manifest: the manifest.
      columns: the columns of the configurations with their types.
    """
    licence = find(manifest.licence)
    document = {
        "@context": _context(),
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": manifest.name,
        "alternateName": title_of(manifest),
        "description": manifest.description.strip(),
        "version": manifest.version,
        "license": licence.url if licence else one_line(manifest.licence),
        "url": quoted(manifest.homepage) if is_url(manifest.homepage) else "",
        "datePublished": release_date(manifest),
        "inLanguage": list(manifest.language),
        "keywords": list(KEYWORDS),
        "dataCollection": _collection(manifest.answer_sources),
        "creator": [_creator(author) for author in manifest.authors],
        "citeAs": bibtex(manifest),
        "isBasedOn": [_based_on(source) for source in manifest.sources],
        "distribution": [*_files(manifest), *_file_sets(manifest)],
        "recordSet": [_split_names(manifest), *_record_sets(manifest, columns)],
    }
    return orjson.dumps(_filled(document), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _collection(sources: Mapping[str, int]) -> str:
    """Describe the sources of paraphrases in a sentence; empty if there are none, or their sources are unknown."""
    total = sum(sources.values())
    shares = (
        f"{percent(n / total)} by {WRITERS.get(source, one_line(source))}" for source, n in sorted(sources.items())
    )
    return f"Paraphrases: {', '.join(shares)}." if total else ""


def _context() -> dict[str, Any]:
    """Return the terms in the specification's appendix, because mlcroissant warns about missing ones."""
    terms = """arrayShape citeAs column containedIn data dataBiases dataCollection dataType equivalentProperty
        examples excludes extract field fileObject fileProperty fileSet format includes isArray isLiveDataset jsonPath
        key md5 parentField path personalSensitiveInformation readLines recordSet references regex repeated replace
        samplingRate sdVersion separator source subField transform unArchive value"""
    by_language = {"@container": "@language"}
    return {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "dct": "http://purl.org/dc/terms/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "sc": "https://schema.org/",
        **{term: f"cr:{term}" for term in terms.split()},
        "annotation": "cr:annotation",
        "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "description": by_language,
        "examples": {"@id": "cr:examples", "@type": "@json"},
        "name": by_language,
    }


def _creator(author: Author) -> dict[str, Any]:
    kind = "sc:Person" if author_name(author).given else "sc:Organization"
    return _filled({"@type": kind, "name": one_line(author.name), "url": orcid_url(author)})


def _based_on(source: Source) -> dict[str, Any]:
    licence = find(source.licence)
    return _filled(
        {
            "@type": "sc:CreativeWork",
            "name": one_line(source.title),
            "url": quoted(source.url) if is_url(source.url) else "",
            "license": licence.url if licence else one_line(source.licence),
        }
    )


def _node(kind: str, at: str, name: str, description: str = "", **more: Any) -> dict[str, Any]:
    """Create a node of Croissant's vocabulary, without empty values."""
    return _filled({"@type": f"cr:{kind}", "@id": at, "name": name, "description": description, **more})


def _files(manifest: Manifest) -> Iterator[dict[str, Any]]:
    known = {file.path: file for file in manifest.files}
    for config in manifest.configs.values():
        for path in (path for info in config.splits.values() for path in info.files):
            size, sha256 = f"{known[path].bytes} B", known[path].sha256
            about = {"contentUrl": path, "contentSize": size, "encodingFormat": _PARQUET, "sha256": sha256}
            yield _node("FileObject", path, path.rpartition("/")[2], **about)


def _file_sets(manifest: Manifest) -> Iterator[dict[str, Any]]:
    """Yield all files of each configuration as the source of its records, because a field has only one source."""
    for name in manifest.configs:
        description = f"The Parquet files of the configuration {name}, all splits."
        files = {"encodingFormat": _PARQUET, "includes": f"data/{name}/*.parquet"}
        yield _node("FileSet", _file_set(name), _file_set(name), description, **files)


def _file_set(config: str) -> str:
    return f"{config}-files"


def _split_names(manifest: Manifest) -> dict[str, Any]:
    splits = dict.fromkeys(split for config in manifest.configs.values() for split in config.splits)
    at = f"{_SPLITS}/name"
    return _node(
        "RecordSet",
        _SPLITS,
        _SPLITS,
        "The names of the splits.",
        dataType="cr:Split",
        key={"@id": at},
        field=[_node("Field", at, "name", dataType="sc:Text")],
        data=[{at: split} for split in splits],
    )


def _record_sets(manifest: Manifest, columns: Columns) -> Iterator[dict[str, Any]]:
    for name, config in manifest.configs.items():
        split = "split"
        while split in columns[name].names:
            split = f"_{split}"
        described = [_column_field(name, config.record, column) for column in columns[name]]
        fields = [_split_field(name, split), *(field for field in described if field)]
        left_out = ", ".join(
            f"{column.name} ({column.type})"
            for column, field in zip(config.columns, described, strict=True)
            if not field
        )
        more = f" Columns that are not described here: {left_out}." if left_out else ""
        key = [_id(name, split), *(_id(name, column) for column in config.key)]
        described_key = [{"@id": at} for at in key] if {field["@id"] for field in fields}.issuperset(key) else []
        description = f"{one_line(config.kind)}; a record is a {one_line(config.record)}.{more}"
        yield _node("RecordSet", name, name, description, key=described_key, field=fields)


def _split_field(config: str, name: str) -> dict[str, Any]:
    source = {
        "fileSet": {"@id": _file_set(config)},
        "extract": {"fileProperty": "fullpath"},
        "transform": {"regex": f"data/{config}/([A-Za-z0-9_]+)-[0-9]+-of-[0-9]+\\.parquet"},
    }
    description = "The split that the record is of."
    return _node("Field", _id(config, name), name, description, dataType="sc:Text", source=source)


def _column_field(config: str, record: str, column: pa.Field) -> dict[str, Any]:
    """Describe a column as a field; empty if Croissant cannot express its type."""
    at = _id(config, column.name)
    description = MEANINGS.get(record, {}).get(column.name, "")
    source = {"fileSet": {"@id": _file_set(config)}, "extract": {"column": column.name}}
    if data_type := _data_type(column.type):
        shape = {**_shape(column.type), "dataType": data_type, "source": source}
        return _node("Field", at, column.name, description, **shape)
    members = list(inner(column.type)) if pa.types.is_struct(inner(column.type)) else []
    named = [member for member in members if _data_type(member.type) and _MEMBER.fullmatch(member.name)]
    if not named:
        return {}
    deeper = ", ".join(f"{member.name} ({in_words(member.type)})" for member in members if member not in named)
    if deeper:
        description = ". ".join(filter(None, [description, f"Nested deeper, in the Parquet files only: {deeper}"]))
    fields = [
        _node(
            "Field",
            f"{at}/{member.name}",
            member.name,
            dataType=_data_type(member.type),
            **_shape(member.type),
            source={**source, "transform": {"jsonPath": member.name}},
        )
        for member in named
    ]
    return _node("Field", at, column.name, description, **_shape(column.type), subField=fields)


def _data_type(kind: pa.DataType) -> str:
    """Return the data type of a plain type, or of the items of a list of it; empty for others."""
    return "sc:DateTime" if pa.types.is_timestamp(inner(kind)) else _DATA_TYPES.get(str(inner(kind)), "")


def _shape(kind: pa.DataType) -> dict[str, Any]:
    return {"isArray": True, "arrayShape": "-1"} if is_list(kind) else {}


def _id(config: str, column: str) -> str:
    return f"{config}/{urllib.parse.quote(column, safe='')}"


def _filled(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if value or value is False}
