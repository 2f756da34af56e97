"""Noticing that a client is gone."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

Result = TypeVar("Result")


async def wait_for_hang_up(receive: Receive) -> None:
    """Return when the client has hung up; what it still sends is thrown away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return what the work returns, or undo it when the client hangs up.

    For work whose result nobody else would ever learn of.
    """
    doing = asyncio.create_task(work)
    hang_up = asyncio.create_task(wait_for_hang_up(request.receive))
    try:
        await asyncio.wait({doing, hang_up}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        hang_up.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait({doing})
    if doing.cancelled():
        raise ClientDisconnect
    return doing.result()
