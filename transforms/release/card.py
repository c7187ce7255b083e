"""What a release holds, for people: ``report/index.html``, CHANGELOG.md, and README.md, a dataset card.

``datasets`` and the Hugging Face Hub read the card too. The keys of its front matter are those of the Hub's
documentation, "Dataset Cards" and "Manual Configuration", and of ``datasets.utils.metadata``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from parapet.schemas.layout import TEST
from parapet.schemas.release import COUNTED, Manifest, Source, SplitChange, in_order
from parapet.transforms.crowd.report import DISPOSITIONS, answers_table, words
from parapet.transforms.crowd.vet import EXPLANATIONS
from parapet.transforms.release.citation import bibtex, find, in_line, references, release_date, title_of
from parapet.transforms.release.croissant import MEANINGS, Columns, in_words
from parapet.transforms.release.diff import LEVELS, size
from parapet.transforms.release.plan import KINDS
from parapet.transforms.release.reading import split_sha256
from parapet.transforms.reports.markdown import (
    Markdown,
    bullets,
    code,
    inline,
    is_url,
    link,
    one_line,
    prose,
    quoted,
    table,
    text,
)
from parapet.transforms.reports.report import Report, Section, Table, Text, Tile, render, table_markdown
from parapet.transforms.reports.text import counted, number
from parapet.transforms.variants.table1 import MEASURES, TERMS, measures_table

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
        sections.append(Text(title="Sources", paragraphs=[_source_sentence(source) for source in manifest.sources]))
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


def _source_sentence(source: Source) -> str:
    licence = find(source.licence)
    parts = (source.title, source.authors, licence.name if licence else source.licence, source.citation)
    sentence = ". ".join(part.strip().rstrip(".") for part in parts if part.strip()) + "."
    return f"{sentence} `{quoted(source.url)}`" if is_url(source.url) else sentence


TAGS = (
    "dialogue",
    "task-oriented-dialogue",
    "schema-guided-dialogue",
    "dialogue-state-tracking",
    "robustness",
    "paraphrases",
)
TASKS = ("text-generation", "token-classification")
_BOUNDS = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")


def card(manifest: Manifest, columns: Columns) -> str:
    """Returns the whole of README.md. Of ``manifest.files`` it needs those below ``data/`` and ``sgd/`` only.

    Args:
      manifest: the manifest.
      columns: of the configurations, with their types.
    """
    config, split = example_of(manifest)
    return render(
        "release_card.md.jinja",
        front=front_matter(manifest),
        title=text(title_of(manifest)),
        published=_published(manifest),
        description=prose(manifest.description, 2),
        configs=table_markdown(configurations(manifest)),
        keys=_keys(manifest),
        columns=table(("configuration", "column", "type", "what it is"), _columns(manifest, columns)),
        place=f"{manifest.name}/{manifest.version}",
        default=default_config(manifest),
        config=config,
        split=split,
        hub=manifest.configuration.get("hub") or f"OWNER/{manifest.name}",
        pushed=bool(manifest.configuration.get("hub")),
        version=manifest.version,
        pairs=any(config.record in ("dialogue", "service") for config in manifest.configs.values()),
        sgd=bullets(code(f"sgd/{name}/") for name in _corpora(manifest)),
        counts=table_markdown(corpora_table(manifest)) if manifest.counts else "",
        parapet=text(manifest.code.get("parapet", "")),
        inputs=table_markdown(inputs_table(manifest)),
        statistics=[_statistics(name, statistics) for name, statistics in manifest.statistics.items()],
        answers=[table_markdown(section) for section in answers(manifest)],
        problems=_section(problems(manifest)),
        licence=_licence(manifest.licence),
        sources=bullets(_source(source) for source in manifest.sources),
        bibtex=bibtex(manifest),
        references=bullets(references(manifest.sources)),
        changes=Markdown("\n\n".join(filter(None, [prose(manifest.release_notes, 2), summary(manifest)]))),
    )


def front_matter(manifest: Manifest) -> str:
    """Returns the YAML between the ``---`` lines.

    ``datasets`` compares a split's ``num_examples`` with what it reads only if ``num_bytes`` is there too; that is the
    size of the Parquet files, because the size in memory is not known. It caches rows by the name of the folder, here a
    version, and this text, not by the files: without a checksum of the rows it would take a release for another one
    with files of the same sizes.
    """
    licence = find(manifest.licence)
    first = default_config(manifest)
    sizes = {file.path: file.bytes for file in manifest.files}
    front: dict[str, Any] = {"pretty_name": title_of(manifest)}
    if licence and licence.tag != "other":
        front["license"] = licence.tag
    else:
        front |= {"license": "other", "license_name": one_line(manifest.licence), "license_link": "LICENSE"}
    front |= {
        "language": list(manifest.language),
        "tags": list(TAGS),
        "task_categories": list(TASKS),
        "size_categories": [size_category(manifest.rows)],
        "configs": [
            {
                "config_name": name,
                "description": "SHA-256 of the rows: "
                + split_sha256(info.logical_sha256 for info in config.splits.values()),
                "data_files": [{"split": split, "path": f"data/{name}/{split}-*.parquet"} for split in config.splits],
                **({"default": True} if name == first else {}),
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
    """Returns what ``load_dataset`` loads if no configuration is named: the original, or else the first with dialogues.

    Without dialogues it is the first configuration; empty if there is none.
    """
    dialogues = [name for name, config in manifest.configs.items() if config.record == "dialogue"]
    original = [name for name in dialogues if name == "original" or manifest.configs[name].kind == "original"]
    return next(iter([*original, *dialogues, *manifest.configs]), "")


def example_of(manifest: Manifest) -> tuple[str, str]:
    """Returns configuration and split of the examples: the first dialogues beside the default, the test split."""
    default = default_config(manifest)
    others = (name for name, config in manifest.configs.items() if config.record == "dialogue" and name != default)
    config = next(others, default)
    splits = manifest.configs[config].splits if config else {}
    return config, TEST if TEST in splits else next(iter(splits), "")


def size_category(rows: int) -> str:
    """Returns the Hub's bracket for so many rows: ``1K<n<10K``."""
    brackets = [f"n<{_BOUNDS[0]}", *(f"{low}<n<{high}" for low, high in itertools.pairwise(_BOUNDS))]
    return [*brackets, f"n>{_BOUNDS[-1]}"][min(max(len(str(rows)) - 3, 0), len(brackets))]


def _corpora(manifest: Manifest) -> list[str]:
    """Returns the corpora that the release has as JSON, in the order of the inputs."""
    corpora = {file.path.split("/")[1] for file in manifest.files if file.path.startswith("sgd/")}
    order = [given.name for given in manifest.inputs if given.name in corpora]
    return [*order, *sorted(corpora - set(order))]


def _published(manifest: Manifest) -> Markdown:
    date = release_date(manifest)
    version = f"Version {text(manifest.version)}" + (f", {date}" if date else "")
    home = f" <{quoted(manifest.homepage)}>" if is_url(manifest.homepage) else ""
    return Markdown(f"{version}, by {text(in_line(manifest.authors))}.{home}")


def _keys(manifest: Manifest) -> Markdown:
    keys: dict[tuple[str, ...], list[str]] = {}
    for name, config in manifest.configs.items():
        keys.setdefault(tuple(config.key), []).append(name)
    lines = (
        f"{', '.join(map(code, names))}: {' and '.join(map(code, columns)) or 'the whole row'}"
        for columns, names in keys.items()
    )
    return Markdown("The columns that identify a row:\n\n" + bullets(map(Markdown, lines))) if keys else Markdown()


def _columns(manifest: Manifest, columns: Columns) -> Iterator[Sequence[str]]:
    """Yields columns with what they mean; configurations with the same columns share their rows."""
    same: dict[tuple[str, ...], list[str]] = {}
    for name, config in manifest.configs.items():
        same.setdefault((config.record, str(columns[name])), []).append(name)
    for (record, _), names in same.items():
        for i, field in enumerate(columns[names[0]]):
            meaning = Markdown(MEANINGS.get(record, {}).get(field.name, ""))
            first = Markdown(", ".join(map(code, names)) if i == 0 else "")
            yield first, code(field.name), code(in_words(field.type)), meaning


def _statistics(name: str, statistics: Any) -> dict[str, Markdown]:
    section, known = statistics_table(name, statistics), measured(statistics)
    terms = known.terms if known is not None else {}
    notes = bullets(Markdown(f"{text(term)}: {text(meaning)}") for term, meaning in terms.items())
    return {"name": text(name), "table": _section(section), "notes": notes}


def _section(section: Table | Text) -> Markdown:
    if isinstance(section, Text):
        return Markdown("\n\n".join(map(inline, section.paragraphs)))
    return Markdown(f"{inline(section.note)}\n\n{table_markdown(section)}")


def _licence(spdx: str) -> Markdown:
    licence = find(spdx)
    if licence is None:
        return Markdown(f"{text(spdx)}; the text is in `LICENSE`.")
    named = f"{link(licence.name, licence.url)} ({text(licence.spdx)})"
    return Markdown(f"{named}. `LICENSE` has the notice and the attributions.")


def _source(source: Source) -> Markdown:
    licence = find(source.licence)
    parts = [link(source.title, source.url), *([text(source.authors)] if source.authors else [])]
    parts.append(link(licence.spdx, licence.url) if licence else text(source.licence))
    return Markdown(", ".join(parts))


# Changes.


def changelog(manifest: Manifest, previous: str) -> str:
    """Returns the whole of CHANGELOG.md, newest version first.

    Args:
      manifest: of the version that is added at the top.
      previous: CHANGELOG.md of the release that it follows, or nothing.
    """
    date = release_date(manifest)
    heading = f"## {manifest.version}" + (f" ({date})" if date else "")
    parts = [f"# Changelog of {text(title_of(manifest))}", heading]
    parts += [part for part in (prose(manifest.release_notes, 2), summary(manifest)) if part]
    before = re.search(r"^## ", previous, re.MULTILINE)
    parts.append(previous[before.start() :].strip() if before else previous.strip())
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(manifest: Manifest) -> Markdown:
    """Returns what changed against the parent."""
    parent, changes = manifest.parent, manifest.changes
    if parent is None:
        return Markdown("The first version.")
    if changes is None:
        return Markdown(f"Follows {text(parent.version)}.")
    if not changes.splits:
        return Markdown(f"The same rows as {text(parent.version)}.")
    meaning = LEVELS.get(changes.level, "")
    head = f"Against {text(parent.version)}, {text(changes.level)}" + (f" ({meaning}):" if meaning else ":")
    return Markdown(f"{head}\n\n{bullets(_change_line(change) for change in changes.splits)}")


def _change_line(change: SplitChange) -> Markdown:
    """Returns a split's changes in one line: rows added, removed and changed, and columns."""
    numbers = {"added": change.added, "removed": change.removed, "changed": change.changed}
    rows = ", ".join(f"{counted(n, 'row')} {word}" for word, n in numbers.items() if n)
    columns = [_column_names("new", change.columns_added), _column_names("removed", change.columns_removed)]
    changes = "; ".join(filter(None, [rows, *columns])) or "other files"
    return Markdown(f"{code(change.config)}, {code(change.split)}: {changes}")


def _column_names(word: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"{word} {'column' if len(names) == 1 else 'columns'} {', '.join(code(one_line(name)) for name in names)}"
