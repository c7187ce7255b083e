"""croissant.json: the Parquet files of a release for tools that read Croissant 1.1 (MLCommons), and their columns."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa

from parapet.schemas.release import Config, File, Manifest
from parapet.transforms.release.citation import KEYWORDS, bibtex, licence_url, title_of
from parapet.transforms.report.markdown import is_url, one_line, quoted

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


_PARQUET = "application/x-parquet"
_DATA_TYPES = {
    "bool": "sc:Boolean",
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), "sc:Integer"),
    **dict.fromkeys(("halffloat", "float", "double"), "sc:Float"),
    **dict.fromkeys(("string", "large_string"), "sc:Text"),
    "date32[day]": "sc:Date",
}
# The terms in the specification's appendix; mlcroissant warns about missing ones.
_TERMS = """arrayShape citeAs column containedIn data dataBiases dataCollection dataType equivalentProperty
    examples excludes extract field fileObject fileProperty fileSet format includes isArray isLiveDataset jsonPath
    key md5 parentField path personalSensitiveInformation readLines recordSet references regex repeated replace
    samplingRate sdVersion separator source subField transform unArchive value"""
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    **{term: f"cr:{term}" for term in _TERMS.split()},
    "annotation": "cr:annotation",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
}


def croissant(manifest: Manifest, columns: Columns) -> str:
    """Create croissant.json.

    Args:
      manifest: the manifest; of its files only the Parquet files are needed.
      columns: the columns of the configurations with their types.
    """
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": manifest.name,
        "alternateName": title_of(manifest),
        "description": manifest.description.strip(),
        "version": manifest.version,
        "license": licence_url(manifest.licence) or one_line(manifest.licence),
        "url": quoted(manifest.homepage) if is_url(manifest.homepage) else "",
        "datePublished": manifest.created,
        "inLanguage": manifest.language,
        "keywords": list(KEYWORDS),
        "creator": [{"@type": "sc:Person", "name": one_line(author.name)} for author in manifest.authors],
        "citeAs": bibtex(manifest),
        "isBasedOn": [{"@type": "sc:CreativeWork", "name": one_line(source.title)} for source in manifest.sources],
        "distribution": [
            *(_file(file) for file in manifest.files if file.rows is not None),
            *({"@type": "cr:FileSet", **_named(f"{name}-files")} | _pattern(name) for name in manifest.configs),
        ],
        "recordSet": [_records(name, config, columns[name]) for name, config in manifest.configs.items()],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _named(at: str, name: str = "") -> dict[str, str]:
    return {"@id": at, "name": name or at}


def _pattern(config: str) -> dict[str, str]:
    return {"encodingFormat": _PARQUET, "includes": f"data/{config}/*.parquet"}


def _file(file: File) -> dict[str, str]:
    about = {"contentUrl": file.path, "contentSize": f"{file.bytes} B", "sha256": file.sha256}
    return {"@type": "cr:FileObject", **_named(file.path), **about, "encodingFormat": _PARQUET}


def _records(name: str, config: Config, columns: pa.Schema) -> dict[str, Any]:
    """Describe the columns of a configuration, except for those with types that Croissant does not have."""
    files = {"fileSet": {"@id": f"{name}-files"}}
    fields = []
    for column in columns:
        source = {**files, "extract": {"column": column.name}}
        if field := _field(f"{name}/{urllib.parse.quote(column.name, safe='')}", column, source):
            description = MEANINGS.get(config.record, {}).get(column.name)
            fields.append({**field, "description": description} if description else field)
    if "split" not in columns.names:
        path = {"extract": {"fileProperty": "fullpath"}, "transform": {"regex": f"data/{name}/([A-Za-z0-9_]+)-[0-9]+"}}
        split = {"@type": "cr:Field", **_named(f"{name}/split", "split"), "dataType": "sc:Text"}
        fields.append({**split, "source": {**files, **path}})
    return {
        "@type": "cr:RecordSet",
        **_named(name),
        "description": f"{one_line(config.kind)}; a record is a {one_line(config.record)}",
        "field": fields,
    }


def _field(at: str, column: pa.Field, source: dict[str, Any]) -> dict[str, Any]:
    """Describe a plain column, a structure with plain members, or a list of these; empty for another type."""
    kind = inner(column.type)
    field: dict[str, Any] = {"@type": "cr:Field", **_named(at, column.name)}
    if is_list(column.type):
        field |= {"isArray": True, "arrayShape": "-1"}
    if pa.types.is_struct(kind):
        members = [
            _field(f"{at}/{member.name}", member, {**source, "transform": {"jsonPath": member.name}})
            for member in kind
            if member.name.isidentifier() and not pa.types.is_struct(inner(member.type))
        ]
        members = list(filter(None, members))
        return {**field, "subField": members} if members else {}
    data_type = "sc:DateTime" if pa.types.is_timestamp(kind) else _DATA_TYPES.get(str(kind), "")
    return {**field, "dataType": data_type, "source": source} if data_type else {}
