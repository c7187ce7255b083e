"""Fixtures of all tests: a fixed worker key, the folders of the real data and of the sample, and plug-ins."""

import csv
import functools
import gc
import json
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, settings
from kit import BUNDLED, SAMPLE, THOROUGH
from plugin_packages import install_example

from parapet.schemas import layout

# Nets as small as those of tests are slower on several threads, above all where several workers share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Expected counts refer to the first eight of the sample's test dialogues, which commands in this process read.
if "PARAPET_TESTS_SAMPLE" not in os.environ:  # otherwise set by the parent process
    _folder = tempfile.TemporaryDirectory(prefix="parapet-sample-")
    os.environ["PARAPET_TESTS_SAMPLE"] = str(shutil.copytree(BUNDLED, Path(_folder.name) / "sample"))
    Path(_folder.name, "sample/test/dialogues_002.json").unlink()
SAMPLE["root"] = Path(os.environ["PARAPET_TESTS_SAMPLE"])
layout.sample_root = functools.wraps(layout.sample_root)(lambda: SAMPLE["root"])  # before modules import it by name

# The time to make examples depends on the machine. `make test` should only depend on the code, so it draws the same
# examples each time; `make test-all` draws others.
settings.register_profile(
    "parapet",
    deadline=None,
    derandomize=not THOROUGH,
    max_examples=200 if THOROUGH else 50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("parapet")


# Each reads all certificates.
httpx._transports.default.create_ssl_context = functools.cache(httpx.create_ssl_context)

# The collector would scan the objects of thousands of tests and Beam again and again: a tenth of all time.
gc.set_threshold(50_000, 20, 100)


def pytest_collection_finish():
    """Exempts existing objects from garbage collection."""
    if "apache_beam" in sys.modules and not THOROUGH:
        import beam_memo

        beam_memo.install()
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """Keeps the order of the files; PARAPET_TEST_ORDER=reversed runs the last test first."""
    if os.environ.get("PARAPET_TEST_ORDER") == "reversed":
        items.reverse()


@pytest.fixture(scope="session", autouse=True)
def worker_key():
    """Keeps tests from creating, or depending on, the worker key of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARAPET_WORKER_KEY", "a worker key for tests only")
        yield


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """The folder in which all processes of a test run share the outputs of lines, each made when it is needed."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "lines"


@pytest.fixture(autouse=True)
def log_level():
    """Restores logging, which commands configure for their own process (``--quiet``)."""
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    handlers = root.handlers[:]
    yield
    root.handlers[:] = handlers


@pytest.fixture(scope="session")
def real_data():
    """Returns the folder of the real corpora; skips tests if PARAPET_DATA is not set."""
    place = os.environ.get("PARAPET_DATA")
    if not place:
        pytest.skip("PARAPET_DATA is not set: the real SGD data are not at hand")
    return Path(place)


@pytest.fixture(scope="session")
def real_dialogues(real_data, tmp_path_factory):
    """Returns the real dialogues with their schemas: every fourth of each file, or all in ``make test-all``."""
    if THOROUGH:
        return real_data / "sgd"
    root = tmp_path_factory.mktemp("real") / "sgd"
    for split in ("train", "dev"):
        (root / split).mkdir(parents=True)
        shutil.copy(real_data / "sgd" / split / "schema.json", root / split)
        for path in layout.dialogue_files(real_data / "sgd", split):
            (root / split / path.name).write_bytes(layout.dialogue_bytes(json.loads(path.read_bytes())[::4]))
    return root


@pytest.fixture(scope="session")
def sample():
    return layout.sample_root()


@pytest.fixture(scope="session")
def table(sample):
    """The cells of the sample's answers on names."""
    with (sample / "crowd/names.csv").open(newline="", encoding="utf-8") as handle:
        return list(csv.reader(handle))


@pytest.fixture
def bundled_sample(monkeypatch):
    """Makes commands without a corpus read the whole sample, as for users."""
    monkeypatch.setitem(SAMPLE, "root", BUNDLED)
    return BUNDLED


@pytest.fixture(scope="session")
def installed_example(tmp_path_factory):
    """The folder in which the plug-ins of docs/plugin_example are installed."""
    return install_example(tmp_path_factory.mktemp("example"))


@pytest.fixture
def example(installed_example, monkeypatch):
    """Makes the plug-ins of docs/plugin_example available to this process and its children."""
    monkeypatch.syspath_prepend(str(installed_example))
    monkeypatch.setenv("PYTHONPATH", str(installed_example))
    yield installed_example
    sys.modules.pop("parapet_example", None)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder for made-up packages whose modules begin with ``broken``."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("broken"):
            del sys.modules[name]
