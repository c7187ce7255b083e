"""croissant.json: the Parquet files of a release for tools that read Croissant 1.1 (MLCommons).

A field is described as far as ``mlcroissant`` can read it: a plain column, a list of such, a structure or a list of
structures with members of these kinds. What is nested deeper is named in the description of its column.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

import orjson

from parapet.schemas.release_config import Author, Source
from parapet.schemas.release_manifest import Column, Config, Manifest
from parapet.transforms.markdown import is_url, one_line, quoted
from parapet.transforms.release.documents.citation import KEYWORDS, bibtex, release_date
from parapet.transforms.release.documents.columns import MEANINGS, Type, in_words, parse
from parapet.transforms.release.documents.licences import find
from parapet.transforms.release.documents.names import author_name, orcid_url, title_of

CONFORMS_TO = "http://mlcommons.org/croissant/1.1"

# No name of a configuration has a dash, so nothing else has this one.
_SPLITS = "split-names"
_PARQUET = "application/x-parquet"
# The members that a JSON path, which is how Croissant takes structures apart, can name without quotes.
_MEMBER = re.compile(r"(?!(?:where|wherenot)\Z)[A-Za-z_][A-Za-z0-9_]*")
_DATA_TYPES = {
    "bool": "sc:Boolean",
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), "sc:Integer"),
    **dict.fromkeys(("halffloat", "float", "double"), "sc:Float"),
    **dict.fromkeys(("string", "large_string", "string_view"), "sc:Text"),
    "date32[day]": "sc:Date",
}


def croissant(manifest: Manifest) -> bytes:
    """The whole file. Of ``manifest.files`` it needs the Parquet files only."""
    licence = find(manifest.licence)
    found = {
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
        "creator": [_creator(author) for author in manifest.authors],
        "citeAs": bibtex(manifest),
        "isBasedOn": [_based_on(source) for source in manifest.sources],
        "distribution": [*_files(manifest), *_file_sets(manifest)],
        "recordSet": [_split_names(manifest), *_record_sets(manifest)],
    }
    return orjson.dumps(_filled(found), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _context() -> dict[str, Any]:
    """The terms of the specification's appendix; mlcroissant warns where one of them is missing."""
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


def _files(manifest: Manifest) -> Iterator[dict[str, Any]]:
    known = {file.path: file for file in manifest.files}
    for config in manifest.configs.values():
        for info in config.splits.values():
            for path in info.files:
                yield {
                    "@type": "cr:FileObject",
                    "@id": path,
                    "name": path.rpartition("/")[2],
                    "contentUrl": path,
                    "contentSize": f"{known[path].bytes} B",
                    "encodingFormat": _PARQUET,
                    "sha256": known[path].sha256,
                }


def _file_sets(manifest: Manifest) -> Iterator[dict[str, Any]]:
    """All files of a configuration, which its records are read from: a field has one source."""
    for name in manifest.configs:
        yield {
            "@type": "cr:FileSet",
            "@id": _file_set(name),
            "name": _file_set(name),
            "description": f"The Parquet files of the configuration {name}, all splits.",
            "encodingFormat": _PARQUET,
            "includes": f"data/{name}/*.parquet",
        }


def _file_set(config: str) -> str:
    return f"{config}-files"


def _split_names(manifest: Manifest) -> dict[str, Any]:
    names = dict.fromkeys(split for config in manifest.configs.values() for split in config.splits)
    name = f"{_SPLITS}/name"
    return {
        "@type": "cr:RecordSet",
        "@id": _SPLITS,
        "name": _SPLITS,
        "description": "The names of the splits.",
        "dataType": "cr:Split",
        "key": {"@id": name},
        "field": [{"@type": "cr:Field", "@id": name, "name": "name", "dataType": "sc:Text"}],
        "data": [{name: split} for split in names],
    }


def _record_sets(manifest: Manifest) -> Iterator[dict[str, Any]]:
    for name, config in manifest.configs.items():
        columns = {column.name for column in config.columns}
        split = "split"
        while split in columns:
            split = f"_{split}"
        fields = [_split_field(name, split)]
        left_out = []
        for column in config.columns:
            field = _column_field(name, config, column)
            fields += [field] if field else []
            left_out += [] if field else [f"{column.name} ({column.type})"]
        ids = {field["@id"] for field in fields}
        key = [_id(name, split), *(_id(name, column) for column in config.key)]
        more = f" Columns that are not described here: {', '.join(left_out)}." if left_out else ""
        yield _filled(
            {
                "@type": "cr:RecordSet",
                "@id": name,
                "name": name,
                "description": f"{one_line(config.kind)}; a record is a {one_line(config.record)}.{more}",
                "key": [{"@id": one} for one in key] if ids.issuperset(key) else [],
                "field": fields,
            }
        )


def _split_field(config: str, name: str) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": _id(config, name),
        "name": name,
        "description": "The split that the record is of.",
        "dataType": "sc:Text",
        "source": {
            "fileSet": {"@id": _file_set(config)},
            "extract": {"fileProperty": "fullpath"},
            "transform": {"regex": f"data/{config}/([A-Za-z0-9_]+)-[0-9]+-of-[0-9]+\\.parquet"},
        },
    }


def _column_field(config: str, of: Config, column: Column) -> dict[str, Any] | None:
    """A column as a field; None where Croissant has no words for its type."""
    kind = parse(column.type)
    found = {
        "@type": "cr:Field",
        "@id": _id(config, column.name),
        "name": column.name,
        "description": MEANINGS.get(of.record, {}).get(column.name, "").replace("`", ""),
        **_shape(kind),
    }
    source = {"fileSet": {"@id": _file_set(config)}, "extract": {"column": column.name}}
    members = _members(kind)
    if not members and (data_type := _data_type(kind)):
        return _filled({**found, "dataType": data_type, "source": source})
    fields = []
    deeper = []
    for name, member in members:
        data_type = _data_type(member)
        if data_type and _MEMBER.fullmatch(name):
            fields.append(
                {
                    "@type": "cr:Field",
                    "@id": f"{_id(config, column.name)}/{name}",
                    "name": name,
                    "dataType": data_type,
                    **_shape(member),
                    "source": {**source, "transform": {"jsonPath": name}},
                }
            )
        else:
            deeper.append(f"{name} ({in_words(member)})")
    if not fields:
        return None
    parts = [found["description"], f"Nested deeper, in the Parquet files only: {', '.join(deeper)}" if deeper else ""]
    return _filled({**found, "description": ". ".join(filter(None, parts)), "subField": fields})


def _members(kind: Type) -> tuple[tuple[str, Type], ...]:
    """The members of a structure, or of those in a list."""
    inner = kind.members[0][1] if kind.name == "list" else kind
    return inner.members if inner.name == "struct" else ()


def _data_type(kind: Type) -> str:
    """Of a plain type, or of the items of a list of one; nothing for others."""
    inner = kind.members[0][1] if kind.name == "list" else kind
    if inner.name.startswith("timestamp["):
        return "sc:DateTime"
    return _DATA_TYPES.get(inner.name, "")


def _shape(kind: Type) -> dict[str, Any]:
    return {"isArray": True, "arrayShape": "-1"} if kind.name == "list" else {}


def _id(config: str, column: str) -> str:
    return f"{config}/{urllib.parse.quote(column, safe='')}"


def _filled(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if value or value is False}
