"""The command line: the only place that builds objects, prints and exits."""
