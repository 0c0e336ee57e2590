"""Changes to the content of a file: of its bytes, and of what its format holds."""

from __future__ import annotations

import gzip
import io
import json
import pickletools
import re
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Random = np.random.Generator

NUMBERS = (0, -1, 1, 2, 7, 127, 255, 2**15, 2**31 - 1, 2**31, 2**32, 10**9, 2**40, 2**62, 2**63)
NUMBERS += (-(2**31), -(2**63), 2**64, 2**70, 10**18)
FRACTIONS = (0.5, -0.5, 1e-9, 1e30, 1e308, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "x", "00", "+3", "1_0", "\u0663", "\ud800", "\x1b[31m", "[/b]", "../..", "a" * 5000)
VALUES: tuple[Any, ...] = (None, True, False, *NUMBERS, *FRACTIONS, *TEXTS)
VALUES += ([], {}, [[]], [None], [1, "a"], {"a": 1}, [0] * 70)
WORDS = ("0", "-1", "1e999", "nan", "NaN", "inf", "1e-400", "0x10", "٣", "1_0", "+3", "00", "1,5")
WORDS += ("9" * 30, "-" + "9" * 19, str(2**31), str(2**63), '"', "'", "\0", "\x1b", "é", "#", "\t")
WORDS += ("None", "true", "null", ";", ",,", "\r\n", "\n\n", "<", "&amp;", "&#0;", "]]>", "\ufeff")


def pick(random: Random, items: Any) -> Any:
    """One of the items."""
    return items[int(random.integers(len(items)))]


def mutate(name: str, content: bytes, random: Random) -> bytes:
    """Content changed in its bytes, or in what the format of the name's ending holds."""
    inner = next((FORMATS[end] for end in FORMATS if name.endswith(end)), change_text)
    if random.random() < 0.4:
        return change_bytes(content, random)
    try:
        return inner(content, random)
    except (ValueError, KeyError, IndexError, OSError, EOFError, zipfile.BadZipFile):
        return change_bytes(content, random)  # it was damaged before, or has nothing to change


def change_bytes(content: bytes, random: Random) -> bytes:
    """Flip, replace, insert, remove, repeat or move bytes, or cut the file short."""
    data = bytearray(content)
    for _ in range(int(random.integers(1, 5))):
        at = int(random.integers(len(data) + 1))
        size = int(min(2 ** random.integers(0, 8), len(data)))
        kind = int(random.integers(8))
        if kind <= 2 and at < len(data):
            data[at] ^= 1 << int(random.integers(8))
        elif kind == 3:
            number = pick(random, NUMBERS) % 2**64
            data[at : at + 8] = number.to_bytes(8, pick(random, ("little", "big")))
        elif kind == 4:
            data[at:at] = random.bytes(size)
        elif kind == 5:
            del data[at : at + size]
        elif kind == 6:
            data[at:at] = data[at : at + size]
        elif random.random() < 0.3:
            del data[at:]
        else:
            other = int(random.integers(len(data) + 1))
            data[at : at + size] = data[other : other + size]
    return bytes(data)


def change_text(content: bytes, random: Random) -> bytes:
    """Replace a number or a name by an odd one, or repeat, remove or exchange lines."""
    text = content.decode("utf-8")
    for _ in range(int(random.integers(1, 4))):
        found = list(re.finditer(r"[-+.\w]+", text))
        kind = int(random.integers(5))
        if kind <= 2 and found:
            one = pick(random, found)
            text = text[: one.start()] + pick(random, WORDS) + text[one.end() :]
            continue
        lines = text.splitlines(keepends=True)
        if not lines:
            break
        at = int(random.integers(len(lines)))
        if kind == 3:
            lines[at : at + 1] = [lines[at]] * int(random.integers(3))
        else:
            other = int(random.integers(len(lines)))
            lines[at], lines[other] = lines[other], lines[at]
        text = "".join(lines)
    return text.encode("utf-8", "surrogatepass")


def change_json(content: bytes, random: Random) -> bytes:
    """Replace, remove, rename, repeat or nest an entry."""
    kind = int(random.integers(8))
    if kind == 0:
        return b"[" * 100_000
    if kind == 1:
        return change_text(content, random)
    values = change_tree(json.loads(content), random)
    text = json.dumps(values, indent=pick(random, (None, 1)))
    if kind == 2:  # the first key is there twice
        text = re.sub(r'("\w+": \d+),', r"\1, \1,", text, count=1)
    return text.encode()


def change_tree(values: Any, random: Random) -> Any:
    """JSON values with one of them changed, at any depth."""
    if isinstance(values, dict) and values:
        key = pick(random, list(values))
        if isinstance(values[key], (dict, list)) and values[key] and random.random() < 0.7:
            return {**values, key: change_tree(values[key], random)}
        kind = int(random.integers(6))
        if kind == 0:
            return {name: value for name, value in values.items() if name != key}
        if kind == 1:
            return {**values, str(pick(random, (*TEXTS, *WORDS))): values[key]}
        return {**values, key: pick(random, VALUES)}
    if isinstance(values, list) and values:
        at = int(random.integers(len(values)))
        if random.random() < 0.3:
            return values[:at] + values[at + 1 :]
        return [*values[:at], change_tree(values[at], random), *values[at + 1 :]]
    return pick(random, VALUES)


def change_lines(content: bytes, random: Random) -> bytes:
    """Change a line of JSON, or the order of lines."""
    lines = content.splitlines(keepends=True)
    at = int(random.integers(len(lines)))
    if random.random() < 0.3:
        return change_text(content, random)
    lines[at] = change_json(lines[at], random) + b"\n"
    return b"".join(lines)


def change_array(content: bytes, random: Random) -> bytes:
    """Change the header of a .npy file, or one value to an extreme one."""
    size = int.from_bytes(content[8:10], "little")
    header, values = content[10 : 10 + size].decode("latin1"), content[10 + size :]
    if random.random() < 0.5:
        shapes = ("()", "(0,)", f"({2**40},)", f"({2**62}, 0)", "(True, 2)", "(-1,)", "(1,) * 70")
        kinds = ("|V0", "|S0", "|O", "<U3", "<f2", ">i8", "<c16", "|b1", "<M8[s]", "<f8", "<i4")
        if random.random() < 0.5:
            header = re.sub(r"'shape': \([^)]*\)", f"'shape': {pick(random, shapes)}", header)
        else:
            header = re.sub(r"'descr': '[^']*'", f"'descr': '{pick(random, kinds)}'", header)
    else:
        extremes = (b"\0" * 8, b"\xff" * 8, np.float64("nan").tobytes(), b"\xff" * 7 + b"\x7f")
        at = int(random.integers(max(len(values) - 8, 0) + 1)) // 8 * 8
        values = values[:at] + pick(random, extremes) + values[at + 8 :]
    text = header.encode("latin1")
    return content[:8] + len(text).to_bytes(2, "little") + text + values


def change_archive(content: bytes, random: Random) -> bytes:
    """Change, remove, repeat or rename a member of a zip archive, with sound checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = int(random.integers(len(members)))
    name, data = members[at]
    kind = int(random.integers(8))
    if kind == 0:
        del members[at]
    elif kind == 1:
        members.append((name, data))
    elif kind == 2:
        members[at] = (pick(random, ("../x.npy", "/x", "x\0y", name + "/", "a" * 300)), data)
    else:
        members[at] = (name, mutate(name, data, random))
    packed = io.BytesIO()
    method = pick(random, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(packed, "w", method) as archive:
        for member, part in members:
            archive.writestr(zipfile.ZipInfo(member), part, method)
    return packed.getvalue()


def change_compressed(content: bytes, random: Random) -> bytes:
    """Change what a gzip file holds."""
    return gzip.compress(change_text(gzip.decompress(content), random), 1, mtime=0)


def change_table(content: bytes, random: Random) -> bytes:
    """Replace a column of a parquet file by one of another type, or change its name."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    table = parquet.read_table(io.BytesIO(content))
    at, rows = int(random.integers(table.num_columns)), table.num_rows
    columns: tuple[Callable[[], Any], ...] = (
        lambda: arrow.array([[("a", 1)]] * rows, arrow.map_(arrow.string(), arrow.int64())),
        lambda: arrow.array([[1, None]] * rows),
        lambda: arrow.nulls(rows),
        lambda: arrow.array([b"\xff\0"] * rows),
        lambda: arrow.array(["a\x1b[1m"] * rows),
        lambda: arrow.array([2**63 - 1] * rows),
        lambda: arrow.array([float("nan")] * rows),
        lambda: arrow.array([True] * rows),
        lambda: arrow.array([{"a": 1}] * rows),
        lambda: arrow.array(list(range(rows)), arrow.timestamp("s")),
        lambda: arrow.array([None, *range(rows - 1)] if rows else []),
        lambda: arrow.array(["x"] * rows).dictionary_encode(),
    )
    names = list(table.column_names)
    if random.random() < 0.3:
        names[at] = pick(random, ("", "SRC", "src", "id", "[/b]", names[0]))
        table = table.rename_columns(names)
    else:
        table = table.set_column(at, names[at], pick(random, columns)())
    packed = io.BytesIO()
    parquet.write_table(table, packed)
    return packed.getvalue()


def change_program(content: bytes, random: Random) -> bytes:
    """Remove, repeat, exchange or insert instructions of a pickle."""
    starts = [place for _, _, place in pickletools.genops(content) if place is not None]
    parts = [content[a:b] for a, b in zip(starts, [*starts[1:], len(content)], strict=True)]
    others = (b"c__builtin__\neval\n", b"cos\nsystem\n", b"}", b"]", b")", b"R", b"b", b"(", b"t")
    others += (
        b"N",
        b"0",
        b"2",
        b"u",
        b"s",
        b"a",
        b"e",
        b"\x81",
        b"K\x07",
        b"X\2\0\0\0ab",
        b"Pid\n",
    )
    others += (b"J\xff\xff\xff\x7f", b"\x8a\x09" + b"\xff" * 8 + b"\x7f", b"h\x01", b"q\x01", b"1")
    for _ in range(int(random.integers(1, 5))):
        at, kind = int(random.integers(len(parts))), int(random.integers(4))
        if kind == 0 and len(parts) > 1:
            del parts[at]
        elif kind == 1:
            parts.insert(at, parts[at])
        elif kind == 2:
            other = int(random.integers(len(parts)))
            parts[at], parts[other] = parts[other], parts[at]
        else:
            parts.insert(at, pick(random, others))
    return b"".join(parts)


FORMATS: dict[str, Callable[[bytes, Random], bytes]] = {
    ".npy": change_array,
    ".npz": change_archive,
    ".pt": change_archive,
    ".pkl": change_program,
    ".jsonl": change_lines,
    ".json": change_json,
    ".parquet": change_table,
    ".gz": change_compressed,
    ".safetensors": change_bytes,
}
"""How to change a file by the ending of its name; others are text."""
for _part in ("x", "tx", "allx", "y", "ty", "ally", "graph"):
    FORMATS[f"ind.cora.{_part}"] = change_program
