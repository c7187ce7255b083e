"""The median working time and pay an hour, from files of answers to the numbers and the page."""

import csv
import statistics

from kit import run, write

from parapet.schemas.layout import sample_root

HEADER = "AssignmentId,WorkerId,WorkTimeInSeconds,Reward,Input.task_id,Answer.slot_0\n"


def test_medians_by_task_where_time_and_reward_are_known(tmp_path):
    rows = [
        ("3A", "60", "$1.00", "names"),
        ("3B", "120", "1", "names"),
        ("3C", "180", "$2.00", "names"),
        ("3D", "32400", "$1.00", "names"),  # left open for nine hours
        ("3E", "", "$9.00", "names"),
        ("3F", "90", "", "descriptions"),
        ("3G", "0", "$9.00", "descriptions"),
        ("3H", "90", "12 points", "descriptions"),
    ]
    lines = [f"{id_},A{id_},{taken},{reward},Ferries_1:{task},some words\n" for id_, taken, reward, task in rows]
    answers = write(tmp_path / "answers.csv", HEADER + "".join(lines))
    out = run("compose", schemas=sample_root(), responses=answers, output=tmp_path / "out", status=1)
    assert out.json("statistics.json")["work"] == {
        "descriptions": {"assignments": 2, "median_minutes": 1.5, "dollars_per_hour": None},
        "names": {"assignments": 4, "median_minutes": 2.5, "dollars_per_hour": 35.0},  # of 60, 30, 40 and 0.11
    }
    page = out.text("report.html").replace(' class="n"', "").replace(' scope="row"', "")
    assert "<tr><th>descriptions</th><td>2</td><td>1.5</td><td>–</td></tr>" in page
    assert "<tr><th>names</th><td>4</td><td>2.5</td><td>35.00</td></tr>" in page


def test_the_sample_as_a_plain_reader_of_its_files_finds_it(tmp_path):
    crowd = sample_root() / "crowd"
    files = [crowd / "names.csv", crowd / "descriptions.csv"]
    out = run("compose", "--allow_partial", responses=[*files, files[0]], output=tmp_path / "out", status=None)
    for path in files:
        rows = list(csv.DictReader(path.open(encoding="utf-8")))
        seconds = [int(row["WorkTimeInSeconds"]) for row in rows]
        pay = [float(row["Reward"].strip("$")) * 3600 / taken for row, taken in zip(rows, seconds, strict=True)]
        numbers = out.json("statistics.json")["work"][path.stem]
        assert numbers["assignments"] == len(rows)
        assert abs(numbers["median_minutes"] - statistics.median(seconds) / 60) <= 0.005
        assert abs(numbers["dollars_per_hour"] - statistics.median(pay)) <= 0.005
