"""The user's own configuration file, whatever it is."""

from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import UsageError
from cli_agent_orchestrator.hosting.user import read_user_file
from cli_agent_orchestrator.settings.values import LARGEST_SETTINGS


def read(folder: Path) -> object:
    return read_user_file({"CAO_CONFIG_DIR": str(folder)})


def test_it_need_not_be_there_and_may_be_a_link_of_the_users(tmp_path: Path) -> None:
    assert read(tmp_path) == {}
    (tmp_path / "dotfiles.toml").write_text("a = 1\n", encoding="utf-8-sig")
    (tmp_path / "config.toml").symlink_to(tmp_path / "dotfiles.toml")
    assert read(tmp_path) == {"a": 1}


def test_what_is_no_toml_is_said_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    for content in (b"\xff\xfe[notify", b"a = " + b"[" * 100_000, b"#" * (LARGEST_SETTINGS + 1)):
        file.write_bytes(content)
        with pytest.raises(UsageError, match=r"config\.toml"):
            read(tmp_path)
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"it is a device, not a regular file$"):
        read(tmp_path)
