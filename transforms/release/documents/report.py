"""The report page of a release, ``report/index.html``: one file, nothing from the network."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parapet.schemas.layout import SPLITS
from parapet.schemas.release_config import Source
from parapet.schemas.release_manifest import Changes, File, Manifest
from parapet.transforms import reports, svg
from parapet.transforms.crowd.vet import EXPLANATIONS
from parapet.transforms.markdown import is_url, quoted
from parapet.transforms.pages import render
from parapet.transforms.release.checks import KINDS
from parapet.transforms.release.documents import measures
from parapet.transforms.release.documents.card import by_number, counted, counted_splits, rows_of
from parapet.transforms.release.documents.changelog import LEVELS
from parapet.transforms.release.documents.citation import release_date
from parapet.transforms.release.documents.licences import find
from parapet.transforms.release.documents.names import in_line, title_of

MAX_FILES = 200  # rows of the table of files; a page with more is slow to open
_BARS = 15  # of a plot; what is rarer is in the list below it

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


def report_page(manifest: Manifest) -> str:
    """The page. Of ``manifest.files`` it shows what is there: the data, as documents are made last."""
    answers = measures.dispositions(manifest.dispositions)
    files = list(_files(manifest.files))
    return render(
        "release_report.html.jinja",
        title=f"{title_of(manifest)} {manifest.version}",
        brand="release",
        headline=f"{title_of(manifest)} {manifest.version}",
        lead=_lead(manifest),
        tiles=_tiles(manifest),
        config_columns=["Configuration", "What it is", "A row is a", *_splits(manifest), "Files"],
        configs=list(_configs(manifest)),
        config_terms=_terms(_CONFIG_TERMS),
        count_columns=["Corpus", "Split", *(what.capitalize() for what in counted(manifest))],
        counts=list(_counts(manifest)),
        count_plots=list(_count_plots(manifest)),
        count_terms=_terms({key.capitalize(): said for key, said in _COUNT_TERMS.items() if key in manifest.counts}),
        statistics=list(_statistics(manifest.statistics, answers)),
        paraphrases=_answers(answers, "paraphrases") if answers else None,
        rejections=_rejections(manifest.rejections),
        rejection_plots=_rejection_plots(manifest.rejections),
        problems=[(kind, KINDS.get(kind, ""), f"{n:,}") for kind, n in by_number(manifest.known_problems)],
        parent=manifest.parent.version if manifest.parent else "",
        change_level=_change_level(manifest),
        changes=list(_changes(manifest.changes)),
        inputs=[
            (one.name, one.kind, f"{len(one.files):,}", f"{sum(file.bytes for file in one.files):,}")
            for one in manifest.inputs
        ],
        sources=[_source(source) for source in manifest.sources],
        files=files[:MAX_FILES],
        files_hidden=_hidden(len(files) - MAX_FILES),
        parapet=manifest.code.get("parapet", ""),
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
    said = [f"By {in_line(manifest.authors)}{f', {date}' if date else ''}."]
    said.append(f"{licence.name if licence else manifest.licence}.")
    return " ".join(said)


def _tiles(manifest: Manifest) -> list[dict[str, str]]:
    kinds = {one.name: one.kind for one in manifest.inputs}
    corpora = {corpus for corpora in manifest.counts.values() for corpus in corpora}
    variants = sum(kinds.get(corpus, corpus) != "original" for corpus in corpora)
    dialogues = sum(sum(splits.values()) for splits in manifest.counts.get("dialogues", {}).values())
    return [
        {"what": "dialogues, in all corpora", "value": f"{dialogues:,}"},
        {"what": "corpora beside the original", "value": f"{variants:,}"},
        {"what": "rows, in all configurations", "value": f"{rows_of(manifest):,}"},
        {"what": "on disk, Parquet and JSON", "value": size(sum(file.bytes for file in manifest.files))},
    ]


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
        found = (manifest.counts[what].get(corpus, {}).get(split) for what in counted(manifest))
        yield corpus, split, *("–" if n is None else f"{n:,}" for n in found)


def _count_plots(manifest: Manifest) -> Iterator[dict[str, Any]]:
    """What there is most of, by corpus and split: dialogues, or services where there are none."""
    shown = ("dialogues", "turns") if manifest.counts.get("dialogues") else ("services", "slots")
    for what in shown:
        numbers = manifest.counts.get(what, {})
        places = [place for place in counted_splits(manifest) if place[1] in numbers.get(place[0], {})]
        if places:
            yield _count_plot(what, numbers, places)


def _count_plot(
    what: str, numbers: Mapping[str, Mapping[str, int]], places: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    corpora = list(dict.fromkeys(corpus for corpus, _ in places))
    splits = list(dict.fromkeys(split for _, split in places))
    styles = itertools.cycle(("s1", "s2", "ref"))
    series = [
        svg.Series(split, tuple(numbers[corpus].get(split) for corpus in corpora), style)
        for split, style in zip(splits, styles, strict=False)
    ]
    said = ", ".join(f"{corpus} {split} {numbers[corpus][split]:,}" for corpus, split in places)
    plot = svg.bars(f"count-{what}", f"{what.capitalize()} by corpus and split", said, corpora, series, svg.number(0))
    return {"title": what.capitalize(), "hint": "how many each corpus has, by split", "svg": plot}


def _statistics(statistics: Mapping[str, Any], answers: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """A section for each; a measure is explained where it first stands."""
    explained: set[str] = set()
    for i, (name, found) in enumerate(statistics.items()):
        section: dict[str, Any] = {"name": name, "rows": [], "numbers": [], "more": "", "answers": None}
        known = measures.measured(found)
        theirs = measures.dispositions(known.answers) if known and known.answers else {}
        if known is None or not (known.keys or theirs):
            numbers, more = measures.numbers(found)
            section |= {"numbers": numbers, "more": f"{more:,} more are in MANIFEST.json." if more else ""}
        else:
            section |= _measures(known, f"statistics-{i}-", explained) if known.keys else {}
            # The audit of the same answers has a section of its own.
            section["answers"] = _answers(theirs, f"answers-{i}") if theirs and theirs != answers else None
        yield section


def _measures(known: measures.Measured, prefix: str, explained: set[str]) -> dict[str, Any]:
    bleu = "" if known.self_bleu is None else f"; self-BLEU {measures.self_bleu(known.self_bleu)}"
    used = ["seen" if key.endswith("_seen") else key for key in known.keys] + (["self_bleu"] if bleu else [])
    new = {key: reports.TERMS[key] for key in used if key not in explained}
    explained.update(used)
    return {
        "caption": f"Per variant, as in Table 1 of SGD-X{bleu}",
        "columns": [reports.MEASURES[key][0] for key in known.keys],
        "rows": [
            reports.measures_row(name, row, known.keys, total=name == "Average") for name, row in known.rows.items()
        ],
        "plots": reports.distance_plots(known.variants, published=False, prefix=prefix),
        "terms": reports.terms(new),
    }


def _answers(answers: Mapping[str, int], key: str) -> dict[str, Any]:
    return {
        "bar": reports.disposition_bar(answers, key),
        "caption": "What became of each answer of a crowdworker",
        "rows": reports.disposition_rows(answers),
        "total": f"{answers['total']:,}",
    }


def _rejections(rejections: Mapping[str, int]) -> list[dict[str, str]]:
    return [
        {"term": _reason(reason), "meaning": f"{n:,}. {EXPLANATIONS.get(reason, '')}"}
        for reason, n in by_number(rejections)
    ]


def _rejection_plots(rejections: Mapping[str, int]) -> list[dict[str, Any]]:
    found = by_number(rejections)[:_BARS]
    if not found:
        return []
    names = [_reason(reason) for reason, _ in found]
    said = ", ".join(f"{name} {n:,}" for name, (_, n) in zip(names, found, strict=True))
    series = [svg.Series("rejected answers", tuple(n for _, n in found), "rejected")]
    plot = svg.bars("rejections", "Rejected answers by reason", said, names, series, svg.number(0))
    return [{"title": "Rejected answers", "hint": "by the first reason that applied", "svg": plot}]


def _reason(reason: str) -> str:
    return reason.replace("_", " ").capitalize() or "No reason given"


def _change_level(manifest: Manifest) -> str:
    parent, changes = manifest.parent, manifest.changes
    if parent is None:
        return "This is the first version."
    if changes is None:
        return f"This version follows {parent.version}."
    said = LEVELS.get(changes.level, "")
    return f"The difference is {changes.level}" + (f": {said}." if said else ".")


def _changes(changes: Changes | None) -> Iterator[Sequence[str]]:
    for change in changes.splits if changes else ():
        columns = [f"+{name}" for name in change.columns_added] + [f"−{name}" for name in change.columns_removed]
        numbers = (f"{n:,}" for n in (change.added, change.removed, change.changed))
        yield change.config, change.split, change.level, *numbers, ", ".join(columns) or "the same"


def _source(source: Source) -> dict[str, str]:
    licence = find(source.licence)
    said = (source.authors, licence.name if licence else source.licence, source.citation)
    return {
        "title": source.title,
        "url": quoted(source.url) if is_url(source.url) else "",
        "said": ". ".join(part.strip().rstrip(".") for part in said if part.strip()) + ".",
    }


def _files(files: Sequence[File]) -> Iterator[dict[str, str]]:
    """Parquet files one by one; of the copies of a corpus, which are many, the folder."""
    copies: dict[str, list[File]] = {}
    for file in files:
        if file.rows is None:
            copies.setdefault("/".join(file.path.split("/")[:2]) + "/", []).append(file)
        else:
            numbers = {"rows": f"{file.rows:,}", "bytes": f"{file.bytes:,}"}
            yield {"path": file.path, "sha256": file.sha256, "files": "", **numbers}
    for folder, found in copies.items():
        said = reports.plural(len(found), "file")
        yield {
            "path": folder,
            "rows": "",
            "bytes": f"{sum(file.bytes for file in found):,}",
            "sha256": "",
            "files": said,
        }


def _terms(found: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"term": term, "meaning": meaning} for term, meaning in found.items()]


def _hidden(files: int) -> str:
    return f"{files:,} more files are in MANIFEST.json." if files > 0 else ""
