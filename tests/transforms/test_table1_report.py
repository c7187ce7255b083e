"""The report of ``statistics``: measured and published numbers, and what was left out."""

from parapet.transforms.report.report import Bars, Table, page
from parapet.transforms.variants.table1 import statistics_report, text_table

MEASURES = ("slot_names_seen", "intent_names_seen", "name_distance", "description_bleu")


def statistics(variants=("v1", "v2", "v3", "v4", "v5"), **more):
    measured = [(0.1, 0.0, 0.281 + i / 10, 17.76 / (i + 1)) for i in range(len(variants))]
    rows = {name: dict(zip(MEASURES, of, strict=True)) for name, of in zip(variants, measured, strict=True)}
    return {
        "original": {"slot_names_seen": 0.627, "intent_names_seen": 0.8},
        "variants": rows,
        "average": {**rows[variants[0]], "name_distance": 0.46},
        **{"booleans_described_alike": {"original": 1.0}, "self_bleu": 4.49, "bleu_signature": "case:lc|tok:13a"},
        **{"split": "dev", "services": 34, "unseen_services": 8, "services_without_variants": []},
        **more,
    }


def rows(report):
    """The rows of the table, by variant."""
    [table] = [section for section in report.sections if isinstance(section, Table)]
    return {row[0]: list(row[1:]) for row in table.rows}


def test_the_page():
    report = statistics_report(statistics())
    found = rows(report)
    assert list(found) == ["original", "v1", "v2", "v3", "v4", "v5", "Average"]
    assert found["original"] == ["63%", "80%", "–", "–"]
    assert found["v5"] == ["10%", "0%", "0.68", "3.6"]
    assert found["Average"][2:] == ["0.46", "17.8"]
    assert [(tile.label, tile.value) for tile in report.tiles] == [
        ("self-BLEU", "4.5"),
        ("boolean slots described alike", "100%"),
    ]
    assert report.lead.startswith("34 services in 5 variants.")
    assert "the 8 services of dev that train lacks" in report.lead
    assert "case:lc|tok:13a" in report.links["statistics.json"]
    assert sum(isinstance(section, Bars) for section in report.sections) == 2


def test_numbers_that_are_not_defined():
    none = dict.fromkeys(MEASURES)
    without = statistics(variants=("v1",)) | {"variants": {"v1": none}, "average": none, "self_bleu": None}
    assert rows(statistics_report(without))["v1"] == ["–", "–", "–", "–"]
    page(statistics_report(without))


def test_services_without_variants_are_named():
    report = statistics_report(statistics(services_without_variants=["Banks_2", "Media_2"]))
    assert report.notes == ["2 services of the original in no variant and not counted: Banks_2, Media_2."]


def test_the_original_alone():
    nothing = {"variants": {}, "average": {}, "self_bleu": None}
    report = statistics_report(statistics() | nothing)
    assert rows(report) == {"original": ["63%", "80%"]}
    text = page(report)
    assert "name distance" not in text
    assert "Names seen in train are counted over the 8 services of dev that train lacks." in text
    assert text_table(statistics() | nothing).splitlines() == [
        "          slots seen  intents seen",
        "original       62.7%         80.0%",
    ]
