"""Opening a text file strictly: UTF-8, or UTF-16 that says so; any line ending; errors with the byte's offset."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import IO

from psephos.errors import DataError

__all__ = ["Source", "encoding_notes", "open_text", "source_name"]

#: Where a reader takes its text from.
Source = str | PathLike[str]

_CHUNK = 1 << 16
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
#: First bytes of what is often given in place of text.
_NO_TEXT = {
    b"PK\x03\x04": "a spreadsheet or another zip archive: save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet or another Office document: save the sheet as CSV",
    b"\x1f\x8b": "packed with gzip: unpack it first",
    b"%PDF-": "a PDF: the table itself is wanted, as CSV",
}


def source_name(path: Source) -> str:
    """The file's name as messages show it: the last part alone."""
    return Path(fspath(path)).name


@contextmanager
def open_text(path: Source, *, newline: str | None = None) -> Iterator[IO[str]]:
    """Open ``path`` as text without its byte order mark: UTF-16 if it starts with that mark, else UTF-8.

    LF, CRLF and lone CR all end a line (``newline`` as in :func:`open`; the csv module wants ``""``).

    Raises
    ------
    DataError
        for a spreadsheet or an archive, UTF-32, UTF-16 without a mark, or bytes that are not of the encoding, with the
        offset of the first bad byte.
    """
    name = source_name(path)
    with Path(fspath(path)).open("rb") as raw:
        head = raw.read(_CHUNK)
    for start, what in _NO_TEXT.items():
        if head.startswith(start):
            raise DataError(f"the file is {what}", source=name)
    encoding = "utf-16" if head[:2] in _UTF16 and head[:4] not in _UTF32 else "utf-8-sig"
    if encoding != "utf-16" and head.count(0) > len(head) / 4:  # UTF-16 and UTF-32 are full of NUL bytes, text is not
        where = head.index(0)
        raise DataError(f"byte 0x00 at offset {where}: the file is UTF-16 or UTF-32; convert it to UTF-8", source=name)
    with Path(fspath(path)).open(encoding=encoding, newline=newline) as stream:
        try:
            yield stream
        except UnicodeDecodeError:
            offset, byte = _first_bad_byte(path, encoding.removesuffix("-sig"))
            kind = encoding.removesuffix("-sig").upper()
            raise DataError(
                f"byte {byte:#04x} at offset {offset} is not {kind}; convert the file to UTF-8", source=name
            ) from None


def encoding_notes(stream: IO[str], source: str) -> list[str]:
    """What was guessed of the encoding of a stream of :func:`open_text`."""
    wide = (getattr(stream, "encoding", None) or "").lower().startswith("utf-16")
    return [f"{source}: read as UTF-16, which its first bytes say it is"] if wide else []


def _first_bad_byte(path: Source, encoding: str) -> tuple[int, int]:
    decoder = codecs.getincrementaldecoder(encoding)()
    read = 0
    with Path(fspath(path)).open("rb") as raw:
        while True:
            chunk = raw.read(_CHUNK)
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                return read - pending + error.start, error.object[error.start]
            if not chunk:  # pragma: no cover - only reached if the file changed under us
                return read, 0
            read += len(chunk)
