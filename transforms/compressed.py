"""Files that people give, compressed or not, as their names say: read to the end, or refused.

Beam opens such files too, and takes one that a broken download cut off for a shorter one. Local files need no Beam;
those of a bucket are opened by Beam's client, which every worker has.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from parapet.schemas.errors import DamagedFile

_CHUNK = 1 << 16  # bytes; of a file that is all zeros 64 MiB come out of them


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(zlib.MAX_WBITS | 16),
    "deflate": zlib.decompressobj,
    "bzip2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
    "zstd": _zstd,
}
_SUFFIXES = {  # as Beam has them
    ".bz2": "bzip2",
    ".deflate": "deflate",
    ".gz": "gzip",
    ".lzma": "lzma",
    ".xz": "lzma",
    ".zst": "zstd",
    ".zstd": "zstd",
}


def open_plain(path: str) -> BinaryIO:
    """Opens a file for reading as it is, local or of a bucket."""
    if "://" not in path:
        return open(path, "rb")
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    return cast(BinaryIO, FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED))


def read_bytes(path: str) -> bytes:
    """A file, local or of a bucket, as it is. Workers read with this: it needs no more than Beam has."""
    with open_plain(path) as handle:
        return handle.read()


def is_compressed(path: str) -> bool:
    """Whether the name of a file says that it is compressed."""
    return path.lower().endswith(tuple(_SUFFIXES))


def open_input(path: str) -> io.BufferedReader:
    """Opens a file for reading, local or of a bucket; names in .gz, .bz2, .zst, .xz and .deflate are decompressed.

    Raises:
      DamagedFile: while it is read: it ends too early, is damaged, or is not compressed as its name says.
    """
    handle = open_plain(path)
    kind = next((kind for suffix, kind in _SUFFIXES.items() if path.lower().endswith(suffix)), "")
    if not kind:
        return io.BufferedReader(_Chunks(handle, iter(lambda: handle.read(_CHUNK), b"")), _CHUNK)
    return io.BufferedReader(_Chunks(handle, _decompressed(handle, path, kind)), _CHUNK)


def _decompressed(handle: BinaryIO, path: str, kind: str) -> Iterator[bytes]:
    new = _DECOMPRESSORS[kind]
    parser, size = None, 0
    while data := handle.read(_CHUNK):
        while data:
            parser = parser or new()
            try:
                plain = parser.decompress(data)
            except Exception as error:  # each format has its own
                raise _damaged(path, kind, size, error) from None
            size += len(plain)
            yield plain
            if not parser.eof:
                break
            # Another stream may follow, as after `cat a.gz b.gz`; tapes are padded with zeros.
            data, parser = parser.unused_data.lstrip(b"\0"), None
    if parser is not None or not size:
        reason = f"the {kind} file is cut off after {size:,} bytes of its content: copy or download it again"
        raise DamagedFile(reason, path)


def _damaged(path: str, kind: str, size: int, error: Exception) -> DamagedFile:
    if size:
        return DamagedFile(f"the {kind} file is damaged after {size:,} bytes of its content: {error}", path)
    reason = f"is named like a {kind} file and is none ({error}): give it the name that its content has"
    return DamagedFile(reason, path)


class _Chunks(io.RawIOBase):
    """Chunks of bytes as a file; closes the file that they come from."""

    def __init__(self, handle: BinaryIO, chunks: Iterator[bytes]) -> None:
        self._handle, self._chunks, self._rest = handle, chunks, memoryview(b"")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills what it can; 0 at the end."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n

    def close(self) -> None:
        """Closes both."""
        if not self.closed:
            self._handle.close()
        super().close()
