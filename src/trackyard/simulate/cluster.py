"""The cluster that a trace is replayed on, from a short specification.

Owns `read_cluster`: a number (one pool of GPUs), `NxM` (N nodes of M GPUs), or a file that
lists nodes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from trackyard.core.errors import InvalidInput
from trackyard.core.node import Node, NodeGpu
from trackyard.simulate.readers import open_text

_MIB = 2**20


def read_cluster(spec: str) -> tuple[Node, ...]:
    """Return the nodes that a specification describes."""
    if re.fullmatch(r"\d+", spec):
        nodes: tuple[Node, ...] = (_node("pool", int(spec)),)
    elif match := re.fullmatch(r"(\d+)[xX](\d+)", spec):
        nodes = tuple(_node(f"n{i:04d}", int(match[2])) for i in range(int(match[1])))
    else:
        nodes = tuple(_from_file(Path(spec)))
    if not any(node.gpus for node in nodes):
        message = f"`{spec}` describes no GPU: give a number, NxM, or a file that lists nodes"
        raise InvalidInput(message)
    return nodes


def _node(name: str, gpus: int, kind: str = "gpu", cpu: int = 0, memory: int = 0) -> Node:
    return Node(
        id=name,
        gpus=tuple(NodeGpu(index=index, type=kind) for index in range(gpus)),
        cpu_milli=cpu,
        memory_bytes=memory,
    )


def _from_file(path: Path) -> Iterator[Node]:
    lines = open_text(path).splitlines()
    columns = lines[0].split(",") if lines else []
    if {"sn", "cpu_milli", "memory_mib", "gpu"} <= set(columns):
        return _openb(csv.DictReader(lines))
    if columns == ["vc", "node num"]:
        return _philly(csv.DictReader(lines))
    if "num_gpu_p_node" in columns:
        return _tiresias(csv.DictReader(lines))
    if len(columns) == 5:
        return _pai(csv.reader(lines))
    message = (
        f"{path} lists no nodes in a known way; the columns sn,cpu_milli,memory_mib,gpu,model "
        "are understood"
    )
    raise InvalidInput(message)


def _openb(rows: Iterable[dict[str, str]]) -> Iterator[Node]:
    for row in rows:
        cpu, memory = int(row["cpu_milli"]), int(row["memory_mib"]) * _MIB
        yield _node(row["sn"], int(row["gpu"]), row.get("model") or "gpu", cpu, memory)


def _philly(rows: Iterable[dict[str, str]]) -> Iterator[Node]:
    for row in rows:
        for number in range(int(row["node num"])):
            yield _node(f"{row['vc']}-{number}", 8)


def _tiresias(rows: Iterable[dict[str, str]]) -> Iterator[Node]:
    for row in rows:
        for number in range(int(row["num_switch"]) * int(row["num_node_p_switch"])):
            yield _node(f"n{number:04d}", int(row["num_gpu_p_node"]))


def _pai(rows: Iterable[list[str]]) -> Iterator[Node]:
    for row in rows:
        cpu, memory = round(float(row[2]) * 1000), round(float(row[3]) * 2**30)
        yield _node(row[0], int(float(row[4])), row[1], cpu, memory)
