"""The HTTP face of `terminals/`."""
