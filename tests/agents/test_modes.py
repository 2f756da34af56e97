"""Agents as people use them: every way that `make accuracy` measures is told without a mistake."""

from pathlib import Path

import pytest

from tests.agents.accuracy.kinds import INTERRUPTED, OTHERS, STREAMING
from tests.agents.accuracy.measure import story_of
from tests.agents.accuracy.score import score_all
from tests.agents.accuracy.taking import Mode, plain
from tests.agents.accuracy.wild import wild_modes
from tests.agents.driving import DIFFERENT, Kind, ground_of

pytestmark = [pytest.mark.agents, pytest.mark.tmux]

OLDEST_CODEX = Kind("codex", "0.101.0")
TURNS = (9, 10)
"""The tenth is watched for longer."""


def modes_of(kind: Kind) -> list[Mode]:
    turns = [plain(turn) for turn in (*STREAMING, *OTHERS[:2], *INTERRUPTED)]
    long_ones = [mode for mode in wild_modes(kind) if mode.most is not None]
    wild = [mode for mode in wild_modes(kind) if mode not in long_ones]
    return [*turns, *wild, *(long_ones if kind == OLDEST_CODEX else [])]


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        pytest.param(kind, mode, id=f"{kind}: {mode.state}, {mode.name}")
        for kind in DIFFERENT
        for mode in modes_of(kind)
    ],
)
async def test_turns_are_told_as_they_are(kind: Kind, mode: Mode, tmp_path: Path) -> None:
    with ground_of(kind, tmp_path) as ground:
        mode.prepare(ground)
        async with ground.agent(mode.permissions) as driven:
            await mode.begin(driven)
            for number in TURNS[-mode.turns_of_an_agent :]:
                taken = await mode.take(driven, number)
                assert not taken.sending
                scored = score_all(taken.truths, driven.seen, taken.grace)
                assert not scored.mistakes, story_of(driven, taken.truths[-1].end)
