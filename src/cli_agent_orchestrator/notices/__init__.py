"""Notices: tell a person who looks elsewhere what a run has come to."""
