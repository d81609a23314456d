"""Makes a small invented set of the shape of Food-11, packed as a zip.

Three folders (training, validation, evaluation), eleven classes, files named
<class>_<number>.png: solid colours, a few hundred bytes each.

    python make_food11.py food11.zip
"""

import struct
import sys
import zipfile
import zlib

FOLDERS = {"training": 6, "validation": 3, "evaluation": 3}
CLASSES = 11


def png(red: int, green: int, blue: int, size: int = 32) -> bytes:
    """Return a square picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    rows = b"".join(b"\0" + bytes((red, green, blue)) * size for _ in range(size))
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def main(target: str) -> None:
    """Write the archive."""
    with zipfile.ZipFile(target, "w") as archive:
        for folder, count in FOLDERS.items():
            for label in range(CLASSES):
                for number in range(count):
                    shade = (20 * label + 3 * number) % 256
                    picture = png(shade, 255 - shade, len(folder) * 10 + number)
                    archive.writestr(f"Food-11/{folder}/{label}_{number}.png", picture)


if __name__ == "__main__":
    main(sys.argv[1])
