"""What a run leaves on the disk, written so that nothing of it is lost, and read again."""
