"""Owns the terminals: tmux, signals, status, store and the service that joins them."""
