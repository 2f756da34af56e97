"""The files of a project: no link is followed, nothing but a regular file is opened."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_agent_orchestrator.core.files import Folder, NotPlain, cache_of, folder_of, read_named

VICTIM = b"precious"


@pytest.fixture
def victim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elsewhere") / "victim"
    path.write_bytes(VICTIM)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path, (".tmp", "inner"))
    folder.make()
    return folder


def spoil(path: Path, kind: str, victim: Path) -> None:
    match kind:
        case "a symbolic link":
            path.symlink_to(victim)
        case "a dangling link":
            path.symlink_to(victim.with_name("nothing"))
        case "a pipe":
            os.mkfifo(path)
        case "a folder":
            path.mkdir()
        case "a regular file":
            path.touch()


DEEDS: list[Callable[[Folder], object]] = [
    lambda folder: folder.read("name"),
    lambda folder: folder.status("name"),
    lambda folder: folder.replace("name", b"new"),
    lambda folder: folder.append("name").close(),
]


@pytest.mark.parametrize("kind", ["a symbolic link", "a dangling link", "a pipe", "a folder"])
def test_what_is_no_regular_file_is_named_and_left_alone(
    folder: Folder, victim: Path, kind: str
) -> None:
    spoil(folder.path / "name", kind, victim)
    before = (folder.path / "name").lstat()
    shown = "a symbolic link" if kind == "a dangling link" else kind
    for deed in DEEDS:
        with pytest.raises(NotPlain) as caught:
            deed(folder)
        assert caught.value.strerror == f"it is {shown}, not a regular file; remove it"
    assert (folder.path / "name").lstat().st_ino == before.st_ino
    assert victim.read_bytes() == VICTIM
    assert [path.name for path in victim.parent.iterdir()] == ["victim"]


def make_one(folder: Folder) -> None:
    folder.create("name", b"")


@pytest.mark.parametrize("spoiled", [".tmp", ".tmp/inner"])
@pytest.mark.parametrize("kind", ["a symbolic link", "a pipe", "a regular file"])
def test_a_folder_on_the_way_that_is_none_is_named_and_not_entered(
    tmp_path: Path, victim: Path, spoiled: str, kind: str
) -> None:
    path = tmp_path / spoiled
    path.parent.mkdir(exist_ok=True)
    spoil(path, kind, victim.parent)
    for deed in (*DEEDS, Folder.make, Folder.names, make_one):
        with pytest.raises(NotPlain) as caught:
            deed(Folder(tmp_path, (".tmp", "inner")))
        assert f"its folder {path} is {kind}, not a folder" in str(caught.value)
    assert [path.name for path in victim.parent.iterdir()] == ["victim"]


def test_the_way_to_the_project_may_have_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Folder(tmp_path / "link", (".tmp",)).create("name", b"text")
    assert (tmp_path / "real" / ".tmp" / "name").read_bytes() == b"text"


def test_a_file_is_created_once(folder: Folder, victim: Path) -> None:
    folder.create("name", b"one")
    with pytest.raises(FileExistsError):
        folder.create("name", b"two")
    (folder.path / "name-2").symlink_to(victim.with_name("nothing"))
    assert (folder.free_name("other", ".md"), folder.free_name("name")) == ("other.md", "name-3")
    (folder.path / ".name.draft").symlink_to(victim)
    folder.replace("name", b"one")
    (folder.path / "link").symlink_to(victim)
    with pytest.raises(FileExistsError):
        folder.create("link", b"two")
    assert folder.read("name") == b"one"
    assert victim.read_bytes() == VICTIM


# A file size limit is a disk that is full, for one process only.
FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from cli_agent_orchestrator.core.files import Folder

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for write in (Folder.create, Folder.replace):
    try:
        write(Folder(Path(sys.argv[1])), "name", b"x" * 10_000)
    except OSError as error:
        print(error.strerror)
"""


def test_nothing_is_left_of_a_file_for_which_there_is_no_room(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "File too large\n" * 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_as_a_whole_and_can_be_for_its_owner_alone(folder: Folder) -> None:
    folder.replace("name", b"for all")
    folder.replace("name", b"secret", mode=0o600)
    assert (folder.path / "name").stat().st_mode & 0o777 == 0o600
    assert folder.read("name", limit=6) == b"secret"
    assert folder.names() == ["name"]
    with folder.append("name") as file:
        file.write(b"s")
    assert folder.read("name") == b"secrets"
    with pytest.raises(OSError, match="more than 6 bytes"):
        folder.read("name", limit=6)
    missing = Folder(folder.path, ("none",))
    missing.remove("name")
    assert (missing.status("name"), missing.names()) == (None, [])
    with pytest.raises(FileNotFoundError):
        missing.read("name")


def _open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_nothing_stays_open(folder: Folder) -> None:
    folder.create("name", b"text")
    before = _open_files()
    for deed in DEEDS:
        deed(folder)
    assert _open_files() == before
    (folder.path / "name").unlink()
    os.mkfifo(folder.path / "name")
    for deed in DEEDS:
        with pytest.raises(NotPlain):
            deed(folder)
    assert _open_files() == before


def test_nothing_is_added_to_a_file_with_a_second_name(folder: Folder, victim: Path) -> None:
    (folder.path / "name").hardlink_to(victim)
    with pytest.raises(NotPlain, match="hard link"):
        folder.append("name")
    assert victim.read_bytes() == VICTIM


def test_nothing_is_moved_into_a_folder_that_leads_elsewhere(
    tmp_path: Path, folder: Folder, victim: Path
) -> None:
    folder.create("name", b"text")
    folder.move("name", Folder(tmp_path, (".tmp", "made")), "name")
    Folder(tmp_path, (".tmp", "made")).move("name", folder, "name")
    (tmp_path / ".tmp" / "other").symlink_to(victim.parent)
    with pytest.raises(NotPlain):
        folder.move("name", Folder(tmp_path, (".tmp", "other")), "new")
    assert folder.read("name") == b"text"
    assert [path.name for path in victim.parent.iterdir()] == ["victim"]


def test_a_file_in_the_project_is_not_trusted_and_one_elsewhere_is(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "link").symlink_to(project)
    assert folder_of(project / "state.json", project) == Folder(project)
    for path in ("project/.tmp/s.json", "project/a/../.tmp/s.json", "link/.tmp/s.json"):
        assert folder_of(tmp_path / path, project) == Folder(project, (".tmp",))
    for path in ("state.json", "project/../state.json", "projects/state.json"):
        found = folder_of(tmp_path / path, project)
        assert found == Folder((tmp_path / path).parent, named=True)


def test_it_is_told_when_what_lies_in_a_folder_was_changed_and_no_link_is_followed(
    folder: Folder, victim: Path
) -> None:
    folder.replace("name", b"text")
    (folder.path / "link").symlink_to(victim)
    (folder.path / "inner").mkdir()
    os.utime(victim, ns=(5, 5))
    os.utime(folder.path / "name", ns=(7, 7))
    os.utime(folder.path / "inner", ns=(9, 9))
    changed = folder.changed()
    assert changed.keys() == {"name", "link", "inner"}
    assert (changed["name"], changed["inner"]) == (7, 9)
    assert changed["link"] != 5
    assert Folder(folder.path, ("nothing",)).changed() == {}


def test_what_the_user_names_may_be_a_link_and_a_pipe_is_not_waited_for(
    tmp_path: Path, victim: Path
) -> None:
    (tmp_path / "mine").symlink_to(victim)
    assert read_named(tmp_path / "mine") == VICTIM
    (tmp_path / "project").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotPlain) as caught:
        folder_of(tmp_path / "pipe", tmp_path / "project").read("pipe")
    assert caught.value.strerror == "it is a pipe, not a regular file"
    with pytest.raises(NotPlain, match="a pipe, not a regular file: "):
        read_named(tmp_path / "pipe")
    with pytest.raises(NotPlain, match="a folder"):
        read_named(tmp_path)


def test_who_looks_whether_it_is_locked_keeps_nobody_from_taking_the_lock(tmp_path: Path) -> None:
    folder = Folder(tmp_path, ("run",))
    folder.make()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            folder.is_locked()

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(200):
            with folder.locked():
                assert folder.is_locked()
    finally:
        over.set()
        for looker in lookers:
            looker.join()


def test_a_lock_of_a_folder_keeps_others_out_but_not_of_the_one_beside_it(tmp_path: Path) -> None:
    folder, beside = Folder(tmp_path, ("a",)), Folder(tmp_path, ("b",))
    folder.make()
    beside.make()
    assert not Folder(tmp_path, ("c",)).is_locked()
    with Folder(tmp_path).locked(), pytest.raises(BlockingIOError), Folder(tmp_path).locked():
        pytest.fail("it was taken twice")
    with folder.locked():
        with pytest.raises(BlockingIOError), folder.locked():
            pytest.fail("it was taken twice")
        with beside.locked():
            assert folder.is_locked()
        renamed = folder.rename_to("c")
        assert renamed.path == tmp_path / "c"
        assert renamed.is_locked()
    with renamed.locked():
        assert not beside.is_locked()


def test_a_folder_is_removed_with_all_in_it_but_nothing_a_link_leads_to(
    tmp_path: Path, victim: Path
) -> None:
    folder = Folder(tmp_path, ("old",))
    folder.create("file", b"x")
    (folder.path / "link").symlink_to(victim.parent)
    folder.remove_all()
    assert not folder.path.exists()
    folder.remove_all()
    folder.path.symlink_to(victim.parent)
    with pytest.raises(OSError, match="symbolic link"):
        folder.remove_all()
    assert victim.read_bytes() == VICTIM


@pytest.mark.parametrize(
    ("path", "cache"),
    [
        ("a/__pycache__/b/node_modules/c.pyc", "a/__pycache__"),
        ("x.pyc", "x.pyc"),
        ("node_modules/a/b.js", "node_modules"),
        ("a/.coverage", "a/.coverage"),
        ("node_modules", ""),
        ("my_node_modules/a.js", ""),
        ("a.pyc/b.py", ""),
        ("a/.coveragerc", ""),
        ("target/main.rs", ""),
        ("x.pyc\n", ""),
        ("", ""),
    ],
)
def test_what_programs_leave_behind_is_known_by_its_place(path: str, cache: str) -> None:
    assert cache_of(path) == cache
