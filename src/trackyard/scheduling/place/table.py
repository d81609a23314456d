"""The hardware in rows: nodes by number, and requests as shapes with the rows that could take
them.

Owns NodeTable and Shape. What is static lives here; what changes as jobs come and go is in
capacity.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from trackyard.core.node import Node
from trackyard.core.resources import WHOLE, ResourceRequest, Style

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: All that tells requests apart, in one go; a request's own hash takes three times as long.
_FIELDS = attrgetter(*(field.name for field in fields(ResourceRequest)))


class Shape:
    """A request seen by the table: its numbers, and which nodes could take it when idle."""

    __slots__ = (
        "asked",
        "cpu",
        "exclusive",
        "gpus",
        "index",
        "is_fraction",
        "is_known_sound",
        "is_plain",
        "kind",
        "least_milli",
        "masks",
        "memory",
        "milli",
        "near",
        "node_count",
        "request",
        "same",
        "size",
        "style",
        "total_milli",
    )

    def __init__(self, request: ResourceRequest, *, index: int, masks: tuple[Mask, ...]) -> None:
        self.request = request
        self.index = index
        self.node_count = request.nodes
        self.gpus = request.gpus
        self.milli = request.gpu_milli
        self.cpu = request.cpu_milli
        self.memory = request.memory_bytes
        self.exclusive = request.exclusive
        self.same = request.same
        self.style: Style | None = request.style
        self.is_fraction = request.gpu_milli < WHOLE
        self.total_milli = request.gpu_milli_total
        #: GPUs that it ties up, the weight of its length; without GPUs it counts as a tenth
        self.size = max(self.total_milli / WHOLE, 0.1)
        #: whole GPUs, in thousandths, without which it can never start
        self.least_milli = 0 if self.is_fraction else self.total_milli
        #: what it asks for, for comparison with others of its kind
        self.asked = (self.node_count, self.gpus, self.milli, self.cpu, self.memory)
        self.kind = (request.gpu_types, request.labels, request.same, request.exclusive)
        #: whole GPUs and nothing else
        self.is_plain = bool(
            self.gpus
            and not (self.is_fraction or self.cpu or self.memory or self.exclusive or self.same)
        )
        #: set once the gate found that idle nodes in service could hold it
        self.is_known_sound = False
        #: rows of the right type and labels that fit when idle, one mask per preferred type
        self.masks = masks
        #: rows that hold its data; None: it reads none, or nobody holds it
        self.near: Mask | None = None

    def any_mask(self) -> Mask:
        """Rows that could take it, whatever the type."""
        mask = self.masks[0]
        for other in self.masks[1:]:
            mask = mask | other
        return mask


class NodeTable:
    """Nodes by row number, with what never changes during a pass."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        self.count = len(nodes)
        self.width = max((len(node.gpus) for node in nodes), default=0) or 1
        self.row = {node.id: row for row, node in enumerate(nodes)}
        self.ids = [node.id for node in nodes]
        #: types of GPUs by row, and the rows of each
        self.types = [node.gpu_type for node in nodes]
        self.of_type: dict[str, Mask] = {
            kind: np.array([own == kind for own in self.types], dtype=np.bool_)
            for kind in sorted(set(self.types))
        }
        self.gpus = np.array([len(node.gpus) for node in nodes], dtype=np.int64)
        #: which of the places for GPUs each row has
        self.present: Mask = np.arange(self.width) < self.gpus[:, None]
        self.cpu = np.array([node.cpu_milli for node in nodes], dtype=np.int64)
        #: what an idle row has, at least 1, to divide by
        self.whole_milli: Ints = np.maximum(self.gpus, 1) * WHOLE
        self.whole_cpu: Ints = np.maximum(self.cpu, 1)
        self.memory = np.array([node.memory_bytes for node in nodes], dtype=np.int64)
        self.up: Mask = np.array([node.state.takes_work for node in nodes], dtype=np.bool_)
        self._shapes: dict[tuple[object, ...], Shape] = {}
        self._by_identity: dict[int, Shape] = {}
        #: requests met, kept so that nobody else is given their identity
        self._met: list[ResourceRequest] = []
        self._groups: dict[str, list[Ints]] = {}

    def shape(self, request: ResourceRequest) -> Shape:
        """Return the one shape for this request."""
        known = self._by_identity.get(id(request))
        if known is None:
            fields_ = _FIELDS(request)
            known = self._shapes.get(fields_)
            if known is None:
                known = self._shapes[fields_] = self._make(request)
            self._by_identity[id(request)] = known
            self._met.append(request)
        return known

    def shapes(self, requests: Sequence[ResourceRequest]) -> list[Shape]:
        """Return the shapes of many requests."""
        by_identity = self._by_identity
        for identity, request in dict(zip(map(id, requests), requests, strict=True)).items():
            if identity not in by_identity:
                self.shape(request)
        return [by_identity[identity] for identity in map(id, requests)]

    def known_shapes(self) -> list[Shape]:
        """Return all shapes met so far, by index."""
        return list(self._shapes.values())

    def groups(self, label: str) -> list[Ints]:
        """Return the rows that share each value of a label."""
        if label not in self._groups:
            rows: dict[str, list[int]] = {}
            for row, node in enumerate(self.nodes):
                value = node.label(label)
                if value:
                    rows.setdefault(value, []).append(row)
            self._groups[label] = [np.array(rows[value], dtype=np.int64) for value in sorted(rows)]
        return self._groups[label]

    def labelled(self, labels: tuple[tuple[str, str], ...]) -> Mask:
        """Rows that carry all of these labels."""
        return np.array(
            [all(pair in node.labels for pair in labels) for node in self.nodes], dtype=np.bool_
        )

    def _make(self, request: ResourceRequest) -> Shape:
        big = (self.gpus >= request.gpus) & (self.cpu >= request.cpu_milli)
        big &= self.memory >= request.memory_bytes
        if request.labels:
            big &= self.labelled(request.labels)
        wanted = request.gpu_types if request.gpus else ()
        nowhere = np.zeros(self.count, dtype=np.bool_)
        masks = tuple(big & self.of_type.get(kind, nowhere) for kind in wanted) or (big,)
        shape = Shape(request, index=len(self._shapes), masks=masks)
        if request.near:
            held = frozenset(request.near)
            shape.near = np.array([node.id in held for node in self.nodes], dtype=np.bool_)
        return shape
