"""Releases from ``gs://`` to ``gs://``: the bytes of a local one, whole, whatever cuts the publishing off."""

import itertools

import pytest
from commands import RELEASE_OF_TEST
from kit import files_of, run

import parapet
from dataflow.bucket import CutOffError, cut_off
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms.release import building


def build(place, output, status=0):
    return run("release", "build", "--quiet", config=f"{place}/release.toml", output=output, status=status)


@pytest.fixture
def local(bucket, tmp_path):
    """A local release; the bucket has the same configuration."""
    (tmp_path / "sgd").symlink_to(sample_root())
    (tmp_path / "release.toml").write_text(RELEASE_OF_TEST)
    build(str(tmp_path), str(tmp_path / "out"))
    bucket.write("release.toml", RELEASE_OF_TEST.encode())
    return tmp_path / "out"


@pytest.mark.thorough
def test_the_bytes_are_those_of_a_local_release(bucket, local):
    build(bucket.url, f"{bucket.url}/out_release")
    assert bucket.tree("out_release") == files_of(local)
    run("release", "verify", f"{bucket.url}/out_release/sample", "--quiet")
    assert (
        "the releases do not differ"
        in run("release", "diff", local / "sample", f"{bucket.url}/out_release/sample").output
    )
    told = build(bucket.url, f"{bucket.url}/out_release", status=2).errors
    assert "exists already, and a release never changes" in told


@pytest.mark.thorough
def test_cut_off_at_any_step_of_publishing(bucket, local, monkeypatch):
    """Whichever the k-th change to the bucket is: no SHA256SUMS before everything is there; the rerun ends the same."""
    publish, expected = building.publish, files_of(local)
    fixed = {name: data for name, data in expected.items() if "latest" not in name}
    for k in itertools.count(0, 3):
        prefix = f"cut_release/{k}"
        with monkeypatch.context() as patch:
            patch.setattr(building, "publish", cut_off(k, publish))
            try:
                build(bucket.url, f"{bucket.url}/{prefix}")
                done = True
            except CutOffError:
                done = False
        standing = bucket.tree(prefix)
        if "sample/1.0.0/SHA256SUMS" in standing:
            assert {name: standing.get(name) for name in fixed} == fixed
        elif any(name.startswith("sample/1.0.0/") for name in standing):
            for place in ("", "/sgd/original", "/sgd/original/test"):
                with pytest.raises(InputError, match="the release is incomplete, SHA256SUMS"):
                    parapet.load_corpus(f"{bucket.url}/{prefix}/sample/1.0.0{place}")
        build(bucket.url, f"{bucket.url}/{prefix}", status=(0, 2))
        if "sample/1.0.0/SHA256SUMS" not in standing:
            assert bucket.tree(prefix) == expected, k
        if done:
            break
    assert k > 2
