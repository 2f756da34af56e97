"""How a run gets its agents."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cli_agent_orchestrator.errors import ApiRefused, ApiUnreachable, ResumeError, RunError, Stopped
from cli_agent_orchestrator.handoff.wait import Sent
from cli_agent_orchestrator.pipeline.state import Dispatch, FinalStatus, RunState, Turn
from cli_agent_orchestrator.runs.agents import (
    exit_left_terminals,
    exit_terminals,
    find_lost_terminals,
    init_new_run,
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


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


class TestNewRun:
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

    def test_what_is_lost_twice_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(ApiUnreachable, match="timed out"):
            Rig(tmp_path, EndingServer(error=LOST)).begin()

    def test_nobody_asks_again_after_the_start_was_stopped(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path)
        rig.server.down = AWAY
        with pytest.raises(Stopped, match="could not be ended"):
            init_new_run(rig.server, rig.new_run(), when_stopped=lambda stop: stop())

    def test_it_has_a_session_with_five_terminals(self, rig: Rig) -> None:
        """Scenario: New run creates 5 terminals"""
        state = rig.begin()
        assert rig.server.started[0] == ("system_analyst", "codex")
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

    def test_each_terminal_is_told_its_role(self, rig: Rig) -> None:
        state = rig.begin()
        named = {terminal["role"]: name for name, terminal in rig.server.terminals.items()}
        assert named == state.terminals

    def test_each_role_can_have_an_agent_of_its_own(self, rig: Rig) -> None:
        state = rig.begin(PROVIDER="claude_code", ANALYST_REVIEW_PROVIDER="kiro_cli")
        assert dict(rig.server.started)["peer_system_analyst"] == "kiro_cli"
        assert dict(rig.server.started)["programmer"] == "claude_code"
        assert state.progress.providers["analyst_review"] == "kiro_cli"

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

    def test_an_agent_that_could_not_be_started_is_not_told(self, rig: Rig) -> None:
        rig.server.refused["programmer"] = NO_CODEX
        told: list[str] = []
        with pytest.raises(ApiRefused):
            init_new_run(rig.server, rig.new_run(), lambda role, _: told.append(role))
        assert "programmer" not in told

    @pytest.mark.parametrize("profile", ["system_analyst", "programmer", "tester"])
    def test_if_one_agent_cannot_be_started_none_is_left(self, rig: Rig, profile: str) -> None:
        rig.server.refused[profile] = NO_CODEX
        with pytest.raises(ApiRefused):
            rig.begin()
        assert rig.server.terminals == {}

    @pytest.mark.parametrize("told_of", ["analyst", "programmer"])
    def test_if_nobody_can_be_told_of_an_agent_none_is_left(self, rig: Rig, told_of: str) -> None:
        def tell(role: str, _: str) -> None:
            if role == told_of:
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

    def test_an_agent_that_is_ready_when_the_start_is_stopped_is_ended_too(self, rig: Rig) -> None:
        with pytest.raises(Stopped):
            init_new_run(rig.server, rig.new_run(), when_stopped=lambda stop: stop())
        assert rig.server.terminals == {}

    def test_a_server_that_is_lost_while_the_start_is_stopped_is_told(self, rig: Rig) -> None:
        def stop_without_server(stop: Callable[[], None]) -> None:
            rig.server.down = AWAY
            stop()

        with pytest.raises(Stopped, match=r"session [\w-]+ could not be ended: no answer"):
            init_new_run(rig.server, rig.new_run(), when_stopped=stop_without_server)

    def test_a_server_that_tells_no_id_is_an_error(self, rig: Rig) -> None:
        class Mute(FakeServer):
            def create_session(self, *_: object, **__: object) -> dict[str, str]:
                return {"session_name": "cao-1"}

        with pytest.raises(RunError, match="returned no id"):
            init_new_run(Mute(), rig.new_run())

    def test_a_server_that_tells_no_session_leaves_no_agent(self, rig: Rig) -> None:
        class Mute(FakeServer):
            def create_session(self, *_: object, **__: object) -> dict[str, str]:
                self._create("cao-1", "system_analyst", "codex", None)
                return {"id": "system_analyst-1"}

        server = Mute()
        with pytest.raises(RunError, match="session"):
            init_new_run(server, rig.new_run())
        assert server.exited == ["system_analyst-1"]

    def test_session_and_archive_have_the_id_of_the_run(self, rig: Rig) -> None:
        state = init_new_run(rig.server, replace(rig.new_run(), run_id=RUN))
        assert state.progress.archive == RUN
        assert rig.server.sessions == [f"cao-{RUN}"]


class TestVerification:
    def test_agents_that_are_all_there_are_fine(self, rig: Rig) -> None:
        verify_resume_terminals(rig.server, rig.begin())

    def test_a_terminal_that_is_gone_is_named(self, rig: Rig) -> None:
        """Scenario: Resume with unreachable terminal fails"""
        state = rig.begin()
        rig.server.exit_terminal("programmer-1")
        with pytest.raises(ResumeError) as raised:
            verify_resume_terminals(rig.server, state)
        assert "programmer (programmer-1) is not there any more" in str(raised.value)
        assert f"`{raised.value.to_resume}` starts new agents" in str(raised.value)
        assert raised.value.to_resume.endswith(" --replace-terminals")
        assert "tester" not in str(raised.value)

    def test_a_lost_agent_is_named_by_its_role(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.exit_terminal("peer_programmer-1")
        with pytest.raises(ResumeError, match=r": programmer_review \(peer_programmer-1\) is not"):
            verify_resume_terminals(rig.server, state)

    def test_a_dead_agent_is_named_with_its_exit_code(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.terminals["tester-1"] |= {"alive": False, "exit_code": 137}
        with pytest.raises(ResumeError, match=r"tester .* has ended with exit code 137"):
            verify_resume_terminals(rig.server, state)

    def test_a_dead_agent_whose_exit_code_nobody_knows_is_named_too(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.terminals["tester-1"]["alive"] = False
        assert find_lost_terminals(rig.server, state) == {"tester": "has ended"}

    def test_an_agent_in_error_can_be_asked_and_is_lost_only_if_that_is_wanted(
        self, rig: Rig
    ) -> None:
        state = rig.begin()
        rig.server.terminals["tester-1"]["status"] = "error"
        assert find_lost_terminals(rig.server, state) == {}
        failed = find_lost_terminals(rig.server, state, also_failed=True)
        assert failed == {"tester": "is in the error state"}

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
        rig.server.exit_terminal("tester-1")
        mended = replace_terminals(rig.server, state, {"tester": "codex"})
        assert mended.terminals == {**state.terminals, "tester": "tester-2"}
        assert mended.session_name == state.session_name
        verify_resume_terminals(rig.server, mended)

    def test_a_dead_window_is_cleared_away(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.terminals["tester-1"] |= {"alive": False}
        replace_terminals(rig.server, state, {"tester": "codex"})
        assert "tester-1" not in rig.server.terminals

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

    def test_a_lost_session_of_a_run_keeps_its_name(self, rig: Rig) -> None:
        state = init_new_run(rig.server, replace(rig.new_run(), run_id=RUN))
        rig.server.terminals.clear()
        rig.server.sessions.clear()
        mended = replace_terminals(rig.server, state, dict.fromkeys(ROLES, "codex"))
        assert mended.session_name == f"cao-{RUN}"

    @pytest.mark.parametrize("profile", ["system_analyst", "programmer", "tester"])
    def test_if_one_successor_in_a_new_session_cannot_be_started_none_is_left(
        self, rig: Rig, profile: str
    ) -> None:
        state = rig.begin()
        rig.server.terminals.clear()
        rig.server.sessions = ["another"]
        rig.server.refused[profile] = NO_CODEX
        with pytest.raises(ApiRefused, match="could not be started"):
            replace_terminals(rig.server, state, dict.fromkeys(ROLES, "codex"))
        assert rig.server.terminals == {}

    def test_a_replaced_agent_may_be_another_one(self, rig: Rig) -> None:
        mended = replace_terminals(rig.server, rig.begin(), {"programmer": "claude_code"})
        assert mended.progress.providers["programmer"] == "claude_code"
        assert mended.progress.providers["tester"] == "codex"

    def test_the_turn_it_had_in_hand_is_asked_again(self, rig: Rig) -> None:
        state = in_flight(rig.begin(), "analyst")
        mended = replace_terminals(rig.server, state, {"analyst": "codex"})
        assert mended.progress.in_flight is None

    def test_the_turn_of_another_agent_stays_in_flight(self, rig: Rig) -> None:
        state = in_flight(rig.begin(), "analyst")
        mended = replace_terminals(rig.server, state, {"tester": "codex"})
        assert mended.progress.in_flight == state.progress.in_flight

    def test_if_nothing_is_lost_nothing_happens(self, rig: Rig) -> None:
        state = rig.begin()
        assert replace_terminals(rig.server, state, {}) is state

    def test_a_refusal_for_another_reason_is_told(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.refused["tester"] = NO_CODEX
        with pytest.raises(ApiRefused, match="could not be started"):
            replace_terminals(rig.server, state, {"tester": "codex"})

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
    def test_all_five_agents_are_asked_to_quit(self, rig: Rig) -> None:
        """Scenario: Cleanup exits terminals when enabled"""
        state = rig.begin()
        exit_terminals(rig.server, state.terminals.values())
        assert sorted(rig.server.exited) == sorted(state.terminals.values())

    def test_one_that_is_gone_does_not_keep_the_others(self, rig: Rig) -> None:
        state = rig.begin()
        del rig.server.terminals["programmer-1"]
        exit_terminals(rig.server, state.terminals.values())
        assert rig.server.terminals == {}

    def test_of_those_that_may_be_left_only_living_ones_of_the_session_are_ended(
        self, rig: Rig
    ) -> None:
        state = rig.begin()
        del rig.server.terminals[state.terminal_of("analyst")]
        rig.server.terminals[state.terminal_of("programmer")]["alive"] = False
        rig.server.terminals[state.terminal_of("analyst_review")]["session_name"] = "mine"
        assert exit_left_terminals(rig.server, state)
        left = [state.terminal_of(role) for role in ("programmer_review", "tester")]
        assert sorted(rig.server.exited) == sorted(left)
        assert not exit_left_terminals(rig.server, state)

    def test_whether_any_are_left_is_not_guessed(self, rig: Rig) -> None:
        state = rig.begin()
        rig.server.down = AWAY
        with pytest.raises(ApiUnreachable):
            exit_left_terminals(rig.server, state)

    def test_a_server_that_is_away_is_no_second_error(
        self, rig: Rig, caplog: pytest.LogCaptureFixture
    ) -> None:
        state = rig.begin()
        rig.server.down = AWAY
        exit_terminals(rig.server, state.terminals.values())
        assert "could not be ended" in caplog.text


def in_flight(state: RunState, role: str) -> RunState:
    dispatch = Dispatch(Turn(role, 1, 1), "key", 1, 0.0, sent=Sent.YES)
    return replace(state, progress=replace(state.progress, in_flight=dispatch))
