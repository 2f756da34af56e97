"""Walks over folders that anybody may have made."""

from pathlib import Path

from cli_agent_orchestrator.work.left_out import make_writable, walk
from tests.work.depths import folders_in


def test_a_walk_goes_from_the_top_down_and_follows_no_link(tmp_path: Path) -> None:
    for name in ("b/c/file", "a/file", "file"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("b")
    (tmp_path / "lost").symlink_to("nowhere")
    assert list(walk(tmp_path)) == [
        (tmp_path, ["a", "b"], ["file", "link", "lost"]),
        (tmp_path / "a", [], ["file"]),
        (tmp_path / "b", ["c"], []),
        (tmp_path / "b/c", [], ["file"]),
    ]


def test_what_is_taken_from_the_folders_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    seen = []
    for place, folders, _ in walk(tmp_path):
        seen.append(place)
        folders[:] = [name for name in folders if name != "a"]
    assert seen == [tmp_path, tmp_path / "c"]


def test_what_is_no_folder_has_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link", "gone"):
        assert list(walk(tmp_path / name)) == []


def test_folders_without_end_are_walked_as_far_as_a_path_can_name_them(tmp_path: Path) -> None:
    with folders_in(tmp_path / "short", 1100, file="last"):
        assert [files for _, _, files in walk(tmp_path / "short")][-1] == ["last"]
    with folders_in(tmp_path / "long", 60, "d" * 200):
        assert 10 < len(list(walk(tmp_path / "long"))) < 60


def test_folders_are_made_writable_however_deep(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/link").symlink_to("/nowhere")
    for name in ("a/b", "a"):
        (tmp_path / name).chmod(0)
    with folders_in(tmp_path / "deep"):
        make_writable(tmp_path)
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o700
