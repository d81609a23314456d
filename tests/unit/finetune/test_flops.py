"""MFU: the convention, checked against a published figure."""

from trackyard.finetune import flops


def test_the_convention_gives_the_known_mfu() -> None:
    """7B at 12,857 tokens a second on an H200 and 2,048 tokens is 0.547."""
    work = flops.per_token(
        parameters=6_738_415_616, layers=32, hidden=4096, length=2048, frozen=False
    )
    peak = flops.peak_of("NVIDIA H200")
    assert peak == 989e12
    assert abs(12_857 * work / peak - 0.547) < 0.001


def test_a_frozen_base_counts_four() -> None:
    """The gradient of frozen weights is not computed."""
    work = flops.per_token(parameters=100, layers=0, hidden=0, length=0, frozen=True)
    assert work == 400


def test_an_unknown_device_has_no_peak() -> None:
    """Then there is no MFU, and none is made up."""
    assert flops.peak_of("Abacus 3") is None
    assert flops.peak_of("NVIDIA H100 PCIe") == 756e12
