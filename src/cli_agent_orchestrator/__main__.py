"""`python -m cli_agent_orchestrator` is the same as `cao`."""

from cli_agent_orchestrator.cli.main import main

if __name__ == "__main__":
    main()
