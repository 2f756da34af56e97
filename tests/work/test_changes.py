"""What git writes about two snapshots becomes changes."""

from cli_agent_orchestrator.work.changes import Change, read_changes

RAW = (
    ":100644 100755 d00491f d00491f M\0a.txt\0"
    ":100644 100644 1111111 2222222 R087\0old name\0new\tname\0"
    ":000000 100644 0000000 3333333 A\0:odd\0"
    ":100644 000000 4444444 0000000 D\0binary\0"
)
COUNTS = "\0".join(
    ["0\t0\ta.txt", "3\t1\t", "old name", "new\tname", "12\t0\t:odd", "-\t-\tbinary", ""]
)


def test_modes_and_counts_are_put_together() -> None:
    assert read_changes(RAW + COUNTS) == (
        Change("a.txt", "a.txt", "M", "100644", "100755", 0, 0),
        Change("new\tname", "old name", "R", "100644", "100644", 3, 1),
        Change(":odd", ":odd", "A", "000000", "100644", 12, 0),
        Change("binary", "binary", "D", "100644", "000000", -1, -1),
    )
