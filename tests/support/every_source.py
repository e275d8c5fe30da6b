"""Writes a small data set of every kind that may be remote, for tests."""

import struct
import tarfile
import zlib


def png(seed):
    """Returns a PNG file of 8 x 8 pixels."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = b"".join(b"\0" + bytes((seed * 31 + y * 7 + x) % 256 for x in range(24)) for y in range(8))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write_mnist(folder, count):
    pixels = bytes((i * 13 + k) % 256 for i in range(count) for k in range(784))
    (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + pixels)
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count)))


def write_npy(path, array_type, shape, content):
    head = f"{{'descr': '{array_type}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + content)


def write_everything(folder):
    """Writes each source into the folder; returns {name: stage as YAML, with ROOT for the folder}."""
    write_mnist(folder, 60)
    write_npy(folder / "x.npy", "|u1", (13000, 28, 28), bytes(i * 7 % 251 for i in range(784)) * 13000)  # large enough for two blocks
    write_npy(folder / "y.npy", "<i8", (13000,), b"".join(struct.pack("<q", i % 10) for i in range(13000)))
    (folder / "list.csv").write_text("".join(f"images/{i % 2}/{i} .png,{i % 2}\n" for i in range(40)))
    for i in range(40):
        image = folder / f"images/{i % 2}/{i} .png"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(png(i))
    for shard in range(2):
        with tarfile.open(folder / f"s-{shard}.tar", "w") as tar:
            for i in range(shard, 40, 2):
                label = folder / "label.cls"
                label.write_text(str(i % 2))
                tar.add(folder / f"images/{i % 2}/{i} .png", f"{i:03}.png")
                tar.add(label, f"{i:03}.cls")
    for name in ("some", "more"):
        (folder / f"{name}.csv").write_text("".join(f"{name}/{i}.png,{i % 2}\n" for i in range(20)))
        (folder / name).mkdir()
        for i in range(20):
            (folder / f"{name}/{i}.png").write_bytes(png(100 * len(name) + 50 * (name == "more") + i))
    parts = "sources: [{type: image_list, path: ROOT/some.csv}, " \
            "{type: subset, source: {type: image_list, path: ROOT/more.csv}, range: [4, 14]}], weights: [1, 1]"
    crop = "transforms: [{type: center_crop, size: 8}]"
    return {
        "mnist": "{type: mnist, root: ROOT}",
        "npy": "{type: npy, images: ROOT/x.npy, labels: ROOT/y.npy}",
        "image_list": "{type: image_list, path: ROOT/list.csv, %s}" % crop,
        "concat": "{type: concat, %s, %s}" % (parts, crop),
        "webdataset": '{type: webdataset, shards: ["ROOT/s-{0..1}.tar"], %s}' % crop,
    }
