"""The heaviest requests of data sets: many files, many contents, many changes."""

import hashlib
import json

from tests.integration.server.heavy_made import Ask, asks
from tests.integration.server.heavy_world import World
from trackyard.core.dataset import ManifestEntry, encode_manifest

FILES = 20_000
CONTENTS = 4096
_DATA = "/api/v1/data"


def _pieces(number: int) -> list[bytes]:
    return [f"row,{number},{n}\n".encode() for n in range(CONTENTS)]


def _pack(pieces: list[bytes]) -> bytes:
    header = [[hashlib.sha256(piece).hexdigest(), len(piece)] for piece in pieces]
    return json.dumps(header).encode() + b"\n" + b"".join(pieces)


def _manifest(pieces: list[bytes], prefix: str) -> bytes:
    known = [(hashlib.sha256(piece).hexdigest(), len(piece)) for piece in pieces]
    entries = []
    for n in range(FILES):
        sha256, size = known[n % len(known)]
        entries.append(ManifestEntry(f"train/class_{n % 100:03d}/{prefix}{n}.csv", size, sha256))
    return encode_manifest(entries)


def _names(number: int) -> list[str]:
    return [hashlib.sha256(piece).hexdigest() for piece in _pieces(number)]


async def _added(world: World, name: str, prefix: str = "a") -> None:
    pieces = _pieces(0)
    await world.ok("POST", f"{_DATA}/contents", raw=_pack(pieces))
    await world.ok("POST", f"{_DATA}/{name}/versions", raw=_manifest(pieces, prefix))


async def _large(world: World) -> dict[str, str]:
    """Make the data set that is read, once, in two versions."""
    if not world.has_data:
        world.has_data = True
        await _added(world, "large", "a")
        await _added(world, "large", "b")
    return {"name": "large", "version": "v2"}


@asks(f"POST {_DATA}/contents")
async def _contents(world: World) -> Ask:
    return Ask(raw=_pack(_pieces(world.fresh())))


@asks(f"POST {_DATA}/missing")
async def _missing(world: World) -> Ask:
    await _large(world)
    return Ask(body={"contents": _names(0)})


@asks(f"POST {_DATA}/fetch")
async def _fetch(world: World) -> Ask:
    await _large(world)
    return Ask(body={"contents": _names(0)})


@asks(f"POST {_DATA}/{{name}}/versions")
async def _add(world: World) -> Ask:
    await _large(world)
    return Ask(raw=_manifest(_pieces(0), f"n{world.fresh()}"), path={"name": "other"})


@asks(f"POST {_DATA}/clean")
async def _clean(world: World) -> Ask:
    await _large(world)
    return Ask(body={"unused_days": 0, "dry_run": True})


@asks(f"GET {_DATA}/{{name}}")
async def _show(world: World) -> Ask:
    return Ask(path=await _large(world))


@asks(f"GET {_DATA}/{{name}}/diff")
async def _diff(world: World) -> Ask:
    return Ask(path=await _large(world), query=[("old", "v1"), ("new", "v2")])


_ONE = f"{_DATA}/{{name}}/versions/{{version}}"


@asks(f"GET {_ONE}")
async def _version(world: World) -> Ask:
    return Ask(path=await _large(world))


@asks(f"GET {_ONE}/manifest")
async def _read_manifest(world: World) -> Ask:
    return Ask(path=await _large(world))


@asks(f"GET {_ONE}/users")
async def _users(world: World) -> Ask:
    return Ask(path=await _large(world))


@asks(f"GET {_ONE}/files")
async def _files(world: World) -> Ask:
    return Ask(path=await _large(world), query=[("limit", 1000), ("folder", "train/class_000")])


@asks(f"GET {_ONE}/samples")
async def _samples(world: World) -> Ask:
    return Ask(path=await _large(world), query=[("limit", 200)])


@asks(f"GET {_ONE}/preview")
async def _preview(world: World) -> Ask:
    return Ask(path=await _large(world), query=[("path", "train/class_000/b0.csv")])


@asks(f"GET {_ONE}/file")
async def _file(world: World) -> Ask:
    return Ask(path=await _large(world), query=[("path", "train/class_000/b0.csv")])


@asks(f"DELETE {_ONE}")
async def _remove(world: World) -> Ask:
    name = f"gone-{world.fresh()}"
    await _added(world, name)
    return Ask(path={"name": name, "version": "v1"})
