import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.worker_ids import VARIABLE, key_file, load_worker_key


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A configuration folder of its own, and no key in the environment."""
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


def test_the_environment_decides(home, monkeypatch):
    monkeypatch.setenv(VARIABLE, "sixteen letters!")
    assert load_worker_key() == b"sixteen letters!"
    assert not home.exists()


@pytest.mark.parametrize("key", ["x", "fifteen letters"])
def test_a_short_key_is_refused_and_not_told(home, monkeypatch, key):
    monkeypatch.setenv(VARIABLE, key)
    with pytest.raises(InputError, match=f"^{VARIABLE}: the key has under 16 characters") as caught:
        load_worker_key()
    assert key not in str(caught.value)


def test_a_key_is_made_once_and_kept_for_its_owner_only(home):
    key = load_worker_key()
    assert key_file() == home / "parapet" / "worker_key"
    assert key_file().read_bytes() == key
    assert len(bytes.fromhex(key.decode())) == 32
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    assert load_worker_key() == key
    assert [path.name for path in key_file().parent.iterdir()] == ["worker_key"]


def test_two_homes_have_two_keys(home, monkeypatch, tmp_path):
    first = load_worker_key()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    assert load_worker_key() != first


def test_a_newline_at_the_end_of_the_file_is_no_part_of_the_key(home):
    key_file().parent.mkdir(parents=True)
    key_file().write_bytes(b"a key that someone wrote\n")
    assert load_worker_key() == b"a key that someone wrote"


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n"])
def test_a_file_without_a_proper_key_is_refused(home, content):
    key_file().parent.mkdir(parents=True)
    key_file().write_bytes(content)
    with pytest.raises(InputError, match="the key has under 16 characters") as caught:
        load_worker_key()
    assert caught.value.path == str(key_file())
    assert key_file().read_bytes() == content


def test_where_no_key_can_be_kept_the_message_says_what_to_do(home):
    home.write_text("a file, not a folder")
    with pytest.raises(InputError, match=f"cannot keep the worker key: .*; set {VARIABLE} instead"):
        load_worker_key()


def test_first_runs_at_once_agree_on_one_key(home):
    script = "from parapet.transforms.crowd.worker_ids import load_worker_key; print(load_worker_key().decode())"

    def run(_):
        environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
        return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True).stdout

    with ThreadPoolExecutor(6) as pool:
        keys = set(pool.map(run, range(6)))
    assert keys == {load_worker_key() + b"\n"}
    assert [path.name for path in key_file().parent.iterdir()] == ["worker_key"]
