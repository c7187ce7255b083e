"""Writes releases for tests, plainly: no pipeline, no sharing of code with ``build``; and tampers with them."""

import copy
import datetime
import hashlib
import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from kit import json_of, write

from parapet.schemas.dialogue_table import DIALOGUES, SERVICES, dialogue_rows, service_rows
from parapet.schemas.layout import dialogue_bytes, sample_root, schema_bytes
from parapet.schemas.release import (
    FORMAT,
    Audit,
    Author,
    Column,
    Config,
    Corpus,
    File,
    Input,
    InputFile,
    Manifest,
    ReleaseConfig,
    Source,
    SplitInfo,
    Statistics,
    TableInput,
    manifest_bytes,
)
from parapet.transforms.release.reading import logical_sha256, row_json, split_sha256
from parapet.transforms.release.verify import examine

ANSWERS = pa.schema(
    [("response_id", pa.string()), ("text", pa.string()), ("disposition", pa.string()), ("reason", pa.string())]
)
NUMBERS = pa.schema([("a", pa.int64()), ("b", pa.string()), ("x", pa.float64())])

LICENCE_URL = "https://creativecommons.org/licenses/by-sa/4.0/"


def sample_corpora(per_split=5):
    """Two corpora of two splits, corpus -> split -> file -> what it holds: a few dialogues of the sample each."""
    original = {}
    for split in ("train", "test"):
        folder = sample_root() / split
        original[split] = {"schema.json": json_of(folder / "schema.json")}
        for path in sorted(folder.glob("dialogues_*.json")):
            original[split][path.name] = json_of(path)[:per_split]
    other = copy.deepcopy(original)
    for split in other.values():
        for dialogue in split["dialogues_001.json"]:
            dialogue["turns"][0]["utterance"] += " Thanks."
    return {"original": original, "noisy": other}


def sample_tables():
    """Configuration -> (record, key, columns, rows)."""
    answers = [
        {
            "response_id": f"A{i}:slot_{i}",
            "text": f"text {i}",
            "disposition": "rejected" if i == 3 else "used",
            "reason": "echo: as shown" if i == 3 else "vetted",
        }
        for i in range(8)
    ]
    return {
        "paraphrases": ("paraphrase", ["response_id"], ANSWERS, answers),
        "numbers": ("row", ["a", "b"], NUMBERS, [{"a": i % 3, "b": f"b{i}", "x": i / 7} for i in range(10)]),
    }


def write_release(output, corpora=None, tables=None, name="little", version="1.0.0", shards=3, **given):
    """Writes NAME/VERSION below a folder, as build would; gives its path. ``given`` replaces fields of the manifest."""
    corpora = sample_corpora() if corpora is None else corpora
    tables = sample_tables() if tables is None else tables
    root = Path(output) / name / version
    configs = {}

    def add(config, kind, record, key, columns, split, rows):
        put_shards(root, config, split, key, columns, rows, shards)
        configs.setdefault(config, {"kind": kind, "record": record, "key": key, "columns": columns, "splits": []})[
            "splits"
        ].append(split)

    splits = list(dict.fromkeys(split for corpus in corpora.values() for split in corpus))
    counts = {}
    for split in splits:
        services = []
        for corpus in corpora:
            for file, content in corpora[corpus].get(split, {}).items():
                data = schema_bytes(content) if file == "schema.json" else dialogue_bytes(content)
                write(root / "sgd" / corpus / split / file, data)
                if file == "schema.json":
                    services += service_rows(content, corpus, data)
                    count(counts, "services", corpus, split, len(content))
                    count(counts, "intents", corpus, split, sum(len(one["intents"]) for one in content))
                    count(counts, "slots", corpus, split, sum(len(one["slots"]) for one in content))
        add("schemas", "schemas", "service", ["variant", "service_name"], SERVICES, split, services)
    for corpus, of_split in corpora.items():
        for split, files in of_split.items():
            rows = []
            for file, content in files.items():
                if file != "schema.json":
                    rows += dialogue_rows(content, file, dialogue_bytes(content))
                    count(counts, "dialogues", corpus, split, len(content))
                    count(counts, "turns", corpus, split, sum(len(one["turns"]) for one in content))
            if rows:
                add(corpus, f"{corpus} dialogues", "dialogue", ["dialogue_id"], DIALOGUES, split, rows)
    for config, (record, key, columns, rows) in tables.items():
        kind = "paraphrases of crowdworkers" if record == "paraphrase" else record
        add(config, kind, record, key, columns, "full", rows)
    answers = tables.get("paraphrases", (0, 0, 0, []))[3]
    dispositions = [row["disposition"] for row in answers]
    of_configs = {}
    for config, made in configs.items():
        splits = {split: SplitInfo(0, [], "") for split in made["splits"]}
        of_configs[config] = Config(made["kind"], made["record"], made["key"], described(made["columns"]), splits)
    fields = {
        "format": FORMAT, "name": name, "version": version, "title": "A little set", "description": "For tests.",
        "licence": "CC-BY-SA-4.0", "language": ["en"], "created": "2026-01-02", "homepage": "",
        "authors": [Author("Ada Example")], "sources": [Source("SGD", "https://example.org/sgd", "CC-BY-SA-4.0")],
        "release_notes": "", "parent": None, "changes": None, "code": {"parapet": "0"}, "libraries": {},
        "configuration": {}, "configuration_sha256": "", "inputs": [], "configs": of_configs, "counts": counts,
        "statistics": {}, "dispositions": {key: dispositions.count(key) for key in sorted(set(dispositions))},
        "rejections": {"echo": 1} if answers else {}, "known_problems": {}, "files": [],
    }  # fmt: skip
    manifest = Manifest(**{**fields, **given})
    if "configuration" not in given:
        configure(manifest, corpora, tables)
    fill_in(root, manifest)
    put_documents(root, manifest)
    fill_in(root, manifest)
    write(root / "MANIFEST.json", manifest_bytes(manifest))
    mend(root)
    write(root.parent / "latest.json", json.dumps({"name": name, "version": version}).encode())
    return root


def configure(manifest, corpora, tables):
    """The configuration that a manifest follows from, and the inputs."""
    config = ReleaseConfig(
        name=manifest.name,
        version=manifest.version,
        licence=manifest.licence,
        description=manifest.description,
        authors=manifest.authors,
        corpora=[Corpus(name, f"{name} dialogues", name) for name in corpora],
        title=manifest.title,
        date=datetime.date.fromisoformat(manifest.created) if manifest.created else None,
        homepage=manifest.homepage,
        language=manifest.language,
        changes=manifest.release_notes,
        allow_problems=sorted(manifest.known_problems),
        sources=manifest.sources,
        audits=[Audit("audit")] if "paraphrases" in tables else [],
        tables=[
            TableInput(f"{name}.parquet", name, record, key, "full")
            for name, (record, key, _, _) in tables.items()
            if record == "row"
        ],
        statistics=[Statistics("statistics.json", name) for name in manifest.statistics],
    )
    manifest.configuration = msgspec.to_builtins(config)
    manifest.inputs = [Input(name, f"{name} dialogues", []) for name in corpora]
    manifest.inputs += [Input("paraphrases", "audit", [])] if "paraphrases" in tables else []
    manifest.inputs += [Input(name, record, []) for name, (record, *_) in tables.items() if record == "row"]


def count(counts, what, corpus, split, n):
    of_corpus = counts.setdefault(what, {}).setdefault(corpus, {})
    of_corpus[split] = of_corpus.get(split, 0) + n


def described(columns):
    return [Column(field.name, str(field.type)) for field in columns]


def text_of(row, key):
    return "\0".join(str(row[one]) for one in key)


def put_shards(root, config, split, key, columns, rows, shards):
    for shard in range(shards):
        text = {text_of(row, key): row for row in rows}
        own = [one for one in sorted(text) if int(hashlib.sha256(one.encode()).hexdigest(), 16) % shards == shard]
        if own:
            path = root / "data" / config / f"{split}-{shard:05}-of-{shards:05}.parquet"
            write(path, b"")
            pq.write_table(pa.Table.from_pylist([text[one] for one in own], columns), path)


def put_documents(root, manifest):
    configs = "".join(
        f"- config_name: {name}\n  data_files:\n"
        + "".join(f"  - split: {split}\n    path: data/{name}/{split}-*.parquet\n" for split in config.splits)
        for name, config in manifest.configs.items()
    )
    infos = "".join(
        f"- config_name: {name}\n  splits:\n"
        + "".join(f"  - name: {split}\n    num_examples: {info.rows}\n" for split, info in config.splits.items())
        for name, config in manifest.configs.items()
    )
    head = f"pretty_name: {manifest.title}\nlicense: {manifest.licence.lower()}\nlanguage:\n- en\n"
    front = f"{head}configs:\n{configs}dataset_info:\n{infos}"
    card = f"---\n{front}---\n\n# {manifest.title}\n"
    croissant = {
        "name": manifest.name,
        "alternateName": manifest.title,
        "description": manifest.description,
        "version": manifest.version,
        "license": LICENCE_URL,
        "datePublished": manifest.created,
        "inLanguage": ["en"],
        "creator": [{"@type": "sc:Person", "name": author.name} for author in manifest.authors],
        "distribution": [
            {"@type": "cr:FileObject", "contentUrl": file.path, "sha256": file.sha256} for file in manifest.files
        ],
    }
    write(root / "README.md", card.encode())
    write(root / "croissant.json", json.dumps(croissant, indent=2).encode())
    write(
        root / "CITATION.cff",
        f"cff-version: 1.2.0\ntitle: {manifest.title}\nversion: {manifest.version}\n"
        f"date-released: '{manifest.created}'\nabstract: {manifest.description}\n"
        f"authors:\n- family-names: Example\n  given-names: Ada\nlicense: {manifest.licence}\n".encode(),
    )
    write(root / "LICENSE", f"Licence: CC-BY-SA-4.0\nText: {LICENCE_URL}\n".encode())
    write(root / "CHANGELOG.md", f"# Changes\n\n## {manifest.version}\n".encode())
    write(root / "report/index.html", b"<!DOCTYPE html>\n<title>Report</title>\n")


def fill_in(root, manifest):
    """Files, splits and inputs of the manifest, as they are on the disk."""
    manifest.files = [
        file_of(root, path.relative_to(root).as_posix())
        for path in sorted(root.rglob("*"), key=lambda path: path.relative_to(root).as_posix())
        if path.is_file() and path.name not in ("MANIFEST.json", "SHA256SUMS")
    ]
    text = json.dumps(manifest.configuration, sort_keys=True, separators=(",", ":"))
    manifest.configuration_sha256 = hashlib.sha256(text.encode()).hexdigest()
    for one in manifest.inputs:
        folder = f"sgd/{one.name}/"
        own = [file for file in manifest.files if file.path.startswith(folder)]
        one.files = [InputFile(file.path.removeprefix(folder), file.bytes, file.sha256) for file in own]
    for name, config in manifest.configs.items():
        for split in config.splits:
            own = [file for file in manifest.files if file.path.startswith(f"data/{name}/{split}-")]
            digest = split_sha256(file.logical_sha256 for file in own)
            config.splits[split] = SplitInfo(sum(file.rows for file in own), [file.path for file in own], digest)


def file_of(root, relative):
    data = (root / relative).read_bytes()
    made = File(relative, len(data), hashlib.sha256(data).hexdigest())
    if relative.endswith(".parquet"):
        rows = rows_in(root / relative)
        made.rows, made.logical_sha256 = len(rows), logical_sha256(map(row_json, rows))
    return made


def rows_in(path):
    return pq.ParquetFile(path).read().to_pylist()


def told(root):
    """What ``verify`` finds, line by line."""
    return [str(finding) for finding in examine(root).findings]


# Tampering, and hiding it.


def mend(root):
    """Checksums as they should be for what stands there."""
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    lines = [
        f"{hashlib.sha256((root / path).read_bytes()).hexdigest()}  {path}\n" for path in paths if path != "SHA256SUMS"
    ]
    (root / "SHA256SUMS").write_text("".join(lines))


def manifest_of(root):
    return msgspec.json.decode((root / "MANIFEST.json").read_bytes(), type=Manifest)


def edit_manifest(root, change):
    """Changes the manifest, and the checksums with it."""
    manifest = manifest_of(root)
    change(manifest)
    write(root / "MANIFEST.json", manifest_bytes(manifest))
    mend(root)


def mend_all(root, croissant=True):
    """Every hash, size and number of rows as it should be for what stands there; documents say what they said."""
    if croissant:
        document = json_of(root / "croissant.json")
        for file in document["distribution"]:
            if (root / file["contentUrl"]).is_file():
                file["sha256"] = hashlib.sha256((root / file["contentUrl"]).read_bytes()).hexdigest()
        write(root / "croissant.json", json.dumps(document, indent=2).encode())
    edit_manifest(root, lambda manifest: fill_in(root, manifest))


def edit_rows(path, change):
    """Rewrites a Parquet file: ``change`` gets its rows, and gives others."""
    schema = pq.read_schema(path)
    pq.write_table(pa.Table.from_pylist(change(rows_in(path)), schema), path)
