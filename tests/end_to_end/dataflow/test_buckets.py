"""Pipelines from ``gs://`` to ``gs://`` write what they write locally, whole, whatever kills them on the way."""

import hashlib
import itertools
import json
import signal
import subprocess
import sys

import pytest
import requests
from apache_beam.io.filesystems import FileSystems
from commands import RELEASE_OF_TEST, ended, lines
from kit import files_of, holding, raised, run

import parapet
from dataflow.bucket import CutOffError, cut_off
from parapet.pipelines.main import main
from parapet.schemas.errors import InputError
from parapet.schemas.layout import check_published, sample_root
from parapet.transforms.core import files
from parapet.transforms.release import building

# A pipeline of each kind; later ones read what earlier ones wrote.
CHAIN = ("compose", "rewrite", "back_translate", "language_variations", "speech_errors")
# Those that read and write as one of the above does.
ALIKE = (
    *("statistics", "hits", "augment", "compose_variations", "unseen_entities", "anonymise", "ood", "few_shot"),
    *("reminders", "evaluate"),
)


def ended_lines(names, place, out):
    """Whole command lines."""
    return [ended(lines(place, out)[name], f"{out}/{name}") for name in names]


def run_in_a_fresh_process(commands):
    """Where sets have another order than here, and nothing ran before."""
    code = f"from parapet.pipelines.main import main\nfor argv in {commands!r}:\n    assert main(argv) == 0, argv\n"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="package")
def local(tmp_path_factory):
    """What the chain writes locally."""
    place = tmp_path_factory.mktemp("local")
    (place / "sgd").symlink_to(sample_root())
    run_in_a_fresh_process(ended_lines(CHAIN, str(place), str(place / "out")))
    return place


@pytest.mark.thorough
def test_the_bytes_are_those_of_a_local_run(bucket, local, capsys):
    for name, argv in zip(CHAIN, ended_lines(CHAIN, bucket.url, f"{bucket.url}/out"), strict=True):
        assert main(argv) == 0
        assert bucket.tree(f"out/{name}") == files_of(local / "out" / name), name
    assert capsys.readouterr() == ("", "")


@pytest.mark.thorough
def test_the_bytes_of_the_others(bucket, local):
    run_in_a_fresh_process(ended_lines(ALIKE, str(local), str(local / "out")))
    bucket.put("more", local / "out")
    for name, argv in zip(ALIKE, ended_lines(ALIKE, bucket.url, f"{bucket.url}/more"), strict=True):
        assert main(argv) == 0
        assert bucket.tree(f"more/{name}") == files_of(local / "out" / name), name


# Or Beam would look for credentials for half a minute.
WITHOUT_CREDENTIALS = """
import sys
from apache_beam.internal.gcp import auth
auth._Credentials._credentials_init = True
from parapet.pipelines.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.thorough
def test_killed_while_publishing_and_run_again(bucket, local):
    """SIGKILL when some of the files are in place, over a run of another shape; the rerun has another one again."""
    out, corpus = f"{bucket.url}/killed", f"{bucket.url}/sgd"
    bucket.put("variants", local / "out/compose")
    flags = ["rewrite", "--sgd", corpus, "--variants", f"{bucket.url}/variants", "--output", out, "--quiet"]
    assert main([*flags, "--variant", "v1,v2"]) == 0
    bucket.write("killed/notes.txt", b"the user's own")
    process = subprocess.Popen([sys.executable, "-c", WITHOUT_CREDENTIALS, *flags, "--variant", "v2,v3"])

    def kill(name):
        if name == "killed/v3/test/schema.json":
            process.kill()
            raise ConnectionAbortedError

    bucket.storage.watch = kill
    process.wait(timeout=60)
    del bucket.storage.watch
    assert process.returncode == -signal.SIGKILL
    left = bucket.tree("killed")
    assert "v3/dev/schema.json" in left
    assert not holding(left, "v3/test/schema.json", "run.json")
    assert main([*flags, "--variant", "v3"]) == 0
    assert main([*flags[:-2], f"{bucket.url}/undisturbed", "--quiet", "--variant", "v3"]) == 0
    assert bucket.tree("killed") == {**bucket.tree("undisturbed"), "notes.txt": b"the user's own"}


CONTENTS = {"v1/schema.json": b"[1]", "review.csv": b"a,b\n"}
OTHERS = {"v2/schema.json": b"[2]", "review.csv": b"a,c\n"}


def stage(output, contents):
    """What a run does before it publishes; gives its manifest."""
    files.prepare(output, "compose")
    written = [files.write_staged(output, path, data) for path, data in contents.items()]
    return files.manifest_of({"pipeline": "compose"}, {}, written)


def publish(output, contents):
    files.publish(output, stage(output, contents))


@pytest.mark.thorough
def test_cut_off_at_any_step_of_publishing(bucket):
    """Whatever the k-th change to the bucket is: where there is a run.json all that it names is there, as it says."""
    for k in itertools.count(1, 8):
        prefix = f"cut/{k}"
        output = f"{bucket.url}/{prefix}"
        publish(output, CONTENTS)
        try:
            cut_off(k, publish)(output, OTHERS)
            break
        except CutOffError:
            pass
        standing = bucket.tree(prefix)
        if "run.json" in standing:
            for path, facts in json.loads(standing["run.json"])["files"].items():
                assert hashlib.sha256(standing[path]).hexdigest() == facts["sha256"], f"cut off at {k}"
        refused = reason_of(output) or reason_of(f"{output}/v2/schema.json")
        assert ("run.json" in standing) == (refused == ""), f"cut off at {k}"
        assert refused in ("", "a run of 'parapet compose' was interrupted here: run that command again to finish it")
        publish(output, OTHERS)
        assert bucket.tree(prefix).keys() == {*OTHERS, "run.json"}, f"cut off at {k}"
    assert k > 15


def reason_of(place):
    """Why an input is refused; empty where it is read."""
    try:
        check_published(place)
    except InputError as error:
        return error.reason
    return ""


def test_what_is_read_from_a_bucket_is_whole(bucket):
    output = f"{bucket.url}/read"
    publish(output, {**CONTENTS, "v1/test/schema.json": b"[2]"})
    for place in (output, f"{output}/", f"{output}/v1", f"{output}/v1/test/schema.json", f"{output}/review.csv"):
        found = check_published(place)
        assert found is not None, place
        assert found.folder == output
    assert check_published(f"{bucket.url}/sgd/test") is None
    assert check_published("gs://no-such-bucket/out") is None
    bucket.write("read/v1/test/schema.json", b"[2, 3]")
    assert reason_of(f"{output}/v1").startswith("has been changed since 'parapet compose' wrote this folder")
    FileSystems.delete([f"{output}/v1/schema.json"])
    assert reason_of(f"{output}/v1").startswith("has been removed since 'parapet compose' wrote this folder")
    FileSystems.rename([f"{output}/run.json"], [f"{output}/.run.previous.json"])
    assert main(["few_shot", "--sgd", f"{output}/v1", "--output", f"{bucket.url}/x", "--quiet"]) == 2


@pytest.mark.thorough
def test_a_run_does_not_publish_where_another_has_begun(bucket):
    """A bucket has no locks. The first run is told, whether the second has ended or not."""
    output = f"{bucket.url}/two"
    first, others = ((stage(output, contents), files._tokens[output]) for contents in (CONTENTS, OTHERS))
    started = "another run has started to write here"
    wait = f"{started}: wait until it ends, then run this"
    for _ in range(2):
        raised(InputError, files.begin_publishing, output, *first, match=wait)
        raised(InputError, files.finish_publishing, output, *first, match=started)
        files.publish(output, others[0])
        assert bucket.tree("two").keys() == {*OTHERS, "run.json"}
    assert files.begin_publishing(output, *others) == []
    files.finish_publishing(output, *others)  # as a runner does that has not heard of the first time
    assert bucket.tree("two").keys() == {*OTHERS, "run.json"}


def test_what_somebody_changed_is_not_replaced(bucket):
    output = f"{bucket.url}/changed"
    publish(output, CONTENTS)
    publish(output, CONTENTS)
    with FileSystems.create(f"{output}/review.csv") as handle:
        handle.write(b"filled in by me")
    raised(InputError, files.prepare, output, "compose", match=r"review\.csv: has been changed since it was written")
    with FileSystems.create(f"{output}/review.csv") as handle:
        handle.write(CONTENTS["review.csv"])
    publish(output, OTHERS)
    assert bucket.tree("changed").keys() == {*OTHERS, "run.json"}


def test_many_files_are_moved_with_few_questions(bucket, monkeypatch):
    """250 files over 250 others: copied and deleted a hundred at a time."""
    output, many = f"{bucket.url}/many", {f"v1/{n}.json": b"[]" for n in range(250)}
    for name, data in many.items():
        bucket.write(f"many/.incomplete/{name}", data)
    asked = []
    real = requests.Session.request

    def request(session, method, url, *args, **options):
        asked.append(url)
        return real(session, method, url, *args, **options)

    monkeypatch.setattr(requests.Session, "request", request)
    files.publish(output, {"pipeline": "compose", "files": dict.fromkeys(many)})
    assert bucket.tree("many").keys() == {*many, "run.json"}
    assert sum("/batch/" in url for url in asked) < 15
    assert len(asked) < 64


# Releases.


def build(place, output, status=0):
    return run("release", "build", "--quiet", config=f"{place}/release.toml", output=output, status=status)


@pytest.fixture
def local_release(bucket, tmp_path):
    """A local release; the bucket has the same configuration."""
    (tmp_path / "sgd").symlink_to(sample_root())
    (tmp_path / "release.toml").write_text(RELEASE_OF_TEST)
    build(str(tmp_path), str(tmp_path / "out"))
    bucket.write("release.toml", RELEASE_OF_TEST.encode())
    return tmp_path / "out"


@pytest.mark.thorough
def test_the_bytes_are_those_of_a_local_release(bucket, local_release):
    build(bucket.url, f"{bucket.url}/out_release")
    assert bucket.tree("out_release") == files_of(local_release)
    run("release", "verify", f"{bucket.url}/out_release/sample", "--quiet")
    told = run("release", "diff", local_release / "sample", f"{bucket.url}/out_release/sample").output
    assert "the releases do not differ" in told
    told = build(bucket.url, f"{bucket.url}/out_release", status=2).errors
    assert "exists already, and a release never changes" in told


@pytest.mark.thorough
def test_a_release_cut_off_at_any_step_of_publishing(bucket, local_release, monkeypatch):
    """Whichever the k-th change to the bucket is: no SHA256SUMS before everything is there; the rerun ends the same."""
    publish, expected = building.publish, files_of(local_release)
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
