"""Signals are noted, and end a wait, whichever thread the system gives them to."""

import signal
import sys
import threading
from queue import SimpleQueue

from cli_agent_orchestrator.cli.interrupts import Interrupts

PATIENCE_SECONDS = 10.0


def take_a_signal_meanwhile(number: int, awaited: str) -> threading.Thread:
    """Let a thread of its own get a signal as soon as the main thread is in that function."""
    main = threading.main_thread().ident

    def take() -> None:
        while sys._current_frames()[main or 0].f_code.co_name != awaited:
            pass
        signal.pthread_kill(threading.get_ident(), number)

    thread = threading.Thread(target=take)
    thread.start()
    return thread


def wait_for(queue: "SimpleQueue[None]") -> None:
    queue.get(timeout=PATIENCE_SECONDS)


def test_a_signal_that_another_thread_gets_ends_the_wait_of_the_main_thread() -> None:
    woken: SimpleQueue[None] = SimpleQueue()
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts("") as interrupts:
        interrupts.when_noted(lambda: woken.put(None))
        thread = take_a_signal_meanwhile(signal.SIGTERM, wait_for.__name__)
        wait_for(woken)
        thread.join()
    assert interrupts.noted == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_other_signals_stop_nothing() -> None:
    stopped: SimpleQueue[None] = SimpleQueue()
    before = signal.signal(signal.SIGWINCH, lambda *_: None)
    try:
        with Interrupts("") as interrupts:
            interrupts.when_noted(lambda: stopped.put(None))
            signal.raise_signal(signal.SIGWINCH)
    finally:
        signal.signal(signal.SIGWINCH, before)
    assert stopped.empty()
    assert interrupts.noted is None
