import re

from hypothesis import given, settings
from hypothesis import strategies as st
from kit import cases
from release_manifests import change, columns, composed, follows, manifest, measures
from release_pages import Page

from parapet.schemas.release import Author, Input, Source
from parapet.transforms.release.documents import release_report
from parapet.transforms.release.reading import size
from parapet.transforms.report.report import Table, page


def show(of):
    """The page read, after what holds for every one: all closed, no id twice, nothing from the network."""
    found = Page(page(release_report(of, columns())))
    assert (found.open, len(found.ids)) == ([], len(set(found.ids)))
    assert not {"script", "link", "img", "iframe"} & found.tags
    files = r"\.\./(README\.md|MANIFEST\.json|SHA256SUMS)$"
    assert all(re.match(rf"https?://|{files}", link) for link in found.links)
    return found


def rows(of, title):
    """The rows of a table of the report."""
    [table] = [one for one in release_report(of, columns()).sections if one.title == title]
    assert isinstance(table, Table)
    return [list(row) for row in table.rows]


def test_statistics_of_all_kinds():
    report = manifest(statistics={"variants": measures(), "compose": composed(), "speech": {"wer": 0.12345}})
    assert rows(report, "Statistics: compose") == [["v1", "0.30", "19.0"]]
    assert show(report).words.count("Low means diverse.") == 1


@cases("found", None, [], 3, "x", {"variants": 3, "average": {}}, {"variants": {}, "average": {}})
def test_statistics_of_no_known_form(found):
    show(manifest(statistics={"odd": found}))


TEXTS = st.one_of(st.sampled_from(["<script>alert(1)</script>", '"><b>', "]]>", "{{ 7*7 }}"]), st.text(max_size=15))


@given(TEXTS, TEXTS, TEXTS)
@settings(max_examples=15)
def test_text_of_strangers_is_text(one, two, three):
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
    found = show(hostile)
    usual = manifest(**follows(change()), statistics={"a": {"b": 1}, "c": measures()})
    assert found.tags <= show(usual).tags | {"small", "code"}  # what line breaks and backticks make


def test_tiles():
    total = sum(file.bytes for file in manifest().files)
    assert [(tile.label, tile.value) for tile in release_report(manifest(), columns()).tiles] == [
        ("dialogues, in all corpora", "7"),
        ("rows, in all configurations", "16"),
        ("on disk, Parquet and JSON", size(total)),
    ]


@cases(
    "n told",
    (999, "999 bytes"),
    (1500, "1.5 kB"),
    (2_340_000, "2.3 MB"),
    (5_000_000_000_000, "5,000.0 GB"),
)
def test_sizes(n, told):
    assert size(n) == told
