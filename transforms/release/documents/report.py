"""The tables that say what a release holds, for the card and for the report, ``report/index.html``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.release import COUNTED, Manifest, Source, in_order
from parapet.transforms.crowd.report import DISPOSITIONS, answers_table, words
from parapet.transforms.crowd.vet import EXPLANATIONS
from parapet.transforms.markdown import is_url, one_line, quoted
from parapet.transforms.release.diff import LEVELS
from parapet.transforms.release.documents.citation import in_line, release_date, title_of
from parapet.transforms.release.documents.licences import find
from parapet.transforms.release.show import size
from parapet.transforms.release.sources import KINDS
from parapet.transforms.report import Report, Section, Table, Text, Tile
from parapet.transforms.table1_report import MEASURES, TERMS, measures_table
from parapet.transforms.text import number

_MOST_NUMBERS = 60  # a table with more is no summary; all are in the manifest


class Measured(msgspec.Struct):
    """What documents show of ``statistics.json`` of ``statistics`` and ``compose``."""

    variants: dict[str, dict[str, float | None]]
    average: dict[str, float | None]
    original: dict[str, float | None] | None = None
    self_bleu: float | None = None
    answers: dict[str, int] | None = None

    @property
    def rows(self) -> dict[str, dict[str, float | None]]:
        """Name to measures, the original first."""
        return {"Original": self.original, **self.variants} if self.original else self.variants

    @property
    def keys(self) -> list[str]:
        """The measures that there are, in the order of ``MEASURES``."""
        return [key for key in MEASURES if any(key in row for row in [*self.rows.values(), self.average])]

    @property
    def terms(self) -> dict[str, str]:
        """The names of the measures and what they mean."""
        keys = [*self.keys, *(["self_bleu"] if self.keys and self.self_bleu is not None else [])]
        return dict(TERMS[key] for key in keys)


def measured(statistics: Any) -> Measured | None:
    """Returns the statistics of ``statistics`` or ``compose``; None if they are of another pipeline."""
    try:
        found = msgspec.convert(statistics, Measured)
    except msgspec.ValidationError:
        return None
    return found if found.keys or _answers(found.answers) else None


def configurations(manifest: Manifest) -> Table:
    """Returns the configurations with the rows of their splits."""
    rows = []
    for name, config in manifest.configs.items():
        of_split = (config.splits[split].rows if split in config.splits else None for split in manifest.splits)
        files = sum(len(info.files) for info in config.splits.values())
        rows.append([name, config.kind, config.record, *map(number, of_split), f"{files:,}"])
    return Table(
        title="Configurations",
        note="What load_dataset takes as its second argument, the rows of each split, and the Parquet files of all.",
        columns=["configuration", "content", "a row is a", *manifest.splits, "files"],
        rows=rows,
        text_columns=3,
    )


def _counted_splits(manifest: Manifest) -> list[tuple[str, str]]:
    """Returns each corpus with each of its splits, in the order of the inputs."""
    order = {corpus: i for i, corpus in enumerate(given.name for given in manifest.inputs)}
    splits: dict[str, set[str]] = {}
    for corpora in manifest.counts.values():
        for corpus, numbers in corpora.items():
            splits.setdefault(corpus, set()).update(numbers)
    names = sorted(splits, key=lambda corpus: (order.get(corpus, len(order)), corpus))
    return [(corpus, split) for corpus in names for split in in_order(splits[corpus])]


def corpora_table(manifest: Manifest) -> Table:
    """Returns what there is of each corpus and split."""
    things = [what for what in COUNTED if what in manifest.counts]
    rows = [
        [corpus, split, *(number(manifest.counts[what].get(corpus, {}).get(split)) for what in things)]
        for corpus, split in _counted_splits(manifest)
    ]
    return Table(title="Corpora", columns=["corpus", "split", *things], rows=rows, text_columns=2)


def inputs_table(manifest: Manifest) -> Table:
    """Returns the inputs with their sizes."""
    rows = [
        [given.name, given.kind, number(len(given.files)), number(sum(file.bytes for file in given.files))]
        for given in manifest.inputs
    ]
    note = "`../MANIFEST.json` has the checksum of each of their files."
    return Table(title="Inputs", note=note, columns=["input", "kind", "files", "bytes"], rows=rows, text_columns=2)


def statistics_table(name: str, statistics: Any) -> Table:
    """Returns the measures of variants; of statistics of another pipeline the numbers as they are."""
    known = measured(statistics)
    title = f"Statistics: {name}"
    if known is not None and known.keys:
        self_bleu = f" Self-BLEU {number(known.self_bleu, 1)}." if known.self_bleu is not None else ""
        average = known.average if known.average and len(known.variants) > 1 else None
        note = f"By variant, as in Table 1 of SGD-X.{self_bleu}"
        return measures_table(title, known.rows, average, known.keys, note=note)
    numbers = list(_numbers("", statistics))
    note = "Numbers by their place in the file of the pipeline."
    if (more := len(numbers) - _MOST_NUMBERS) > 0:
        note += f" {more:,} more are in `MANIFEST.json`."
    return Table(title=title, note=note, columns=["number", "value"], rows=numbers[:_MOST_NUMBERS])


def _numbers(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yields numbers and words of any JSON by their path, such as ``train.rows``."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _numbers(f"{path}.{key}" if path else str(key), below)
    elif isinstance(value, bool) or value is None:
        yield path, {True: "yes", False: "no", None: "–"}[value]
    elif isinstance(value, int):
        yield path, f"{value:,}"
    elif isinstance(value, float):
        yield path, f"{value:,.4g}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield path, f"{len(value):,} entries"
    else:
        yield path, str(value)


def _answers(dispositions: Mapping[str, int] | None) -> dict[str, int]:
    """Returns answers by disposition, and their ``total``; empty if there are none."""
    numbers = {key: (dispositions or {}).get(key, 0) for key in DISPOSITIONS}
    total = sum(numbers.values())
    return {"total": total, **numbers} if total else {}


def answers(manifest: Manifest) -> list[Table]:
    """Returns what became of the answers of crowdworkers, and why some were rejected."""
    tables = []
    if dispositions := _answers(manifest.dispositions):
        tables.append(answers_table(dispositions, title="Answers of crowdworkers"))
    if manifest.rejections:
        tables.append(
            Table(
                title="Why answers were rejected",
                columns=["reason", "meaning", "answers"],
                rows=[
                    [_reason(reason), EXPLANATIONS.get(reason, ""), number(n)]
                    for reason, n in _by_number(manifest.rejections)
                ],
                text_columns=2,
                numbers_in="../MANIFEST.json",
            )
        )
    return tables


def problems(manifest: Manifest) -> Table | Text:
    """Returns the faults that are published as they are."""
    if not manifest.known_problems:
        return Text(title="Known problems", paragraphs=["None: every dialogue fits its schemas."])
    rows = [[words(kind), KINDS.get(kind, ""), number(n)] for kind, n in _by_number(manifest.known_problems)]
    note = "Errors in the data, which is published as it is."
    return Table(title="Known problems", note=note, columns=["kind", "meaning", "errors"], rows=rows, text_columns=2)


def _by_number(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _reason(reason: str) -> str:
    return one_line(words(reason)) or "No reason given"


def release_report(manifest: Manifest) -> Report:
    """Returns the report. Its table of files has those of ``manifest.files``: the data, as documents come last."""
    name = f"{title_of(manifest)} {manifest.version}"
    licence, date = find(manifest.licence), release_date(manifest)
    by = f"By {in_line(manifest.authors)}{f', {date}' if date else ''}."
    sections: list[Section] = [configurations(manifest), *([corpora_table(manifest)] if manifest.counts else [])]
    terms: dict[str, str] = {}
    for title, statistics in manifest.statistics.items():
        known = measured(statistics)
        if known is None or known.keys:
            sections.append(statistics_table(title, statistics))
        if known is not None:
            terms |= known.terms
            theirs = _answers(known.answers)
            if theirs and theirs != _answers(manifest.dispositions):  # else the answers of the release show the same
                sections.append(answers_table(theirs, title=f"{title}: what became of the answers"))
    sections += [*answers(manifest), problems(manifest), _changes(manifest), inputs_table(manifest)]
    if manifest.sources:
        sections.append(Text(title="Sources", paragraphs=[_source(source) for source in manifest.sources]))
    sections.append(
        Table(
            title="Files",
            note="The data. The checksum is the beginning of the SHA-256; `../SHA256SUMS` has the whole of it.",
            columns=["path", "SHA-256", "rows", "bytes"],
            rows=[
                [file.path, file.sha256[:12], number(file.rows) if file.rows is not None else "", number(file.bytes)]
                for file in manifest.files
            ],
            text_columns=2,
            numbers_in="../MANIFEST.json",
        )
    )
    return Report(
        command="release",
        title=name,
        headline=name,
        lead=f"{by} {licence.name if licence else manifest.licence}.",
        tiles=_tiles(manifest),
        sections=sections,
        terms=terms,
        links={
            "../README.md": "how to load the data, its licence, how to cite it",
            "../MANIFEST.json": f"all numbers, made by Parapet {manifest.code.get('parapet', '')}".rstrip(),
            "../SHA256SUMS": "the checksum of every file",
        },
    )


def _tiles(manifest: Manifest) -> list[Tile]:
    kinds = {given.name: given.kind for given in manifest.inputs}
    corpora = {corpus for corpora in manifest.counts.values() for corpus in corpora}
    variants = sum(kinds.get(corpus, corpus) != "original" for corpus in corpora)
    dialogues = sum(sum(splits.values()) for splits in manifest.counts.get("dialogues", {}).values())
    return [
        Tile("dialogues, in all corpora", number(dialogues)),
        Tile("corpora besides the original", number(variants)),
        Tile("rows, in all configurations", number(manifest.rows)),
        Tile("on disk, Parquet and JSON", size(manifest.size)),
    ]


def _changes(manifest: Manifest) -> Section:
    parent, changes = manifest.parent, manifest.changes
    if parent is None or changes is None:
        return Text(title="Changes", paragraphs=["This is the first version."])
    rows = []
    for change in changes.splits:
        columns = [f"+{name}" for name in change.columns_added] + [f"−{name}" for name in change.columns_removed]
        numbers = map(number, (change.added, change.removed, change.changed))
        rows.append([change.config, change.split, change.level, ", ".join(columns) or "unchanged", *numbers])
    return Table(
        title=f"Changes since {parent.version}",
        note=f"The difference is {changes.level}: {LEVELS.get(changes.level, '')}. Rows with the same key are "
        "compared; the level is the part of the version number that has to change.",
        columns=["configuration", "split", "level", "columns", "added", "removed", "changed"],
        rows=rows,
        text_columns=4,
    )


def _source(source: Source) -> str:
    licence = find(source.licence)
    parts = (source.title, source.authors, licence.name if licence else source.licence, source.citation)
    sentence = ". ".join(part.strip().rstrip(".") for part in parts if part.strip()) + "."
    return f"{sentence} `{quoted(source.url)}`" if is_url(source.url) else sentence
