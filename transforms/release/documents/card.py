"""README.md of a release: a dataset card, which ``datasets`` and the Hugging Face Hub read too.

The keys of the front matter are those of the Hub's documentation, "Dataset Cards" and "Manual Configuration", and of
``datasets.utils.metadata``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from parapet.schemas.layout import SPLITS, TEST
from parapet.schemas.release_config import Source
from parapet.schemas.release_manifest import Config, Manifest
from parapet.transforms.crowd.report import DISPOSITIONS
from parapet.transforms.crowd.vet import EXPLANATIONS
from parapet.transforms.markdown import (
    Markdown,
    bullets,
    code,
    is_url,
    link,
    one_line,
    prose,
    quoted,
    table,
    text,
)
from parapet.transforms.pages import render
from parapet.transforms.release.checks import KINDS
from parapet.transforms.release.documents import measures
from parapet.transforms.release.documents.changelog import summary
from parapet.transforms.release.documents.citation import bibtex, references, release_date
from parapet.transforms.release.documents.columns import MEANINGS, in_words, parse
from parapet.transforms.release.documents.licences import find
from parapet.transforms.release.documents.names import in_line, title_of
from parapet.transforms.release.logical import split_sha256
from parapet.transforms.table1_report import MEASURES, TERMS, measured
from parapet.transforms.text import counted, number

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
_COUNTED = ("services", "intents", "slots", "dialogues", "turns")


def card(manifest: Manifest) -> str:
    """The whole of README.md. Of ``manifest.files`` it needs those below ``data/`` and ``sgd/`` only."""
    licence = find(manifest.licence)
    config, split = example_of(manifest)
    return render(
        "release_card.md.jinja",
        front=front_matter(manifest),
        title=text(title_of(manifest)),
        published=_published(manifest),
        description=prose(manifest.description, 2),
        configs=table(("configuration", "what it is", "a row is a", "split", "rows"), _configs(manifest), numbers=1),
        keys=_keys(manifest),
        columns=table(("configuration", "column", "type", "what it is"), _columns(manifest)),
        place=f"{manifest.name}/{manifest.version}",
        default=default_config(manifest),
        config=config,
        split=split,
        hub=hub_of(manifest),
        pushed=bool(manifest.configuration.get("hub")),
        version=manifest.version,
        pairs=any(config.record in ("dialogue", "service") for config in manifest.configs.values()),
        sgd=bullets(code(f"sgd/{name}/") for name in corpora_of(manifest)),
        counts=counts_table(manifest),
        parapet=text(manifest.code.get("parapet", "")),
        inputs=_inputs(manifest),
        statistics=[_statistics(name, found) for name, found in manifest.statistics.items()],
        dispositions=_dispositions(manifest),
        rejections=_rejections(manifest),
        problems=_problems(manifest),
        licence=_licence(manifest.licence, licence.name if licence else "", licence.url if licence else ""),
        sources=bullets(_source(source) for source in manifest.sources),
        bibtex=bibtex(manifest),
        references=bullets(references(manifest.sources)),
        changes=Markdown("\n\n".join(filter(None, [prose(manifest.release_notes, 2), summary(manifest)]))),
    )


def front_matter(manifest: Manifest) -> str:
    """The YAML between the ``---`` lines.

    ``datasets`` drops a split's ``num_examples``, which it else compares with what it reads, unless ``num_bytes`` is
    there too; that is the size of the Parquet files, for want of the one in memory. It caches rows by the name of the
    folder, here a version, and this text, not by the files: without a checksum of the rows it would take a release for
    another one with files of the same sizes.
    """
    licence = find(manifest.licence)
    first = default_config(manifest)
    sizes = {file.path: file.bytes for file in manifest.files}
    found: dict[str, Any] = {"pretty_name": title_of(manifest)}
    if licence and licence.tag != "other":
        found["license"] = licence.tag
    else:
        found |= {"license": "other", "license_name": one_line(manifest.licence), "license_link": "LICENSE"}
    found |= {
        "language": list(manifest.language),
        "tags": list(TAGS),
        "task_categories": list(TASKS),
        "size_categories": [size_category(rows_of(manifest))],
        "configs": [
            {
                "config_name": name,
                "description": f"SHA-256 of the rows: {_rows_sha256(config)}",
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
    return str(yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=1000))


def _rows_sha256(config: Config) -> str:
    return split_sha256(info.logical_sha256 for info in config.splits.values())


def default_config(manifest: Manifest) -> str:
    """What ``load_dataset`` loads where no configuration is named: the original, or else the first with dialogues.

    Without dialogues it is the first configuration; empty where there is none.
    """
    dialogues = [name for name, config in manifest.configs.items() if config.record == "dialogue"]
    original = [name for name in dialogues if name == "original" or manifest.configs[name].kind == "original"]
    return next(iter([*original, *dialogues, *manifest.configs]), "")


def example_of(manifest: Manifest) -> tuple[str, str]:
    """The configuration and split of the card's examples: the first dialogues beside the default, the test split."""
    default = default_config(manifest)
    others = (name for name, config in manifest.configs.items() if config.record == "dialogue" and name != default)
    config = next(others, default)
    splits = manifest.configs[config].splits if config else {}
    return config, TEST if TEST in splits else next(iter(splits), "")


def hub_of(manifest: Manifest) -> str:
    """The repository of the Hugging Face Hub as ``release.toml`` has it; else a placeholder with the release's name."""
    return str(manifest.configuration.get("hub") or f"OWNER/{manifest.name}")


def size_category(rows: int) -> str:
    """The Hub's bracket for so many rows: ``1K<n<10K``."""
    brackets = [f"n<{_BOUNDS[0]}", *(f"{low}<n<{high}" for low, high in itertools.pairwise(_BOUNDS))]
    return [*brackets, f"n>{_BOUNDS[-1]}"][min(max(len(str(rows)) - 3, 0), len(brackets))]


def rows_of(manifest: Manifest) -> int:
    """The rows of all configurations."""
    return sum(info.rows for config in manifest.configs.values() for info in config.splits.values())


def corpora_of(manifest: Manifest) -> list[str]:
    """The corpora that the release has as JSON, below ``sgd/``, in the order of the inputs."""
    found = {file.path.split("/")[1] for file in manifest.files if file.path.startswith("sgd/")}
    order = [one.name for one in manifest.inputs if one.name in found]
    return [*order, *sorted(found - set(order))]


def counted_things(manifest: Manifest) -> list[str]:
    """What was counted, in the order of columns."""
    return [what for what in _COUNTED if what in manifest.counts] + sorted(set(manifest.counts) - set(_COUNTED))


def counted_splits(manifest: Manifest) -> list[tuple[str, str]]:
    """Each corpus with each of its splits, in the order of the inputs."""
    places = dict.fromkeys(
        (corpus, split)
        for what in counted_things(manifest)
        for corpus, splits in manifest.counts[what].items()
        for split in splits
    )
    order = [one.name for one in manifest.inputs]
    return sorted(
        places,
        key=lambda place: (
            order.index(place[0]) if place[0] in order else len(order),
            place[0],
            SPLITS.index(place[1]) if place[1] in SPLITS else len(SPLITS),
            place[1],
        ),
    )


def counts_table(manifest: Manifest) -> Markdown:
    """What there is of each corpus and split; nothing where nothing was counted."""
    columns = counted_things(manifest)
    rows = [
        [code(corpus), code(split), *(_count(manifest.counts[what].get(corpus, {}).get(split)) for what in columns)]
        for corpus, split in counted_splits(manifest)
    ]
    return table(("corpus", "split", *columns), rows, numbers=len(columns)) if rows else Markdown()


def _count(n: int | None) -> str:
    return "–" if n is None else f"{n:,}"


def _published(manifest: Manifest) -> Markdown:
    date = release_date(manifest)
    parts = [f"Version {text(manifest.version)}" + (f", {date}" if date else "")]
    parts.append("by " + text(in_line(manifest.authors)))
    home = [f"<{quoted(manifest.homepage)}>"] if is_url(manifest.homepage) else []
    return Markdown(". ".join([", ".join(parts), *home]) + ("" if home else "."))


def _configs(manifest: Manifest) -> Iterator[Sequence[str]]:
    for name, config in manifest.configs.items():
        for split, info in config.splits.items():
            yield code(name), config.kind, config.record, code(split), f"{info.rows:,}"


def _keys(manifest: Manifest) -> Markdown:
    keys: dict[tuple[str, ...], list[str]] = {}
    for name, config in manifest.configs.items():
        keys.setdefault(tuple(config.key), []).append(name)
    lines = (
        f"{', '.join(map(code, names))}: {' and '.join(map(code, columns)) or 'the whole row'}"
        for columns, names in keys.items()
    )
    return Markdown("The columns that identify a row:\n\n" + bullets(map(Markdown, lines))) if keys else Markdown()


def _columns(manifest: Manifest) -> Iterator[Sequence[str]]:
    """Configurations with the same columns share their rows."""
    alike: list[tuple[list[str], Config]] = []
    for name, config in manifest.configs.items():
        same = next((names for names, other in alike if other.columns == config.columns), None)
        if same is None:
            alike.append(([name], config))
        else:
            same.append(name)
    for names, config in alike:
        for i, column in enumerate(config.columns):
            yield (
                Markdown(", ".join(map(code, names)) if i == 0 else ""),
                code(column.name),
                code(in_words(parse(column.type))),
                Markdown(MEANINGS.get(config.record, {}).get(column.name, "")),
            )


def _inputs(manifest: Manifest) -> Markdown:
    rows = [
        (code(one.name), one.kind, f"{len(one.files):,}", f"{sum(file.bytes for file in one.files):,}")
        for one in manifest.inputs
    ]
    return table(("input", "kind", "files", "bytes"), rows, numbers=2)


def _statistics(name: str, found: Any) -> dict[str, Markdown]:
    known = measures.measured(found)
    if known is None or not known.keys:
        shown, more = measures.numbers(found)
        note = f"{more:,} more are in `MANIFEST.json`." if more else ""
        numbers = table(("number", "value"), [(code(path), value) for path, value in shown], numbers=1)
        return {"name": text(name), "table": numbers, "notes": Markdown(note)}
    rows = [(variant, *(measured(key, row.get(key)) for key in known.keys)) for variant, row in known.rows.items()]
    terms = dict(TERMS[key] for key in known.keys)
    notes = [f"{text(term)}: {text(meaning)}" for term, meaning in terms.items()]
    if known.self_bleu is not None:
        term, meaning = TERMS["self_bleu"]
        notes.append(f"{term} {number(known.self_bleu, 1)}: {meaning}")
    shown_measures = table(("variant", *(MEASURES[key] for key in known.keys)), rows, numbers=len(known.keys))
    return {"name": text(name), "table": shown_measures, "notes": bullets(map(Markdown, notes))}


def _dispositions(manifest: Manifest) -> Markdown:
    order = [*DISPOSITIONS, *sorted(set(manifest.dispositions) - set(DISPOSITIONS))]
    rows = [
        (key, DISPOSITIONS.get(key, ""), f"{manifest.dispositions[key]:,}")
        for key in order
        if key in manifest.dispositions
    ]
    return table(("disposition", "meaning", "answers"), rows, numbers=1) if rows else Markdown()


def _rejections(manifest: Manifest) -> Markdown:
    rows = [(code(reason), EXPLANATIONS.get(reason, ""), f"{n:,}") for reason, n in by_number(manifest.rejections)]
    return table(("reason", "meaning", "answers"), rows, numbers=1) if rows else Markdown()


def by_number(found: Mapping[str, int]) -> list[tuple[str, int]]:
    """The largest first; those alike by name."""
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _problems(manifest: Manifest) -> Markdown:
    if not manifest.known_problems:
        return Markdown("None was found: every dialogue fits its schemas.")
    rows = [(code(kind), KINDS.get(kind, ""), f"{n:,}") for kind, n in by_number(manifest.known_problems)]
    heading = f"{counted(sum(manifest.known_problems.values()), 'error')} in the data, which is published as it is:"
    return Markdown(f"{heading}\n\n{table(('kind', 'meaning', 'errors'), rows, numbers=1)}")


def _licence(spdx: str, name: str, url: str) -> Markdown:
    if not name:
        return Markdown(f"{text(spdx)}; the text is in `LICENSE`.")
    return Markdown(f"{link(name, url)} ({text(spdx)}). `LICENSE` has the notice and the attributions.")


def _source(source: Source) -> Markdown:
    licence = find(source.licence)
    parts = [link(source.title, source.url)]
    parts += [text(source.authors)] if source.authors else []
    parts.append(link(licence.spdx, licence.url) if licence else text(source.licence))
    return Markdown(", ".join(parts))
