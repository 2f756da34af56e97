"""What users and their programs rely on: it changes only for a reason that the changelog names."""
