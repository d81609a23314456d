"""Nodes: type, labels and whether they take work."""

from __future__ import annotations

from trackyard.core.node import Node, NodeGpu, NodeState


def test_only_ready_nodes_take_work():
    assert [state for state in NodeState if state.takes_work] == [NodeState.READY]


def test_a_node_knows_its_type_and_labels():
    node = Node(id="n", gpus=(NodeGpu(index=0, type="A100"),), labels=(("rack", "r1"),))
    assert node.gpu_type == "A100"
    assert node.label("rack") == "r1"
    assert node.label("row") == ""
    assert Node(id="m").gpu_type == ""
