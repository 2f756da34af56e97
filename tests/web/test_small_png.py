"""Pictures that are made smaller look as they did."""

import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.small_png import MOST_COLOURS, SIGNATURE, smaller

WIDTH = 5
NONE, SUB, UP, AVERAGE, PAETH = range(5)


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def picture(rows: list[tuple[int, bytes]], kind: int = 2) -> bytes:
    """Return a PNG of rows, each with the way in which it is written."""
    head = struct.pack(">IIBBBBB", WIDTH, len(rows), 8, kind, 0, 0, 0)
    data = zlib.compress(b"".join(bytes([way]) + row for way, row in rows))
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", data), chunk(b"IEND", b"")]
    return SIGNATURE + b"".join(parts)


def shown(png: bytes) -> list[bytes]:
    """Return the pixels of a picture with a table of colours."""
    parts: dict[bytes, bytes] = {}
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        parts[png[at + 4 : at + 8]] = png[at + 8 : at + 8 + length]
        at += length + 12
    table = parts[b"PLTE"]
    assert len(table) <= 3 * MOST_COLOURS
    data = zlib.decompress(parts[b"IDAT"])
    numbers = [number for at, number in enumerate(data) if at % (WIDTH + 1)]
    return [table[3 * number : 3 * number + 3] for number in numbers]


@given(st.lists(st.binary(min_size=15, max_size=15), min_size=1, max_size=8))
def test_few_colours_stay_as_they_are(rows: list[bytes]) -> None:
    pixels = [row[at : at + 3] for row in rows for at in range(0, 15, 3)]
    assert shown(smaller(picture([(NONE, row) for row in rows]))) == pixels


@pytest.mark.parametrize("way", [SUB, UP, AVERAGE, PAETH])
def test_rows_that_are_written_as_differences_are_read(way: int) -> None:
    first, second = bytes(range(15)), bytes(range(40, 70, 2))
    written = bytearray()
    for at, value in enumerate(second):
        left = second[at - 3] if at >= 3 else 0
        corner = first[at - 3] if at >= 3 else 0
        up = first[at]
        guess = left + up - corner
        nearest = min((left, up, corner), key=lambda one: abs(guess - one))
        told = {SUB: left, UP: up, AVERAGE: (left + up) // 2, PAETH: nearest}[way]
        written.append((value - told) & 0xFF)
    pixels = [row[at : at + 3] for row in (first, second) for at in range(0, 15, 3)]
    assert shown(smaller(picture([(NONE, first), (way, bytes(written))]))) == pixels


def test_of_too_many_colours_the_common_ones_stay() -> None:
    common = bytes(range(15))
    rows = [*(random.Random(number).randbytes(15) for number in range(120)), common, common]
    shown_now = shown(smaller(picture([(NONE, row) for row in rows])))
    assert len(set(shown_now)) == MOST_COLOURS
    assert b"".join(shown_now[-5:]) == common


def test_other_pictures_are_refused() -> None:
    with pytest.raises(ValueError, match="only what a browser saves"):
        smaller(picture([(NONE, bytes(15))], kind=6))
