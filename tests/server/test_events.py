"""The status stream: snapshots, changes, resuming, signs of life, and every way it ends."""

import contextlib
import json
from collections.abc import Iterator

import httpx
import httpx_sse
import msgspec
import pytest

from cli_agent_orchestrator.core.models import TerminalEvent, TerminalStatus
from tests.server.running import RunningApi, running_api


@contextlib.contextmanager
def following(http: httpx.Client) -> Iterator[Iterator[httpx_sse.ServerSentEvent]]:
    with httpx_sse.connect_sse(http, "GET", "/events") as source:
        yield source.iter_sse()


def test_a_stream_begins_with_every_terminal_and_goes_on_with_changes(
    api: RunningApi, http: httpx.Client
) -> None:
    assert http.get("/events", headers={"Last-Event-ID": "x" * 201}).status_code == 422
    api.service.add("one")
    api.service.add("two")
    with following(http) as events:
        first, second = next(events), next(events)
        assert [(e.event, json.loads(e.data)["terminal_id"]) for e in (first, second)] == [
            ("snapshot", "one"),
            ("snapshot", "two"),
        ]
        api.call(lambda: api.service.change("two", TerminalStatus.PROCESSING))
        change = next(events)
    assert change.event == "status"
    data = msgspec.json.decode(change.data, type=TerminalEvent)
    assert (data.id, data.terminal_id, data.status) == (change.id, "two", "processing")


def test_a_quiet_stream_is_not_kept_and_gives_signs_of_life() -> None:
    with (
        running_api(heartbeat=0.01) as api,
        api.client() as http,
        http.stream("GET", "/events") as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        assert "content-length" not in response.headers
        text = response.iter_text()
        assert next(text).startswith(": ")
        assert next(text).startswith(": ")


def test_a_server_that_stops_ends_its_streams_cleanly(
    api: RunningApi, http: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    api.service.add()
    with following(http) as events:
        next(events)
        api.stop()
        assert list(events) == []
    assert api.service.listeners == 0
    assert caplog.records == []
