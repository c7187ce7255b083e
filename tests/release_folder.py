"""Writes releases for tests, plainly: no pipeline, no sharing of code with ``build``; and tampers with them."""

import copy
import hashlib
import json
from pathlib import Path

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from kit import files_of, json_of, write

from parapet.schemas.layout import dialogue_bytes, sample_root, schema_bytes
from parapet.schemas.release import (
    CARD,
    DOCUMENTS,
    FORMAT,
    Author,
    Column,
    Config,
    File,
    Manifest,
    Source,
    SplitInfo,
    manifest_bytes,
)
from parapet.schemas.rows import DIALOGUES, SERVICES, dialogue_lines, dialogue_of, service_of, service_rows
from parapet.transforms.release.reading import logical_sha256, row_json, split_sha256
from parapet.transforms.release.verify import examine

ANSWERS = pa.schema([(name, pa.string()) for name in ("response_id", "text", "disposition", "reason", "source")])
NUMBERS = pa.schema([("a", pa.int64()), ("b", pa.string()), ("x", pa.float64())])


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
    used = {"disposition": "used", "reason": "vetted", "source": "mturk"}
    answers = [{"response_id": f"A{i}:slot_{i}", "text": f"text {i}", **used} for i in range(8)]
    answers[3] |= {"disposition": "rejected", "reason": "echo: as shown"}
    return {
        "paraphrases": ("paraphrase", ["response_id"], ANSWERS, answers),
        "numbers": ("row", ["a", "b"], NUMBERS, [{"a": i % 3, "b": f"b{i}", "x": i / 7} for i in range(10)]),
    }


def dialogue_file(rows):
    """The file of rows in any order."""
    return _laid_out(rows, dialogue_of, dialogue_bytes)


def schema_file(rows):
    """The file of rows in any order."""
    return _laid_out(rows, service_of, schema_bytes)


def _laid_out(rows, record_of, bytes_of):
    ordered = sorted(rows, key=lambda row: row["position"])
    data = bytes_of(list(map(record_of, ordered)))
    return data[:-1] if ordered and ordered[0]["layout"] == "no_newline" else data


def write_release(output, corpora=None, tables=None, name="little", version="1.0.0", shards=3, **given):
    """Writes NAME/VERSION below a folder, as build would; gives its path. ``given`` replaces fields of the manifest."""
    corpora = sample_corpora() if corpora is None else corpora
    tables = sample_tables() if tables is None else tables
    root = Path(output) / name / version
    counts, services, parts = {}, {}, []
    for corpus, split, files in [(corpus, *item) for corpus, splits in corpora.items() for item in splits.items()]:
        schema, rows = files.get("schema.json", []), []
        for file, content in files.items():
            data = schema_bytes(content) if file == "schema.json" else dialogue_bytes(content)
            write(root / "sgd" / corpus / split / file, data)
            if file == "schema.json":
                services.setdefault(split, []).extend(service_rows(content, corpus, data))
            else:
                rows += map(orjson.loads, dialogue_lines(data, file, file).lines)
        if rows:
            parts.append((corpus, f"{corpus} dialogues", "dialogue", ["dialogue_id"], DIALOGUES, split, rows))
        turns = [len(one["turns"]) for file, content in files.items() if file != "schema.json" for one in content]
        numbers = {"services": len(schema), "dialogues": len(turns), "turns": sum(turns)}
        numbers |= {what: sum(len(service[what]) for service in schema) for what in ("intents", "slots")}
        for what, n in numbers.items():
            counts.setdefault(what, {}).setdefault(corpus, {})[split] = n
    key = ["variant", "service_name"]
    parts = [("schemas", "schemas", "service", key, SERVICES, *item) for item in services.items()] + parts
    for config, (record, key, columns, rows) in tables.items():
        kind = "paraphrases of crowdworkers" if record == "paraphrase" else record
        parts.append((config, kind, record, key, columns, "full", rows))
    configs = {}
    for config, kind, record, key, columns, split, rows in parts:
        put_shards(root, config, split, key, columns, rows, shards)
        described = [Column(field.name, str(field.type)) for field in columns]
        configs.setdefault(config, Config(kind, record, key, described, {})).splits[split] = SplitInfo(0, [], "")
    answers = tables.get("paraphrases", (0, 0, 0, []))[3]
    dispositions = [row["disposition"] for row in answers]
    fields = {
        "format": FORMAT, "name": name, "version": version, "title": "A little set", "description": "For tests.",
        "licence": "CC-BY-SA-4.0", "language": ["en"], "created": "2026-01-02", "homepage": "",
        "authors": [Author("Ada Example")], "sources": [Source("SGD", "https://example.org/sgd", "CC-BY-SA-4.0")],
        "release_notes": "", "parent": None, "changes": None, "code": {"parapet": "0"}, "libraries": {},
        "configuration": {}, "configuration_sha256": "", "inputs": [], "configs": configs, "counts": counts,
        "statistics": {}, "dispositions": {key: dispositions.count(key) for key in sorted(set(dispositions))},
        "rejections": {"echo": 1} if answers else {}, "known_problems": {}, "files": [],
        "answer_sources": {"mturk": len(answers)} if answers else {},
    }  # fmt: skip
    manifest = Manifest(**{**fields, **given})
    put_documents(root, manifest)
    fill_in(root, manifest)
    write(root / "MANIFEST.json", manifest_bytes(manifest))
    mend(root)
    write(root.parent / "latest.json", json.dumps({"name": name, "version": version}).encode())
    return root


def put_shards(root, config, split, key, columns, rows, shards):
    text = {"\0".join(str(row[column]) for column in key): row for row in rows}
    for shard in range(shards):
        own = [one for one in sorted(text) if int(hashlib.sha256(one.encode()).hexdigest(), 16) % shards == shard]
        if own:
            path = write(root / "data" / config / f"{split}-{shard:05}-of-{shards:05}.parquet", b"")
            pq.write_table(pa.Table.from_pylist([text[one] for one in own], columns), path)


def put_documents(root, manifest):
    """The documents, of which only the card has content: ``verify`` knows them by their checksums."""
    split = "  - split: {0}\n    path: data/{1}/{0}-*.parquet\n"
    configs = "".join(
        f"- config_name: {name}\n  data_files:\n{''.join(split.format(part, name) for part in config.splits)}"
        for name, config in manifest.configs.items()
    )
    front = f"pretty_name: {manifest.title}\nlicense: {manifest.licence.lower()}\nconfigs:\n{configs}"
    write(root / CARD, f"---\n{front}---\n\n# {manifest.title} {manifest.version}\n\n{manifest.counts}\n")
    for path in set(DOCUMENTS) - {CARD}:
        write(root / path, f"{path} of {manifest.version}\n")


def fill_in(root, manifest):
    """Files and splits of the manifest, as they are on the disk."""
    paths = sorted(files_of(root).keys() - {"MANIFEST.json", "SHA256SUMS"})
    manifest.files = [file_of(root, path) for path in paths]
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
    digests = {path: hashlib.sha256(data).hexdigest() for path, data in files_of(root).items() if path != "SHA256SUMS"}
    write(root / "SHA256SUMS", "".join(f"{digests[path]}  {path}\n" for path in sorted(digests)))


def manifest_of(root):
    return msgspec.json.decode((root / "MANIFEST.json").read_bytes(), type=Manifest)


def edit_manifest(root, change):
    """Changes the manifest, and the checksums with it."""
    manifest = manifest_of(root)
    change(manifest)
    write(root / "MANIFEST.json", manifest_bytes(manifest))
    mend(root)


def mend_all(root):
    """Every hash, size and number of rows as it should be for what stands there; documents say what they said."""
    edit_manifest(root, lambda manifest: fill_in(root, manifest))


def edit_rows(path, change):
    """Rewrites a Parquet file: ``change`` gets its rows, and gives others."""
    schema = pq.read_schema(path)
    pq.write_table(pa.Table.from_pylist(change(rows_in(path)), schema), path)
