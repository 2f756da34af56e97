"""Which server a command or a program uses, and the server inside a process that finds none.

The only room below the command line that sees both halves: it runs the server, and hands its
client to a run.
"""
