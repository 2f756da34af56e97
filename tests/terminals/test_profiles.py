"""Profiles: where they are found, which replaces which, and what a bad one gets."""

import os
from pathlib import Path

import pytest

from cli_agent_orchestrator.errors import UnknownName, UsageError
from cli_agent_orchestrator.pipeline.review import HOW_TO_RAISE
from cli_agent_orchestrator.terminals.launch import MAX_BYTES, find_profile, profile_names

PACKAGED = ("peer_programmer", "peer_system_analyst", "programmer", "system_analyst", "tester")


def put(folder: Path, name: str, text: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.md"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize("name", PACKAGED)
def test_the_packaged_profiles_say_who_the_agent_is(name: str) -> None:
    prompt = find_profile(name, [], Path.cwd())
    assert prompt.startswith("You are the ")
    assert "---" not in prompt
    assert "`.tmp` folder" in prompt


@pytest.mark.parametrize("name", ["peer_programmer", "peer_system_analyst"])
def test_reviewers_are_asked_for_the_form_that_is_read(name: str) -> None:
    words = find_profile(name, [], Path.cwd()).split()
    assert HOW_TO_RAISE.format(first="F1") in " ".join(words)


def test_all_names_are_listed_once_and_in_order(tmp_path: Path) -> None:
    put(tmp_path, "tester", "---\nname: tester\n---\nOwn tester.")
    put(tmp_path, "auditor", "---\nmodel: any\n---\nAn auditor.")
    put(tmp_path, "not a name", "---\n---\nNever found.")
    put(tmp_path / "below", "hidden", "---\n---\nNever found.")
    assert profile_names([tmp_path, tmp_path / "missing"]) == tuple(sorted([*PACKAGED, "auditor"]))
    assert find_profile("auditor", [tmp_path], tmp_path) == "An auditor.", "no name, no description"


def test_the_first_folder_that_has_the_name_wins(tmp_path: Path) -> None:
    project, user = tmp_path / "project", tmp_path / "user"
    put(user, "tester", "---\nname: tester\n---\nThe user's.")
    assert find_profile("tester", [project, user], project) == "The user's."
    put(project, "tester", "---\nname: tester\n---\nThe project's.")
    assert find_profile("tester", [project, user], project) == "The project's."


def test_line_ends_and_a_byte_order_mark_of_another_system_are_read(tmp_path: Path) -> None:
    put(
        tmp_path,
        "other",
        b"\xef\xbb\xbf---\r\ndescription: Ours.\r\n---\r\n\r\nOne\r\n---\r\ntwo\r\n",
    )
    assert find_profile("other", [tmp_path], tmp_path) == "One\n---\ntwo"


@pytest.mark.parametrize("name", ["nobody", "", "../tester", "a/b", "tester.md", "tester\n", "té"])
def test_an_unknown_or_unsafe_name_is_refused_with_those_there_are(
    name: str, tmp_path: Path
) -> None:
    put(tmp_path.parent, "tester", "---\n---\nOutside.")
    with pytest.raises(UnknownName, match="system_analyst") as caught:
        find_profile(name, [tmp_path], tmp_path)
    assert caught.value.known == PACKAGED


BROKEN = {
    "no front matter": (b"You are nobody.", "does not begin with front matter"),
    "front matter without end": (b"---\nname: broken\nYou are", "does not begin with front matter"),
    "another name": (b"---\nname: secret\n---\nHi.", "another name"),
    "another name in quotes": (b"---\nname: 'broken-secret' # x\n---\nHi.", "another name"),
    "no prompt": (b"---\nname: broken\n---\n \n", "no text below"),
    "not UTF-8": (b"---\nname: broken\n---\nsecret \xff\xfe", r"not UTF-8 \(byte 28\)"),
    "a zero byte": (b"---\nname: broken\n---\nsecret \0", "zero byte"),
    "too long": (b"---\nname: broken\n---\n" + b"x" * MAX_BYTES, "more than"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_profile_is_named_and_not_quoted(case: str, tmp_path: Path) -> None:
    data, reason = BROKEN[case]
    file = put(tmp_path, "broken", data)
    with pytest.raises(UsageError, match=reason) as caught:
        find_profile("broken", [tmp_path], tmp_path)
    assert str(file) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_profile_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    file = put(tmp_path, "locked", "---\nname: locked\n---\nHi.")
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(UsageError, match="cannot be read"):
        find_profile("locked", [tmp_path], tmp_path)


def test_a_link_in_the_project_is_not_followed_but_one_of_the_user_is(tmp_path: Path) -> None:
    kept = put(tmp_path / "elsewhere", "kept", "---\nname: tester\n---\nLinked.")
    project, user = tmp_path / "project", tmp_path / "user"
    for folder in (project, user):
        folder.mkdir()
        (folder / "tester.md").symlink_to(kept)
    assert find_profile("tester", [user], project) == "Linked."
    with pytest.raises(UsageError, match="link"):
        find_profile("tester", [project, user], project)
