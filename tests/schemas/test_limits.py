"""What is too large or compressed is refused in one line."""

import bz2
import gzip
import lzma

import pytest
from kit import raised, write

from parapet.schemas import limits
from parapet.schemas.errors import InputError
from parapet.transforms.core.inputs import check_input, open_input, read_input

READERS = {"whole": limits.read_whole, "text": limits.read_text, "input": read_input}


def a_folder(path):
    path.mkdir()


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", [limits.read_whole, read_input])
def test_the_size_of_a_file(reader, tmp_path):
    path = write(tmp_path / "a", b"x" * 100)
    assert reader(str(path), 100) == b"x" * 100
    assert str(raised(InputError, reader, str(path), 99)) == f"{path}: is larger than the limit of 99 bytes"


# --- compressed files ------------------------------------------------------------------------------------------------

TEXT = b"".join(b"%d,%d\n" % (i, i * i) for i in range(5_000))
FORMATS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_compressed_file_is_read_to_its_end_or_refused(suffix, tmp_path):
    data = FORMATS[suffix](TEXT)
    path = tmp_path / f"a.csv{suffix}"
    for content in (data, data + data):
        path.write_bytes(content)
        check_input(str(path))
        with open_input(str(path)) as handle:
            assert handle.read() == TEXT * (2 if content == data + data else 1)
    for cut in (1, 5, 20, len(data) // 2, len(data) - 9, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(InputError) as caught, open_input(str(path)) as handle:
            handle.read()
        assert "is damaged, incomplete, or not compressed as its name says" in caught.value.reason
        assert caught.value.path == str(path)
    path.write_bytes(TEXT)
    raised(InputError, check_input, str(path), match="not compressed as its name says")


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_compressed_file_of_another_name(suffix, tmp_path):
    path = write(tmp_path / "a.csv", FORMATS[suffix](TEXT))
    raised(InputError, check_input, str(path), match=f"rename it to end with {suffix[:3]}")
    raised(InputError, limits.read_text, path, match="decompress it first")


def unreadable(path):
    path.symlink_to(path)  # root reads what others may not; nobody reads a circle


@pytest.mark.parametrize("make", [a_folder, unreadable])
@pytest.mark.parametrize("reader", READERS)
def test_what_cannot_be_read(make, reader, tmp_path):
    make(path := tmp_path / "schema.json")
    raised(InputError, READERS[reader], str(path), match="cannot be read: ")
