"""The Ray engine: attempts as jobs of a real Ray cluster, over the cluster's own REST alone.

Nothing in here imports ray: the server speaks HTTP, and what needs ray runs in the cluster.
"""

from trackyard.engines.ray.engine import RayEngine

__all__ = ["RayEngine"]
