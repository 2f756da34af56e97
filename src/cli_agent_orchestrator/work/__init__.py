"""The work folder and git: what is in it, what changed, how to bring it back, how to deliver it.

A project may come from anywhere: its `.git`, attributes and hooks are not trusted, and no program
that they name is run.
"""
