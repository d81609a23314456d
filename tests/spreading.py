"""How tests are spread over processes: who goes together, and who goes first.

Owns the units that pytest-xdist hands out and their order. All that shares the Ray cluster is one
unit, so that a single cluster lives, and so is all that shares Slurm; a module is a unit
otherwise, and a test where a module is long and its tests share nothing. Long units start first,
or the last would run on alone.
"""

from __future__ import annotations

from xdist.scheduler.loadscope import LoadScopeScheduling

#: The unit of all tests that use the session's Ray cluster.
CLUSTER_UNIT = "ray cluster"
#: Their folders and modules.
ON_THE_CLUSTER = (
    "tests/acceptance/ray/",
    "tests/acceptance/ray_door/test_on_a_cluster.py",
    "tests/integration/engines/ray/",
)
#: The same for the session's Slurm.
ON_SLURM = ("tests/acceptance/slurm/", "tests/integration/engines/slurm/")
#: Modules whose tests are long and independent.
APART = (
    "tests/acceptance/clients/test_training.py",
    "tests/integration/runner/test_checkpoint_frameworks.py",
    "tests/acceptance/jobs_cli/test_surviving.py",
)
#: The longest, in the order in which they start: those that wait stand between those that compute.
FIRST = (
    CLUSTER_UNIT,
    "slurm cluster",
    "tests/integration/runner/test_checkpoint_frameworks.py",
    "tests/acceptance/leases/",
    "tests/acceptance/clients/test_training.py",
    "tests/acceptance/jobs_cli/",
    "tests/acceptance/jobs/",
    "tests/acceptance/ray_door/",
    "tests/acceptance/clients/",
    "tests/acceptance/",
    "tests/integration/",
)

#: Tests that run what others run as well, a hundred times over: following each line of theirs for
#: the coverage report doubles their time and tells nothing new.
UNCOUNTED = (
    "tests/unit/scheduling/test_properties.py",
    "tests/unit/simulate/test_replay.py",
    "tests/unit/leases/plan/test_machine.py",
    "tests/integration/leases/test_machine.py",
)


def is_counted(nodeid: str) -> bool:
    """Say whether a test counts for the coverage report: of two databases, the embedded one."""
    return not nodeid.startswith(UNCOUNTED) and "[postgresql" not in nodeid


def unit_of(nodeid: str) -> str:
    """Name the unit that a test belongs to."""
    if nodeid.startswith(ON_THE_CLUSTER):
        return CLUSTER_UNIT
    if nodeid.startswith(ON_SLURM):
        return "slurm cluster"
    if nodeid.startswith(APART):
        return nodeid
    return nodeid.partition("::")[0]


def place_of(unit: str) -> int:
    """Say how early a unit starts."""
    places = (place for place, start in enumerate(FIRST) if unit.startswith(start))
    return next(places, len(FIRST))


class Spreading(LoadScopeScheduling):
    """xdist's own scheduler by scope, with our units in our order."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
