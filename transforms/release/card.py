"""Documents about a release for people: ``report/index.html``, CHANGELOG.md, and README.md, a dataset card.

``datasets`` and the Hugging Face Hub read the card too. The keys of its front matter are documented by the Hub
("Dataset Cards", "Manual Configuration") and in ``datasets.utils.metadata``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

from parapet.schemas.layout import TEST
from parapet.schemas.release import COUNTED, KINDS, LICENCES, Manifest, in_order
from parapet.schemas.rows import WRITERS
from parapet.schemas.tasks import CONTRADICTIONS
from parapet.transforms.crowd.report import DISPOSITIONS, answers_table, words
from parapet.transforms.crowd.rules import EXPLANATIONS
from parapet.transforms.release.citation import KEYWORDS, authors_line, bibtex, licence_name, title_of
from parapet.transforms.release.croissant import MEANINGS, Columns, in_words
from parapet.transforms.release.diff import LEVELS, size
from parapet.transforms.release.reading import split_sha256
from parapet.transforms.report import report
from parapet.transforms.report.markdown import bullets, is_url, one_line, quoted, text
from parapet.transforms.report.report import Report, Section, Table, Text, Tile
from parapet.transforms.report.text import number
from parapet.transforms.variants.table1 import MEASURES, measures_table, terms_of

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
    """Create the report, which is rendered as the page and most of the card.

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
            Tile(f"{unit}, in all corpora", number(sum(map(_total, manifest.counts.get(unit, {}).values())))),
            Tile("rows, in all configurations", number(manifest.rows)),
            Tile("on disk, Parquet and JSON", size(manifest.size)),
        ],
        sections=[
            *_content(manifest, columns),
            *_statistics(manifest),
            *_quality(manifest),
            *_origin(manifest),
        ],
        terms=terms_of(MEASURES) if manifest.statistics else {},
        links={
            "../README.md": "how to load the data, its licence, how to cite it",
            "../MANIFEST.json": f"all numbers, made by Parapet {manifest.code.get('parapet', '')}".rstrip(),
            "../SHA256SUMS": "the checksum of every file",
        },
    )


def _total(counts: Mapping[str, int]) -> int:
    return sum(counts.values())


def _content(manifest: Manifest, columns: Columns) -> Iterator[Section]:
    """Yield the sections about the configurations, their columns, and the numbers of each corpus."""
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
    headings = ["configuration", "column", "type", "what it is"]
    yield Table(title="Columns", columns=headings, rows=described, text_columns=4)
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
    """Yield Table 1 of SGD-X from the outputs of ``statistics`` and ``compose``; the manifest has other numbers."""
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
    """Yield the sections about dispositions of answers, and about unresolved problems."""
    if manifest.dispositions:
        numbers = {key: manifest.dispositions.get(key, 0) for key in DISPOSITIONS}
        yield answers_table({"total": _total(numbers), **numbers}, title="Answers")
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
        yield _counts_table("Known problems", {**KINDS, **CONTRADICTIONS}, manifest.known_problems, "errors")
    else:
        yield Text(title="Known problems", paragraphs=["None is known."])


def _counts_table(title: str, meanings: Mapping[str, str], counts: Mapping[str, int], unit: str) -> Table:
    """Create a table of counts by kind, the most frequent first."""
    rows = [
        [one_line(words(kind)) or "No reason given", meanings.get(kind, ""), number(n)]
        for kind, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return Table(title=title, columns=["kind", "meaning", unit], rows=rows, text_columns=2)


def _origin(manifest: Manifest) -> Iterator[Section]:
    """Yield the section about sources."""
    if manifest.sources:
        sentences = []
        for source in manifest.sources:
            parts = (source.title, source.authors, licence_name(source.licence), source.citation)
            sentence = ". ".join(part.strip().rstrip(".") for part in parts if part.strip()) + "."
            sentences.append(f"{sentence} `{quoted(source.url)}`" if is_url(source.url) else sentence)
        changed = "They were changed; their authors do not vouch for the result. Please cite them, too."
        yield Text(title="Sources", paragraphs=[*sentences, changed])


def card(manifest: Manifest, columns: Columns) -> str:
    """Create README.md; see :func:`release_report`."""
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
        split=TEST if TEST in splits else next(iter(splits), ""),
        hub=manifest.configuration.get("hub") or f"OWNER/{manifest.name}",
        version=manifest.version,
        bibtex=bibtex(manifest),
        notes=manifest.release_notes.strip(),
    )


def front_matter(manifest: Manifest) -> dict[str, Any]:
    """Return the keys between the ``---`` lines.

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
    """Return the configuration that ``load_dataset`` loads by default: the original, else the first with dialogues.

    Without dialogues it is the first configuration; empty if there is none.
    """
    dialogues = [name for name, config in manifest.configs.items() if config.record == "dialogue"]
    original = [name for name in dialogues if manifest.configs[name].kind == "original"]
    return next(iter([*original, *dialogues, *manifest.configs]), "")


def changelog(manifest: Manifest, previous: str) -> str:
    """Create CHANGELOG.md, newest version first.

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
