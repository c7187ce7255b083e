from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from release_manifests import change, composed, follows, manifest, measures
from release_pages import Page

from parapet.schemas.release_config import Author, Source
from parapet.schemas.release_manifest import File, Input
from parapet.transforms.release.documents.report import MAX_FILES, report_page, size


def page(html: str) -> Page:
    """The page read, after what holds for every one: all closed, no id twice, nothing from the network."""
    found = Page(html)
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert not {"script", "link", "img", "iframe"} & found.tags
    assert all(re.match(r"https?://|\.\./(README\.md|MANIFEST\.json)$", link) for link in found.links)
    return found


def test_the_page() -> None:
    found = page(report_page(manifest()))
    assert "Tiny X: a release for tests 1.1.0" in found.words
    assert "By Ada Lovelace, Grace Brewster Hopper and The Parapet authors, 2026-02-03." in found.words
    assert found.row("original") == ["original", "original", "dialogue", "3", "3", "–", "3"]
    assert ["v1", "test", "–", "1", "12"] in found.table
    assert found.row("v1", "12%") == ["v1", "12%", "0%", "0.28", "17.8"]
    assert found.row("Rejected") == ["Rejected certainly bad", "2", "33.3%"]
    assert "Too fast4. The worker spent less time than reading the form takes." in found.words.replace(
        "fast 4", "fast4"
    )
    assert found.row("span") == ["span", "a span that is not inside its utterance", "7"]
    assert found.row("sgd/v1/") == ["sgd/v1/", "", "2", "1 file"]
    file = next(file for file in manifest().files if file.path.startswith("data/v1"))
    assert found.row(file.path) == [file.path, "1", f"{file.bytes:,}", file.sha256[:12]]
    assert f'title="{file.sha256}"' in report_page(manifest())
    assert "This is the first version." in found.words


def test_tiles() -> None:
    words = page(report_page(manifest())).words
    total = sum(file.bytes for file in manifest().files)
    for tile in (
        "dialogues, in all corpora 7",
        "corpora beside the original 1",
        "rows, in all configurations 16",
        f"on disk, Parquet and JSON {size(total)}",
    ):
        assert tile in words


def test_plots_say_their_numbers() -> None:
    html = report_page(manifest())
    assert "original train 3, original test 3, v1 test 1" in html
    assert "Too fast 4, Blank 1" in html
    assert "v1 0.28, v2 0.55" in html
    schemas_only = report_page(manifest(counts={"services": {"original": {"schema": 2}}}))
    assert "original schema 2" in schemas_only
    assert 'id="count-' not in report_page(manifest(counts={}))


def test_statistics_of_all_kinds() -> None:
    found = manifest(
        statistics={"variants": measures(), "again": measures(), "compose": composed(), "speech": {"wer": 0.12345}}
    )
    read = page(report_page(found))
    assert read.row("wer") == ["wer", "0.1235"]
    assert read.row("Used", "60") == ["Used in one of the variants", "60", "50.0%"]
    assert read.words.count("Low means diverse.") == 1
    # The audit's own answers are not shown a second time.
    answers = {key: n for key, n in composed()["answers"].items() if key != "total"}
    again = page(report_page(manifest(statistics={"compose": composed()}, dispositions=answers)))
    assert [row[1] for row in again.table if row[0].startswith("Used")] == ["60"]


@pytest.mark.parametrize("found", [None, [], 3, "x", {"variants": 3, "average": {}}, {"variants": {}, "average": {}}])
def test_statistics_of_no_known_form(found: object) -> None:
    page(report_page(manifest(statistics={"odd": found})))


def test_the_difference_to_the_parent() -> None:
    changes = follows(
        change(), change(config="v1", split="test", level="minor", added=1, changed=0, columns_added=["c"])
    )
    found = page(report_page(manifest(**changes)))
    assert "Against 1.0.0" in found.words
    assert "The difference is major: rows that were there changed, or went." in found.words
    assert ["original", "train", "major", "3", "0", "1,200", "the same"] in found.table
    assert ["v1", "test", "minor", "1", "0", "0", "+c"] in found.table
    assert "The difference is patch: the same rows." in page(report_page(manifest(**follows(level="patch")))).words


def test_a_page_stays_small() -> None:
    files = [File(f"data/memory/full-{i:05}-of-01000.parquet", 1, "0" * 64, 1) for i in range(1000)]
    found = page(report_page(manifest(files=files, rejections={f"reason {i}": i for i in range(50)})))
    assert sum(row[0].startswith("data/memory") for row in found.table) == MAX_FILES
    assert f"{1000 - MAX_FILES:,} more files are in MANIFEST.json." in found.words


TEXTS = st.one_of(st.sampled_from(["<script>alert(1)</script>", '"><b>', "]]>", "{{ 7*7 }}"]), st.text(max_size=15))


@given(TEXTS, TEXTS, TEXTS)
@settings(max_examples=15, deadline=None)
def test_text_of_strangers_is_text(one: str, two: str, three: str) -> None:
    hostile = manifest(
        title=one,
        authors=[Author(two)],
        sources=[Source(one, f"https://example.org/{two}", three, two, one)],
        inputs=[Input(three, two, [])],
        counts={"dialogues": {one: {two: 1}}},
        statistics={two: {one: three}, three: measures()},
        rejections={one: 1},
        dispositions={two: 1},
        known_problems={three: 1},
        **follows(change(config=one, columns_added=[two])),
    )
    found = page(report_page(hostile))
    usual = manifest(**follows(change()), statistics={"a": {"b": 1}, "c": measures()})
    assert found.tags <= page(report_page(usual)).tags


@pytest.mark.parametrize(
    ("n", "said"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1234, "1.23 kB"),
        (999_999, "1 MB"),
        (123_456_789, "123 MB"),
        (5_000_000_000_000, "5,000 GB"),
    ],
)
def test_sizes(n: int, said: str) -> None:
    assert size(n) == said
