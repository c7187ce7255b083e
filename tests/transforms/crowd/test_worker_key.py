import pytest
from kit import raised, write

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


def test_two_homes_have_two_keys(home, monkeypatch, tmp_path):
    first = load_worker_key()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    assert load_worker_key() != first


def test_a_newline_at_the_end_of_the_file_is_no_part_of_the_key(home):
    write(key_file(), b"a key that someone wrote\n")
    assert load_worker_key() == b"a key that someone wrote"


def test_where_no_key_can_be_kept_the_message_says_what_to_do(home):
    home.write_text("a file, not a folder")
    raised(InputError, load_worker_key, match=f"cannot keep the worker key: .*; set {VARIABLE} instead")
