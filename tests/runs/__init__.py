"""The deciding half of a run, without agents."""
