"""Requests to a stub: never through a proxy, and with patience for a busy machine."""

import httpx

PATIENCE = 60.0


def get(url: str) -> httpx.Response:
    return httpx.get(url, timeout=PATIENCE, trust_env=False)


def post(url: str, json: object, headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.post(url, json=json, headers=headers, timeout=PATIENCE, trust_env=False)
