"""A whole run: roles, rounds, review gates, state and resume."""
