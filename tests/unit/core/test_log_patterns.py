"""Shipped log patterns find what programs really print, and leave the rest alone."""

import pytest

from trackyard.core.log_patterns import SHIPPED, first_match

LINES = {
    "ecc": [
        "CUDA error: uncorrectable ECC error encountered",
        "NVRM: GPU 0: Double Bit ECC error detected",
    ],
    "xid": [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
        "kernel: Xid 63: row remap pending",
    ],
    "nccl": [
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970",
        "[E ProcessGroupNCCL.cpp:587] Watchdog caught collective operation timeout: WorkNCCL",
        "node1:99:120 [0] NCCL WARN Call to ibv_reg_mr failed",
    ],
    "cuda-oom": [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "torch.cuda.OutOfMemoryError: CUDA out of memory.",
    ],
    "disk-full": ["OSError: [Errno 28] No space left on device: 'ckpt.pt'"],
}
HARMLESS = (
    "step 10 loss 2.3 lr 1e-4",
    "NCCL version 2.21.5+cuda12.4",
    "ECC mode: Enabled, 0 errors",
    "max idle time exceeded",
    "loading from disk, this may take a while",
)


@pytest.mark.parametrize("pattern", SHIPPED, ids=lambda one: one.name)
def test_a_pattern_finds_its_own_trouble_alone(pattern) -> None:
    for name, lines in LINES.items():
        for line in lines:
            found = first_match(pattern.name, f"before\n{line}\nafter")
            assert (found == line) == (name == pattern.name), (pattern.name, line)
    for line in HARMLESS:
        assert first_match(pattern.name, line) is None
