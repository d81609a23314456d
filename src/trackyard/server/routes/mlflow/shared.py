"""What all MLflow routes share: their aliases, and reading arguments with MLflow's own error
texts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from trackyard.core.errors import Denied, InvalidInput, WrongMediaType
from trackyard.core.strict_json import count_values
from trackyard.server.http.messages import FEW_VALUES, Request, read_json
from trackyard.server.routes.mlflow.types import arguments_of, body_limit_of
from trackyard.server.routing import Handler, Permission, Route
from trackyard.store.bounds import excess, field_types

#: Every MLflow path is served under each of these.
PREFIXES = ("/api/2.0/mlflow/", "/ajax-api/2.0/mlflow/")
_INTEGER = re.compile(r"-?[0-9]{1,19}\Z")
#: What the address of a write may repeat from its body, but not contradict.
_IDS = ("run_id", "run_uuid", "experiment_id", "model_id", "name")


def mlflow_routes(
    method: str,
    path: str,
    handler: Handler,
    permission: Permission,
    *,
    attempts: bool = False,
    prefixes: tuple[str, ...] = PREFIXES,
    takes: Any = None,
) -> list[Route]:
    """Return a route under every prefix MLflow's clients use."""
    takes = takes or arguments_of(path)
    return [
        Route(
            method=method,
            path=prefix + path,
            handler=handler,
            permission=permission,
            attempts=attempts,
            takes=takes,
            body_limit=body_limit_of(path),
        )
        for prefix in prefixes
    ]


class Arguments:
    """The arguments of a call, from its JSON body or its query string, read with MLflow's
    messages.
    """

    __slots__ = ("_declared", "values")

    def __init__(self, values: dict[str, Any], declared: Collection[str]) -> None:
        self.values = values
        #: the names that the call's type has, each with its bounds; no other can be read
        self._declared = declared

    @classmethod
    async def of(cls, request: Request) -> Arguments:
        """Read the body, or the query of a GET; a repeated query parameter becomes a list."""
        if request.method in ("GET", "HEAD"):
            query = request.query
            data = {key: vals[0] if len(vals) == 1 else vals for key, vals in query.items()}
            return cls._bounded(request, data)
        require_json(request)
        data = await request.json()
        if isinstance(data, str):
            # Clients of old sent their JSON encoded twice.
            data = await read_json(data.encode("utf-8", "replace"))
        if data is None:
            data = {}
        if not isinstance(data, dict):
            raise InvalidInput("the body must be a JSON object")
        check_address(request, data)
        if count_values(await request.body()) <= FEW_VALUES:
            return cls._bounded(request, data)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, cls._bounded, request, data)

    @classmethod
    def _bounded(cls, request: Request, data: dict[str, Any]) -> Arguments:
        """Return the arguments that the call's type knows, none of them beyond its bounds."""
        known = field_types(request.route.takes)
        given = {name: value for name, value in data.items() if name in known}
        for name, value in given.items():
            fault = excess(value, known[name], name)
            if fault is not None:
                raise InvalidInput(f"{fault}.")
        return cls(given, known)

    def raw(self, name: str) -> Any:
        """Return a value as it came, or None."""
        if name not in self._declared:
            raise TypeError(f"the call's type has no {name}")
        return self.values.get(name)

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return a string, or the default when it is absent."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, str):
            return value
        raise _invalid(name, value)

    def need(self, name: str) -> str:
        """Return a string that must be there and not be empty."""
        value = self.raw(name)
        if value is None or value == "":
            raise missing(name)
        if isinstance(value, str):
            return value
        raise _invalid(name, value)

    def integer(self, name: str, default: int | None = None) -> int | None:
        """Return an integer that may have come as a string."""
        value = self.raw(name)
        if value is None or value == "":
            return default
        if isinstance(value, bool):
            raise _invalid(name, value)
        if isinstance(value, str) and _INTEGER.match(value) is not None:
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            return value
        raise _invalid(name, value)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a truth value that may have come as a string."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        raise _invalid(name, value)

    def texts(self, name: str) -> list[str]:
        """Return a list of strings; one string counts as a list of one."""
        value = self.raw(name)
        if value is None:
            return []
        if isinstance(value, str):
            return [value]
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
        raise _invalid(name, value)

    def objects(self, name: str) -> list[dict[str, Any]]:
        """Return a list of JSON objects."""
        value = self.raw(name)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return value
        raise _invalid(name, value)

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """Return a list of {key, value} objects as pairs of strings."""
        found = []
        for position, item in enumerate(self.objects(name)):
            key, value = item.get("key"), item.get("value", "")
            if key is None:
                raise missing(f"{name}[{position}].key")
            if not isinstance(key, str) or not isinstance(value, str | None):
                raise _invalid(f"{name}[{position}]", item)
            found.append((key, value or ""))
        return found


def require_json(request: Request) -> None:
    """Refuse a body that is no JSON by its own word, as MLflow does."""
    try:
        request.require_json()
    except WrongMediaType:
        raise InvalidInput(
            "Bad Request. Content-Type must be one of ['application/json']."
        ) from None


def check_address(request: Request, body: Mapping[str, Any]) -> None:
    """Refuse a write whose address names another thing than its body does."""
    if not request.scope.query_string:
        return
    for name in _IDS:
        given = body.get(name)
        if given and any(value != given for value in request.query.get(name, ())):
            raise Denied(f"the address and the body each name a {name}, and not the same one")


def one_run(run_id: str, run_uuid: str) -> str:
    """Return a run's id from its two fields, which may both be there but not differ."""
    if run_id and run_uuid and run_id != run_uuid:
        raise Denied("run_id and run_uuid name two runs; send one of them, or the same id")
    return run_id or run_uuid


def missing(name: str) -> InvalidInput:
    """Return MLflow's complaint about an absent argument."""
    return InvalidInput(
        f"Missing value for required parameter '{name}'. See the API docs for more information"
        " about request parameters."
    )


def _invalid(name: str, value: Any) -> InvalidInput:
    shown = msgspec.json.encode(value).decode()[:200]
    return InvalidInput(
        f"Invalid value {shown} for parameter '{name}' supplied. See the API docs for more"
        " information about request parameters."
    )
