"""The settings of a run: what there is, where it is given, and how it is written."""
