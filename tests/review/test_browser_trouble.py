"""The page when the server, its disk or its data are not as they were: no decision is lost.

Tests of static/server.js, static/state.js and static/trail.js.
"""

import shutil
import subprocess
import sys

from PIL import Image
from small_runs import free_port

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.review.serving import kept_token
from abstain.review.store import Store

from audits import write_images
from review_browser import log, opened, press, row, serving, until


def port_of(address):
    return int(address.strip("/").rsplit(":", 1)[1])


def test_pictures_are_of_the_review_that_is_served(browser, made, photos, tmp_path):
    """Review A, then review B on the same port, in the same browser: no picture comes from A."""
    other = tmp_path / "other"
    shutil.copytree(made / "photos", other)
    for path in other.rglob("*.png"):
        Image.new("L", (13, 13), 128).save(path)
    audit(other, Recipe(epochs=1, warm_up=0), folder=tmp_path / "of-other")
    context = browser.new_context()
    sides = []
    port = free_port()
    for folder in (photos, tmp_path / "of-other"):
        with serving(folder, port) as address:
            page = context.new_page()
            page.goto(address)
            page.wait_for_selector("body[data-row]")
            page.wait_for_selector("#near img")
            until(page, "[...document.images].every((x) => x.complete)")
            seen = "[...document.images].map((x) => x.naturalWidth)"
            sides.append(set(page.evaluate(seen)))
            page.close()
    context.close()
    assert sides == [{8}, {13}]


def test_a_page_of_another_review_decides_nothing_there(browser, photos, tmp_path):
    other = shutil.copytree(photos, tmp_path / "other")
    server = serving(photos)
    address = server.__enter__()
    with opened(browser, address) as page:
        server.__exit__(None, None, None)
        with serving(other, port_of(address)):
            press(page, "k")
            page.wait_for_selector("#trouble:has-text('Not saved yet: 1')")
            page.wait_for_selector("#trouble:has-text('another review')")
        with serving(photos, port_of(address)):
            page.wait_for_selector("#trouble", state="hidden")
            assert len(log(photos, 1)) == 1
    with Store(other / "review.sqlite") as store:
        assert not store.decisions.entries


def test_decisions_wait_for_a_server_with_another_token(browser, photos):
    server = serving(photos, token="first-token")
    address = server.__enter__()
    with opened(browser, f"{address}?token=first-token") as page:
        server.__exit__(None, None, None)
        press(page, "k")
        press(page, "u")
        with serving(photos, port_of(address), token="other-token"):
            page.wait_for_selector("#trouble:has-text('Not saved yet: 2. The server asks for its')")
            with Store(photos / "review.sqlite") as store:
                assert not store.decisions.entries
            tab = page.context.new_page()
            tab.goto(f"{address}?token=other-token")
            tab.wait_for_selector("body[data-row]")
            page.wait_for_selector("#trouble", state="hidden")
            assert [x.after.kind for x in log(photos, 2)] == ["label", "unsure"]


def test_the_token_auto_survives_a_restart(browser, photos):
    """The command is killed and started again; the page goes on with what it has not saved."""
    port = free_port()
    words = [sys.executable, "-m", "abstain", "review", photos, "--no-browser", "--port", port]
    words = [str(word) for word in [*words, "--token", "auto"]]

    def start():
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        line = server.stdout.readline()
        assert line.startswith("Review: "), line
        return server, line.removeprefix("Review: ").strip().replace(_host(line), "127.0.0.1")

    server, address = start()
    try:
        token = kept_token(photos)
        assert token in address
        assert (photos / "review.token").stat().st_mode & 0o777 == 0o600
        with opened(browser, address) as page:
            server.kill()
            server.wait()
            press(page, "k")
            page.wait_for_selector("#trouble:has-text('Not saved yet: 1')")
            server, again = start()
            assert again == address
            page.wait_for_selector("#trouble", state="hidden")
            assert len(log(photos, 1)) == 1
    finally:
        server.kill()
        server.wait()


def _host(line):
    return line.split("//")[1].split(":")[0]


def test_an_error_of_the_server_keeps_decisions(browser, photos):
    with serving(photos) as address, opened(browser, address) as page:
        fails = {"status": 500, "body": "Internal Server Error"}
        page.route("**/api/decide", lambda route: route.fulfill(**fails))
        press(page, "k")
        page.wait_for_selector("#trouble:has-text('Not saved yet: 1. The server answers 500')")
        page.unroute("**/api/decide")
        page.wait_for_selector("#trouble", state="hidden")
        assert len(log(photos, 1)) == 1


def test_a_full_disk_is_named_and_no_label_is_asked_twice(browser, photos):
    with serving(photos) as address, opened(browser, address) as page:
        store = serving.session.store
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count={pages}")
        with store._lock, store._writing():  # what room there is in the last pages
            pass
        seen = [press(page, "k") for _ in range(45)]
        page.wait_for_selector("#trouble:has-text('the disk is full')")
        assert len(set(seen)) == len(seen)
        store._connection.execute("PRAGMA max_page_count=1000000")
        page.wait_for_selector("#trouble", state="hidden")
        entries = log(photos, len(seen))
        assert len(entries) == len({x.id for x in entries}) == len(seen)


def test_the_log_can_be_had_from_memory_when_its_folder_is_gone(browser, photos):
    with serving(photos) as address, opened(browser, address) as page:
        press(page, "k")
        log(photos, 1)
        aside = photos.with_name("aside")
        photos.rename(aside)
        press(page, "u")
        page.wait_for_selector("#trouble:has-text('Not saved yet: 1')")
        page.wait_for_selector("#trouble:has-text('moved, deleted or replaced')")
        for _ in range(30):  # what is answered meanwhile, such as samples alike, ends no trouble
            page.wait_for_timeout(50)
            page.keyboard.press("ArrowLeft")
            assert "Not saved yet: 1" in page.text_content("#trouble")
        assert not photos.exists()  # and nothing makes it anew
        with page.expect_download() as download:
            page.click("#trouble a")
        download.value.save_as(aside.with_name("copy.sqlite"))
        aside.rename(photos)
        page.wait_for_selector("#trouble", state="hidden")
        assert len(log(photos, 2)) == 2
    with Store(photos.with_name("copy.sqlite")) as copy:
        assert [x.after.kind for x in copy.decisions.in_order()] == ["label"]


def test_what_is_refused_is_named_until_it_is_read(browser, photos, tmp_path):
    source = write_images(tmp_path / "own", per_class=20)
    audit(source, Recipe(epochs=1, warm_up=0), folder=tmp_path / "of-own")
    with serving(tmp_path / "of-own") as address, opened(browser, address) as page:
        name = page.text_content("#id")
        content = (source / name).read_bytes()
        (source / name).unlink()
        first = press(page, "k")
        page.wait_for_selector(f"#refused:has-text('Not taken: {name} – ')")
        press(page, "k")
        log(tmp_path / "of-own", 1)
        page.wait_for_timeout(300)
        assert page.is_visible("#refused")  # other decisions are saved meanwhile
        page.click("#refused button")
        assert not page.is_visible("#refused")
        (source / name).write_bytes(content)
        press(page, "ArrowLeft")
        press(page, "ArrowLeft")
        assert row(page) == first
        until(page, "!document.querySelector('#standing').textContent")


def test_of_many_only_those_are_refused_that_cannot_be_read(browser, photos, tmp_path):
    source = write_images(tmp_path / "own", per_class=20)
    audit(source, Recipe(epochs=1, warm_up=0), folder=tmp_path / "of-own")
    with serving(tmp_path / "of-own") as address, opened(browser, address) as page:
        name = page.text_content("#id")
        page.keyboard.press("g")
        page.wait_for_selector(".tile")
        chosen = page.locator(".tile").count()
        (source / name).unlink()
        page.keyboard.press("x")
        page.keyboard.press("k")
        page.wait_for_selector(f"#refused:has-text('{name}')")
        entries = log(tmp_path / "of-own", chosen - 1)
        assert name not in {x.id for x in entries}


def test_a_second_opinion_is_served_neither_choice_nor_note(browser, photos):
    secret = "ann thinks of an owl"
    with serving(photos) as address, opened(browser, address) as page:
        first = press(page, "k")
        (entry,) = log(photos, 1)
        store = serving.session.store
        store.take_note(entry.id, secret, who="ann", request="note")
        page.evaluate("localStorage.setItem('who', 'bob')")
        page.reload()
        page.wait_for_selector("body[data-row]")
        served = []
        page.on("response", lambda x: "/api/" in x.url and served.append(x))
        page.keyboard.press("f")
        page.select_option("#filter-by", "second")
        page.click("dialog .main")
        page.wait_for_selector(f'body[data-row="{first}"]')
        page.keyboard.press("l")
        page.wait_for_selector("dialog .log li")
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.wait_for_selector(".tile")
        page.keyboard.press("g")
        page.wait_for_selector("#single:not([hidden])")
        assert page.locator(".option.chosen").count() == 0
        assert secret not in page.content()
        json = [x.text() for x in served if "application/json" in x.headers["content-type"]]
        assert len(json) > 3
        assert not any(secret in text or '"seq":1,"who":"ann"' in text for text in json)


def test_without_storage_the_page_works(browser, photos):
    """As where a browser, or a policy, forbids it."""
    forbidden = "Object.defineProperty(window, 'localStorage', { get() { throw Error('no'); } })"
    with serving(photos) as address:
        context = browser.new_context()
        context.add_init_script(forbidden)
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("body[data-row]")
        press(page, "k")
        assert [x.who for x in log(photos, 1)] == ["ann"]
        context.close()


def test_a_tab_that_is_closed_leaves_its_labels_to_others(browser, photos):
    with serving(photos) as address, opened(browser, address) as ann:
        ann.wait_for_selector("#near img")
        leases = serving.session.queue.leases
        assert len(leases) > 0
        tab = ann.context.new_page()
        tab.goto(address)
        tab.wait_for_selector("body[data-row]")
        tab.close(run_before_unload=True)
        ann.wait_for_timeout(300)
        assert len(leases) > 0  # the other tab has them before it
        ann.goto("about:blank")
        for _ in range(100):
            if not len(leases):
                break
            ann.wait_for_timeout(20)
        assert len(leases) == 0
