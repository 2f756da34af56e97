import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_agent_orchestrator.core.files import LARGEST_FILE, Folder
from cli_agent_orchestrator.errors import BadFolder, HandoffError, UnknownName
from cli_agent_orchestrator.handoff.files import ResponseFiles, decode_response
from tests.handoff.fakes import NAMES


@pytest.fixture
def files(tmp_path: Path) -> ResponseFiles:
    files = ResponseFiles(tmp_path, kept_in(tmp_path), NAMES)
    files.ensure_response_dir()
    return files


def kept_in(folder: Path) -> Folder:
    return Folder(folder, (".tmp", "kept"), private=True)


def write(files: ResponseFiles, data: bytes, role: str = "analyst") -> Path:
    path = files.response_path_for(role)
    path.write_bytes(data)
    return path


def test_paths_are_absolute_even_if_the_folder_is_not() -> None:
    files = ResponseFiles(Path("project"), kept_in(Path("kept")), NAMES)
    assert files.response_path_for("tester").is_absolute()


def test_an_unknown_role_is_refused(files: ResponseFiles) -> None:
    with pytest.raises(UnknownName, match="role 'poet'"):
        files.response_path_for("poet")


def test_git_does_not_see_what_a_run_leaves_behind(tmp_path: Path, files: ResponseFiles) -> None:
    write(files, b"reply")
    files.archive("analyst", 1)
    git = ["git", "-C", str(tmp_path), "-c", "core.excludesFile="]
    subprocess.run([*git, "init", "-q"], check=True)
    status = subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True)
    assert status.stdout == b""


def test_a_gitignore_of_the_user_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".tmp").mkdir()
    (tmp_path / ".tmp" / ".gitignore").write_text("mine\n")
    ResponseFiles(tmp_path, kept_in(tmp_path), NAMES).ensure_response_dir()
    assert (tmp_path / ".tmp" / ".gitignore").read_text() == "mine\n"


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / ".tmp").write_text("a file is in the way")
    with pytest.raises(BadFolder, match="cannot be written"):
        ResponseFiles(tmp_path, kept_in(tmp_path), NAMES).ensure_response_dir()


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"\0\0\n"])
def test_a_blank_file_counts_as_absent(files: ResponseFiles, data: bytes) -> None:
    write(files, data)
    assert files.read("analyst") is None


def test_what_is_not_utf8_is_replaced_with_a_warning() -> None:
    response = decode_response(b"caf\xe9 RESULT: PASS\n")
    assert response.text == "caf\N{REPLACEMENT CHARACTER} RESULT: PASS\n"
    assert "not UTF-8 at byte 3" in response.warnings[0]


@given(st.text(st.characters(exclude_characters="\0\r\ufeff", exclude_categories=["Cs"])))
def test_proper_text_comes_back_as_it_was(text: str) -> None:
    assert decode_response(text.encode()).text == text
    assert decode_response(text.replace("\n", "\r\n").encode("utf-8-sig")).text == text


def test_a_file_without_end_is_refused(files: ResponseFiles) -> None:
    path = files.response_path_for("analyst")
    with path.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(HandoffError, match="more than"):
        files.read("analyst")


def test_an_archived_file_keeps_its_bytes(files: ResponseFiles) -> None:
    path = write(files, b"\xef\xbb\xbfa\r\n\0\xff")
    kept = files.archive("analyst", 12)
    assert kept == files.kept.path / "012-analyst.md"
    assert kept.read_bytes() == b"\xef\xbb\xbfa\r\n\0\xff"
    assert not path.exists()
    assert files.path_for_agents(kept).read_bytes() == kept.read_bytes()


def test_what_prompts_refer_to_lies_where_agents_may_read(files: ResponseFiles) -> None:
    page = files.archive_text("tests", 3, "the page of a gate")
    prompt = files.archive_text("tester-prompt", 4, "a prompt", shown=False)
    assert files.path_for_agents(page).read_text() == "the page of a gate"
    assert not files.path_for_agents(prompt).exists()


def test_nothing_in_the_archive_is_ever_overwritten(files: ResponseFiles) -> None:
    for text in (b"first", b"second", b"third"):
        write(files, text)
        files.archive("analyst", 1)
    kept = {path.name: path.read_bytes() for path in files.kept.path.iterdir()}
    assert kept == {
        "001-analyst.md": b"first",
        "001-analyst-2.md": b"second",
        "001-analyst-3.md": b"third",
    }


def test_numbers_go_on_after_the_highest(files: ResponseFiles) -> None:
    assert files.next_sequence() == 1
    write(files, b"x")
    files.archive("analyst", 999)
    assert files.next_sequence() == 1000
    files.archive_text("tester", 1000, "y")
    (files.kept.path / "notes.txt").write_text("not numbered")
    assert files.next_sequence() == 1001


def test_a_kept_reply_is_found_by_its_number(files: ResponseFiles) -> None:
    kept = files.archive_text("tester", 4, "RESULT: PASS\n")
    found = files.archived("tester", 4)
    assert found is not None
    assert (found[0], found[1].text) == (kept, "RESULT: PASS\n")
    assert files.archived("tester", 5) is None
    assert files.archived("analyst", 4) is None


def test_a_file_written_since_is_not_stale(files: ResponseFiles) -> None:
    path = write(files, b"fresh")
    os.utime(path, (2000, 2000))
    assert files.clear_stale_response("analyst", 1, before=1999) is None
    assert files.clear_stale_response("analyst", 1, before=2001) is not None


class TestHostileFolders:
    """What lies in a working directory may come from anybody."""

    @pytest.fixture
    def secret(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        path = tmp_path_factory.mktemp("elsewhere") / "secret.md"
        path.write_text("secret")
        return path

    def refused(self, files: ResponseFiles, reason: str) -> None:
        for look in (
            lambda: files.read("analyst"),
            lambda: files.signature("analyst"),
            lambda: files.clear_stale_response("analyst", 1),
        ):
            with pytest.raises(HandoffError, match=reason):
                look()

    def test_a_link_is_not_read(self, files: ResponseFiles, secret: Path) -> None:
        files.response_path_for("analyst").symlink_to(secret)
        self.refused(files, "it is a symbolic link, not a regular file; remove it")
        assert secret.read_text() == "secret"

    def test_an_archive_elsewhere_is_refused(self, files: ResponseFiles, secret: Path) -> None:
        files.kept.path.symlink_to(secret.parent)
        path = write(files, b"reply")
        for deed in (
            lambda: files.archive("analyst", 1),
            lambda: files.archive_text("analyst", 1, "text"),
            lambda: files.archived("analyst", 1),
            files.next_sequence,
        ):
            with pytest.raises(HandoffError, match="kept is a symbolic link, not a folder"):
                deed()
        assert path.read_bytes() == b"reply"
        assert [path.name for path in secret.parent.iterdir()] == ["secret.md"]
