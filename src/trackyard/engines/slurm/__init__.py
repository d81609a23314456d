"""The Slurm engine: attempts as batch jobs of a Slurm cluster.

Start at `engine`. Nothing outside of this package runs Slurm's commands.
"""

from trackyard.engines.slurm.engine import SlurmEngine
from trackyard.engines.slurm.site import SlurmSite

__all__ = ["SlurmEngine", "SlurmSite"]
