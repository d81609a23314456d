"""The OpenAPI description of /api/v1, made from the live route table: it cannot fall behind."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

import trackyard
from trackyard.server.routing import Permission, Route


def describe(routes: Iterable[Route]) -> dict[str, Any]:
    """Return an OpenAPI 3.1 document of the native API."""
    native = [route for route in routes if route.path.startswith("/api/v1/")]
    kinds = [kind for route in native for kind in (route.takes, route.gives) if kind is not None]
    unique = list(dict.fromkeys(kinds))
    schemas, components = msgspec.json.schema_components(
        unique, ref_template="#/components/schemas/{name}"
    )
    known = dict(zip(unique, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in native:
        path = re.sub(r"\{([a-z_]+)\.\.\.\}", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trackyard", "version": trackyard.__version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, known: dict[Any, Any]) -> dict[str, Any]:
    text = (route.handler.__doc__ or "").strip().splitlines()
    operation: dict[str, Any] = {
        "summary": text[0] if text else "",
        "operationId": f"{route.method.lower()}_{re.sub(r'[^a-z0-9]+', '_', route.path[8:])}",
        "responses": {"200": _answer(route, known)},
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{([a-z_]+)(?:\.\.\.)?\}", route.path)
    ] + [
        {"name": name, "in": "query", "description": line, "schema": {"type": "string"}}
        for name, line in route.query.items()
    ]
    if parameters:
        operation["parameters"] = parameters
    if route.takes is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": known[route.takes]}},
        }
    if route.permission is not Permission.PUBLIC:
        operation["security"] = [{"token": []}]
    return operation


def _answer(route: Route, known: dict[Any, Any]) -> dict[str, Any]:
    if route.gives is None:
        return {"description": "OK"}
    return {
        "description": "OK",
        "content": {"application/json": {"schema": known[route.gives]}},
    }
