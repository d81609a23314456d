"""Answers to create calls. Owns that each is either handed over or noted as lost, so that a retry
gets what the first try made and nobody else does; the rule itself is in `store.idempotency.rule`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from trackyard.access.principal import Principal
from trackyard.server.http.messages import JSONResponse, Request, Response
from trackyard.server.wire import ProtocolClosed
from trackyard.store.idempotency.rule import Create, Creates, digest_of


class CreatedResponse(JSONResponse):
    """An answer that tells what was created; if it cannot be handed over, that is noted."""

    __slots__ = ("_create",)

    def __init__(self, data: Any, create: Create) -> None:
        super().__init__(data)
        self._create = create

    async def send(self, proto: Any) -> None:
        """Write the answer, unless its caller has gone."""
        create = self._create
        if not proto.hand_over(self.status, self.headers, self.body, create.claim):
            await create.unanswered()
            raise ProtocolClosed


async def create_once(
    creates: Creates,
    request: Request,
    route: str,
    words: Any,
    make: Callable[[Create], Awaitable[Any]],
) -> Response:
    """Answer a create call with what `make` returns; its words tell a retry from other calls."""
    principal = request.principal
    digest = digest_of(principal.team_id, caller_of(principal), route, words)
    create = creates.begin(digest, request.is_gone)
    try:
        data = await make(create)
    except asyncio.CancelledError:
        raise  # the process is about to end: what was made may be committed yet
    except BaseException:
        await create.unanswered()
        raise
    return CreatedResponse(data, create)


def caller_of(principal: Principal) -> str:
    """Return what tells one caller from another: the token, or the name of a browser's user."""
    return principal.token_id or principal.name
