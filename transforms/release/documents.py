"""Documents of a release: card, report, changelog, CITATION.cff, LICENSE and croissant.json.

``datasets`` and the Hugging Face Hub read the card (README.md), too. The keys of its front matter are documented by the
Hub ("Dataset Cards", "Manual Configuration") and in ``datasets.utils.metadata``. croissant.json describes the Parquet
files and their columns for tools that read Croissant 1.1 (MLCommons).
"""

import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import yaml

from parapet.schemas import layout, tasks
from parapet.schemas.release import COUNTED, KINDS, LICENCES, Author, Config, File, Manifest, in_order
from parapet.schemas.rows import WRITERS
from parapet.transforms.crowd.report import DISPOSITIONS, answers_table, words
from parapet.transforms.crowd.rules import EXPLANATIONS
from parapet.transforms.release.reading import LEVELS, size, split_sha256
from parapet.transforms.report import report
from parapet.transforms.report.markdown import bullets, is_url, one_line, quoted, text
from parapet.transforms.report.report import Report, Section, Table, Text, Tile
from parapet.transforms.report.text import number
from parapet.transforms.variants.table1 import MEASURES, measures_table, terms_of

KEYWORDS = ("dialogue", "task-oriented dialogue", "schema-guided dialogue", "dialogue state tracking", "robustness")


def licence_url(spdx: str) -> str:
    """Returns the address of a licence's text; empty if Parapet does not know the licence."""
    return f"https://spdx.org/licenses/{spdx}.html" if spdx in LICENCES else ""


def licence_name(spdx: str) -> str:
    """Returns the full name of a licence, or the identifier itself."""
    return LICENCES.get(spdx) or one_line(spdx)


def authors_line(authors: Sequence[Author]) -> str:
    """Joins the authors, as they are written, in one line."""
    return "; ".join(one_line(author.name) for author in authors)


def title_of(manifest: Manifest) -> str:
    """Returns the title of a release in one line."""
    return one_line(manifest.title) or manifest.name


def citation_cff(manifest: Manifest) -> str:
    """Creates CITATION.cff in the Citation File Format 1.2.0, with the sources as references."""
    fields = {
        "cff-version": "1.2.0",
        "message": "If you use this dataset, please cite it, and the works that it is made from.",
        "type": "dataset",
        "title": title_of(manifest),
        "version": manifest.version,
        "date-released": manifest.created,
        "abstract": manifest.description.strip(),
        "authors": [_cff_author(author) for author in manifest.authors],
        "license": manifest.licence if manifest.licence in LICENCES else "",
        "url": quoted(manifest.homepage) if is_url(manifest.homepage) else "",
        "keywords": list(KEYWORDS),
        "references": [
            _filled(
                {
                    "type": "data",
                    "title": one_line(source.title),
                    "authors": [{"name": one_line(source.authors) or "anonymous"}],
                    "url": quoted(source.url) if is_url(source.url) else "",
                    "license": source.licence if source.licence in LICENCES else "",
                    "notes": one_line(source.citation),
                }
            )
            for source in manifest.sources
        ],
    }
    return str(yaml.safe_dump(_filled(fields), sort_keys=False, allow_unicode=True, width=100))


def _cff_author(author: Author) -> dict[str, str]:
    family, _, given = one_line(author.name).partition(", ")
    orcid = f"https://orcid.org/{author.orcid}" if author.orcid else ""
    if not given:  # an entity, which has no affiliation
        return _filled({"name": family or "anonymous", "orcid": orcid})
    names = {"family-names": family, "given-names": given}
    return _filled({**names, "affiliation": one_line(author.affiliation), "orcid": orcid})


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    """Drops empty values: CFF allows no empty text and no empty list."""
    return {key: value for key, value in fields.items() if value}


def bibtex(manifest: Manifest) -> str:
    """Creates the BibTeX entry of a release."""
    # Braces keep the name of a group from being read as a person's.
    names = [_latex(author.name) for author in manifest.authors]
    fields = {
        "author": " and ".join(name if ", " in name else f"{{{name}}}" for name in names),
        "title": f"{{{_latex(title_of(manifest))}}}",
        "year": manifest.created[:4],
        "version": manifest.version,
        "url": _latex(quoted(manifest.homepage)) if is_url(manifest.homepage) else "",
        "note": f"Version {manifest.version}. {_latex(licence_name(manifest.licence))}",
    }
    key = re.sub(r"[^A-Za-z0-9]+", "-", f"{manifest.name}-{manifest.version}").strip("-").lower()
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items() if value)
    return f"@misc{{{key},\n{lines}}}\n"


def _latex(value: str) -> str:
    """Escapes what LaTeX would read as a command; braces and the like, which have no plain escape, are left out."""
    return re.sub(r"([&%$#_])", r"\\\1", re.sub(r"[\\{}`~^]", "", one_line(value)))


def licence_text(manifest: Manifest, own: str = "") -> str:
    """Creates LICENSE: the release's own licence text, if any, or the address of the licence, and all attributions."""
    address = licence_url(manifest.licence)
    parts = [
        own.strip(),
        f"{title_of(manifest)}, version {manifest.version}\nby {authors_line(manifest.authors)}",
        f"Licence: {licence_name(manifest.licence)}" + (f"\nText: {address}" if address else ""),
    ]
    if manifest.sources:
        parts.append(
            "This dataset is made from the works below. They were changed for it;\n"
            "their authors do not vouch for the result."
        )
    for source in manifest.sources:
        about = [source.title, source.authors, source.url, licence_name(source.licence), licence_url(source.licence)]
        parts.append("- " + "\n  ".join(one_line(line) for line in (*about, source.citation) if line.strip()))
    return "\n\n".join(filter(None, parts)) + "\n"


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
    """Returns the item type of a list; any other type unchanged."""
    return kind.value_type if is_list(kind) else kind


def in_words(kind: pa.DataType) -> str:
    """Formats a type for readers: ``list of {speaker, utterance, frames}``."""
    if is_list(kind):
        return f"list of {in_words(kind.value_type)}"
    return "{" + ", ".join(field.name for field in kind) + "}" if pa.types.is_struct(kind) else str(kind)


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
    """Creates croissant.json.

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
        **_filled({"datePublished": manifest.created}),
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
    """Describes the columns of a configuration, except for those with types that Croissant does not have."""
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
    """Describes a plain column, a structure with plain members, or a list of these; empty for another type."""
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


_TAGS = [keyword.replace(" ", "-") for keyword in (*KEYWORDS, "paraphrases")]
TOOL_TAGS = ("function-calling", "tool-use", "agents")
# The Hub's tags of licences that are not the SPDX identifier in lower case.
_LICENCE_TAGS = {"ODC-By-1.0": "odc-by", "ODbL-1.0": "odbl", "PDDL-1.0": "pddl"}


class Measured(msgspec.Struct):
    """The part of ``statistics.json`` from ``statistics`` and ``compose`` that is shown in documents."""

    variants: dict[str, dict[str, float | None]]
    average: dict[str, float | None]
    self_bleu: float | None = None


def release_report(manifest: Manifest, columns: Columns) -> Report:
    """Creates the report, which is rendered as the page and most of the card.

    Args:
      manifest: the manifest with the files of the data; documents come last.
      columns: the columns of the configurations with their types.
    """
    date = f", {manifest.created}" if manifest.created else ""
    home = f" `{quoted(manifest.homepage)}`" if is_url(manifest.homepage) else ""
    unit = "dialogues" if "dialogues" in manifest.counts else "tasks"
    return Report(
        command="release",
        title=title_of(manifest),
        headline=f"{title_of(manifest)} {manifest.version}",
        lead=f"Version {manifest.version}, by {authors_line(manifest.authors)}{date}. "
        f"{licence_name(manifest.licence)}.{home}",
        tiles=[
            Tile(
                f"{unit}, in all corpora", number(sum(sum(n.values()) for n in manifest.counts.get(unit, {}).values()))
            ),
            Tile("rows, in all configurations", number(manifest.rows)),
            Tile("on disk, Parquet and JSON", size(manifest.size)),
        ],
        sections=[*_content(manifest, columns), *_statistics(manifest), *_quality(manifest), *_origin(manifest)],
        terms=terms_of(MEASURES) if manifest.statistics else {},
        links={
            "../README.md": "how to load the data, its licence, how to cite it",
            "../MANIFEST.json": f"all numbers, made by Parapet {manifest.code.get('parapet', '')}".rstrip(),
            "../SHA256SUMS": "the checksum of every file",
        },
    )


def _content(manifest: Manifest, columns: Columns) -> Iterator[Section]:
    """Yields the sections about the configurations, their columns, and the numbers of each corpus."""
    yield Table(
        title="Configurations",
        note="What load_dataset takes as its second argument, and the rows of each split.",
        columns=["configuration", "content", "a row is a", "key", *manifest.splits],
        rows=[
            [
                *(name, config.kind, config.record, ", ".join(config.key)),
                *(number(config.splits[split].rows if split in config.splits else None) for split in manifest.splits),
            ]
            for name, config in manifest.configs.items()
        ],
        text_columns=4,
    )
    same: dict[tuple[str, str], list[str]] = {}
    for name, config in manifest.configs.items():
        same.setdefault((config.record, str(columns[name])), []).append(name)
    described = [
        [", ".join(names), column.name, in_words(column.type), MEANINGS.get(record, {}).get(column.name, "")]
        for (record, _), names in same.items()
        for column in columns[names[0]]
    ]
    yield Table(
        title="Columns", columns=["configuration", "column", "type", "what it is"], rows=described, text_columns=4
    )
    units = [unit for unit in COUNTED if unit in manifest.counts]
    rows = [
        [corpus, split, *(number(manifest.counts[unit].get(corpus, {}).get(split)) for unit in units)]
        for corpus in dict.fromkeys(corpus for unit in units for corpus in manifest.counts[unit])
        for split in in_order({split for unit in units for split in manifest.counts[unit].get(corpus, {})})
    ]
    if rows:
        note = "`sgd/CORPUS/` or `bfcl/CORPUS/` has each as JSON, byte for byte as in the inputs."
        yield Table(title="Corpora", note=note, columns=["corpus", "split", *units], rows=rows, text_columns=2)


def _statistics(manifest: Manifest) -> Iterator[Section]:
    """Yields Table 1 of SGD-X from the outputs of ``statistics`` and ``compose``; the manifest has other numbers."""
    for name, statistics in manifest.statistics.items():
        try:
            measured = msgspec.convert(statistics, Measured)
        except msgspec.ValidationError:
            continue
        if keys := [key for key in MEASURES if key in measured.average]:
            average = measured.average if len(measured.variants) > 1 else None
            note = f"Self-BLEU {number(measured.self_bleu, 1)}."
            yield measures_table(f"Statistics: {name}", measured.variants, average, keys, note=note)


def _quality(manifest: Manifest) -> Iterator[Section]:
    """Yields the sections about dispositions of answers, and about unresolved problems."""
    if manifest.dispositions:
        numbers = {key: manifest.dispositions.get(key, 0) for key in DISPOSITIONS}
        yield answers_table({"total": sum(numbers.values()), **numbers}, title="Answers")
    if manifest.answer_sources:
        yield _counts_table("Sources of answers", WRITERS, manifest.answer_sources, "answers")
    if manifest.rejections:
        yield _counts_table("Why answers were rejected", EXPLANATIONS, manifest.rejections, "answers")
    if manifest.is_blind is False:
        text = (
            "Answers of workers who saw the other task of the service, which shows the texts to be paraphrased, "
            "were allowed."
        )
        yield Text(title="Not all answers are blind", paragraphs=[text])
    if manifest.known_problems:
        yield _counts_table("Known problems", {**KINDS, **tasks.CONTRADICTIONS}, manifest.known_problems, "errors")
    else:
        yield Text(title="Known problems", paragraphs=["None is known."])


def _counts_table(title: str, meanings: Mapping[str, str], counts: Mapping[str, int], unit: str) -> Table:
    """Creates a table of counts by kind, the most frequent first."""
    rows = [
        [one_line(words(kind)) or "No reason given", meanings.get(kind, ""), number(n)]
        for kind, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return Table(title=title, columns=["kind", "meaning", unit], rows=rows, text_columns=2)


def _origin(manifest: Manifest) -> Iterator[Section]:
    """Yields the section about sources."""
    if manifest.sources:
        sentences = []
        for source in manifest.sources:
            parts = (source.title, source.authors, licence_name(source.licence), source.citation)
            sentence = ". ".join(part.strip().rstrip(".") for part in parts if part.strip()) + "."
            sentences.append(f"{sentence} `{quoted(source.url)}`" if is_url(source.url) else sentence)
        changed = "They were changed; their authors do not vouch for the result. Please cite them, too."
        yield Text(title="Sources", paragraphs=[*sentences, changed])


def card(manifest: Manifest, columns: Columns) -> str:
    """Creates README.md; see :func:`release_report`."""
    default = default_config(manifest)
    dialogues = (name for name, config in manifest.configs.items() if config.record == "dialogue" and name != default)
    config = next(dialogues, default)  # the example is the first configuration with dialogues besides the default
    splits = manifest.configs[config].splits if config else {}
    content = report.card(msgspec.structs.replace(release_report(manifest, columns), links={}))
    return report.render(
        "release_card.md.jinja",
        front=str(yaml.safe_dump(front_matter(manifest), sort_keys=False, allow_unicode=True, width=1000)),
        title=text(title_of(manifest)),
        description=manifest.description.strip(),
        content=content.partition("\n\n")[2],  # without its title
        place=f"{manifest.name}/{manifest.version}",
        default=default,
        config=config,
        split=layout.TEST if layout.TEST in splits else next(iter(splits), ""),
        hub=manifest.configuration.get("hub") or f"OWNER/{manifest.name}",
        version=manifest.version,
        bibtex=bibtex(manifest),
        notes=manifest.release_notes.strip(),
    )


def front_matter(manifest: Manifest) -> dict[str, Any]:
    """Returns the keys between the ``---`` lines.

    ``datasets`` caches rows by this text and the name of the folder (here a version), not by the files: without a
    checksum of the rows it would confuse releases.
    """
    licence: dict[str, Any] = {"license": _LICENCE_TAGS.get(manifest.licence, manifest.licence.lower())}
    if manifest.licence not in LICENCES:
        licence = {"license": "other", "license_name": one_line(manifest.licence), "license_link": "LICENSE"}
    return {
        "pretty_name": title_of(manifest),
        **licence,
        "language": manifest.language,
        "tags": [*_TAGS, *(TOOL_TAGS if "tasks" in manifest.counts else ())],
        "task_categories": ["text-generation", "token-classification"],
        "configs": [
            {
                "config_name": name,
                "description": "SHA-256 of the rows: "
                + split_sha256(info.logical_sha256 for info in config.splits.values()),
                "data_files": [{"split": split, "path": f"data/{name}/{split}-*.parquet"} for split in config.splits],
                **({"default": True} if name == default_config(manifest) else {}),
            }
            for name, config in manifest.configs.items()
        ],
    }


def default_config(manifest: Manifest) -> str:
    """Returns the configuration that ``load_dataset`` loads by default: the original, else the first with dialogues.

    Without dialogues it is the first configuration; empty if there is none.
    """
    dialogues = [name for name, config in manifest.configs.items() if config.record == "dialogue"]
    original = [name for name in dialogues if manifest.configs[name].kind == "original"]
    return next(iter([*original, *dialogues, *manifest.configs]), "")


def changelog(manifest: Manifest, previous: str) -> str:
    """Creates CHANGELOG.md, newest version first.

    Args:
      manifest: the manifest of the version added at the top.
      previous: CHANGELOG.md of the previous release, or empty.
    """
    heading = f"## {manifest.version}" + (f" ({manifest.created})" if manifest.created else "")
    parts = [f"# Changelog of {text(title_of(manifest))}", heading, manifest.release_notes.strip()]
    if manifest.parent is None or manifest.changes is None:
        parts.append("The first version.")
    elif not manifest.changes.splits:
        parts.append(f"The same rows as {manifest.parent.version}.")
    else:
        level = manifest.changes.level
        parts.append(f"Against {manifest.parent.version}, {level} ({LEVELS[level]}):")
        parts.append(
            bullets(
                f"{change.config}, {change.split}: {change.added:,} rows added, {change.removed:,} removed, "
                f"{change.changed:,} changed"
                for change in manifest.changes.splits
            )
        )
    before = re.search(r"^## ", previous, re.MULTILINE)
    parts.append(previous[before.start() :].strip() if before else "")
    return "\n\n".join(filter(None, parts)) + "\n"
