"""The table [notify] of the user's own configuration."""

from typing import Any

import pytest

from cli_agent_orchestrator.errors import ConfigError, UsageError
from cli_agent_orchestrator.notices.decide import (
    NoticeKind,
    NoticeSettings,
    read_notice_settings,
)


def test_all_of_it_is_read() -> None:
    settings = read_notice_settings(
        {
            "events": ["pass", "needs_you"],
            "terminal": "osc9",
            "desktop": True,
            "ntfy": "https://ntfy.sh/my-topic_1",
            "ntfy_token": "tk_x",
            "webhook": "http://127.0.0.1:8080/a?b=c",
            "command": ["~/bin/tell", "-x"],
        }
    )
    assert settings == NoticeSettings(
        frozenset({NoticeKind.PASS, NoticeKind.NEEDS_YOU}),
        "osc9",
        True,
        "https://ntfy.sh/my-topic_1",
        "tk_x",
        "http://127.0.0.1:8080/a?b=c",
        ("~/bin/tell", "-x"),
    )
    assert settings.channels == ("desktop", "ntfy", "webhook", "command")
    assert settings.has_secrets
    assert "ntfy.sh" not in repr(settings)
    assert read_notice_settings({"webhook": "https://x/y"}).has_secrets
    assert read_notice_settings({"events": []}).events == frozenset()
    assert read_notice_settings({"command": ["tell", "./x"]}).command == ("tell", "./x")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([], "expected a table [notify]"),
        ({"desktp": True}, "'desktp', expected one of events, terminal, desktop, ntfy, ntfy_token, "
         "webhook, command (did you mean desktop?)"),
        ({"events": "pass"}, "notify.events is 'pass', expected a list of these: needs_you"),
        ({"events": ["passed"]}, "'passed', expected one of needs_you, paused, resumed, pass, "
         "fail, stopped, not_converging (did you mean paused?)"),
        ({"webhook": "x"}, "notify.webhook is '(not shown)', expected a web address, such as "),
        ({"ntfy": "x"}, "notify.ntfy is '(not shown)', expected the address of a topic, such as "),
        ({"terminal": "osc99"}, "terminal is 'osc99', expected one of bell, osc9, osc777, off"),
        ({"desktop": "yes"}, "notify.desktop is 'yes', expected true or false"),
        ({"command": "tell me"}, "notify.command is '(not shown)', expected a list of texts"),
        ({"command": ["a\0"]}, "a list of texts"),
        ({"command": ["bin/tell"]}, "by its name or its whole path"),
        ({"ntfy_token": "x"}, "notify.ntfy_token is of no use without notify.ntfy"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(table: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_notice_settings(table)
    assert words in str(caught.value)


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "table",
    [
        *({"ntfy": f"https://ntfy.sh/{SECRET}{more}"} for more in ("/json", "?auth=x")),
        *({"webhook": f"{address}{SECRET}"} for address in
          ("ftp://x/", "https:///", "https://x:99999/", "https://[x/", "https://x/ ")),
        {"ntfy": "https://ntfy.sh/a", "ntfy_token": f"{SECRET}\nX-Evil: 1"},
        {"command": [f"./{SECRET}"]},
    ],
)  # fmt: skip
def test_no_error_shows_a_secret(table: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        read_notice_settings(table)
    assert "(not shown)" in str(caught.value)
    assert SECRET not in str(caught.value)
