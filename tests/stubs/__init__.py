"""Stub model servers on loopback: real agent programs talk to them as to the real model."""

from .anthropic_messages import AnthropicStub
from .openai_responses import OpenAIStub
from .script import Request, Script, answer, respond

__all__ = ["AnthropicStub", "OpenAIStub", "Request", "Script", "answer", "respond"]
