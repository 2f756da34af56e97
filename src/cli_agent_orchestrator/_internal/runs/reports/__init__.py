"""What there is to say about a run."""
