"""The report of ``compose``: what is short of answers, what waits for a decision, and why answers were not used."""

from parapet.transforms.crowd import meaning
from parapet.transforms.crowd.report import compose_report, missing_answers
from parapet.transforms.report.report import Table, Text, page

DISPOSITIONS = ("used", "surplus", "duplicate", "rejected", "review")


def answers(used=0, surplus=0, duplicate=0, rejected=0, review=0):
    numbers = dict(zip(DISPOSITIONS, (used, surplus, duplicate, rejected, review), strict=True))
    return {"total": sum(numbers.values()), **numbers}


def a_service(composed, partial=False, short=0, **numbers):
    fate = {"composed": composed, "partial": partial, "answers": answers(**numbers), "short": short}
    return {"splits": ["train", "dev"], **fate}


def composed(**more):
    return {
        "answers": answers(used=3500, surplus=712, duplicate=431, rejected=388, review=96),
        "dead_letters": 7,
        "reasons": {
            "rejected": {"blank": 112, "prompt_copy": 276},
            "review": {"unknown_word": 96},
            "surplus": {"not_drawn": 712},
            "duplicate": {"same_words": 431},
        },
        "services": {
            "Banks_10": a_service(True, used=60),
            "Banks_2": a_service(True, used=60, surplus=4),
            "Media_2": a_service(False, short=13),
            "Trains_1": a_service(True, partial=True, short=2, used=50),
            "Weather_1": a_service(False, short=4, surplus=20, review=12),
        },
        "variants": {
            "v1": {"name_distance": 0.295, "description_bleu": 19.2},
            "v2": {"name_distance": 0.42, "description_bleu": 11.6},
        },
        "average": {"name_distance": 0.358, "description_bleu": 15.4},
        "self_bleu": 4.5,
        "decisions": {"accept": 80, "reject": 20, "fix": 6},
        "meaning": meaning.stated(),
        "not_blind_assignments": 0,
        "method": {"selection": "five at random, seed 0"},
        **more,
    }


def rows(report, title):
    table = next(section for section in report.sections if section.title == title and isinstance(section, Table))
    return [list(row) for row in table.rows]


def the_report(**more):
    examples = {"Banks_10": [["BookHotel", "ReserveRoom", "GetHotel"]]}
    return compose_report(composed(**more), {"blank": "Nothing was written."}, examples)


def test_tables():
    report = the_report()
    became = rows(report, "What became of the answers")
    assert became[0] == ["Used", "used in one of the variants", "3,500", "68.3%"]
    assert became[4:] == [["Review", "held for a person to look at", "96", "1.9%"], ["All answers", "", "5,127", ""]]
    assert rows(report, "Why answers were not used")[:3] == [
        ["Prompt copy", "rejected", "", "276"],
        ["Blank", "rejected", "Nothing was written.", "112"],
        ["Unknown word", "review", "", "96"],
    ]
    services = {name: cells for name, *cells in rows(report, "Services")}
    assert services["Media_2"] == ["no answers", "train, dev", "13", "0", "0", "0", "0", "0", "0"]
    assert services["Weather_1"][:4] == ["needs more answers", "train, dev", "4", "32"]
    assert services["Trains_1"][:3] == ["composed in part", "train, dev", "2"]
    assert list(services) == ["Media_2", "Weather_1", "Trains_1", "Banks_10", "Banks_2"]
    measures = rows(report, "How far the variants are from the original")
    assert measures == [["v1", "0.29", "19.2"], ["v2", "0.42", "11.6"], ["Average", "0.36", "15.4"]]
    assert rows(report, "Some texts of Banks_10 and their variants") == [["BookHotel", "ReserveRoom", "GetHotel"]]
    reviewers = next(section for section in report.sections if section.title == "Reviewers")
    assert isinstance(reviewers, Text)
    assert reviewers.paragraphs == ["Decisions applied: accept 80, reject 20, fix 6."]
    assert rows(report, "Method") == [["Selection", "five at random, seed 0"]]


def test_a_run_in_which_nothing_is_left_to_do():
    report = the_report(
        answers=answers(used=60),
        services={"Banks_2": a_service(True, used=60)},
        reasons={"rejected": {}, "review": {}, "surplus": {}, "duplicate": {}},
        dead_letters=0,
        decisions={"accept": 0, "reject": 0, "fix": 0},
    )
    assert (report.headline, report.lead) == ("1 of 1 service composed", "Every element has the answers it needs.")
    assert not report.notes
    shown = page(report)
    assert "Why answers were not used" not in shown
    assert "Reviewers" not in shown


def test_a_run_without_answers():
    report = the_report(
        answers=answers(),
        services={"Banks_2": a_service(False, short=3)},
        variants={},
        average={},
        self_bleu=None,
        reasons={},
    )
    assert (report.headline, report.lead) == ("0 of 1 service composed", "3 elements need more good answers.")
    assert rows(report, "What became of the answers")[0][2:] == ["0", "–"]
    assert "How far the variants are from the original" not in [section.title for section in report.sections]
    page(report)


def test_what_is_missing_is_told_by_service():
    places = (("Media_2", "slot/title", "names", 4, 1), ("Media_2", "slot/genre", "descriptions", 4, 2),
              ("Weather_1", "slot/city", "names", 3, 1), ("Weather_1", "intent/GetWeather", "names", 5, 0),
              ("Trains_1", "service", "descriptions", 0, 0))  # fmt: skip
    short = [
        {"service_name": name, "element_id": f"{name}/{rest}", "task": task, "have": n, "need": 5, "in_review": held}
        for name, rest, task, n, held in places
    ]
    services = {
        "Media_2": {**a_service(False, surplus=9), "to_accept": 2},
        "Weather_1": {**a_service(False, surplus=9), "to_accept": 0},
        "Trains_1": {**a_service(False), "to_accept": 0},
    }
    assert missing_answers(short, services) == [
        "Media_2: 2 elements need 1 more answer each: name of title, description of genre; 3 answers to these are held "
        "for review: accepting 2 of them would complete it",
        "Weather_1: 1 element needs another answer, as a name would occur twice: name of GetWeather; 1 element needs 2 "
        "more answers: name of city; 1 answer to these is held for review, which is not enough",
    ]
