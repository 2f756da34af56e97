"""Lines as real agents write them, with the numbers that a test wants."""

import json
from datetime import UTC, datetime

NOON = 1_794_916_800.0
"""17 November 2026, 12:00 UTC."""

# What JSON holds.
Json = dict[str, object]


def stamp(at: float) -> str:
    """Return a time as agents write it."""
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def encode(line: object) -> bytes:
    return json.dumps(line).encode()


def codex_head(thread: str = "t1", **more: object) -> bytes:
    """The first line of a record of Codex."""
    payload = {"id": thread, "cli_version": "0.166.0", "source": "cli", **more}
    return encode({"timestamp": stamp(NOON), "type": "session_meta", "payload": payload})


def sub_agent_head(thread: str, parent: str, session: str) -> bytes:
    """The first line of the record of a sub-agent of Codex."""
    spawned = {"parent_thread_id": parent, "depth": 1, "agent_nickname": "Fermat"}
    return codex_head(
        thread,
        session_id=session,
        parent_thread_id=parent,
        source={"subagent": {"thread_spawn": spawned}},
        thread_source="subagent",
    )


def codex_usage(given: int, cached: int, made: int, reasoning: int) -> Json:
    return {
        "input_tokens": given,
        "cached_input_tokens": cached,
        "cache_write_input_tokens": 0,
        "output_tokens": made,
        "reasoning_output_tokens": reasoning,
        "total_tokens": given + made,
    }


def usage_record(at: float, response: object, usage: object) -> bytes:
    """What Codex 0.166 writes for each call."""
    payload = {
        "thread_id": "t1",
        "turn_id": "u1",
        "session_id": "t1",
        "root_turn_id": "u1",
        "response_id": response,
        "usage": usage,
        "turn_token_usage": codex_usage(10**6, 0, 10**6, 0),
        "thread_token_usage": codex_usage(10**6, 0, 10**6, 0),
    }
    return encode({"timestamp": stamp(at), "type": "token_usage_record", "payload": payload})


def token_count(at: float, total: Json | None) -> bytes:
    """What all versions of Codex write now and then; what it says of the last call is not true."""
    last = codex_usage(7, 7, 7, 7)
    info = total and {"total_token_usage": total, "last_token_usage": last}
    payload = {"type": "token_count", "info": info, "rate_limits": {"limit_id": "codex"}}
    return encode({"timestamp": stamp(at), "type": "event_msg", "payload": payload})


def claude_usage(fresh: int, written: int, read: int, made: int, thinking: int) -> Json:
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": made,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "output_tokens_details": {"thinking_tokens": thinking},
    }


def claude_line(at: float, name: object, usage: object, **more: object) -> bytes:
    """What Claude Code writes for each part of an answer."""
    message = {"id": name, "model": "claude-opus-5-5", "role": "assistant", "usage": usage}
    model = more.pop("model", None)
    if model is not None:
        message["model"] = model
    line = {
        "type": "assistant",
        "isSidechain": False,
        "requestId": "req_2",
        "sessionId": "s1",
        "timestamp": stamp(at),
        "message": message,
        **more,
    }
    return encode(line)
