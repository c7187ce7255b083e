"""Read input files, compressed or not by their names, completely or not at all.

Beam opens such files, too, but treats a truncated download as a shorter file. Local files do not need Beam; those in a
bucket are opened by Beam's client, which every worker has.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from parapet.schemas.errors import DamagedFile, InputError
from parapet.schemas.limits import (
    MAX_CONTENT,
    MAX_FILE,
    check_plain,
    check_size,
    compression_of,
    in_bytes,
    open_file,
    read_whole,
)

_CHUNK = 1 << 16  # bytes
_ZSTD_CHUNK = 1 << 11  # zstd's output has no size limit: this many bytes may contain 64 MiB of zeros
_PIECE = 1 << 20


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(zlib.MAX_WBITS | 16),
    "deflate": zlib.decompressobj,
    "bzip2": bz2.BZ2Decompressor,
    "lzma": lambda: lzma.LZMADecompressor(memlimit=1 << 30),
    "xz": lambda: lzma.LZMADecompressor(memlimit=1 << 30),
    "zstd": _zstd,
}
_SUFFIXES = {  # as in Beam
    ".bz2": "bzip2",
    ".deflate": "deflate",
    ".gz": "gzip",
    ".lzma": "lzma",
    ".xz": "xz",
    ".zst": "zstd",
    ".zstd": "zstd",
}


def open_plain(path: str) -> BinaryIO:
    """Open a local file, or one in a bucket, without decompression. Raises InputError for a local pipe or device."""
    if "://" not in path:
        return open_file(path)
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    return cast(BinaryIO, FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED))


def read_bytes(path: str, limit: int = 0) -> bytes:
    """Read a file, local or in a bucket, without decompression. It requires only Beam, so that workers can use it.

    Args:
      path: the path of the file.
      limit: maximum size in bytes; 0 for none.

    Raises:
      InputError: it is a local pipe or device, or exceeds the limit.
    """
    with open_plain(path) as handle:
        data = handle.read(limit + 1 if limit else -1)
    if limit:
        check_size(len(data), limit, path)
    return data


def read_input(path: str, limit: int = MAX_FILE, where: str = "") -> bytes:
    """Read an input file of at most ``limit`` bytes that must not be compressed.

    Raises:
      InputError: it is not a file, cannot be read, exceeds the limit, or is compressed.
    """
    if "://" not in path:
        return read_whole(path, limit, where)
    try:
        data = read_bytes(path, limit)
    except OSError as error:
        if error.strerror is None:  # a network error, which the runner retries
            raise
        raise InputError(f"cannot be read: {error.strerror}", path, where) from None
    check_plain(data[:8], path, where)
    return data


def open_input(path: str) -> io.BufferedReader:
    """Open a file, local or in a bucket; .gz, .bz2, .zst, .xz and .deflate are decompressed.

    Raises:
      InputError: it is not a file, or is compressed without such an extension.
      DamagedFile: raised while reading: the file is truncated, damaged, or not compressed as its name says.
    """
    handle = open_plain(path)
    kind = next((kind for suffix, kind in _SUFFIXES.items() if path.lower().endswith(suffix)), "")
    if kind:
        return io.BufferedReader(_Chunks(handle, _decompressed(handle, path, kind)), _CHUNK)
    plain: io.BufferedReader = io.BufferedReader(_Chunks(handle, iter(lambda: handle.read(_CHUNK), b"")), _CHUNK)
    if name := compression_of(plain.peek(8)[:8]):
        plain.close()
        reason = f"is a {name} file, not text"
        if suffix := next((suffix for suffix, kind in _SUFFIXES.items() if kind == name), ""):
            reason = f"is a {name} file: rename it to end with {suffix}, so that it is decompressed"
        raise InputError(reason, path)
    return plain


def check_input(path: str) -> None:
    """Read the beginning of a file. Raises InputError if :func:`open_input` cannot read it."""
    with open_input(path) as handle:
        handle.peek(1)


def _decompressed(handle: BinaryIO, path: str, kind: str) -> Iterator[bytes]:
    new = _DECOMPRESSORS[kind]
    parser, size, head = None, 0, b""
    while data := handle.read(_CHUNK if kind != "zstd" else _ZSTD_CHUNK):
        head = head or data[:8]
        if parser is None and size:
            data = data.lstrip(b"\0")  # padding, see below
        while data:
            parser = parser or new()
            try:
                for plain in _pieces(parser, data, kind):
                    size += len(plain)
                    yield plain
            except GeneratorExit:
                raise
            except Exception as error:  # exceptions differ between formats
                raise _damaged(path, kind, size, size > 0 or compression_of(head) == kind, error) from None
            if size > MAX_CONTENT:
                raise DamagedFile(f"has more than {in_bytes(MAX_CONTENT)} of content, over the limit", path)
            if not parser.eof:
                break
            # Another stream may follow, as after `cat a.gz b.gz`; tapes are padded with zeros.
            data, parser = parser.unused_data.lstrip(b"\0"), None
    if parser is not None or not size:
        reason = f"the {kind} file is truncated after {size:,} bytes of its content: copy or download it again"
        raise DamagedFile(reason, path)


def _pieces(parser: Any, data: bytes, kind: str) -> Iterator[bytes]:
    """Yield decompressed data in pieces, since a small file may contain gigabytes of zeros."""
    if kind == "zstd":
        yield parser.decompress(data)
        return
    while True:
        plain = parser.decompress(data, _PIECE)
        yield plain
        if parser.eof or len(plain) < _PIECE:
            return
        data = getattr(parser, "unconsumed_tail", b"")  # of zlib; the others keep their rest internally


def _damaged(path: str, kind: str, size: int, is_of_kind: bool, error: Exception) -> DamagedFile:
    if is_of_kind:
        return DamagedFile(f"the {kind} file is damaged after {size:,} bytes of its content: {error}", path)
    reason = f"is named like a {kind} file, but is not one ({error}): rename it to match its content"
    return DamagedFile(reason, path)


class _Chunks(io.RawIOBase):
    """A file object over chunks of bytes; closes the file they come from."""

    def __init__(self, handle: BinaryIO, chunks: Iterator[bytes]) -> None:
        self._handle, self._chunks, self._rest = handle, chunks, memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as possible; return 0 at the end."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n

    def close(self) -> None:
        """Close both files."""
        if not self.closed:
            self._handle.close()
        super().close()
