#!/usr/bin/env python3
"""Generates the small data sets of the configs that need your own data: tables, arrays, pictures, tar shards, texts.

usage: configs/make_data.py [FOLDER]     (else $TRAINCTL_DATA, else data/ next to configs/)

Needs only Python, and keeps existing folders. The numbers are the same on every machine; the set `text` is not, because it is the
source of Python's own library."""

import array
import io
import math
import os
import pathlib
import random
import struct
import sys
import tarfile
import zlib


def npy(path, descr, shape, values):
    """Returns an array as numpy.save writes it. `values` is an array.array of the type that `descr` names."""
    head = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + values.tobytes())


def png(width, height, pixels):
    """Returns RGB pixels, row by row, as a PNG file."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + pixels[3 * width * y:3 * width * (y + 1)] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def houses(folder, draw):
    """Writes prices that depend on area, age, rooms and district, with noise; one house in five is expensive."""
    for name, count in (("train", 1200), ("val", 300)):
        lines = ["area,age,rooms,district,price,kind"]
        for _ in range(count):
            area, age, district = max(30, draw.gauss(110, 35)), draw.uniform(0, 90), draw.choice(["center", "north", "south"])
            price = 0.03 * area - 0.02 * age + {"center": 1.5, "north": 0.5, "south": 0}[district] + draw.gauss(0, 0.2)
            kind = "dear" if price > 4 else "cheap"
            lines.append(f"{area:.1f},{age:.1f},{max(1, round(area / 25))},{district},{price:.3f},{kind}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def multi_label(folder, draw):
    """Writes eight numbers per row; each label is 1 if a sum of some of them is large. The third label is rarely 1."""
    for prefix, count in (("", 800), ("val_", 200)):
        rows = [[draw.gauss(0, 1) for _ in range(8)] for _ in range(count)]
        answers = [(row[0] + row[1] > 0, row[2] - row[3] > 0, row[4] + row[5] > 2) for row in rows]
        npy(folder / f"{prefix}features.npy", "<f4", (count, 8), array.array("f", sum(rows, [])))
        npy(folder / f"{prefix}labels.npy", "<f4", (count, 3), array.array("f", [float(answer) for row in answers for answer in row]))


def distillation(folder, draw):
    """Writes images with a bright band for each of ten classes, and a teacher with a probability of nine tenths for the class."""
    images, teacher = bytearray(), array.array("f")
    for i in range(600):
        label = i % 10
        images += bytes(220 if 2 * label <= y < 2 * label + 5 else draw.randrange(60) for y in range(28) for _ in range(28))
        logits = [6.0 * (kind == label) + draw.gauss(0, 0.5) for kind in range(10)]
        total = sum(map(math.exp, logits))
        teacher.extend(math.exp(logit) / total for logit in logits)
    npy(folder / "images.npy", "|u1", (600, 28, 28), array.array("B", bytes(images)))
    npy(folder / "teacher.npy", "<f4", (600, 10), teacher)


def squares(draw, size=64, side=12):
    """Returns a picture with a red and a blue square, and their centers x1, y1, x2, y2 relative to its size."""
    pixels = bytearray([40, 60, 40]) * (size * size)
    corners = [(draw.randrange(size - side), draw.randrange(size - side)) for _ in range(2)]
    for (left, top), color in zip(corners, (b"\xf0\x20\x20", b"\x20\x20\xf0")):
        for y in range(top, top + side):
            at = 3 * (y * size + left)
            pixels[at:at + 3 * side] = color * side
    return png(size, size, bytes(pixels)), [(value + side / 2) / size for corner in corners for value in corner]


def shapes(folder, draw):
    """Writes lists of pictures with two points each, and the same kind of picture in tar shards with a class: is red left of
    blue?"""
    for name, count in (("train", 320), ("val", 64)):
        lines = ["path,x1,y1,x2,y2"]
        for i in range(count):
            picture, points = squares(draw)
            (folder / f"{name}_{i:03}.png").write_bytes(picture)
            lines.append(f"{name}_{i:03}.png," + ",".join(f"{point:.4f}" for point in points))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    for shard in range(2):
        with tarfile.open(folder / f"shard-{shard:03}.tar", "w") as tar:
            for i in range(160):
                picture, points = squares(draw)
                for suffix, data in (("png", picture), ("cls", b"left" if points[0] < points[2] else b"right")):
                    member = tarfile.TarInfo(f"{160 * shard + i:05}.{suffix}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def scene(draw, size=48):
    """Returns a picture with a disk and a square on a noisy ground, and the class of each pixel: 1 or 2, 0 for the ground, and 255,
    which does not count, on the edges."""
    radius, side = draw.randrange(6, 11), draw.randrange(5, 9)
    (x1, y1), (x2, y2) = ((draw.randrange(12, size - 12), draw.randrange(12, size - 12)) for _ in range(2))
    pixels, mask = bytearray(), bytearray()
    for y in range(size):
        for x in range(size):
            disk, square = math.hypot(x - x1, y - y1) - radius, max(abs(x - x2), abs(y - y2)) - side
            label, edge = (1, disk) if disk < 0 and square >= 0 else (2, square) if square < 0 else (0, min(disk, square))
            mask += bytes([255 if abs(edge) < 0.7 else label] * 3)
            color = ((70, 90, 70), (200, 120, 60), (60, 120, 200))[label]
            pixels += bytes(max(0, min(255, value + draw.randrange(-40, 41))) for value in color)
    return png(size, size, bytes(pixels)), png(size, size, bytes(mask))


def scenes(folder, draw):
    """Writes pictures with a disk and a square, and a mask of each."""
    for name, count in (("train", 96), ("val", 24)):
        for kind in ("images", "masks"):
            (folder / name / kind).mkdir(parents=True)
        for i in range(count):
            picture, mask = scene(draw)
            (folder / name / "images" / f"{i:03}.png").write_bytes(picture)
            (folder / name / "masks" / f"{i:03}.png").write_bytes(mask)


def text(folder, _):
    """Writes the source of Python's library, one token per byte; the last tenth is for validation."""
    sources = sorted(pathlib.Path(os.__file__).parent.glob("*.py"))
    tokens = array.array("H", list(b"".join(source.read_bytes() for source in sources[:40])))
    cut = len(tokens) * 9 // 10
    (folder / "train.bin").write_bytes(tokens[:cut].tobytes())
    (folder / "val.bin").write_bytes(tokens[cut:].tobytes())


def sentences(folder, draw):
    """Writes sentences of three made-up languages, whose words have other orders of consonants and vowels; the class is the language."""
    letters = {"c": "bdfgklmnprst", "v": "aeiou"}
    languages = {"aru": ("v", "vcv", "vccv"), "dako": ("cv", "cvcv", "ccv"), "mek": ("cvc", "cvcc", "ccvc")}
    words = {name: ["".join(draw.choice(letters[letter]) for letter in draw.choice(shapes) * 2) for _ in range(80)]
             for name, shapes in languages.items()}
    for name, count in (("train", 1200), ("val", 300)):
        lines = ["text,language"]
        for _ in range(count):
            language = draw.choice(sorted(languages))
            lines.append(" ".join(draw.choice(words[language]) for _ in range(draw.randrange(2, 7))) + "," + language)
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def imagenet_sample(folder, draw):
    """Writes 200 pictures in two folders, for experiments that are written for ImageNet: disks and squares on a noisy ground."""
    for name, is_disk in (("animal", True), ("artifact", False)):
        (folder / name).mkdir()
        for i in range(100):
            width, height = draw.choice([(96, 72), (72, 96), (84, 84)])
            x0, y0, radius, color = draw.randrange(30, width - 30), draw.randrange(30, height - 30), draw.randrange(15, 28), draw.randrange(100, 256)
            noise, pixels = draw.randbytes(width * height), bytearray()
            for at, value in enumerate(noise):
                x, y = at % width - x0, at // width - y0
                inside = math.hypot(x, y) < radius if is_disk else max(abs(x), abs(y)) < radius
                pixels += bytes((color if inside else 60, 90, value // 4 + (40 if inside else 100)))
            (folder / name / f"{i:03}.png").write_bytes(png(width, height, bytes(pixels)))


SETS = (houses, multi_label, distillation, shapes, scenes, text, sentences, imagenet_sample)


def make(root, sets=SETS):
    """Generates each set in a folder of its name, such as imagenet-sample; returns the folders that did not exist."""
    made = []
    for kind in sets:
        folder = pathlib.Path(root) / (kind.__name__ if kind is not imagenet_sample else "imagenet-sample")
        if folder.exists():
            continue
        folder.mkdir(parents=True)
        kind(folder, random.Random(kind.__name__))
        made.append(folder)
    return made


if __name__ == "__main__":
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    usual = os.environ.get("TRAINCTL_DATA") or pathlib.Path(__file__).resolve().parents[1] / "data"
    for folder in make(sys.argv[1] if len(sys.argv) == 2 else usual):
        print(f"made {folder}")
