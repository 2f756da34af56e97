"""Makes a picture of a page smaller: a table of 256 colours is more than enough for one."""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RGB, PALETTE = 2, 3
MOST_COLOURS = 256
PIXEL = 3
"""How many bytes a pixel takes that has no table."""


def smaller(png: bytes) -> bytes:
    """Return the same picture with a table of its colours; a rare one becomes one that is near."""
    chunks = list(_chunks(png))
    width, height, depth, kind = struct.unpack(">IIBB", chunks[0][1][:10])
    if (depth, kind) != (8, RGB):
        raise ValueError("only what a browser saves is known: 8 bits of red, green and blue")
    packed = b"".join(body for name, body in chunks if name == b"IDAT")
    rows = list(_rows(zlib.decompress(packed), width * PIXEL))
    pixels = [row[at : at + PIXEL] for row in rows for at in range(0, len(row), PIXEL)]
    table, numbers = _table(pixels)
    lines = (bytes(numbers[y * width : (y + 1) * width]) for y in range(height))
    return SIGNATURE + b"".join(
        [
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, PALETTE, 0, 0, 0)),
            _chunk(b"PLTE", b"".join(table)),
            _chunk(b"IDAT", zlib.compress(b"".join(b"\0" + line for line in lines), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12


def _chunk(name: bytes, body: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(name + body))
    return struct.pack(">I", len(body)) + name + body + check


def _rows(data: bytes, length: int) -> Iterator[bytes]:
    """Yield the rows as they were before each was written as a difference to its neighbours."""
    above = bytes(length)
    for start in range(0, len(data), length + 1):
        above = _row(data[start], data[start + 1 : start + 1 + length], above)
        yield above


def _row(way: int, line: bytes, above: bytes) -> bytes:
    if way == 0:
        return line
    if way == 2:
        return bytes((one + up) & 0xFF for one, up in zip(line, above, strict=True))
    row = bytearray(PIXEL) + line
    before = bytes(PIXEL) + above
    for at in range(PIXEL, len(row)):
        left, up, corner = row[at - PIXEL], before[at], before[at - PIXEL]
        row[at] = (row[at] + _expected(way, left, up, corner)) & 0xFF
    return bytes(row[PIXEL:])


def _expected(way: int, left: int, up: int, corner: int) -> int:
    match way:
        case 1:
            return left
        case 3:
            return (left + up) // 2
    guess = left + up - corner
    return min((left, up, corner), key=lambda one: abs(guess - one))


def _table(pixels: list[bytes]) -> tuple[list[bytes], list[int]]:
    """Return the commonest colours, and of each pixel the number of the one that is nearest."""
    counted = Counter(pixels)
    table = [colour for colour, _ in counted.most_common(MOST_COLOURS)]
    numbers = {colour: number for number, colour in enumerate(table)}
    for colour in counted:
        if colour not in numbers:
            numbers[colour] = min(range(len(table)), key=lambda at: _apart(table[at], colour))
    return table, [numbers[pixel] for pixel in pixels]


def _apart(one: bytes, other: bytes) -> int:
    return sum((here - there) ** 2 for here, there in zip(one, other, strict=True))
