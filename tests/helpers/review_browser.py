"""The review page in a real browser: its server in a thread, keys, and what the log then holds."""

import threading
import time
from contextlib import contextmanager

from small_runs import free_port

from abstain.review.serving import listen, server_of
from abstain.review.session import Session
from abstain.review.store import Store


@contextmanager
def serving(folder, port=None, **settings):
    """The server in a thread; its address. The session is `serving.session`.

    By default at a port of its own: the one that reviews begin with is taken by tests beside.
    """
    session = serving.session = Session(folder)
    listening = listen("127.0.0.1", port or free_port())
    server = server_of(session, **{"you": "ann", **settings})
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
        session.close()


def until(page, expression, seconds=15):
    """Wait until an expression holds; `wait_for_function` is refused by the page's policy."""
    ends = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < ends, expression
        page.wait_for_timeout(20)


@contextmanager
def opened(browser, address, **settings):
    """The page, which must say nothing to the console."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, **settings)
    page = context.new_page()
    page.set_default_timeout(15_000)
    messages = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: messages.append(dialog.message))
    page.messages = messages
    page.goto(address)
    page.wait_for_selector("body[data-row]")
    yield page
    context.close()


def row(page):
    return int(page.evaluate("document.body.dataset.row"))


def another(page, before):
    page.wait_for_selector(f'body:not([data-row="{before}"])')


def press(page, key):
    """Press a key, and wait until another label is there."""
    before = row(page)
    page.keyboard.press(key)
    another(page, before)
    return before


def log(folder, count):
    """Read the log once it has so many entries."""
    for _ in range(200):
        with Store(folder / "review.sqlite") as store:
            entries = list(store.decisions.entries.values())
        if len(entries) >= count:
            return entries
        time.sleep(0.02)
    raise AssertionError(entries)
