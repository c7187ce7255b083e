"""``--dry_run``: the cost of a pipeline; nothing is read, sent or written."""

from kit import files_of, run


def test_it_shows_the_cost_and_changes_nothing(tmp_path):
    output = run("hits", "--dry_run", output=tmp_path / "out").output
    assert output.splitlines()[-1] == "dry run: nothing was written"
    assert not (tmp_path / "out").exists()
    run("hits", output=tmp_path / "out")
    before = files_of(tmp_path / "out")
    run("hits", "--dry_run", output=tmp_path / "out")
    assert files_of(tmp_path / "out") == before
