"""The work folder and git: what is in it, what changed, how to bring it back, how to deliver it.

A project is anybody's: its `.git`, its attributes and its hooks are never believed, and no program
that they name is run.
"""
