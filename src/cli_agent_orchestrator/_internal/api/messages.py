"""What is typed into a terminal: a JSON body of any size up to the limit, or the query."""

from starlette.exceptions import HTTPException

from cli_agent_orchestrator._internal.api.schemas import InputBody, StepBody
from cli_agent_orchestrator._internal.models import NewTerminal, Step, check_size
from cli_agent_orchestrator.errors import UsageError


def message_of(query: str | None, body: InputBody | None) -> str:
    """Return the message of a request, which gives it in one of the two ways."""
    if body is None:
        if query is None:
            raise HTTPException(422, "message: give it as a JSON body or as a query parameter")
        return check_size(query)
    if query is not None:
        raise UsageError("the message is given twice: as a body and as a query parameter")
    return check_size(body.message)


def step_of(body: StepBody) -> Step:
    """Return the step that a body asks for."""
    new = NewTerminal(body.provider, body.agent, body.working_directory, body.permissions)
    prompt = check_size(body.prompt)
    return Step(new, prompt, body.session_name, body.timeout, keep=not body.teardown)
