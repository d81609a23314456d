"""Searching registered models and their versions. Owns where the search language's keys lie in the
registry's tables, and that prompts stay out unless asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from trackyard.access.principal import Principal
from trackyard.registry.rules import PROMPT_TAG, STAGE_DELETED
from trackyard.registry.views import load_models, load_versions
from trackyard.store.database import ReadConnection
from trackyard.tracking.search.grammar import (
    Clause,
    Expression,
    Not,
    SortKey,
    parse_filter,
    parse_order,
)
from trackyard.tracking.search.language import MODEL_VERSIONS, REGISTERED_MODELS
from trackyard.tracking.search.paging import Term, binding, check_page_size, find_page
from trackyard.tracking.search.sql import (
    ALWAYS,
    Column,
    Fragment,
    Rows,
    SearchColumns,
    compile_where,
    join,
)

MODELS_DEFAULT = 100
MODELS_MOST = 1000
VERSIONS_DEFAULT = 10_000
VERSIONS_MOST = 200_000

Kind = Literal["text", "whole"]

#: A model that does not say whether it is a prompt is none.
_ABSENT = {PROMPT_TAG: "false"}
_MODELS = SearchColumns(
    attributes={"name": Column("m.name")},
    rows={"tag": Rows(table="model_tags", owner="model_id", parent="m.id", absent=_ABSENT)},
)
_MODEL_ORDER: dict[str, tuple[str, Kind]] = {
    "name": ("m.name", "text"),
    "creation_timestamp": ("m.created_ms", "whole"),
    "last_updated_timestamp": ("m.updated_ms", "whole"),
}
_VERSIONS = SearchColumns(
    attributes={
        "name": Column("m.name"),
        "run_id": Column("v.run_uuid"),
        "source_path": Column("v.source"),
        "version_number": Column("v.version"),
    },
    rows={
        "tag": Rows(table="model_version_tags", owner="version_id", parent="v.id", absent=_ABSENT)
    },
)
_VERSION_ORDER: dict[str, tuple[str, Kind]] = {
    "name": ("m.name", "text"),
    "version_number": ("v.version", "whole"),
    "creation_timestamp": ("v.created_ms", "whole"),
    "last_updated_timestamp": ("v.updated_ms", "whole"),
}
_NO_PROMPT_MODELS = Fragment(
    "NOT EXISTS (SELECT 1 FROM model_tags p WHERE p.model_id = m.id AND p.key = ?"
    " AND p.value = 'true')",
    (PROMPT_TAG,),
)
_NO_PROMPT_VERSIONS = Fragment(
    "NOT EXISTS (SELECT 1 FROM model_version_tags p WHERE p.version_id = v.id AND p.key = ?"
    " AND p.value = 'true')",
    (PROMPT_TAG,),
)


def search_models(
    reader: ReadConnection,
    principal: Principal,
    *,
    filter_text: str | None,
    order_by: Sequence[str],
    max_results: int,
    page_token: str | None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of the team's registered models, by name unless told otherwise."""
    check_page_size(max_results, MODELS_MOST)
    tree = parse_filter(filter_text, REGISTERED_MODELS)
    terms = _terms(parse_order(order_by, REGISTERED_MODELS), _MODEL_ORDER, [("name", True)])
    where = join(
        "AND",
        [
            Fragment("m.team_id = ?", (principal.team_id,)),
            compile_where(reader.dialect, tree, _MODELS),
            ALWAYS if _asks_for_prompts(tree) else _NO_PROMPT_MODELS,
        ],
    )
    ids, token = find_page(
        reader,
        key="m.id",
        source=Fragment("models m"),
        where=where,
        terms=terms,
        query=binding("models", principal.team_id, filter_text, list(order_by)),
        max_results=max_results,
        page_token=page_token,
    )
    return load_models(reader, ids), token


def search_versions(
    reader: ReadConnection,
    principal: Principal,
    *,
    filter_text: str | None,
    order_by: Sequence[str],
    max_results: int,
    page_token: str | None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of the team's model versions, the last changed first unless told otherwise."""
    check_page_size(max_results, VERSIONS_MOST)
    tree = parse_filter(filter_text, MODEL_VERSIONS)
    orders = parse_order(order_by or ("last_updated_timestamp DESC",), MODEL_VERSIONS)
    terms = _terms(orders, _VERSION_ORDER, [("name", True), ("version_number", False)])
    where = join(
        "AND",
        [
            Fragment("m.team_id = ?", (principal.team_id,)),
            Fragment("v.stage <> ?", (STAGE_DELETED,)),
            compile_where(reader.dialect, tree, _VERSIONS),
            ALWAYS if _asks_for_prompts(tree) else _NO_PROMPT_VERSIONS,
        ],
    )
    ids, token = find_page(
        reader,
        key="v.id",
        source=Fragment("model_versions v JOIN models m ON m.id = v.model_id"),
        where=where,
        terms=terms,
        query=binding("versions", principal.team_id, filter_text, list(order_by)),
        max_results=max_results,
        page_token=page_token,
    )
    return load_versions(reader, ids), token


def _terms(
    orders: Sequence[SortKey],
    places: dict[str, tuple[str, Kind]],
    ties: Sequence[tuple[str, bool]],
) -> list[Term]:
    """Return what to sort by, ending in keys that tell all rows apart."""
    chosen = [(order.key.name, order.ascending) for order in orders]
    named = {name for name, _ in chosen}
    chosen += [(name, ascending) for name, ascending in ties if name not in named]
    return [
        Term(places[name][0], ascending=ascending, kind=places[name][1])
        for name, ascending in chosen
    ]


def _asks_for_prompts(tree: Expression | None) -> bool:
    """Tell whether a filter has its own word on prompts."""
    if tree is None:
        return False
    if isinstance(tree, Clause):
        return tree.key.entity == "tag" and tree.key.name == PROMPT_TAG
    if isinstance(tree, Not):
        return _asks_for_prompts(tree.part)
    return any(_asks_for_prompts(part) for part in tree.parts)
