"""The report of a release, ``report/index.html``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parapet.schemas.layout import SPLITS
from parapet.schemas.release_config import Source
from parapet.schemas.release_manifest import Changes, File, Manifest
from parapet.transforms.crowd.report import answers_table, words
from parapet.transforms.crowd.vet import EXPLANATIONS
from parapet.transforms.markdown import is_url, quoted
from parapet.transforms.release.checks import KINDS
from parapet.transforms.release.documents import measures
from parapet.transforms.release.documents.card import by_number, counted_splits, counted_things, rows_of
from parapet.transforms.release.documents.changelog import LEVELS
from parapet.transforms.release.documents.citation import release_date
from parapet.transforms.release.documents.licences import find
from parapet.transforms.release.documents.names import in_line, title_of
from parapet.transforms.report import Bars, Report, Section, Series, Table, Text, Tile
from parapet.transforms.table1_report import TERMS, distance_charts, measures_table
from parapet.transforms.text import counted, number

_BARS = 15  # of a chart; rarer reasons are in the table below it

_CONFIG_TERMS = {
    "Configuration": "what load_dataset takes as its second argument, and the folder below data/",
    "Splits": "the rows of each, under its name; a dash where there is no such split",
    "Files": "Parquet files of all splits",
}
_COUNT_TERMS = {
    "services": "in the split's schema file",
    "intents": "of these services",
    "slots": "of these services",
    "dialogues": "in the split's files",
    "turns": "of these dialogues, of user and system",
}


def release_report(manifest: Manifest) -> Report:
    """The report. Of ``manifest.files`` it shows what is there: the data, as documents are made last."""
    name = f"{title_of(manifest)} {manifest.version}"
    answers = measures.dispositions(manifest.dispositions)
    measured = {name: measures.measured(found) for name, found in manifest.statistics.items()}
    sections: list[Section] = [
        Table(
            title="Configurations",
            note="As load_dataset loads them, with the rows of their splits.",
            columns=["configuration", "content", "a row is a", *_splits(manifest), "files"],
            rows=list(_configs(manifest)),
            text_columns=3,
        )
    ]
    if counts := list(_counts(manifest)):
        columns = ["corpus", "split", *counted_things(manifest)]
        sections += [Table(title="Corpora", columns=columns, rows=counts, text_columns=2), *_count_charts(manifest)]
    for statistics, content in manifest.statistics.items():
        sections += _statistics(statistics, content, measured[statistics], answers)
    if answers:
        sections.append(answers_table(answers, title="Answers of crowdworkers"))
    sections += _rejections(manifest.rejections)
    sections += [_problems(manifest), *_changes(manifest), _inputs(manifest)]
    if manifest.sources:
        sections.append(Text(title="Sources", paragraphs=[_source(source) for source in manifest.sources]))
    sections.append(
        Table(
            title="Files",
            note="The data. The checksum is the beginning of the SHA-256; `../SHA256SUMS` has the whole of it.",
            columns=["path", "SHA-256", "rows", "bytes"],
            rows=list(_files(manifest.files)),
            text_columns=2,
            numbers_in="../MANIFEST.json",
        )
    )
    return Report(
        command="release",
        title=name,
        headline=name,
        lead=_lead(manifest),
        tiles=_tiles(manifest),
        sections=sections,
        terms=_terms(manifest, [known for known in measured.values() if known]),
        links={
            "../README.md": "how to load the data, its licence, how to cite it",
            "../MANIFEST.json": f"all numbers, made by Parapet {manifest.code.get('parapet', '')}".rstrip(),
            "../SHA256SUMS": "the checksum of every file",
        },
    )


def size(n: int) -> str:
    """Bytes as a person reads them: ``1.2 MB``, in powers of a thousand."""
    value = float(n)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 999.5 or unit == "GB":
            break
        value /= 1000
    return f"{n:,} bytes" if unit == "bytes" else f"{value:,.3g} {unit}" if value < 100 else f"{value:,.0f} {unit}"


def _lead(manifest: Manifest) -> str:
    licence = find(manifest.licence)
    date = release_date(manifest)
    sentences = [f"By {in_line(manifest.authors)}{f', {date}' if date else ''}."]
    sentences.append(f"{licence.name if licence else manifest.licence}.")
    return " ".join(sentences)


def _tiles(manifest: Manifest) -> list[Tile]:
    kinds = {one.name: one.kind for one in manifest.inputs}
    corpora = {corpus for corpora in manifest.counts.values() for corpus in corpora}
    variants = sum(kinds.get(corpus, corpus) != "original" for corpus in corpora)
    dialogues = sum(sum(splits.values()) for splits in manifest.counts.get("dialogues", {}).values())
    return [
        Tile("dialogues, in all corpora", number(dialogues)),
        Tile("corpora besides the original", number(variants)),
        Tile("rows, in all configurations", number(rows_of(manifest))),
        Tile("on disk, Parquet and JSON", size(sum(file.bytes for file in manifest.files))),
    ]


def _terms(manifest: Manifest, measured: Sequence[measures.Measured]) -> dict[str, str]:
    counted = {key.capitalize(): meaning for key, meaning in _COUNT_TERMS.items() if key in manifest.counts}
    keys = [key for known in measured for key in known.keys]
    keys += ["self_bleu" for known in measured if known.keys and known.self_bleu is not None]
    return {**_CONFIG_TERMS, **counted, **dict(TERMS[key] for key in keys)}


def _splits(manifest: Manifest) -> list[str]:
    """All splits of configurations, those of corpora first."""
    found = dict.fromkeys(split for config in manifest.configs.values() for split in config.splits)
    return [*(split for split in SPLITS if split in found), *(split for split in found if split not in SPLITS)]


def _configs(manifest: Manifest) -> Iterator[Sequence[str]]:
    for name, config in manifest.configs.items():
        rows = {split: f"{info.rows:,}" for split, info in config.splits.items()}
        files = sum(len(info.files) for info in config.splits.values())
        yield name, config.kind, config.record, *(rows.get(split, "–") for split in _splits(manifest)), f"{files:,}"


def _counts(manifest: Manifest) -> Iterator[Sequence[str]]:
    for corpus, split in counted_splits(manifest):
        numbers = (manifest.counts[what].get(corpus, {}).get(split) for what in counted_things(manifest))
        yield corpus, split, *map(number, numbers)


def _count_charts(manifest: Manifest) -> Iterator[Bars]:
    """What there is most of, by corpus and split: dialogues, or services where there are none."""
    shown = ("dialogues", "turns") if manifest.counts.get("dialogues") else ("services", "slots")
    for what in shown:
        numbers = manifest.counts.get(what, {})
        places = [place for place in counted_splits(manifest) if place[1] in numbers.get(place[0], {})]
        corpora, splits = (list(dict.fromkeys(names)) for names in zip(*places, strict=True)) if places else ([], [])
        series = [Series(split, tuple(numbers[corpus].get(split) for corpus in corpora)) for split in splits]
        if series:
            yield Bars(title=f"{what.capitalize()} by corpus and split", categories=corpora, series=series)


def _statistics(
    name: str, content: Any, known: measures.Measured | None, answers: Mapping[str, int]
) -> Iterator[Section]:
    """What a pipeline measured: measures of variants, answers, or the numbers as they are."""
    title = f"Statistics: {name}"
    theirs = measures.dispositions(known.answers) if known and known.answers else {}
    if known is None or not (known.keys or theirs):
        numbers, more = measures.numbers(content)
        note = "Numbers by their place in the file of the pipeline."
        note += f" {more:,} more are in `../MANIFEST.json`." if more else ""
        yield Table(title=title, note=note, columns=["number", "value"], rows=numbers)
        return
    if known.keys:
        self_bleu = f" Self-BLEU {number(known.self_bleu, 1)}." if known.self_bleu is not None else ""
        rows = {name: row for name, row in known.rows.items() if name != "Average"}
        note = f"By variant, as in Table 1 of SGD-X.{self_bleu}"
        yield measures_table(title, rows, known.rows.get("Average"), known.keys, note=note)
        yield from distance_charts(known.variants, prefix=f"{name}: ")
    if theirs and theirs != answers:  # else the answers of the release show the same
        yield answers_table(theirs, title=f"{name}: what became of the answers")


def _rejections(rejections: Mapping[str, int]) -> Iterator[Section]:
    reasons = by_number(rejections)
    if reasons:
        yield Bars(
            title="Most frequent reasons to reject an answer",
            note="An answer counts by the first reason that applies.",
            categories=[_reason(reason) for reason, _ in reasons[:_BARS]],
            series=[Series("", tuple(n for _, n in reasons[:_BARS]), "rejected")],
        )
        yield Table(
            title="Why answers were rejected",
            columns=["reason", "meaning", "answers"],
            rows=[[_reason(reason), EXPLANATIONS.get(reason, ""), number(n)] for reason, n in reasons],
            text_columns=2,
            numbers_in="../MANIFEST.json",
        )


def _reason(reason: str) -> str:
    return words(reason) or "No reason given"


def _problems(manifest: Manifest) -> Section:
    if not manifest.known_problems:
        return Text(title="Known problems", paragraphs=["None: every dialogue fits its schemas."])
    rows = [[words(kind), KINDS.get(kind, ""), number(n)] for kind, n in by_number(manifest.known_problems)]
    note = "Errors in the data, which is published as it is."
    columns = ["kind", "meaning", "errors"]
    return Table(title="Known problems", note=note, columns=columns, rows=rows, text_columns=2)


def _changes(manifest: Manifest) -> Iterator[Section]:
    parent, changes = manifest.parent, manifest.changes
    title = f"Changes since {parent.version}" if parent else "Changes"
    if parent is None:
        yield Text(title=title, paragraphs=["This is the first version."])
    elif changes is None:
        yield Text(title=title, paragraphs=[f"This version follows {parent.version}."])
    else:
        meaning = LEVELS.get(changes.level, "")
        level = f"The difference is {changes.level}{f': {meaning}' if meaning else ''}."
        yield Table(
            title=title,
            note=f"{level} Rows with the same key are compared; the level is the part of the version number that has "
            "to change.",
            columns=["configuration", "split", "level", "columns", "added", "removed", "changed"],
            rows=list(_change_rows(changes)),
            text_columns=4,
        )


def _inputs(manifest: Manifest) -> Table:
    rows = [
        [one.name, one.kind, number(len(one.files)), number(sum(file.bytes for file in one.files))]
        for one in manifest.inputs
    ]
    note = "`../MANIFEST.json` has the checksum of each of their files."
    return Table(title="Inputs", note=note, columns=["input", "kind", "files", "bytes"], rows=rows, text_columns=2)


def _change_rows(changes: Changes) -> Iterator[Sequence[str]]:
    for change in changes.splits:
        columns = [f"+{name}" for name in change.columns_added] + [f"−{name}" for name in change.columns_removed]
        numbers = map(number, (change.added, change.removed, change.changed))
        yield change.config, change.split, change.level, ", ".join(columns) or "unchanged", *numbers


def _source(source: Source) -> str:
    licence = find(source.licence)
    parts = (source.title, source.authors, licence.name if licence else source.licence, source.citation)
    sentence = ". ".join(part.strip().rstrip(".") for part in parts if part.strip()) + "."
    return f"{sentence} `{quoted(source.url)}`" if is_url(source.url) else sentence


def _files(files: Sequence[File]) -> Iterator[Sequence[str]]:
    """Parquet files one by one; of the copies of a corpus, which are many, the folder."""
    copies: dict[str, list[File]] = {}
    for file in files:
        if file.rows is None:
            copies.setdefault("/".join(file.path.split("/")[:2]) + "/", []).append(file)
        else:
            yield file.path, file.sha256[:12], number(file.rows), number(file.bytes)
    for folder, inside in copies.items():
        yield folder, counted(len(inside), "file"), "", number(sum(file.bytes for file in inside))
