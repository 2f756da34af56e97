"""The server of a run: if it was merely found, another takes its place when it goes away."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial

import httpx

from cli_agent_orchestrator._internal.address import Found
from cli_agent_orchestrator._internal.client import ApiClient
from cli_agent_orchestrator._internal.clock import SystemClock
from cli_agent_orchestrator._internal.config import DEFAULT_PORT, state_folder
from cli_agent_orchestrator._internal.discovery import Named, discover, is_still_ours
from cli_agent_orchestrator._internal.hosting.connect import (
    Importing,
    OnRemark,
    find_or_start,
    run_own_server,
)
from cli_agent_orchestrator._internal.hosting.transports import FailoverTransport, transport_to
from cli_agent_orchestrator._internal.run_config import RunConfig
from cli_agent_orchestrator._internal.runs.surroundings import ServerLink


@contextmanager
def server_for(
    config: RunConfig,
    environ: Mapping[str, str],
    on_warning: OnRemark,
    *,
    default_port: int = DEFAULT_PORT,
    importing: Importing = nullcontext,
) -> Iterator[ServerLink]:
    """Yield a client of the server that a run is to use; raise if the one named is not there."""
    with ExitStack() as stack:

        def connect(found: Found, transport: httpx.BaseTransport | None) -> ServerLink:
            client = ApiClient(
                found.url,
                provider=config.provider,
                working_directory=str(config.wd),
                token=found.token,
                transport=transport,
            )
            client.permissions = config.permissions
            stack.callback(client.close)
            return ServerLink(client, found.url, found.how, found.proved)

        named = Named(config.api, config.api_named_by) if config.api_given else None

        def find(gone: int = 0) -> Found:
            own = partial(run_own_server, environ, default_port, importing, gone=gone)
            return find_or_start(
                lambda: discover(environ, named, default_port=default_port, lasting=True),
                lambda: stack.enter_context(own()),
                on_warning,
                state_folder(environ),
            )

        def succeed() -> Found:
            found = find(gone=httpx.URL(first.url).port or 0)
            whose = f"the one at {found.url}" if found.proved else f"one of its own at {found.url}"
            on_warning(f"the server has gone; this run goes on with {whose}")
            return found

        first = find()
        if first.proved and not first.named:
            failover = FailoverTransport(succeed, lambda: is_still_ours(first), SystemClock())
            yield connect(first, failover)
        else:
            yield connect(first, transport_to(first))
