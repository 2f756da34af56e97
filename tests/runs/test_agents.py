"""How a run gets its agents."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.errors import ApiRefused, ApiUnreachable, RunError, Stopped
from cli_agent_orchestrator.handoff.wait import Sent
from cli_agent_orchestrator.pipeline.state import Dispatch, FinalStatus, Turn
from cli_agent_orchestrator.runs.agents import (
    exit_terminals,
    find_lost_terminals,
    init_new_run,
    patiently,
    replace_terminals,
    verify_resume_terminals,
)
from tests.pipeline.samples import LOOP, ROLES, TASK_TEXT
from tests.runs.fakes import FakeServer, Rig

NO_CODEX = ApiRefused("POST", "/sessions", 422, "codex could not be started")
AWAY = ApiUnreachable("http://localhost:9889", "connection refused", maybe_received=False)
LOST = ApiUnreachable("http://localhost:9889", "timed out", maybe_received=True)

RUN = "20261115-084037-k3f9"


@dataclass
class SlowServer(FakeServer):
    """A server on which one agent does not start until its session is deleted."""

    slow: str = ""
    slow_session: str = ""
    is_slow: threading.Event = field(default_factory=threading.Event)
    deleted: threading.Event = field(default_factory=threading.Event)
    ended_starts: list[str] = field(default_factory=list)

    def when_slow(self, stop: Callable[[], None]) -> None:
        def wait_and_stop() -> None:
            if self.is_slow.wait(60):
                stop()

        threading.Thread(target=wait_and_stop).start()

    def delete_session(self, session_name: str) -> None:
        if session_name == self.slow_session:
            self.deleted.set()
        super().delete_session(session_name)

    def _create(
        self, session: str, profile: str, provider: str | None, role: str | None
    ) -> dict[str, Any]:
        if profile == self.slow:
            self.slow_session = session
            self.is_slow.set()
            assert self.deleted.wait(60)
            self.ended_starts.append(profile)
            raise ApiRefused("POST", "/sessions", 422, "its session was deleted meanwhile")
        return super()._create(session, profile, provider, role)


@dataclass
class EndingServer(FakeServer):
    """A server that ends while agents are started; each is asked for once in vain."""

    error: ApiUnreachable = AWAY
    away: set[str] = field(default_factory=set)
    """Who has been asked for in vain."""

    def _create(
        self, session: str, profile: str, provider: str | None, role: str | None
    ) -> dict[str, Any]:
        if profile not in self.away:
            self.away.add(profile)
            raise self.error
        return super()._create(session, profile, provider, role)


@dataclass
class CrowdedServer(FakeServer):
    """A server on which two first starts of Codex may come at the same time."""

    at_once: int = 0
    met: threading.Event = field(default_factory=threading.Event)
    is_warm: bool = False

    def _create(
        self, session: str, profile: str, provider: str | None, role: str | None
    ) -> dict[str, Any]:
        if provider == "codex" and not self.is_warm:
            self.at_once += 1
            if self.at_once > 1:
                self.met.set()
            self.met.wait(0.2)
            self.is_warm = True
        return super()._create(session, profile, provider, role)


class TestNewRun:
    def test_the_first_of_each_agent_starts_alone(self, tmp_path: Path) -> None:
        server = CrowdedServer()
        state = Rig(tmp_path, server).begin(PROVIDER="codex", ANALYST_PROVIDER="claude_code")
        assert not server.met.is_set()
        assert sorted(state.terminals.values()) == sorted(server.terminals)

    def test_what_a_server_that_ends_did_not_start_is_asked_of_its_successor(
        self, tmp_path: Path
    ) -> None:
        server = EndingServer()
        state = Rig(tmp_path, server).begin()
        assert len(server.sessions) == 1
        assert sorted(state.terminals.values()) == sorted(server.terminals)
        assert len(server.started) == len(ROLES)

    @pytest.mark.parametrize("lost_for", ["system_analyst", "tester"])
    def test_what_may_have_been_started_is_ended_and_all_are_started_once_more(
        self, tmp_path: Path, lost_for: str
    ) -> None:
        others = {role.profile for role in LOOP.roles} - {lost_for}
        server = EndingServer(error=LOST, away=others)
        state = Rig(tmp_path, server).begin()
        assert sorted(state.terminals.values()) == sorted(server.terminals)
        assert {one["session_name"] for one in server.terminals.values()} == {state.session_name}
        assert len(server.terminals) == len(ROLES)

    def test_it_has_a_session_with_five_terminals(self, rig: Rig) -> None:
        """Scenario: New run creates 5 terminals"""
        state = rig.begin(TESTER_PROVIDER="kiro_cli")
        assert rig.server.started[0] == ("system_analyst", "codex")
        assert ("tester", "kiro_cli") in rig.server.started
        assert state.progress.providers["tester"] == "kiro_cli"
        assert {profile for profile, _ in rig.server.started} == {
            role.profile for role in LOOP.roles
        }
        assert rig.server.sessions == [state.session_name]
        assert state.terminals == {
            "analyst": "system_analyst-1",
            "analyst_review": "peer_system_analyst-1",
            "programmer": "programmer-1",
            "programmer_review": "peer_programmer-1",
            "tester": "tester-1",
        }
        assert state.final_status is FinalStatus.RUNNING
        assert state.prompt == TASK_TEXT

    def test_each_agent_that_has_started_is_told_in_the_thread_that_asked(self, rig: Rig) -> None:
        told: dict[str, str] = {}
        threads: set[int] = set()

        def hear(role: str, terminal_id: str) -> None:
            told[role] = terminal_id
            threads.add(threading.get_ident())

        state = init_new_run(rig.server, rig.new_run(), hear)
        assert told == state.terminals
        assert next(iter(told)) == "analyst"
        assert threads == {threading.get_ident()}

    @pytest.mark.parametrize("profile", ["system_analyst", "programmer"])
    def test_if_one_agent_cannot_be_started_none_is_left(self, rig: Rig, profile: str) -> None:
        rig.server.refused[profile] = NO_CODEX
        with pytest.raises(ApiRefused):
            rig.begin()
        assert rig.server.terminals == {}

    def test_if_nobody_can_be_told_of_an_agent_none_is_left(self, rig: Rig) -> None:
        def tell(role: str, _: str) -> None:
            if role == "programmer":
                raise BrokenPipeError

        with pytest.raises(BrokenPipeError):
            init_new_run(rig.server, rig.new_run(), tell)
        assert rig.server.started
        assert rig.server.terminals == {}

    @pytest.mark.parametrize("slow", ["system_analyst", "programmer"])
    def test_who_stops_the_start_is_not_kept_waiting_and_leaves_no_agent(
        self, rig: Rig, slow: str
    ) -> None:
        server = SlowServer(slow=slow)
        with pytest.raises(Stopped, match="are ended again"):
            init_new_run(server, rig.new_run(), when_stopped=server.when_slow)
        assert server.terminals == {}
        assert server.ended_starts == [slow]

    def test_a_server_that_is_lost_while_the_start_is_stopped_is_told(self, rig: Rig) -> None:
        def stop_without_server(stop: Callable[[], None]) -> None:
            rig.server.down = LOST
            stop()

        with pytest.raises(Stopped, match=r"session [\w-]+ could not be ended"):
            init_new_run(rig.server, rig.new_run(), when_stopped=stop_without_server)

    @pytest.mark.parametrize(
        ("answer", "missing", "exited"),
        [
            ({"session_name": "cao-1"}, "returned no id", []),
            ({"id": "system_analyst-1"}, "session", ["system_analyst-1"]),
        ],
    )
    def test_a_server_that_tells_half_of_what_it_started_leaves_no_agent(
        self, rig: Rig, answer: dict[str, str], missing: str, exited: list[str]
    ) -> None:
        class Mute(FakeServer):
            def create_session(self, *_: object, **__: object) -> dict[str, str]:
                self._create("cao-1", "system_analyst", "codex", None)
                return answer

        server = Mute()
        with pytest.raises(RunError, match=missing):
            init_new_run(server, rig.new_run())
        assert server.exited == exited


class TestVerification:
    def test_a_terminal_that_is_gone_is_named(self, rig: Rig) -> None:
        """Scenario: Resume with unreachable terminal fails"""
        state = rig.begin()
        rig.server.exit_terminal("programmer-1")
        with pytest.raises(RunError) as raised:
            verify_resume_terminals(rig.server, state)
        assert "programmer (programmer-1) is not there any more" in str(raised.value)
        assert f"`{raised.value.to_resume}` starts new agents" in str(raised.value)
        assert raised.value.to_resume.endswith(" --replace-terminals")
        assert "tester" not in str(raised.value)

    @pytest.mark.parametrize(
        ("found", "also_failed", "why"),
        [
            ({"alive": False}, False, "has ended"),
            ({"alive": False, "exit_code": 137}, False, "has ended with exit code 137"),
            ({"status": "error"}, False, None),
            ({"status": "error"}, True, "is in the error state"),
        ],
    )
    def test_it_is_said_how_an_agent_was_lost(
        self, rig: Rig, found: dict[str, object], also_failed: bool, why: str | None
    ) -> None:
        state = rig.begin()
        rig.server.terminals["tester-1"] |= found
        lost = find_lost_terminals(rig.server, state, also_failed=also_failed)
        assert lost.get("tester") == why

    def test_a_terminal_without_an_id_was_never_started(self, rig: Rig) -> None:
        state = rig.begin()
        damaged = replace(state, terminals={**state.terminals, "analyst": ""})
        assert find_lost_terminals(rig.server, damaged) == {"analyst": "was never started"}

    @pytest.mark.parametrize("alive", [True, False])
    @pytest.mark.parametrize("session", ["another", ""])
    def test_an_agent_in_another_session_is_of_another_run(
        self, rig: Rig, session: str, alive: bool
    ) -> None:
        rig.server.create_session("tester")
        rig.server.terminals["tester-1"]["alive"] = alive
        state = rig.begin()
        claimed = replace(state, terminals={**state.terminals, "tester": "tester-1"})
        lost = find_lost_terminals(rig.server, claimed)
        assert lost == {"tester": "is an agent of another run"}
        claimed = replace(claimed, session_name=session)
        assert set(find_lost_terminals(rig.server, claimed)) == set(ROLES)

    def test_a_server_that_tells_no_session_is_believed(self, rig: Rig) -> None:
        state = rig.begin()
        for terminal in rig.server.terminals.values():
            del terminal["session_name"]
        verify_resume_terminals(rig.server, state)

    @pytest.mark.parametrize(
        "error", [AWAY, ApiRefused("GET", "/terminals/x", 401, "token missing")]
    )
    def test_a_server_that_does_not_answer_proves_no_loss(
        self, rig: Rig, error: ApiUnreachable
    ) -> None:
        state = rig.begin()
        rig.server.down = error
        with pytest.raises(type(error)):
            find_lost_terminals(rig.server, state)


class TestReplacement:
    def test_lost_agents_are_replaced_in_their_session(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.terminals["tester-1"] |= {"alive": False}
        mended = replace_terminals(rig.server, state, {"tester": "claude_code"})
        assert "tester-1" not in rig.server.terminals
        assert mended.progress.providers == {**state.progress.providers, "tester": "claude_code"}
        assert mended.terminals == {**state.terminals, "tester": "tester-2"}
        assert mended.session_name == state.session_name
        verify_resume_terminals(rig.server, mended)

    def test_an_agent_of_another_run_is_replaced_and_never_ended(self, rig: Rig) -> None:
        rig.server.create_session("tester")
        state = rig.begin()
        claimed = replace(state, terminals={**state.terminals, "tester": "tester-1"})
        mended = replace_terminals(rig.server, claimed, {"tester": "codex"})
        assert mended.terminals["tester"] == "tester-3"
        assert rig.server.exited == []

    def test_a_lost_session_is_begun_anew(self, rig: Rig) -> None:
        state = replace(rig.begin(), session_name="cao-of-an-earlier-version")
        rig.server.terminals.clear()
        rig.server.sessions = ["another"]
        mended = replace_terminals(rig.server, state, dict.fromkeys(ROLES, "codex"))
        assert mended.session_name == rig.server.sessions[-1] != state.session_name
        assert set(mended.terminals.values()) == set(rig.server.terminals)
        # That of a run keeps its name.
        state = replace(state, session_name=f"cao-{RUN}")
        mended = replace_terminals(rig.server, state, dict.fromkeys(ROLES, "codex"))
        assert mended.session_name == f"cao-{RUN}"

    def test_the_turn_it_had_in_hand_is_asked_again_and_no_other(self, rig: Rig) -> None:
        state = rig.begin()
        dispatch = Dispatch(Turn("analyst", 1, 1), "key", 1, 0.0, sent=Sent.YES)
        state = replace(state, progress=replace(state.progress, in_flight=dispatch))
        other = replace_terminals(rig.server, state, {"tester": "codex"})
        assert other.progress.in_flight == dispatch
        own = replace_terminals(rig.server, state, {"analyst": "codex"})
        assert own.progress.in_flight is None

    def test_if_nothing_is_lost_nothing_happens(self, rig: Rig) -> None:
        state = rig.begin()
        assert replace_terminals(rig.server, state, {}) is state

    def test_a_session_that_refuses_an_agent_for_now_is_not_given_up(self, rig: Rig) -> None:
        state = rig.begin()

        class Full(FakeServer):
            def create_terminal(self, *_: object, **__: object) -> dict[str, Any]:
                raise ApiRefused("POST", "/sessions/cao-1/terminals", 503, "too many")

        full = Full()
        with pytest.raises(ApiRefused, match="too many"):
            replace_terminals(full, state, {"tester": "codex"})
        assert full.sessions == []


class TestExit:
    def test_all_five_agents_are_asked_to_quit_though_one_is_gone(self, rig: Rig) -> None:
        """Scenario: Cleanup exits terminals when enabled"""
        state = rig.begin()
        del rig.server.terminals["programmer-1"]
        exit_terminals(rig.server, state.terminals.values())
        assert sorted(rig.server.exited) == sorted(state.terminals.values())
        assert rig.server.terminals == {}

    def test_a_server_that_is_away_is_no_second_error(
        self, rig: Rig, caplog: pytest.LogCaptureFixture
    ) -> None:
        state = rig.begin()
        rig.server.down = LOST
        exit_terminals(rig.server, state.terminals.values())
        assert "could not be ended" in caplog.text


NOT_NOW = ApiRefused("GET", "/terminals", 503, "not now")


class Answers:
    """Says something else each time, and must not be asked more often than that."""

    def __init__(self, *answers: Exception | str) -> None:
        self.answers = list(answers)

    def ask(self) -> str:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(("error", "repeatable"), [(AWAY, False), (LOST, True)])
def test_a_server_that_has_not_had_it_or_may_have_it_twice_is_asked_again(
    error: Exception, repeatable: bool
) -> None:
    assert patiently(Answers(error, "yes").ask, repeatable=repeatable) == "yes"


def test_the_time_counts_from_when_it_is_away() -> None:
    answers = Answers(AWAY, "yes")

    def ask() -> str:
        threading.Event().wait(0.02)
        return answers.ask()

    assert patiently(ask, seconds=0.01) == "yes"


STOPPED = threading.Event()
STOPPED.set()


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (LOST, {}),
        (NOT_NOW, {}),
        (NOT_NOW, {"repeatable": True}),
        (AWAY, {"seconds": 0}),
        (AWAY, {"stopped": STOPPED}),
    ],
)
# Any: arguments of `patiently`
def test_otherwise_it_is_not(error: Exception, how: dict[str, Any]) -> None:
    with pytest.raises(type(error)):
        patiently(Answers(error).ask, **how)
