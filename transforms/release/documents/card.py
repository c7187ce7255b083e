"""README.md of a release, a dataset card that ``datasets`` and the Hugging Face Hub read too, and CHANGELOG.md.

The keys of the front matter are those of the Hub's documentation, "Dataset Cards" and "Manual Configuration", and of
``datasets.utils.metadata``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from parapet.schemas.layout import TEST
from parapet.schemas.release import Manifest, Source, SplitChange
from parapet.transforms.markdown import (
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
from parapet.transforms.pages import render
from parapet.transforms.release.diff import LEVELS
from parapet.transforms.release.documents import report
from parapet.transforms.release.documents.citation import bibtex, in_line, references, release_date, title_of
from parapet.transforms.release.documents.columns import MEANINGS, Columns, in_words
from parapet.transforms.release.documents.licences import find
from parapet.transforms.release.shards import split_sha256
from parapet.transforms.report import Table, Text, table_markdown
from parapet.transforms.text import counted

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
        configs=table_markdown(report.configurations(manifest)),
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
        counts=table_markdown(report.corpora_table(manifest)) if manifest.counts else "",
        parapet=text(manifest.code.get("parapet", "")),
        inputs=table_markdown(report.inputs_table(manifest)),
        statistics=[_statistics(name, statistics) for name, statistics in manifest.statistics.items()],
        answers=[table_markdown(section) for section in report.answers(manifest)],
        problems=_section(report.problems(manifest)),
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
    section, known = report.statistics_table(name, statistics), report.measured(statistics)
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
