"""GPUs are found by every name people and drivers give them."""

import pytest

from trackyard.core.errors import SetupError
from trackyard.finetune.planning.gpus import find_gpu, gpu_table, match_gpu, with_price


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("H200", "H200"),
        ("h200", "H200"),
        ("NVIDIA H200", "H200"),
        ("a100", "A100-80"),
        ("NVIDIA A100-SXM4-40GB", "A100-40"),
        ("NVIDIA A100 80GB PCIe", "A100-80-PCIe"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("Tesla V100-SXM2-32GB", "V100-32"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A10G", "A10G"),
        ("AMD Instinct MI100", "MI100"),
    ],
)
def test_names_lead_to_the_table(name: str, found: str) -> None:
    assert find_gpu(name).name == found


def test_memory_decides_where_a_name_does_not() -> None:
    gpu = match_gpu("A100", 40 * 10**9)
    assert gpu is not None
    assert gpu.name == "A100-40"


def test_an_unknown_gpu_names_the_nearest() -> None:
    with pytest.raises(SetupError, match="not in the table"):
        find_gpu("G5000")
    assert match_gpu("mystery") is None


def test_a_price_of_ones_own_says_so() -> None:
    assert with_price(find_gpu("L4"), 0.2).offer == "your price"
    assert with_price(find_gpu("L4"), None) is find_gpu("L4")


def test_every_price_names_its_offer() -> None:
    for gpu in gpu_table().values():
        assert (gpu.price is None) == (gpu.offer == "")
