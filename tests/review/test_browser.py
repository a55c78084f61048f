"""The page in a real browser, by keys alone, on a desk and on a phone."""

import shutil
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from abstain.review.store import Store

from review_browser import another, log, opened, press, row, serving, until


def test_every_decision_has_a_key_and_advances(desk):
    shown = [press(desk, key) for key in ("a", "k", "u", "d", "s", "1")]
    assert len(set(shown)) == 6
    entries = log(desk.folder, 6)
    assert [x.after.kind for x in entries] == ["label", "label", "unsure", "drop", "skip", "label"]
    with Store(desk.folder / "review.sqlite") as store:
        assert len(store.decisions.entries) == 6
    assert entries[-1].after.label == "dark"
    assert {x.who for x in entries} == {"ann"}


def test_back_and_forth_and_undo(desk):
    first = press(desk, "a")
    second = row(desk)
    press(desk, "ArrowLeft")
    assert row(desk) == first
    desk.wait_for_selector("#standing b")
    press(desk, "ArrowRight")
    assert row(desk) == second
    log(desk.folder, 1)
    press(desk, "z")
    assert row(desk) == first
    desk.wait_for_selector("#standing b", state="detached")
    entries = log(desk.folder, 2)
    assert entries[1].undoes == entries[0].seq


def test_undo_is_of_the_last_decision_also_while_that_is_being_saved(desk):
    def late(route):
        time.sleep(0.3)
        route.continue_()

    press(desk, "a")
    log(desk.folder, 1)
    desk.route("**/api/decide", late)
    second = press(desk, "k")
    desk.keyboard.press("z")
    entries = log(desk.folder, 3)
    assert entries[2].undoes == entries[1].seq
    desk.wait_for_selector(f'body[data-row="{second}"]')


def test_a_class_is_chosen_by_typing_its_name(desk):
    before = row(desk)
    desk.keyboard.press("/")
    desk.keyboard.type("lig")
    desk.keyboard.press("Enter")
    another(desk, before)
    assert log(desk.folder, 1)[0].after.label == "light"


def test_no_key_means_two_things(desk):
    keys = desk.eval_on_selector_all(
        "#choices kbd, #actions > :not(.by-thumb) kbd, #moves kbd",
        "all => all.map((one) => one.textContent)",
    )
    keys += desk.eval_on_selector_all(
        ".tools [data-key]", "all => all.map((one) => one.dataset.key)"
    )
    assert len(keys) > 12
    assert len(keys) == len(set(keys))
    assert {"1", "2", "a", "k", "u", "d", "s", "z", "n", "f", "g", "l"} <= set(keys)


def test_a_note_is_kept(desk):
    desk.keyboard.press("n")
    desk.keyboard.type("blurred & <b>dark</b>")
    desk.click("dialog .main")
    assert log(desk.folder, 1)[0].note == "blurred & <b>dark</b>"
    desk.wait_for_selector("#standing:has-text('<b>dark</b>')")


def test_the_grid_decides_many_at_once(desk):
    desk.keyboard.press("g")
    desk.wait_for_selector(".tile")
    desk.keyboard.press(" ")
    desk.keyboard.press("ArrowRight")
    desk.keyboard.press(" ")
    assert desk.text_content("#chosen") == "2 selected"
    chosen = desk.eval_on_selector_all(
        ".tile[aria-selected=true]", "all => all.map((one) => Number(one.dataset.row))"
    )
    desk.keyboard.press("k")
    entries = log(desk.folder, 2)
    assert len(entries) == 2
    desk.wait_for_selector(f'.tile[data-row="{chosen[0]}"]', state="detached")
    desk.wait_for_selector(".tile")
    left = desk.locator(".tile").count()
    desk.keyboard.press("x")
    desk.keyboard.press("a")
    assert len(log(desk.folder, 2 + left)) == 2 + left


def test_what_the_grid_decided_is_not_shown_as_open_again(desk):
    shown = row(desk)
    desk.keyboard.press("g")
    desk.wait_for_selector(f'.tile[data-row="{shown}"]')
    desk.keyboard.press("x")
    desk.keyboard.press("k")
    decided = len(log(desk.folder, 1))
    desk.keyboard.press("g")
    desk.wait_for_selector("#single:not([hidden])")
    desk.wait_for_selector(f'body:not([data-row="{shown}"]), #single.empty')
    assert decided > 0


def test_keys_decide_nothing_where_nothing_is_left(desk):
    desk.keyboard.press("g")
    desk.wait_for_selector(".tile")
    desk.keyboard.press("x")
    desk.keyboard.press("k")
    everything = len(log(desk.folder, 2))
    while desk.locator(".tile").count():
        desk.keyboard.press("x")
        desk.keyboard.press("k")
        desk.wait_for_timeout(100)
    everything = len(log(desk.folder, everything))
    desk.keyboard.press("g")
    desk.wait_for_selector("#single.empty")
    for key in "akd":
        desk.keyboard.press(key)
    desk.wait_for_timeout(200)
    assert len(log(desk.folder, everything)) == everything


def test_a_key_that_is_held_down_decides_once(desk):
    desk.keyboard.down("a")
    for _ in range(5):
        desk.keyboard.down("a")  # the browser marks these as repeated
    desk.keyboard.up("a")
    log(desk.folder, 1)
    desk.wait_for_timeout(200)
    assert len(log(desk.folder, 1)) == 1


def test_all_like_this_one_opens_the_grid(desk):
    desk.keyboard.press("m")
    desk.wait_for_selector(".tile")
    first = desk.eval_on_selector(".tile", "(one) => Number(one.dataset.row)")
    assert first == row(desk)


def test_verify_shows_no_proposal_until_asked(desk):
    desk.click("#mode-verify")
    desk.wait_for_selector("#moves >> text=Reveal")
    assert desk.locator(".share").count() == 0
    assert desk.locator(".tag").count() == 0
    assert desk.locator("#near img").count() == 0
    assert desk.text_content("#id").startswith("sample ")  # a path would name the class
    desk.keyboard.press("a")  # there is nothing to accept
    press(desk, "2")
    entries = log(desk.folder, 1)
    assert [(x.mode, x.after.label) for x in entries] == [("verify", "light")]
    desk.keyboard.press("r")
    desk.wait_for_selector(".share")
    press(desk, "k")
    assert log(desk.folder, 2)[1].mode == "verify-seen"


def test_filters_and_the_log_open_by_keys(desk):
    first = press(desk, "a")
    log(desk.folder, 1)
    desk.keyboard.press("l")
    desk.click("dialog .log button")
    desk.wait_for_selector("dialog .log .undone")
    desk.keyboard.press("Escape")
    assert len(log(desk.folder, 2)) == 2
    desk.keyboard.press("f")
    desk.select_option("#filter-state", "any")
    desk.click("dialog .main")
    desk.wait_for_selector(f'body[data-row="{first}"]')


def test_what_the_server_could_not_save_is_sent_again_once(browser, photos):
    server = serving(photos)
    address = server.__enter__()
    with opened(browser, address) as page:
        server.__exit__(None, None, None)
        press(page, "k")
        press(page, "u")
        page.wait_for_selector("#trouble:has-text('Not saved yet: 2')")
        with Store(photos / "review.sqlite") as store:
            assert not store.decisions.entries
        with serving(photos, int(address.strip("/").rsplit(":", 1)[1])):
            page.wait_for_selector("#trouble", state="hidden")
            assert [x.after.kind for x in log(photos, 2)] == ["label", "unsure"]


def test_the_page_says_that_the_server_does_not_answer_and_goes_on_by_itself(browser, photos):
    server = serving(photos)
    address = server.__enter__()
    with opened(browser, address) as page:
        server.__exit__(None, None, None)
        for _ in range(15):  # more than were fetched ahead
            page.keyboard.press("k")
            page.wait_for_timeout(50)
        page.wait_for_selector("#stage:has-text('The server does not answer')")
        assert "Nothing left" not in page.text_content("main")
        shown = row(page)
        page.keyboard.press("d")  # of nothing
        with serving(photos, int(address.strip("/").rsplit(":", 1)[1])):
            another(page, shown)
            page.wait_for_selector("#stage img:not(.broken)")
            page.wait_for_selector("#trouble", state="hidden")
            press(page, "u")
            until(page, "!document.querySelector('#standing').textContent")
            page.keyboard.press("ArrowLeft")
            page.wait_for_selector("#standing:has-text('unsure'):not(:has-text('saving'))")
            *entries, last = log(photos, 7)
            assert last.after.kind == "unsure"
            assert {x.after.kind for x in entries} == {"label"}
            assert len(entries) == len({x.id for x in entries})


def test_a_grid_that_waits_for_the_server_is_filled_when_it_is_back(browser, photos):
    server = serving(photos)
    address = server.__enter__()
    with opened(browser, address) as page:
        server.__exit__(None, None, None)
        page.keyboard.press("g")
        page.wait_for_selector("#trouble:has-text('The server does not answer')")
        with serving(photos, int(address.strip("/").rsplit(":", 1)[1])):
            page.wait_for_selector(".tile")
            page.wait_for_selector("#trouble", state="hidden")


def test_keys_that_are_faster_than_the_server_decide_no_label_twice(desk):
    def late(route):
        time.sleep(0.3)
        route.continue_()

    desk.route("**/api/next*", late)
    for _ in range(40):
        desk.keyboard.press("k")
    desk.wait_for_timeout(1500)
    entries = log(desk.folder, 5)
    assert len(entries) == len({x.id for x in entries})


def test_two_people_are_given_other_labels(browser, photos):
    with (
        serving(photos) as address,
        opened(browser, address) as ann,
        opened(browser, address) as bob,
    ):
        bob.evaluate("localStorage.setItem('who', 'bob')")
        bob.reload()
        bob.wait_for_selector("body[data-row]")
        seen = {"ann": [], "bob": []}
        for _ in range(6):
            seen["ann"].append(press(ann, "a"))
            seen["bob"].append(press(bob, "k"))
        assert not set(seen["ann"]) & set(seen["bob"])
        entries = log(photos, 12)
        assert len(entries) == len({x.id for x in entries}) == 12


def test_browsers_without_a_name_are_different_people(browser, photos):
    with (
        serving(photos, you="") as address,
        opened(browser, address) as one,
        opened(browser, address) as other,
    ):
        assert press(one, "k") != press(other, "k")
        assert [x.who for x in log(photos, 2)] == ["guest 1", "guest 2"]
        one.reload()
        one.wait_for_selector("#person:has-text('guest 1')")


def test_what_others_have_before_them_is_not_called_nothing(browser, photos):
    with serving(photos) as address, opened(browser, address) as ann:
        ann.keyboard.press("g")  # all labels
        ann.wait_for_selector(".tile")
        context = browser.new_context()
        bob = context.new_page()
        bob.add_init_script("localStorage.setItem('who', 'bob')")
        bob.goto(address)
        bob.wait_for_selector("#stage:has-text('Other people have the last 60 before them')")
        ann.keyboard.press("x")
        ann.keyboard.press("u")
        log(photos, 60)
        bob.click("#stage button")
        bob.wait_for_selector("#stage:has-text('Every label is decided, unsure or skipped')")
        context.close()


def test_another_name_is_another_person(desk):
    """Who had the page before keeps no labels, and z does not undo what was decided before."""
    first = press(desk, "k")
    held = row(desk)
    desk.click("#person")
    desk.fill("#who", "bob")
    desk.keyboard.press("Enter")
    desk.wait_for_selector("#person:has-text('bob')")
    desk.wait_for_selector("#main[aria-busy=false]")
    desk.wait_for_selector(f'body[data-row="{held}"]')  # it was left to whoever comes next
    desk.keyboard.press("z")
    said = "#hint:has-text('Nothing of this visit to undo')"
    desk.wait_for_selector(said)
    modules = "Promise.all(['figures', 'state'].map((x) => import(`/static/${x}.js`)))"
    desk.evaluate(f"{modules}.then(([{{ figures }}, {{ page }}]) => figures(page.status))")
    assert desk.is_visible(said)  # though figures came after it, as they do soon after a decision
    press(desk, "u")
    assert not desk.is_visible(said)
    desk.keyboard.press("ArrowLeft")
    desk.wait_for_timeout(200)
    assert row(desk) != first
    assert [x.who for x in log(desk.folder, 2)] == ["ann", "bob"]


def test_undo_shows_what_another_decided_and_who(browser, photos):
    with (
        serving(photos) as address,
        opened(browser, address) as ann,
        opened(browser, address) as bob,
    ):
        shown = press(ann, "k")
        log(photos, 1)
        bob.click("#person")
        bob.fill("#who", "bob")
        bob.keyboard.press("Enter")
        bob.wait_for_selector("#person:has-text('bob')")
        bob.wait_for_selector("#main[aria-busy=false]")
        bob.keyboard.press("f")
        bob.select_option("#filter-by", "second")
        bob.click("dialog .main")
        bob.wait_for_selector(f'body[data-row="{shown}"]')
        bob.keyboard.press("d")
        log(photos, 2)
        press(ann, "z")
        ann.wait_for_selector("#standing:has-text('to be dropped by bob')")
        entries = log(photos, 3)
        assert (entries[2].who, entries[2].undoes) == ("ann", entries[0].seq)
        bob.keyboard.press("Escape")
        bob.keyboard.press("l")
        bob.click("dialog .log li:nth-child(2) button")
        bob.wait_for_selector("dialog .log li:first-child:has-text('undid:')")
        ann.keyboard.press("l")
        ann.click("dialog .log li:first-child button")
        ann.wait_for_selector("dialog .log li:first-child:has-text('undid bob’s:')")


def test_a_decision_on_many_is_undone_by_one_request(desk):
    requests = []
    desk.on("request", lambda request: requests.append(request.url.rpartition("/")[2]))
    desk.keyboard.press("g")
    desk.wait_for_selector(".tile")
    desk.keyboard.press("x")
    chosen = desk.locator(".tile").count()
    desk.keyboard.press("k")
    log(desk.folder, chosen)
    desk.keyboard.press("z")
    entries = log(desk.folder, 2 * chosen)
    desk.wait_for_timeout(100)
    assert [x.undoes for x in entries[chosen:]] == [x.seq for x in entries[:chosen]]
    assert chosen > 10
    assert requests.count("undo") == 1


LEFT_BY = {
    "Escape": lambda page: page.keyboard.press("Escape"),
    "Close": lambda page: page.click("dialog [aria-label=Close]"),
    "Tab": lambda page: page.keyboard.press("Tab"),
    "another page": lambda page: page.goto("about:blank"),
}


@pytest.mark.parametrize("way", LEFT_BY)
def test_a_note_is_kept_however_it_is_left(browser, photos, way):
    with serving(photos) as address, opened(browser, address) as page:
        page.keyboard.press("n")
        page.keyboard.type("blurred")
        LEFT_BY[way](page)
        assert [x.note for x in log(photos, 1)] == ["blurred"]
        page.wait_for_timeout(200)
    assert len(log(photos, 1)) == 1


def test_the_page_before_and_after_is_shown_as_it_is_meant(browser, photos):
    """Served under the policy that its style needs, and linked from the panel."""
    from abstain.review.before_after import PAGE, compare, write_before_after

    with serving(photos) as address, opened(browser, address) as page:
        press(page, "a")
        log(photos, 1)
        after = photos / "again-1" / "audit"
        shutil.copytree(photos, after, ignore=shutil.ignore_patterns("again*", "review*"))
        write_before_after(compare(photos, after), after / PAGE)
        page.keyboard.press("i")
        with page.context.expect_page() as other:
            page.click("dialog a")
        shown = other.value
        shown.on("console", lambda message: page.messages.append(message.text))
        shown.wait_for_selector("h1")  # a tab that is still being opened cannot be reloaded
        shown.reload()
        assert shown.url.endswith("/before-after")
        shown.wait_for_selector("h1:has-text('of the labels were wrong')")
        assert (
            shown.evaluate("getComputedStyle(document.querySelector('.cards')).display") == "grid"
        )
        assert shown.evaluate("document.querySelector('.cards img').naturalWidth") > 0
        assert page.messages == []


def test_the_address_can_be_followed_from_a_mail(browser, photos):
    """Another site leads to the page, and sees none of its pictures."""

    class Mail(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            link = f'<a href="{address}?token=a-long-secret">review</a>'
            self.wfile.write(f'{link}<img src="{address}api/picture?row=0">'.encode())

        def log_message(self, *_):
            pass

    with (
        serving(photos, token="a-long-secret") as address,
        ThreadingHTTPServer(("127.0.0.1", 0), Mail) as mail,
    ):
        threading.Thread(target=mail.serve_forever, daemon=True).start()
        page = browser.new_page()
        for _ in range(2):  # also once the cookie is there
            page.goto(f"http://localhost:{mail.server_address[1]}/")
            assert page.evaluate("document.querySelector('img').naturalWidth") == 0
            page.click("a")
            page.wait_for_selector("body[data-row]")
            assert page.url == address
        page.close()
        mail.shutdown()


def test_markup_in_texts_and_names_runs_nothing(browser, tmp_path):
    """Everything that can hold text holds markup."""
    import csv

    from audits import HOSTILE, saved, text_rows

    bad = HOSTILE.replace("\x00", "")
    path = tmp_path / "hostile.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "stars", "text"])
        for k, (text, label) in enumerate(text_rows(80)):
            writer.writerow([f"{k}{bad}", f"{label}{bad}", f"{bad} {text}"])
    saved(path, tmp_path / "audit", label="stars", features="text")
    with serving(tmp_path / "audit") as address, opened(browser, address) as page:
        page.wait_for_timeout(300)
        for key in ("a", "u"):
            press(page, key)
        for key in ("g", "g", "l"):
            page.keyboard.press(key)
            page.wait_for_timeout(200)
        assert page.messages == []
        assert page.locator("img").count() == 0
        assert page.locator("script:not([src='/static/page.js'])").count() == 0
        assert "onerror=alert(1)" in page.text_content("#stage")


LOW_CONTRAST = r"""() => {
  const linear = (x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((s, w, k) => s + w * linear(c[k] / 255), 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
  };
  const low = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility()) continue;
    const pair = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) low.push([e.tagName, e.id, e.className, e.textContent.slice(0, 20), ratio]);
  }
  return low;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(browser, photos, scheme):
    """WCAG's contrast of at least 4.5 to 1, of every text that is seen."""
    with serving(photos) as address, opened(browser, address, color_scheme=scheme) as page:
        press(page, "k")
        log(photos, 1)
        page.keyboard.press("z")
        log(photos, 2)
        page.wait_for_selector("#near img")
        assert page.evaluate(LOW_CONTRAST) == []
        page.keyboard.press("g")
        page.wait_for_selector(".tile")
        assert page.evaluate(LOW_CONTRAST) == []
        for key in ("i", "l", "f", "?"):
            page.keyboard.press(key)
            page.wait_for_selector("dialog[open]")
            assert page.evaluate(LOW_CONTRAST) == []
            page.keyboard.press("Escape")
            page.wait_for_selector("dialog:not([open])", state="hidden")


def test_everything_that_can_be_pressed_has_a_name_and_is_reached_by_tab(desk):
    nameless = desk.eval_on_selector_all(
        "button, input, select, [role=option]",
        "all => all.filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') "
        "|| e.labels?.length)).map((e) => e.outerHTML)",
    )
    assert nameless == []
    wanted = desk.eval_on_selector_all(
        "button, input", "all => all.filter((e) => e.checkVisibility()).length"
    )
    reached = set()
    others = desk.locator("a, [tabindex='0'], select").count()
    for _ in range(wanted + others + 5):
        desk.keyboard.press("Tab")
        place = desk.evaluate(
            "[...document.querySelectorAll('button, input')].indexOf(document.activeElement)"
        )
        reached.add(place)
    assert len(reached - {-1}) >= wanted


@pytest.mark.parametrize("width", [390, 768])
def test_a_phone_need_not_be_scrolled_sideways(browser, photos, width):
    settings = {"has_touch": True, "is_mobile": True}
    with serving(photos) as address:
        context = browser.new_context(viewport={"width": width, "height": 844}, **settings)
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("body[data-row]")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        hidden = "e => e.scrollWidth > e.clientWidth"
        assert not any(page.eval_on_selector(x, hidden) for x in ("#actions", ".tools", "#moves"))
        for text in ("Keep", "Unsure", "Drop", "Skip", "Undo"):  # at the thumb, without scrolling
            box = page.locator(f"#actions >> text={text}").bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            assert box["y"] + box["height"] <= 844
        before = row(page)
        page.tap("#actions >> text=Keep")
        another(page, before)
        assert len(log(photos, 1)) == 1
        page.tap("#open-filter")
        page.fill("#filter-least", "100")
        page.tap("dialog .main")
        page.wait_for_selector("#single.empty")
        boxes = [page.locator(x).bounding_box() for x in ("#stage", "#moves", "#actions")]
        assert all(box["width"] > width * 0.8 for box in boxes)
        assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
        assert boxes[2]["y"] + boxes[2]["height"] <= 844
        context.close()


def test_keys_and_names_of_classes_do_not_overlap(desk):
    """The same class has three keys for a label that nothing doubts."""
    desk.keyboard.press("f")
    for name in ("#filter-given", "#filter-proposed"):
        desk.select_option(name, "0")
    desk.click("dialog .main")
    desk.wait_for_selector(".option .keys:has(kbd:nth-child(3))")
    for one in desk.locator(".option").all():
        last = one.locator("kbd").last.bounding_box()
        assert last["x"] + last["width"] <= one.locator(".class").bounding_box()["x"]
