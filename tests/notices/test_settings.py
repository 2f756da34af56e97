"""The table [notify] of the user's own configuration."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.errors import ConfigError, UsageError
from cli_agent_orchestrator.notices.decide import (
    EXPECTED,
    NoticeKind,
    NoticeSettings,
    TerminalWay,
    is_address,
    read_notice_settings,
)


def test_without_a_table_only_the_bell_rings() -> None:
    settings = read_notice_settings({})
    assert settings == NoticeSettings()
    assert settings.terminal is TerminalWay.BELL
    assert settings.events == set(NoticeKind)
    assert not settings.desktop
    assert settings.channels == ()
    assert not settings.has_secrets


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
        TerminalWay.OSC9,
        True,
        "https://ntfy.sh/my-topic_1",
        "tk_x",
        "http://127.0.0.1:8080/a?b=c",
        ("~/bin/tell", "-x"),
    )
    assert settings.channels == ("desktop", "ntfy", "webhook", "command")
    assert settings.has_secrets
    assert read_notice_settings({"webhook": "https://x/y"}).has_secrets
    assert read_notice_settings({"events": []}).events == frozenset()
    assert read_notice_settings({"command": ["tell", "./x"]}).command == ("tell", "./x")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([], "expected a table [notify]"),
        ({"desktp": True}, "'desktp', expected one of events, terminal, desktop, ntfy, ntfy_token, "
         "webhook, command (did you mean desktop?)"),
        ({"wibble": 1}, "a key of [notify] is 'wibble', expected one of events, terminal, desktop"),
        ({"Loud_er-please": "https://x/y"}, "a key of [notify] is 'Loud_er-please', expected"),
        ({"a" * 40: 1}, f"a key of [notify] is '{'a' * 40}', expected"),
        ({"events": "pass"}, "notify.events is 'pass', expected a list of these: needs_you"),
        ({"events": ["passed"]}, "'passed', expected one of needs_you, paused, resumed, pass, "
         "fail, stopped, not_converging (did you mean paused?)"),
        ({"events": [1]}, "an event of notify.events is 1, expected one of needs_you, paused, "
         "resumed, pass, fail, stopped, not_converging\n"),
        ({"webhook": "x"}, "notify.webhook is '(not shown)', expected a web address, such as "
         "https://example.com/hook\n"),
        ({"ntfy": "x"}, "notify.ntfy is '(not shown)', expected the address of a topic, such as "
         "https://ntfy.sh/my-topic\n"),
        ({"terminal": "loud"}, "terminal is '(not shown)', expected one of bell, osc9"),
        ({"terminal": []}, "notify.terminal is '(not shown)'"),
        ({"terminal": "osc99"}, "terminal is 'osc99', expected one of bell, osc9, osc777, off"),
        ({"desktop": "yes"}, "notify.desktop is 'yes', expected true or false"),
        ({"command": "tell me"}, "notify.command is '(not shown)', expected a list of texts"),
        ({"command": []}, "a list of texts"),
        ({"command": ["a", 1]}, "a list of texts"),
        ({"command": ["a\0"]}, "a list of texts"),
        ({"command": ["bin/tell"]}, "by its name or its whole path"),
        ({"command": [""]}, "by its name or its whole path"),
        ({"ntfy_token": "x"}, "notify.ntfy_token is of no use without notify.ntfy"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(table: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_notice_settings(table)
    assert words in f"{caught.value}\n"


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "table",
    [
        {"ntfy": f"https://ntfy.sh/{SECRET}/json"},
        {"ntfy": f"https://ntfy.sh/{SECRET}?auth=x"},
        {"ntfy": f"https://ntfy.sh/{SECRET}#x"},
        {"ntfy": f"https://ntfy.sh/{SECRET}é"},
        {"ntfy": f"{SECRET}.sh"},
        {"ntfy": [SECRET]},
        {"webhook": f"ftp://x/{SECRET}"},
        {"webhook": f"https:///{SECRET}"},
        {"webhook": f"https://x:0/{SECRET}"},
        {"webhook": f"https://x:99999/{SECRET}"},
        {"webhook": f"https://[x/{SECRET}"},
        {"webhook": f"https://x/{SECRET} b"},
        {"ntfy": "https://ntfy.sh/a", "ntfy_token": f"{SECRET}\nX-Evil: 1"},
        {"ntfy": "https://ntfy.sh/a", "ntfy_token": ""},
        {"command": [f"./{SECRET}"]},
        {"events": f"https://{SECRET}"},
        {"events": [f"https://{SECRET}"]},
        {"events": [[SECRET]]},
        {"terminal": SECRET},
        {"terminal": [SECRET]},
        {"desktop": SECRET},
        {"desktop": {"a": SECRET}},
        {SECRET: True},
        {f"https://x/{SECRET}": True},
        {f"{SECRET} x": True},
        {f"ghp_{SECRET}": True},
    ],
)
def test_no_error_shows_a_secret(table: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        read_notice_settings(table)
    assert "(not shown)" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "key", ["", "a" * 41, "two words", "a\nb", "a\n", "größe", "-", "ghp_abcdefgh"]
)
def test_a_key_that_is_no_plain_word_is_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match=r"a key of \[notify\] is '\(not shown\)', expected one"):
        read_notice_settings({key: True})


def test_settings_do_not_show_their_secrets() -> None:
    table = {"ntfy": f"https://x/{SECRET}", "ntfy_token": SECRET, "webhook": f"https://{SECRET}"}
    assert SECRET not in repr(read_notice_settings({**table, "command": [SECRET]}))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*EXPECTED, "other"]), values) | values)
def test_any_table_is_read_or_refused(table: Any) -> None:
    try:
        settings = read_notice_settings(table)
    except UsageError:
        return
    assert settings.webhook == "" or is_address(settings.webhook)
