"""Everything that is not offered to programs: its modules may change without notice."""
