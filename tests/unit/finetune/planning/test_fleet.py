"""The fleet's inventory becomes offers of GPU types that plans can be made for."""

from typing import Any

from trackyard.finetune.planning.fleet import offers
from trackyard.finetune.planning.gpus import find_gpu


def node(name: str, kind: str, count: int, free: float = 1.0) -> dict[str, Any]:
    card = {"type": kind, "memory_bytes": 0, "free": free}
    return {"node_id": name, "gpus": [dict(card, index=index) for index in range(count)]}


def test_nodes_are_grouped_by_the_type_of_their_gpus() -> None:
    found, unknown = offers(
        [
            node("a", "H100", 8),
            node("b", "H100", 4, free=0),
            node("c", "L4", 1),
            node("d", "cpu", 0),
        ]
    )
    assert [(one.gpu.name, one.per_node, one.nodes, one.free) for one in found] == [
        ("H100", 8, 2, 8.0),
        ("L4", 1, 1, 1.0),
    ]
    assert unknown == []


def test_a_type_that_is_not_in_the_table_is_named() -> None:
    found, unknown = offers([node("a", "Quantum9", 2)])
    assert found == []
    assert unknown == ["Quantum9"]
    found, unknown = offers([node("a", "Quantum9", 2)], find_gpu("H100"))
    assert [(one.gpu.name, one.type) for one in found] == [("H100", "Quantum9")]
    assert unknown == ["Quantum9"]
