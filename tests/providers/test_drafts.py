"""What stands in the input box of captured screens, told from a placeholder."""

import pytest

from cli_agent_orchestrator.providers import get_provider
from tests.providers.samples import capture

LONG_DRAFT = (
    "line one of draft\n\nline three which is quite long "
    + " ".join(map(str, range(1, 33)))
    + "\n"
    + " ".join(map(str, range(33, 61)))
    + "\nend"
)
CODEX = {
    "idle_fresh": "",
    "completed_simple": "",
    "processing_thinking": "",
    "typed_draft": "draft of a prompt",
    "second_prompt_pasted": "[[hold:4]] second",
    "several_lines": LONG_DRAFT,
    "folded_paste": "[Pasted Content 3000 chars]",
    "approval_exec": None,
}
DRAFTS = {
    **{
        f"codex/drafts/{version}-{case}": expected
        for version in ("0.101.0", "0.125.0", "0.166.0", "0.169.0")
        for case, expected in CODEX.items()
    },
    "codex/drafts/0.169.0-shell_empty": "!",
    "codex/drafts/0.169.0-shell_typed": "!ls",
    "copilot_cli/drafts/1.0.102-idle_fresh": "",
    "copilot_cli/drafts/1.0.102-completed": "",
    "copilot_cli/drafts/1.0.102-processing": "",
    "copilot_cli/drafts/1.0.102-typed_draft": "one short draft",
    "copilot_cli/drafts/1.0.102-several_lines": "line a\nline b\n\nline d",
    "copilot_cli/drafts/1.0.102-folded_paste": "[Paste #1 - 30 lines]",
    "copilot_cli/drafts/1.0.102-shell_empty": "!Execute shell command",
    "copilot_cli/drafts/1.0.102-shell_typed": "!ls",
    "copilot_cli/drafts/1.0.102-interrupted": "Int [SLOW 20]",
    "copilot_cli/drafts/1.0.102-permission_prompt": None,
    "copilot_cli/drafts/1.0.102-question": None,
    "copilot_cli/drafts/1.0.102-trust_dialog": None,
    "gemini_cli/drafts/0.61.0-idle_fresh": "",
    "gemini_cli/drafts/0.61.0-cleared": "",
    "gemini_cli/drafts/0.61.0-processing": "",
    "gemini_cli/drafts/0.61.0-long_answer": "",
    "gemini_cli/drafts/0.61.0-typed_draft": "one short draft",
    "gemini_cli/drafts/0.61.0-several_lines": "line a\nline b\n\nline d",
    "gemini_cli/drafts/0.61.0-folded_paste": "[Pasted Text: 30 lines]",
    "gemini_cli/drafts/0.61.0-shell_empty": "!",
    "gemini_cli/drafts/0.61.0-shell_typed": "!ls",
    "gemini_cli/drafts/0.61.0-permission_prompt": None,
    "gemini_cli/drafts/0.61.0-question": None,
    "opencode/drafts/1.18.18-idle_fresh": "",
    "opencode/drafts/1.18.18-cleared": "",
    "opencode/drafts/1.18.18-cleared_fold": "",
    "opencode/drafts/1.18.18-processing": "",
    "opencode/drafts/1.18.18-long_answer": "",
    "opencode/drafts/1.18.18-question_answered": "",
    "opencode/drafts/1.18.18-typed_draft": "one short draft",
    "opencode/drafts/1.18.18-two_lines": "line a\nline b",
    "opencode/drafts/1.18.18-folded_paste": "[Pasted ~30 lines]",
    "opencode/drafts/1.18.18-permission_prompt": None,
    "opencode/drafts/1.18.18-question": None,
    "opencode/drafts/1.18.33-idle_fresh": "",
    "opencode/drafts/1.18.33-60x20-idle": "",
    "opencode/drafts/1.18.33-cleared": "",
    "opencode/drafts/1.18.33-processing": "",
    "opencode/drafts/1.18.33-question_answered": "",
    "opencode/drafts/1.18.33-typed_draft": "one short draft",
    "opencode/drafts/1.18.33-two_lines": "line a\nline b",
    "opencode/drafts/1.18.33-folded_paste": "[Pasted ~30 lines]",
    "opencode/drafts/1.18.33-permission_prompt": None,
    "opencode/drafts/1.18.33-shell_empty": 'Run a command… "git status"',
    "opencode/drafts/1.18.33-shell_typed": "ls",
    "claude_code/drafts/1.0.100-idle_fresh": "",
    "claude_code/drafts/1.0.100-draft": "Second prompt [SLOW 4]",
    "claude_code/drafts/1.0.100-permission": None,
    "claude_code/drafts/2.0.67-idle_fresh": "",
    "claude_code/drafts/2.0.67-completed": "",
    "claude_code/drafts/2.0.67-processing": "",
    "claude_code/drafts/2.0.67-draft": "draft of\ntwo lines",
    "claude_code/drafts/2.0.67-folded_paste": "[Pasted text #1 +899 lines]",
    "claude_code/drafts/2.1.105-idle_fresh": "",
    "claude_code/drafts/2.1.105-completed": "",
    "claude_code/drafts/2.1.105-processing": "",
    "claude_code/drafts/2.1.105-draft": "draft of\ntwo lines",
    "claude_code/drafts/2.1.105-folded_paste": "[Pasted text #1 +899 lines]",
    "claude_code/drafts/2.1.325-titled-completed": "",
    "claude_code/drafts/2.1.325-titled-draft": "draft of\ntwo lines",
    "claude_code/drafts/2.1.325-queued": "",
    "claude_code/drafts/2.1.325-several_lines": "Immediately [TEXT]multi\nline\nprompt [SLOW 10]",
    "claude_code/drafts/2.1.325-folded_paste": "[Pasted text #10 +49 lines]",
    "claude_code/drafts/2.1.325-permission": None,
}


@pytest.mark.parametrize("name", DRAFTS)
def test_a_draft_is_told_from_a_placeholder(name: str) -> None:
    provider = get_provider(name.partition("/")[0])
    assert provider.draft(capture(f"{name}.ansi")) == DRAFTS[name]
