"""Documents about a release for people: ``report/index.html``, CHANGELOG.md, and README.md, a dataset card.

``datasets`` and the Hugging Face Hub read the card too. The keys of its front matter are documented by the Hub
("Dataset Cards", "Manual Configuration") and in ``datasets.utils.metadata``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST
from parapet.schemas.release import COUNTED, MANIFEST, Manifest, SplitChange, in_order
from parapet.schemas.rows import WRITERS
from parapet.transforms.crowd.report import DISPOSITIONS, answers_table, words
from parapet.transforms.crowd.vet import EXPLANATIONS
from parapet.transforms.release.citation import bibtex, find, in_line, references, release_date, title_of
from parapet.transforms.release.croissant import MEANINGS, Columns, in_words
from parapet.transforms.release.diff import LEVELS, size
from parapet.transforms.release.plan import KINDS
from parapet.transforms.release.reading import latest_version, printable, read_manifest, split_sha256, versions_of
from parapet.transforms.reports import report
from parapet.transforms.reports.markdown import Markdown, bullets, code, is_url, one_line, prose, quoted, table, text
from parapet.transforms.reports.report import Report, Section, Table, Text, Tile
from parapet.transforms.reports.text import counted, number, percent
from parapet.transforms.variants.table1 import MEASURES, TERMS, measures_table

_MOST_NUMBERS = 60  # larger tables would not be a summary; the manifest has all numbers
TAGS = (
    "dialogue",
    "task-oriented-dialogue",
    "schema-guided-dialogue",
    "dialogue-state-tracking",
    "robustness",
    "paraphrases",
)
TOOL_TAGS = ("function-calling", "tool-use", "agents")
TASKS = ("text-generation", "token-classification")
_BOUNDS = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")


class Measured(msgspec.Struct):
    """The part of ``statistics.json`` from ``statistics`` and ``compose`` that is shown in documents."""

    variants: dict[str, dict[str, float | None]]
    average: dict[str, float | None]
    original: dict[str, float | None] | None = None
    self_bleu: float | None = None
    answers: dict[str, int] | None = None


def _statistics(name: str, statistics: Any, dispositions: Mapping[str, int]) -> tuple[list[Section], dict[str, str]]:
    """Return the sections and terms of one ``statistics.json``; numbers of other pipelines are listed as they are."""
    title = f"Statistics: {name}"
    try:
        known = msgspec.convert(statistics, Measured)
    except msgspec.ValidationError:
        known = Measured({}, {})
    rows = {"Original": known.original, **known.variants} if known.original else known.variants
    keys = [key for key in MEASURES if any(key in row for row in [*rows.values(), known.average])]
    answers = _answers(known.answers)
    if not keys and not answers:
        numbers = list(_numbers("", statistics))
        more = f" {len(numbers) - _MOST_NUMBERS:,} more are in `MANIFEST.json`." if len(numbers) > _MOST_NUMBERS else ""
        note = f"Numbers by their place in the file of the pipeline.{more}"
        return [Table(title=title, note=note, columns=["number", "value"], rows=numbers[:_MOST_NUMBERS])], {}
    sections: list[Section] = []
    if keys:
        self_bleu = f" Self-BLEU {number(known.self_bleu, 1)}." if known.self_bleu is not None else ""
        average = known.average if known.average and len(known.variants) > 1 else None
        note = f"By variant, as in Table 1 of SGD-X.{self_bleu}"
        sections.append(measures_table(title, rows, average, keys, note=note))
    if answers and answers != _answers(dispositions):  # otherwise the answers of the release show the same
        sections.append(answers_table(answers, title=f"{name}: what became of the answers"))
    return sections, dict(TERMS[key] for key in (*keys, *(["self_bleu"] if keys and known.self_bleu else [])))


def _numbers(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield numbers and words of any JSON by their path, such as ``train.rows``."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _numbers(f"{path}.{key}" if path else str(key), below)
    elif isinstance(value, bool) or value is None:
        yield path, {True: "yes", False: "no", None: "–"}[value]
    elif isinstance(value, int):
        yield path, f"{value:,}"
    elif isinstance(value, float):
        yield path, f"{value:,.4g}"
    elif isinstance(value, list):
        yield path, f"{len(value):,} entries"
    else:
        yield path, str(value)


def _answers(dispositions: Mapping[str, int] | None) -> dict[str, int]:
    """Return answers by disposition, and their ``total``; empty if there are none."""
    numbers = {key: (dispositions or {}).get(key, 0) for key in DISPOSITIONS}
    total = sum(numbers.values())
    return {"total": total, **numbers} if total else {}


def _counts_table(title: str, meanings: Mapping[str, str], counts: Mapping[str, int], unit: str, note: str) -> Table:
    """Create a table of counts by kind, the most frequent first."""
    rows = [
        [one_line(words(kind)) or "No reason given", meanings.get(kind, ""), number(n)]
        for kind, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    columns = ["kind", "meaning", unit]
    return Table(title=title, note=note, columns=columns, rows=rows, text_columns=2, numbers_in="MANIFEST.json")


def release_report(manifest: Manifest, columns: Columns | None = None) -> Report:
    """Create the report, which is rendered as the page, most of the card, and the output of ``release show``.

    Args:
      manifest: the manifest with the files of the data; documents come last.
      columns: the columns of the configurations with their types; None to leave out their descriptions.
    """
    name = f"{title_of(manifest)} {manifest.version}"
    licence, date = find(manifest.licence), release_date(manifest)
    home = f" `{quoted(manifest.homepage)}`" if is_url(manifest.homepage) else ""
    terms: dict[str, str] = {}
    statistics: list[Section] = []
    for title, content in manifest.statistics.items():
        sections, meanings = _statistics(title, content, manifest.dispositions)
        statistics += sections
        terms |= meanings
    kinds = {source.name: source.kind for source in manifest.inputs}
    corpora = {corpus for counts in manifest.counts.values() for corpus in counts}
    unit = "tasks" if "tasks" in manifest.counts and "dialogues" not in manifest.counts else "dialogues"
    units = sum(sum(splits.values()) for splits in manifest.counts.get(unit, {}).values())
    return Report(
        command="release",
        title=title_of(manifest),
        headline=name,
        lead=f"Version {manifest.version}, by {in_line(manifest.authors)}{f', {date}' if date else ''}. "
        f"{licence.name if licence else manifest.licence}.{home}",
        tiles=[
            Tile(f"{unit}, in all corpora", number(units)),
            Tile("corpora besides the original", number(sum(kinds.get(kind, kind) != "original" for kind in corpora))),
            Tile("rows, in all configurations", number(manifest.rows)),
            Tile("on disk, Parquet and JSON", size(manifest.size)),
        ],
        sections=[*_content(manifest, columns), *statistics, *_quality(manifest), *_origin(manifest)],
        terms=terms,
        links={
            "../README.md": "how to load the data, its licence, how to cite it",
            "../MANIFEST.json": f"all numbers, made by Parapet {manifest.code.get('parapet', '')}".rstrip(),
            "../SHA256SUMS": "the checksum of every file",
        },
    )


def _content(manifest: Manifest, columns: Columns | None) -> Iterator[Section]:
    """Yield the sections about the configurations, their columns, and the numbers of each corpus."""
    yield Table(
        title="Configurations",
        note="What load_dataset takes as its second argument, the rows of each split, and the Parquet files of all.",
        columns=["configuration", "content", "a row is a", "key", *manifest.splits, "files"],
        rows=[
            [
                name,
                config.kind,
                config.record,
                ", ".join(config.key),
                *(number(config.splits[split].rows if split in config.splits else None) for split in manifest.splits),
                number(sum(len(info.files) for info in config.splits.values())),
            ]
            for name, config in manifest.configs.items()
        ],
        text_columns=4,
    )
    if columns is not None:
        same: dict[tuple[str, str], list[str]] = {}
        for name, config in manifest.configs.items():
            same.setdefault((config.record, str(columns[name])), []).append(name)
        described = [
            [
                "" if i else ", ".join(names),
                column.name,
                in_words(column.type),
                MEANINGS.get(record, {}).get(column.name, ""),
            ]
            for (record, _), names in same.items()
            for i, column in enumerate(columns[names[0]])
        ]
        headings = ["configuration", "column", "type", "what it is"]
        yield Table(title="Columns", columns=headings, rows=described, text_columns=4)
    things = [unit for unit in COUNTED if unit in manifest.counts]
    corpora = {corpus for counts in manifest.counts.values() for corpus in counts}
    inputs = [column.name for column in manifest.inputs]
    rows = [
        [corpus, split, *(number(manifest.counts[unit].get(corpus, {}).get(split)) for unit in things)]
        for corpus in sorted(corpora, key=lambda name: (inputs.index(name) if name in inputs else len(inputs), name))
        for split in in_order({split for unit in things for split in manifest.counts[unit].get(corpus, {})})
    ]
    if rows:
        folder = "bfcl" if "tasks" in things and "services" not in things else "sgd"
        note = f"`{folder}/CORPUS/` has each as JSON, byte for byte as in the inputs."
        yield Table(title="Corpora", note=note, columns=["corpus", "split", *things], rows=rows, text_columns=2)


def _quality(manifest: Manifest) -> Iterator[Section]:
    """Yield the sections about dispositions of answers, and about unresolved problems."""
    if dispositions := _answers(manifest.dispositions):
        yield answers_table(dispositions, title=f"Answers{_by(manifest.answer_sources)}")
    if manifest.answer_sources:
        yield _sources_table(manifest.answer_sources)
    if manifest.is_blind is False:
        text = (
            "Answers of workers who saw the other task of the service, which shows the texts to be paraphrased, "
            "were allowed."
        )
        yield Text(title="Not all answers are blind", paragraphs=[text])
    if manifest.rejections:
        yield _counts_table("Why answers were rejected", EXPLANATIONS, manifest.rejections, "answers", "")
    if manifest.known_problems:
        note = "Errors in the data, which is published as it is."
        yield _counts_table("Known problems", KINDS, manifest.known_problems, "errors", note)
    else:
        of_tasks = "tasks" in manifest.counts and "dialogues" not in manifest.counts
        text = "None is known." if of_tasks else "None: every dialogue fits its schemas."
        yield Text(title="Known problems", paragraphs=[text])


def _by(sources: Mapping[str, int]) -> str:
    """Name who wrote the answers, the most frequent first; the table of sources has the rest."""
    writers = [WRITERS.get(name, name) for name in sorted(sources, key=lambda name: (-sources[name], name))]
    return f" of {' and '.join(writers)}" if writers else ""


def _sources_table(sources: Mapping[str, int]) -> Table:
    """Create a table of the sources of the answers, with shares."""
    total = sum(sources.values())
    note = "Where the answers come from. Forms that people fill in here count keystrokes and pastes, and say so."
    return Table(
        title="Sources of answers",
        note=note if set(sources) & {"in_house", "prolific"} else "Where the answers come from.",
        columns=["source", "meaning", "answers", "share"],
        rows=[
            [one_line(source), WRITERS.get(source, ""), number(n), percent(n / total)]
            for source, n in sorted(sources.items(), key=lambda item: (-item[1], item[0]))
        ],
        text_columns=2,
        numbers_in="MANIFEST.json",
    )


def _origin(manifest: Manifest) -> Iterator[Section]:
    """Yield the sections about changes, sources and files."""
    parent, changes = manifest.parent, manifest.changes
    if parent is None or changes is None or not changes.splits:
        first = f"The same rows as {parent.version}." if parent else "This is the first version."
        yield Text(title="Changes", paragraphs=[first])
    else:
        yield Table(
            title=f"Changes since {parent.version}",
            note=f"The difference is {changes.level}: {LEVELS.get(changes.level, '')}. Rows with the same key are "
            "compared; the level is the part of the version number that has to change.",
            columns=["configuration", "split", "level", "columns", "added", "removed", "changed"],
            rows=[
                [
                    *(change.config, change.split, change.level),
                    ", ".join([f"+{name}" for name in change.columns_added] + [f"−{x}" for x in change.columns_removed])
                    or "unchanged",
                    *map(number, (change.added, change.removed, change.changed)),
                ]
                for change in changes.splits
            ],
            text_columns=4,
        )
    yield Table(
        title="Inputs",
        note="`MANIFEST.json` has the checksum of each of their files.",
        columns=["input", "kind", "files", "bytes"],
        rows=[
            [
                source_here.name,
                source_here.kind,
                number(len(source_here.files)),
                number(sum(file.bytes for file in source_here.files)),
            ]
            for source_here in manifest.inputs
        ],
        text_columns=2,
    )
    if manifest.sources:
        sentences = []
        for source in manifest.sources:
            licence = find(source.licence)
            parts = (source.title, source.authors, licence.name if licence else source.licence, source.citation)
            sentence = ". ".join(part.strip().rstrip(".") for part in parts if part.strip()) + "."
            sentences.append(f"{sentence} `{quoted(source.url)}`" if is_url(source.url) else sentence)
        changed = "They were changed; their authors do not vouch for the result."
        yield Text(title="Sources", paragraphs=[*sentences, changed])
    yield Table(
        title="Files",
        note="The data. The checksum is the beginning of the SHA-256; `SHA256SUMS` has the whole of it.",
        columns=["path", "SHA-256", "rows", "bytes"],
        rows=[
            [file.path, file.sha256[:12], "" if file.rows is None else number(file.rows), number(file.bytes)]
            for file in manifest.files
        ],
        text_columns=2,
        numbers_in="MANIFEST.json",
        in_card=False,
    )


_LONG = {"files", "inputs", "statistics", "configuration", "configuration_sha256", "libraries", "code", "format"}


def overview(manifest: Manifest) -> dict[str, Any]:
    """Return an overview of a release for JSON: the manifest without its long parts, and sums."""
    shown = {name: value for name, value in msgspec.to_builtins(manifest).items() if name not in _LONG}
    for name, config in manifest.configs.items():
        shown["configs"][name]["splits"] = {split: info.rows for split, info in config.splits.items()}
    return {**shown, "files": len(manifest.files), "bytes": manifest.size, "rows": manifest.rows}


def dataset_report(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the versions in a dataset's folder, the oldest first, for JSON and as Markdown.

    Raises:
      InputError: there is no such folder, it has no release, or a release cannot be read.
    """
    if not folder.is_dir():
        raise InputError("there is no such folder", folder)
    versions = [read_manifest(folder / version) for version in versions_of(folder, MANIFEST)]
    if not versions:
        raise InputError(f"is not a release: there is no {MANIFEST} in it or in a version's folder", folder)
    name, latest = versions[-1].name, latest_version(folder)
    rows = [
        [
            corpus.version,
            corpus.created or "–",
            corpus.licence,
            corpus.changes.level if corpus.changes else "first",
            f"{corpus.rows:,}",
            size(corpus.size),
        ]
        for corpus in versions
    ]
    lines = table(("version", "created", "licence", "level", "rows", "size"), rows, 2)
    shown = {"name": name, "latest": latest, "versions": list(map(overview, versions))}
    return shown, f"{printable(name)}, latest {printable(latest) or 'not named'}\n\n{lines}"


def card(manifest: Manifest, columns: Columns) -> str:
    """Create README.md; see :func:`release_report`."""
    default = default_config(manifest)
    dialogues = (name for name, config in manifest.configs.items() if config.record == "dialogue" and name != default)
    config = next(dialogues, default)  # the example is the first configuration with dialogues besides the default
    splits = manifest.configs[config].splits if config else {}
    content = report.card(msgspec.structs.replace(release_report(manifest, columns), links={}))
    return report.render(
        "release_card.md.jinja",
        front=front_matter(manifest),
        title=text(title_of(manifest)),
        description=prose(manifest.description, 2),
        content=content.partition("\n\n")[2],  # without its title
        place=f"{manifest.name}/{manifest.version}",
        default=default,
        config=config,
        split=TEST if TEST in splits else next(iter(splits), ""),
        hub=manifest.configuration.get("hub") or f"OWNER/{manifest.name}",
        pushed=bool(manifest.configuration.get("hub")),
        version=manifest.version,
        bibtex=bibtex(manifest),
        references=bullets(references(manifest.sources)),
        notes=prose(manifest.release_notes, 2),
    )


def front_matter(manifest: Manifest) -> str:
    """Create the YAML between the ``---`` lines.

    ``datasets`` checks a split's ``num_examples`` against the rows only if there is also ``num_bytes``, which is the
    size of the Parquet files because the size in memory is unknown. It caches rows by this text and the name of the
    folder (here a version), not by the files: without a checksum of the rows it would confuse releases with files of
    the same sizes.
    """
    licence = find(manifest.licence)
    sizes = {file.path: file.bytes for file in manifest.files}
    front: dict[str, Any] = {"pretty_name": title_of(manifest)}
    if licence and licence.tag != "other":
        front["license"] = licence.tag
    else:
        front |= {"license": "other", "license_name": one_line(manifest.licence), "license_link": "LICENSE"}
    front |= {
        "language": list(manifest.language),
        "tags": [*TAGS, *(TOOL_TAGS if "tasks" in manifest.counts else ())],
        "task_categories": list(TASKS),
        "size_categories": [size_category(manifest.rows)],
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
        "dataset_info": [
            {
                "config_name": name,
                "splits": [
                    {
                        "name": split,
                        "num_bytes": sum(sizes.get(path, 0) for path in info.files),
                        "num_examples": info.rows,
                    }
                    for split, info in config.splits.items()
                ],
            }
            for name, config in manifest.configs.items()
        ],
    }
    return str(yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=1000))


def default_config(manifest: Manifest) -> str:
    """Return the configuration that ``load_dataset`` loads by default: the original, else the first with dialogues.

    Without dialogues it is the first configuration; empty if there is none.
    """
    dialogues = [name for name, config in manifest.configs.items() if config.record == "dialogue"]
    original = [name for name in dialogues if name == "original" or manifest.configs[name].kind == "original"]
    return next(iter([*original, *dialogues, *manifest.configs]), "")


def size_category(rows: int) -> str:
    """Return the Hub's size category for a number of rows: ``1K<n<10K``."""
    brackets = [f"n<{_BOUNDS[0]}", *(f"{low}<n<{high}" for low, high in itertools.pairwise(_BOUNDS))]
    return [*brackets, f"n>{_BOUNDS[-1]}"][min(max(len(str(rows)) - 3, 0), len(brackets))]


def changelog(manifest: Manifest, previous: str) -> str:
    """Create CHANGELOG.md, newest version first.

    Args:
      manifest: the manifest of the version added at the top.
      previous: CHANGELOG.md of the previous release, or empty.
    """
    date = release_date(manifest)
    heading = f"## {manifest.version}" + (f" ({date})" if date else "")
    parts = [f"# Changelog of {text(title_of(manifest))}", heading, prose(manifest.release_notes, 2)]
    if manifest.parent is None or manifest.changes is None:
        parts.append("The first version.")
    elif not manifest.changes.splits:
        parts.append(f"The same rows as {text(manifest.parent.version)}.")
    else:
        level = manifest.changes.level
        parts.append(f"Against {text(manifest.parent.version)}, {text(level)} ({LEVELS.get(level, '')}):")
        parts.append(bullets(map(_change_line, manifest.changes.splits)))
    before = re.search(r"^## ", previous, re.MULTILINE)
    parts.append(previous[before.start() :].strip() if before else previous.strip())
    return "\n\n".join(filter(None, parts)) + "\n"


def _change_line(change: SplitChange) -> Markdown:
    """Format a split's changes in one line: rows added, removed and changed, and columns."""
    numbers = {"added": change.added, "removed": change.removed, "changed": change.changed}
    changes = [", ".join(f"{counted(n, 'row')} {word}" for word, n in numbers.items() if n)]
    columns: dict[str, Sequence[str]] = {"new": change.columns_added, "removed": change.columns_removed}
    changes += [
        f"{word} {'column' if len(names) == 1 else 'columns'} {_codes(names)}"
        for word, names in columns.items()
        if names
    ]
    return Markdown(f"{_codes([change.config, change.split])}: {'; '.join(filter(None, changes)) or 'other files'}")


def _codes(names: Iterable[str]) -> str:
    return ", ".join(code(one_line(name)) for name in names)
