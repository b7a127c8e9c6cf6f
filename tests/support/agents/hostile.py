"""Agents that are hard to stop: `hostile.py KIND FOLDER`.

Each process notes its number in FOLDER/pids, and ends by itself after a minute if nobody ends it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

END = time.monotonic() + 60


def note():
    handle = os.open(os.path.join(sys.argv[2], "pids"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, b"%d\n" % os.getpid())
    os.close(handle)


def nap():
    while time.monotonic() < END:
        time.sleep(0.2)
    os._exit(0)


def ignore(*numbers):
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def quiet():
    null = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(null, handle)


def child(*steps):
    """Forks a child that takes `steps`, notes itself and stays."""
    if os.fork() == 0:
        for step in steps:
            step()
        note()
        nap()


def plain():
    nap()


def ignore_term():
    ignore(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    nap()


def tree():
    for _ in range(2):
        child(child)
    nap()


def setsid():
    child(os.setsid)
    nap()


def setsid_ignore():
    child(os.setsid, lambda: ignore(signal.SIGTERM))
    nap()


def _daemon(*steps):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for step in steps:
            step()
        note()
        nap()
    os.wait()


def daemon():
    _daemon(quiet)
    nap()


def daemon_holds_output():
    _daemon()
    nap()


def daemon_clean_environment():
    def start():
        os.execve(sys.executable, [sys.executable, "-S", "-E", __file__, "plain", sys.argv[2]], {})

    _daemon(quiet, start)
    nap()


def exits_and_leaves_daemon():
    _daemon()
    sys.stdout.write("done\n")


def exits_and_child_holds_output():
    child()
    sys.stdout.write("done\n")
    sys.stdout.flush()
    while True:  # the child has to be seen, so it is given the time to note itself
        with open(os.path.join(sys.argv[2], "pids")) as file:
            if len(file.read().split()) > 1:
                os._exit(0)
        time.sleep(0.01)


def flood():
    block = b"x" * 65536
    while time.monotonic() < END:
        os.write(1, block)


def forks():
    for number in range(50):
        child(*([os.setsid] if number % 3 == 0 else []))
        time.sleep(0.01)
    nap()


def respawn():
    """A keeper that starts its worker again whenever it dies."""
    for _ in range(50):
        worker = os.fork()
        if worker == 0:
            os.setsid()
            note()
            nap()
        os.waitpid(worker, 0)
    nap()


def stopped():
    if os.fork() == 0:
        note()
        os.kill(os.getpid(), signal.SIGSTOP)
        nap()
    os.kill(os.getpid(), signal.SIGSTOP)
    nap()


def threads():
    subprocess.Popen([sys.executable, "-S", "-E", __file__, "ignore_term", sys.argv[2]], start_new_session=True)
    nap()


if __name__ == "__main__":
    note()
    with contextlib.suppress(BrokenPipeError):
        globals()[sys.argv[1]]()
