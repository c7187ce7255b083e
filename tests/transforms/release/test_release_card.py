import os
import re
import subprocess
import sys
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from release_manifests import change, columns, composed, follows, manifest, measures, rows, write_data

from parapet.schemas.dialogue_table import DIALOGUES
from parapet.schemas.release import Author, Column, Config, Input, Manifest, Source, SplitInfo
from parapet.transforms.release import card as documents
from parapet.transforms.release.card import default_config, size_category
from parapet.transforms.release.reading import logical_sha256, row_json, split_sha256

HOSTILE = (
    "a | b",
    "<script>alert(1)</script>",
    "---",
    "x: y # z",
    "# h",
    "one\n\ntwo",
    "`",
    "```",
    "- [x]",
    "{{ 7*7 }}",
    "",
)
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=15))


def card(of: Manifest, more: dict[str, pa.Schema] | None = None) -> str:
    return documents.card(of, {**columns(), **(more or {})})


def parts(text: str) -> tuple[dict[str, Any], list[Token]]:
    """The front matter as ``huggingface_hub`` finds it, and the tokens of the rest."""
    found = re.search(r"^(\s*---[\r\n]+)([\S\s]*?)([\r\n]+---(\r\n|\n|$))", text)
    assert found
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text[found.end() :])
    return yaml.safe_load(found[2]), tokens


def shown(token: Token) -> str:
    return "".join(one.content for one in token.children or [] if one.type in ("text", "code_inline"))


def tables(tokens: list[Token]) -> list[list[list[str]]]:
    found: list[list[list[str]]] = []
    for i, token in enumerate(tokens):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in ("td_open", "th_open"):
            found[-1][-1].append(shown(tokens[i + 1]))
    return found


def table(tokens: list[Token], *columns: str) -> list[list[str]]:
    return next(one[1:] for one in tables(tokens) if one[0] == list(columns))


def headings(tokens: list[Token]) -> list[str]:
    return [
        shown(tokens[i + 1]) for i, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h2"
    ]


def test_front_matter():
    front, _ = parts(card(manifest()))
    assert front["pretty_name"] == "Tiny X: a release for tests"
    assert front["license"] == "cc-by-sa-4.0"
    assert front["language"] == ["en"]
    assert front["size_categories"] == ["n<1K"]
    configs = front["configs"][:2]
    assert all(re.fullmatch("SHA-256 of the rows: [0-9a-f]{64}", one.pop("description")) for one in configs)
    assert configs == [
        {
            "config_name": "original",
            "data_files": [
                {"split": "train", "path": "data/original/train-*.parquet"},
                {"split": "test", "path": "data/original/test-*.parquet"},
            ],
            "default": True,
        },
        {"config_name": "v1", "data_files": [{"split": "test", "path": "data/v1/test-*.parquet"}]},
    ]
    info = front["dataset_info"][0]
    assert info["config_name"] == "original"
    assert [(one["name"], one["num_examples"]) for one in info["splits"]] == [("train", 3), ("test", 3)]
    sizes = {file.path: file.bytes for file in manifest().files}
    assert info["splits"][0]["num_bytes"] == sum(
        n for path, n in sizes.items() if path.startswith("data/original/train")
    )


def test_the_first_configuration_is_the_default_where_there_is_no_original():
    found = manifest()
    found.configs.pop("original")
    front, _ = parts(card(found))
    assert [one["config_name"] for one in front["configs"] if one.get("default")] == ["v1"]
    assert 'load_dataset("./tiny-x/1.1.0", "v1", split="test")' in card(found)


def test_the_default_is_the_corpus_that_is_the_original_or_else_has_dialogues():
    found = manifest()
    schemas, original, v1 = (found.configs[name] for name in ("schemas", "original", "v1"))
    assert default_config(manifest(configs={"schemas": schemas, "v1": v1, "sgd": original})) == "sgd"
    assert default_config(manifest(configs={"schemas": schemas, "v1": v1})) == "v1"
    assert default_config(manifest(configs={"schemas": schemas})) == "schemas"
    assert default_config(manifest(configs={})) == ""


def test_how_to_load_it_from_the_hub():
    text = card(manifest())
    assert 'load_dataset("OWNER/tiny-x", "v1", split="test", revision="1.1.0")' in text
    assert "once `parapet release push` has uploaded it" in text
    text = card(manifest(configuration={"hub": "ada/sets"}))
    assert 'load_dataset("ada/sets", "v1", split="test", revision="1.1.0")' in text
    assert "release push" not in text


def test_a_licence_that_the_hub_does_not_know():
    front, _ = parts(card(manifest(licence="Our-Own")))
    assert {key: front[key] for key in front if key.startswith("license")} == {
        "license": "other",
        "license_name": "Our-Own",
        "license_link": "LICENSE",
    }


@pytest.mark.parametrize(
    ("n", "bracket"),
    [
        (0, "n<1K"),
        (999, "n<1K"),
        (1000, "1K<n<10K"),
        (16142, "10K<n<100K"),
        (10**6, "1M<n<10M"),
        (10**9, "1B<n<10B"),
        (10**12 - 1, "100B<n<1T"),
        (10**15, "n>1T"),
    ],
)
def test_size_categories(n, bracket):
    assert size_category(n) == bracket


def test_the_body():
    text = card(manifest())
    _, tokens = parts(text)
    assert headings(tokens) == [
        "Configurations",
        "Columns",
        "Corpora",
        "Statistics: variants",
        "Answers of crowdworkers",
        "Why answers were rejected",
        "Known problems",
        "Changes",
        "Inputs",
        "Sources",
        "Terms",
        "Loading it",
        "Citation",
        "Release notes",
        "Checking it",
    ]
    assert table(tokens, "configuration", "content", "a row is a", "key", "train", "test", "full", "files")[:2] == [
        ["original", "original", "dialogue", "dialogue_id", "3", "3", "–", "3"],
        ["v1", "variants", "dialogue", "dialogue_id", "–", "1", "–", "1"],
    ]
    described = table(tokens, "configuration", "column", "type", "what it is")
    assert described[0] == ["original, v1", "dialogue_id", "string", "unique in its split"]
    assert described[5][:3] == ["", "turns", "list of {speaker, utterance, frames}"]
    assert table(tokens, "kind", "meaning", "answers")[0][0] == "Too fast"
    assert "https://github.com/google-research-datasets/" in text
    assert "@misc{tiny-x-1-1-0," in text
    assert "Mended *spans*." in text
    assert "sha256sum --check SHA256SUMS" in text


def test_what_there_is_not_is_not_spoken_of():
    found = manifest(
        statistics={}, dispositions={}, rejections={}, known_problems={}, sources=[], counts={}, files=[], created=""
    )
    text = card(found)
    _, tokens = parts(text)
    assert "Answers of crowdworkers" not in headings(tokens)
    assert "Statistics" not in text
    assert "None: every dialogue fits its schemas." in text
    assert "sgd/" not in text
    assert "vouch" not in text
    assert "\n\n\n" not in text
    assert "\n\n\n" not in card(manifest())


def test_numbers_of_other_pipelines():
    found = {"wer": 0.123456, "rows": {"train": 1234567}, "list": [1, 2], "ok": True, "none": None, "word": "a|b"}
    _, tokens = parts(card(manifest(statistics={"speech": found, "many": {str(i): i for i in range(100)}})))
    first, second = (one[1:] for one in tables(tokens) if one[0] == ["number", "value"])
    assert first == [
        ["wer", "0.1235"],
        ["rows.train", "1,234,567"],
        ["list", "2 entries"],
        ["ok", "yes"],
        ["none", "–"],
        ["word", "a|b"],
    ]
    assert len(second) == 60
    assert any(shown(token).endswith(" 40 more are in MANIFEST.json.") for token in tokens)


def test_statistics_of_compose():
    _, tokens = parts(card(manifest(statistics={"compose": composed()})))
    assert table(tokens, "variant", "name distance", "BLEU") == [["v1", "0.30", "19.0"]]


@cache
def usual_parts() -> tuple[dict[str, Any], list[Token]]:
    return parts(card(manifest(**follows(change()), statistics={"a": {"b": 1}, "c": measures()})))


@given(st.lists(TEXTS, min_size=12, max_size=12))
@settings(max_examples=12, deadline=None)
def test_text_of_strangers_changes_nothing_but_itself(texts):
    title, name, kind, reason, said, number, column, fault, corpus, author, licence, notes = texts
    found = manifest()
    of_row = msgspec.structs.replace(found.configs["memory"], kind=kind, columns=[Column(column, kind)], key=[column])
    hostile = msgspec.structs.replace(
        found,
        title=title,
        description=f"Said: {notes}",
        release_notes=f"Notes: {notes}",
        authors=[Author(author, author, author)],
        licence=licence,
        homepage=f"https://example.org/{name}",
        language=["no"],
        sources=[Source(name, f"https://example.org/{name}", licence, author, reason)],
        configs={**found.configs, "memory": of_row},
        inputs=[Input(corpus, kind, [])],
        counts={"dialogues": {corpus: {"train": 1}}},
        statistics={f"a{said}": {number: said}, f"b{name}": measures()},
        dispositions={"used": 1},
        rejections={reason: 2},
        known_problems={fault: 3},
        **follows(change(columns_added=[column])),
    )
    text = card(hostile, {"memory": pa.schema([(column, pa.string())])})
    front, tokens = parts(text)
    plain, usual = usual_parts()
    assert front["configs"] == plain["configs"]
    assert front["dataset_info"] == plain["dataset_info"]
    assert front["language"] == ["no"]
    named = [[one for one in headings(of) if not one.startswith("Statistics: ")] for of in (tokens, usual)]
    assert named[0] == named[1]
    assert [one[0] for one in tables(tokens)] == [
        ["corpus", "split", "dialogues"] if one[0][:2] == ["corpus", "split"] else one[0] for one in tables(usual)
    ]
    every = [one for token in tokens for one in (token, *(token.children or []))]
    assert not {"html_inline", "html_block", "image"} & {token.type for token in every}
    fences = [token.info for token in tokens if token.type == "fence"]
    assert "bibtex" in fences
    assert fences[-1] == "sh"


def test_a_reason_of_a_person_is_shown_as_it_is():
    _, tokens = parts(card(manifest(rejections={"reviewer: <b>no | `way`</b>\nat all": 1})))
    assert table(tokens, "kind", "meaning", "answers")[0][0] == "Reviewer: <b>no | `way`</b> at all"


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    root = write_data(tmp_path_factory.mktemp("releases") / "tiny-x/1.1.0")
    (root / "README.md").write_text(card(manifest()))
    return root


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_DATASETS_OFFLINE", "1")
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hf")))
        import datasets

        datasets.disable_progress_bars()
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        yield datasets


@pytest.mark.parametrize("config", ["original", "v1", "schemas", "paraphrases"])
def test_load_dataset_gives_every_row(release, datasets, config, tmp_path):
    loaded = datasets.load_dataset(str(release), config, cache_dir=str(tmp_path))
    assert {split: found.to_list() for split, found in loaded.items()} == {
        split: rows(config, split) for split in manifest().configs[config].splits
    }


def test_load_dataset_streams_and_knows_the_default(release, datasets):
    found = datasets.load_dataset(str(release), split="train", streaming=True)
    assert [row["dialogue_id"] for row in found] == [row["dialogue_id"] for row in rows("original", "train")]


def test_load_dataset_notices_missing_rows(release, datasets, tmp_path):
    found = manifest()
    found.configs["v1"].splits["test"].rows += 1
    (root := write_data(tmp_path / "release")).joinpath("README.md").write_text(card(found))
    with pytest.raises(Exception, match="num_examples"):
        datasets.load_dataset(str(root), "v1", cache_dir=str(tmp_path / "cache"))


def test_load_dataset_does_not_take_a_release_for_another(release, datasets, tmp_path):
    """Its cache knows the name of the folder and the card, but not the files, nor the path to the folder."""
    root = write_data(tmp_path / "tiny-x/1.1.0")
    row = rows("original", "train")[0]
    pq.write_table(pa.Table.from_pylist([row], DIALOGUES), root / "data/v1/test-00000-of-00001.parquet")
    other = manifest()  # with the same sizes
    other.configs["v1"].splits["test"].logical_sha256 = split_sha256([logical_sha256([row_json(row)])])
    (root / "README.md").write_text(card(other))
    found = [datasets.load_dataset(str(one), "v1", cache_dir=str(tmp_path / "cache")) for one in (release, root)]
    assert [one["test"].to_list() for one in found] == [rows("v1", "test"), [row]]


def test_the_examples_run(release, tmp_path):
    local, hub, files = re.findall(r"```python\n(.*?)```", card(manifest()), re.DOTALL)
    assert "OWNER/" in hub  # test_release_push.py loads from a Hub
    examples = (local, files)
    program = "\n".join([*examples, "print(rows.num_rows, len(frame), table.num_rows)"])
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=release.parents[1],
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == ["1", "1", "1"]


def test_a_release_of_schemas_alone():
    found = manifest()
    only = Config("schemas", "service", ["service_name"], [], {"schema": SplitInfo(1, ["data/schemas/x"], "")})
    text = card(msgspec.structs.replace(found, configs={"schemas": only}))
    assert 'load_dataset("./tiny-x/1.1.0", "schemas", split="schema")' in text
