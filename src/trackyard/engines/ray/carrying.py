"""Brings what a job needs into the cluster: the runner, the gate, the job's own packages.

Packages are named by their whole content, never by the short hash a client gave: two teams can
make those collide. What is too large for the cluster is left to the runner, which fetches it
from the server.
"""

from __future__ import annotations

import hashlib
import http.client
from urllib.parse import urlsplit

from trackyard.core.ports import EngineUnavailable, LaunchSpec, PackageRef
from trackyard.engines import ray_gate
from trackyard.engines.ray.api import PACKAGE_LIMIT, RayApi
from trackyard.engines.ray.submission import CarriedFiles, package_name, runner_package

FETCH_SECONDS = 120.0


def carry(api: RayApi, spec: LaunchSpec) -> CarriedFiles:
    """Upload what the cluster lacks; return where everything lies."""
    carry_runner(api)
    gate = ray_gate.archive()
    gate_name = package_name(hashlib.sha256(gate).hexdigest())
    _ensure(api, gate_name, gate)
    uris: dict[str, str] = {}
    if spec.ray is not None:
        for address, ref in spec.ray.packages.items():
            if ref.size_bytes <= PACKAGE_LIMIT:
                uris[address] = _bring(api, spec, address, ref)
    return CarriedFiles(
        uris=uris, modules=(f"gcs://{gate_name}",), variables=ray_gate.environment(spec.env)
    )


def carry_runner(api: RayApi) -> str:
    """Upload the runner where it is missing; return its address in the cluster."""
    name, content = runner_package()
    _ensure(api, name, content)
    return f"gcs://{name}"


def _ensure(api: RayApi, name: str, content: bytes) -> None:
    # Asked at every launch: Ray drops a package when the last job that named it is over.
    if not api.has_package(name):
        api.put_package(name, content)


def _bring(api: RayApi, spec: LaunchSpec, address: str, ref: PackageRef) -> str:
    suffix = address.rpartition("/")[2].partition(".")[2] or "zip"
    name = package_name(ref.digest, suffix)
    if not api.has_package(name):
        content = _fetch(spec, ref)
        if hashlib.sha256(content).hexdigest() != ref.digest:
            raise EngineUnavailable(f"the package {ref.digest[:12]} was damaged on its way")
        api.put_package(name, content)
    return f"gcs://{name}"


def _fetch(spec: LaunchSpec, ref: PackageRef) -> bytes:
    parts = urlsplit(ref.location)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=FETCH_SECONDS)
    token = spec.report.token if spec.report is not None else ""
    headers = {"Authorization": f"Bearer {token}", "X-Yard-Epoch": str(spec.epoch)}
    try:
        query = f"?{parts.query}" if parts.query else ""
        connection.request("GET", parts.path + query, headers=headers)
        response = connection.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException) as fault:
        raise EngineUnavailable(f"a package of the job could not be read: {fault}") from fault
    finally:
        connection.close()
    if response.status != 200:
        raise EngineUnavailable(f"a package of the job could not be read ({response.status})")
    return content
