"""A whole run: starts its agents, takes its turns, keeps what must outlive it."""
