"""Runs CLI coding agents in tmux terminals and takes a task through them until it passes."""

__version__ = "0.1.0"
