"""Small image files of every kind, and their pixels as torchvision 0.26 reads them.

The pixels are those of ImageFolder's loader (Pillow, convert("RGB")). If torchvision.io.decode_image reads the format, it must
agree, or this file records the difference.

Needs torch 2.11, torchvision 0.26, numpy and pillow."""
import io
import struct
import zlib

import numpy as np
import torch
from golden import save
from PIL import Image
from torchvision.io import ImageReadMode, decode_image

HEIGHT, WIDTH = 17, 23


def picture(channels=3):
    y, x, c = np.mgrid[0:HEIGHT, 0:WIDTH, 0:channels]
    return (128 + 90 * np.sin(x / 5 + c) * np.cos(y / 4) + 30 * ((x * 7 + y * 5 + c * 3) % 11) / 11).astype(np.uint8)


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def interlaced_png():
    """Returns an Adam7 PNG, which Pillow reads but does not write, with filter 0 on every row."""
    rgb, rows = picture(), b""
    for top, left, down, right in [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]:
        part = rgb[top::down, left::right]
        if part.shape[1]:
            rows += b"".join(b"\0" + row.tobytes() for row in part)
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 1)
    return png_of([(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")])


def wide_png(color, channels):
    """Returns a PNG with 16 bits per channel: the upper 8 are the picture, the lower 8 a constant."""
    values = picture(channels).astype(np.uint16) * 256 + 77
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, color, 0, 0, 0)
    return png_of([(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")])


def png_of(chunks):
    text = b"\x89PNG\r\n\x1a\n"
    for name, content in chunks:
        text += struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    return text


def rotated():
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees
    return saved(Image.fromarray(picture()), "JPEG", quality=90, exif=exif)


def files():
    rgb = Image.fromarray(picture())
    gray = rgb.convert("L")
    rgba = Image.fromarray(picture(4), "RGBA")
    palette = rgb.quantize(13)
    yield "jpeg 4:4:4", saved(rgb, "JPEG", quality=90, subsampling=0)
    yield "jpeg 4:2:2", saved(rgb, "JPEG", quality=90, subsampling=1)
    yield "jpeg 4:2:0", saved(rgb, "JPEG", quality=90, subsampling=2)
    yield "jpeg progressive", saved(rgb, "JPEG", quality=80, progressive=True)
    yield "jpeg gray", saved(gray, "JPEG", quality=90)
    yield "jpeg cmyk", saved(rgb.convert("CMYK"), "JPEG", quality=95)
    yield "jpeg restarts", saved(rgb, "JPEG", quality=90, restart_marker_blocks=1)
    yield "jpeg 1x1", saved(rgb.crop((0, 0, 1, 1)), "JPEG")
    yield "jpeg turned by exif", rotated()
    yield "png rgb", saved(rgb, "PNG")
    yield "png gray", saved(gray, "PNG")
    yield "png gray alpha", saved(rgba.convert("LA"), "PNG")
    yield "png rgba", saved(rgba, "PNG")
    yield "png palette", saved(palette, "PNG")
    yield "png palette transparent", saved(palette, "PNG", transparency=3)
    yield "png palette of 2 bits", saved(rgb.quantize(4), "PNG", bits=2)
    yield "png 1 bit", saved(gray.convert("1"), "PNG")
    yield "png 1x1", saved(rgb.crop((0, 0, 1, 1)), "PNG")
    yield "png interlaced", interlaced_png()
    yield "png rgb of 16 bits", wide_png(2, 3)
    yield "png gray of 16 bits", wide_png(0, 1)
    yield "webp lossy", saved(rgb, "WEBP", quality=80)
    yield "webp lossless", saved(rgb, "WEBP", lossless=True)
    yield "webp alpha", saved(rgba, "WEBP", lossless=True, exact=True)
    yield "bmp rgb", saved(rgb, "BMP")
    yield "bmp gray", saved(gray, "BMP")
    yield "bmp palette", saved(palette, "BMP")
    yield "tiff rgb", saved(rgb, "TIFF")
    yield "tiff lzw", saved(rgb, "TIFF", compression="tiff_lzw")
    yield "tiff gray", saved(gray, "TIFF")
    yield "tiff alpha", saved(rgba, "TIFF")
    yield "tiff alpha lzw", saved(rgba, "TIFF", compression="tiff_lzw")
    yield "tiff palette", saved(palette, "TIFF")
    yield "tiff 1 bit", saved(gray.convert("1"), "TIFF")
    yield "tiff cmyk", saved(rgb.convert("CMYK"), "TIFF")
    for orientation in range(2, 9):
        yield f"tiff orientation {orientation}", saved(rgb, "TIFF", tiffinfo={274: orientation})


def by_torchvision(file):
    return decode_image(torch.frombuffer(bytearray(file), dtype=torch.uint8), ImageReadMode.RGB).permute(1, 2, 0).numpy()


def read(name, file):
    if name == "png gray of 16 bits":  # Pillow would clip these to white; it takes the upper 8 bits only from RGB
        pixels = np.repeat(picture(1), 3, 2)
    else:
        pixels = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
    if name.startswith(("jpeg", "png", "webp")) and "16 bits" not in name:
        other = by_torchvision(file)
        difference = np.abs(other.astype(int) - pixels).max()
        if difference > 0:
            print(name, "torchvision differs by", difference)
    return {"name": name, "file": file.hex(), "shape": list(pixels.shape), "pixels": pixels.tobytes().hex()}


save("decoded", {"files": [read(name, file) for name, file in files()]})
