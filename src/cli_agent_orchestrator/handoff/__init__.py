"""One turn with one agent: send a prompt, wait for the response file."""
