"""Stub model servers on loopback: real agent programs talk to them as to the real model."""

from .anthropic_messages import AnthropicStub
from .chat_completions import ChatStub
from .gemini_content import GeminiStub
from .openai_responses import OpenAIStub

__all__ = ["AnthropicStub", "ChatStub", "GeminiStub", "OpenAIStub"]
