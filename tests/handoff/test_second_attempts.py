"""Turns that need a reminder, and turns that are taken up again."""

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_agent_orchestrator.core.models import Delivery, TerminalStatus
from cli_agent_orchestrator.errors import HandoffError, NoResponseFile, Stopped, TurnFailed
from cli_agent_orchestrator.events import EventKind
from cli_agent_orchestrator.handoff.wait import AGAIN, Envelope, Sent, reminder_for
from tests.handoff.fakes import RULES, Stage

IDLE = TerminalStatus.IDLE
PROCESSING = TerminalStatus.PROCESSING

OURS = frozenset({"input-body"})


class TestReminders:
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Stage:
        return Stage(tmp_path, replace(RULES, max_reminders=1))

    def test_an_agent_is_reminded_once_and_then_writes(self, stage: Stage) -> None:
        stage.status(1, PROCESSING)
        stage.status(5, IDLE)
        stage.file(75, "at last")
        assert stage.send(Envelope("turn-1", 4)) == "at last"
        first, second = stage.agents.sent
        assert first.key == "turn-1"
        assert (second.key or "").startswith("turn-1-reminder-")
        assert second.message == reminder_for(stage.path)
        assert second.at - first.at == 6 + RULES.idle_grace
        assert stage.told(EventKind.REMINDED) == ["reminder 1 of 1"]
        waits = [event for event in stage.events if event.kind is EventKind.FILE_AWAITED]
        assert [event.text for event in waits] == ["it is reminded", "the run stops"]
        assert waits[0].until == 1_700_000_000 + second.at

    def test_an_agent_that_may_have_no_task_gets_it_whole_and_is_not_reminded(
        self, stage: Stage
    ) -> None:
        stage.agents.features_named = OURS
        stage.agents.delivery = Delivery(False, "no sign that the agent took it")
        with pytest.raises(NoResponseFile):
            stage.send(Envelope("turn-1", 1))
        # Each is sent, and then asked about under the same key.
        messages = ["do it", "do it", AGAIN + "do it", AGAIN + "do it"]
        assert [sent.message for sent in stage.agents.sent] == messages
        keys = [sent.key or "" for sent in stage.agents.sent]
        assert keys[:2] == ["turn-1", "turn-1"]
        assert keys[2] == keys[3]
        assert keys[2].startswith("turn-1-again-")
        assert "no sign that the agent took it" in stage.told(EventKind.WARNING)[0]
        assert stage.told(EventKind.DISPATCHED) == []
        assert stage.told(EventKind.REMINDED) == []

    def test_a_delivery_that_is_confirmed_when_asked_about_is_certain(self, stage: Stage) -> None:
        stage.agents.features_named = OURS
        stage.agents.delivery = Delivery(False, "the text is still in the input box")

        def confirm_next() -> None:
            stage.agents.delivery = Delivery(True, "the agent took it")

        stage.agents.on_send = confirm_next
        with pytest.raises(NoResponseFile):
            stage.send()
        assert stage.told(EventKind.DISPATCHED) == ["the agent took it"]
        assert stage.told(EventKind.WARNING)[0].startswith("the agent was not seen at work")
        assert stage.told(EventKind.REMINDED) == ["reminder 1 of 1"]

    @pytest.mark.parametrize("certain", [True, False], ids=["reminded", "asked again"])
    def test_the_folder_of_its_file_is_there_though_somebody_removed_it(
        self, stage: Stage, certain: bool
    ) -> None:
        stage.agents.features_named = OURS
        stage.agents.delivery = Delivery(certain, "x")
        stage.mailbox.at(5, lambda: shutil.rmtree(stage.path.parent))
        stage.agents.on_send = lambda: there.append(stage.path.parent.is_dir())
        there: list[bool] = []
        with pytest.raises(NoResponseFile):
            stage.send()
        assert there[-1]

    def test_after_a_stop_it_is_not_even_asked_what_became_of_a_prompt(self, stage: Stage) -> None:
        stage.agents.features_named = OURS
        stage.agents.delivery = Delivery(False, "no sign that the agent took it")
        stage.agents.on_send = stage.handoff.stop
        with pytest.raises(Stopped):
            stage.send()
        assert len(stage.agents.sent) == 1


class TestResuming:
    @pytest.mark.parametrize("sent", [Sent.YES, Sent.MAYBE])
    def test_a_reply_archived_before_the_crash_is_found(self, stage: Stage, sent: Sent) -> None:
        stage.files.archive_text(stage.role, 2, "archived, not saved")
        reply = stage.take_turn(Envelope("turn-1", 2, sent=sent))
        assert reply.text == "archived, not saved"
        assert reply.source == "archive"
        assert stage.agents.attempts == 0

    def test_a_prompt_perhaps_sent_is_only_waited_for_if_its_file_is_there(
        self, stage: Stage
    ) -> None:
        stage.path.write_text("reply")
        os.utime(stage.path, (5000, 5000))
        assert stage.send(Envelope("turn-1", 2, since=4000, sent=Sent.MAYBE)) == "reply"
        assert stage.agents.attempts == 0

    def test_a_prompt_perhaps_sent_is_sent_under_its_key_if_nothing_shows_it(
        self, stage: Stage
    ) -> None:
        stage.agents.features_named = OURS
        stage.path.write_text("of an earlier turn")
        os.utime(stage.path, (3000, 3000))
        stage.agents.on_send = lambda: stage.write("reply")
        assert stage.send(Envelope("turn-1", 2, since=4000, sent=Sent.MAYBE)) == "reply"
        assert [sent.key for sent in stage.agents.sent] == ["turn-1"]
        stale = stage.files.kept.path / "002-analyst-stale.md"
        assert stale.read_text() == "of an earlier turn"

    def test_a_prompt_of_which_even_the_server_does_not_know_is_asked_again_whole(
        self, stage: Stage
    ) -> None:
        stage.agents.features_named = OURS
        stage.agents.delivery = Delivery(False, "the server ended while it typed this message")
        stage.mailbox.at(5, lambda: stage.write("reply"))
        assert stage.send(Envelope("turn-1", 2, since=4000, sent=Sent.MAYBE)) == "reply"
        assert stage.agents.sent[-1].message == AGAIN + "do it"
        assert stage.told(EventKind.ASKED_AGAIN) == [
            "it is unclear whether the prompt arrived before"
        ]


class TestAFailedTurn:
    @pytest.mark.parametrize("sent", [Sent.YES, Sent.MAYBE, Sent.FAILED])
    @pytest.mark.parametrize("features", [OURS, frozenset[str]()], ids=["keys", "no keys"])
    def test_it_is_asked_again_whole_and_the_old_error_does_not_count(
        self, stage: Stage, sent: Sent, features: frozenset[str]
    ) -> None:
        stage.agents.features_named = features
        stage.agents.status = TerminalStatus.ERROR
        stage.path.write_text("half of a reply")
        stage.status(10, PROCESSING)
        stage.file(20, "reply")
        stage.status(21, IDLE)
        assert stage.send(Envelope("turn-1", 2, sent=sent)) == "reply"
        assert [sent.message for sent in stage.agents.sent] == [AGAIN + "do it"]
        assert stage.told(EventKind.ASKED_AGAIN) == ["its last turn failed"]
        stale = stage.files.kept.path / "002-analyst-stale.md"
        assert stale.read_text() == "half of a reply"

    def test_a_second_failure_counts_as_soon_as_work_was_seen(self, stage: Stage) -> None:
        stage.agents.status = TerminalStatus.ERROR
        stage.status(1, PROCESSING)
        stage.status(3, TerminalStatus.ERROR)
        with pytest.raises(TurnFailed, match="--replace-terminals"):
            stage.send(Envelope("turn-1", 2, sent=Sent.FAILED))
        assert stage.elapsed < RULES.idle_grace

    def test_one_that_rests_without_a_reply_after_all_is_not_just_reminded(
        self, tmp_path: Path
    ) -> None:
        stage = Stage(tmp_path, replace(RULES, max_reminders=1))
        stage.agents.status = PROCESSING
        stage.status(5, IDLE)
        with pytest.raises(NoResponseFile):
            stage.send(Envelope("turn-1", 2, sent=Sent.FAILED))
        assert [sent.message for sent in stage.agents.sent] == [AGAIN + "do it"]


@pytest.mark.parametrize(
    ("status", "sent"), [(IDLE, Sent.YES), (TerminalStatus.ERROR, Sent.FAILED)]
)
def test_who_is_reminded_or_asked_once_more_is_so_under_a_new_key_each_time(
    tmp_path: Path, status: TerminalStatus, sent: Sent
) -> None:
    """Under the old one the server would type nothing."""
    keys = set()
    for _ in range(2):
        stage = Stage(tmp_path, replace(RULES, max_reminders=1))
        stage.agents.status = status
        with pytest.raises(HandoffError):
            stage.send(Envelope("turn-1", 1, sent=sent))
        keys.add(stage.agents.sent[0].key)
    assert len(keys) == 2
