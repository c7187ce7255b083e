"""``parapet doctor``: what is installed and on the PATH, and what each is for."""

from importlib.metadata import PackageNotFoundError, metadata, version

import pytest
from kit import lacking, run

from parapet.pipelines import doctor
from parapet.schemas.errors import DISTRIBUTION, install_line


@pytest.fixture
def absent(monkeypatch):
    """As if these distributions were of other versions, or not there (None)."""
    versions = {}

    def answer(name):
        number = versions.get(name, name)
        if number is None:
            raise PackageNotFoundError(name)
        return version(name) if number == name else number

    monkeypatch.setattr(doctor, "version", answer)
    return versions


def test_what_an_extra_lacks_and_how_to_install_it(absent):
    absent["boto3"] = None
    assert f"boto3 is not installed: {install_line('mturk')}" in run("doctor").output
    absent["boto3"] = "1.0"
    assert "boto3 1.0 is installed, " in run("doctor").output


def test_every_extra_is_listed_and_those_for_users_with_their_purpose():
    output = run("doctor").output
    extras = metadata(DISTRIBUTION).get_all("Provides-Extra")
    assert not lacking(output, *extras)
    assert set(doctor.ENABLES) <= set(extras)
    for_developers = {line.split()[1] for line in output.splitlines() if line.endswith("for developers")}
    assert for_developers <= {"docs", "lint", "test"}


def test_tools_are_looked_up_on_the_path(tmp_path, monkeypatch):
    (tmp_path / "gcloud").write_text("#!/bin/sh\n")
    (tmp_path / "gcloud").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    lines = run("doctor").output.splitlines()
    assert [line.split()[:2] for line in lines if "credentials" in line] == [
        ["missing", "aws"],
        ["installed", "gcloud"],
    ]
