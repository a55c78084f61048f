"""The page as people use it for hours: nothing moves, all is in reach, what was done is in sight.

In a real browser; what it does on the whole is in test_browser.py.
"""

import csv
import io
import re
import shutil
import time

import numpy as np
import pytest
from PIL import Image

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.review.decisions import Answer
from abstain.review.store import Store

from audits import blobs
from review_browser import another, log, opened, press, row, serving

ANIMALS = [
    "ant", "bat", "bear", "bee", "cat", "cow", "crab", "deer", "dog", "duck", "eel", "fox",
]  # fmt: skip


@pytest.fixture(scope="module")
def made_more(tmp_path_factory):
    """Audits of a table, and of photos of more classes than there are digits."""
    place = tmp_path_factory.mktemp("more")
    x, y = blobs(120, classes=3, columns=14)
    x[:, 5] *= 1000
    names = ",".join(f"column_{k}" for k in range(14))
    rows = [",".join(f"{v:.3f}" for v in one) + f",{'abc'[k]}" for one, k in zip(x, y, strict=True)]
    (place / "t.csv").write_text("\n".join([f"{names},kind", *rows]) + "\n")
    plain = Recipe(epochs=6, warm_up=1, flip=0.2)
    audit(place / "t.csv", plain, label="kind", folder=place / "of-table")
    rng = np.random.default_rng(0)
    for k, name in enumerate(ANIMALS):
        (place / "animals" / name).mkdir(parents=True)
        for i in range(4 + k % 5):
            pixels = np.clip(rng.normal(20 * k, 5, (24, 36, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(place / "animals" / name / f"{i}.png")
    audit(place / "animals", Recipe(epochs=2, warm_up=1), folder=place / "of-animals")
    return place


@pytest.fixture
def table(made_more, tmp_path):
    return shutil.copytree(made_more / "of-table", tmp_path / "table")


@pytest.fixture
def animals(made_more, tmp_path):
    return shutil.copytree(made_more / "of-animals", tmp_path / "animals")


def boxes(page, selector="#choices .option, #actions button, #moves button"):
    return page.eval_on_selector_all(
        selector,
        "all => all.map((e) => { const b = e.getBoundingClientRect(); return [b.x, b.y]; })",
    )


def module(name, call):
    return f"import('/static/{name}.js').then((m) => m.{call})"


LONG = "a message of many words " * 12


@pytest.mark.parametrize("width", [1280, 390])
def test_messages_and_hints_move_nothing(browser, photos, width):
    with serving(photos) as address, opened(browser, address) as page:
        page.set_viewport_size({"width": width, "height": 844})
        press(page, "k")
        log(photos, 1)
        page.wait_for_selector("#recent .undo")
        before = boxes(page)
        for call in (f"hint('{LONG}')", "hint('')", f"say('{LONG}')", f"complain('{LONG}')"):
            page.evaluate(module("state", call))
            assert boxes(page) == before
        page.evaluate(module("state", "refuse('a sample', 'its file changed')"))
        assert boxes(page) == before
        covered = page.evaluate(
            """() => [...document.querySelectorAll('#choices .option')].filter((e) => {
              const b = e.getBoundingClientRect(), y = b.y + b.height / 2;
              if (y > innerHeight - 200) return false;
              return !e.contains(document.elementFromPoint(b.x + b.width / 2, y));
            }).length"""
        )
        assert covered == 0


def test_choices_stay_where_they_are_from_one_sample_to_the_next(desk):
    before = boxes(desk, "#choices .option")
    for key in ("a", "k", "u"):
        press(desk, key)
        assert boxes(desk, "#choices .option") == before


ZOOMED = {"viewport": {"width": 640, "height": 430}, "device_scale_factor": 2}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.mark.parametrize("size", [ZOOMED, PHONE], ids=["zoomed to 200%", "phone"])
@pytest.mark.parametrize("kind", ["photos", "texts", "table", "animals"])
def test_accept_keep_and_undo_are_in_reach_without_scrolling(browser, request, kind, size):
    folder = request.getfixturevalue(kind)
    with serving(folder) as address:
        context = browser.new_context(**size)
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("body[data-row]")
        page.wait_for_selector("#actions .given")
        for text in ("Accept", "Keep", "Undo"):
            button = page.locator(f"#actions >> text={text}")
            if text == "Accept" and not button.count():
                continue  # of a label that nothing doubts
            box = button.bounding_box()
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= size["viewport"]["height"]
            assert box["x"] + box["width"] <= size["viewport"]["width"]
        assert page.evaluate("document.documentElement.scrollWidth") <= size["viewport"]["width"]
        before = row(page)
        page.click("#actions >> text=Keep")
        another(page, before)
        assert len(log(folder, 1)) == 1
        context.close()


def test_the_last_decisions_are_in_sight_each_with_its_undo(desk):
    first = press(desk, "k")
    press(desk, "u")
    third = press(desk, "d")
    log(desk.folder, 3)
    shown = desk.locator("#recent li .plain").all_text_contents()
    assert shown[:2] == ["drop", "unsure"]
    assert shown[2].startswith("kept ")
    desk.click("#recent li:nth-child(3) .undo")  # not the last one
    desk.wait_for_selector(f'body[data-row="{first}"]')
    entries = log(desk.folder, 4)
    assert entries[3].undoes == entries[0].seq
    desk.wait_for_selector("#hint:has-text('Undone: kept')")
    assert desk.locator("#recent li").count() == 2
    desk.click("#recent li:first-child .plain")  # back to a sample
    desk.wait_for_selector(f'body[data-row="{third}"]')


@pytest.mark.parametrize("key", ["z", "Control+z", "Meta+z"])
def test_undo_says_and_shows_what_it_undid(desk, key):
    first = press(desk, "d")
    log(desk.folder, 1)
    desk.keyboard.press(key)
    desk.wait_for_selector(f'body[data-row="{first}"]')
    desk.wait_for_selector("#hint:has-text('Undone: drop.')")
    assert log(desk.folder, 2)[1].undoes == 1


def test_undo_pressed_twice_in_a_row_undoes_two_decisions(desk):
    def late(route):
        time.sleep(0.2)
        route.continue_()

    press(desk, "d")
    press(desk, "u")
    log(desk.folder, 2)
    desk.route("**/api/undo", late)
    desk.keyboard.press("z")
    desk.keyboard.press("z")
    assert {x.undoes for x in log(desk.folder, 4)[2:]} == {1, 2}
    desk.wait_for_selector("#recent .none")


def test_undo_in_the_grid_marks_what_is_back(desk):
    desk.keyboard.press("g")
    desk.wait_for_selector(".tile")
    desk.keyboard.press(" ")
    chosen = desk.get_attribute(".tile[aria-selected=true]", "data-row")
    desk.keyboard.press("u")
    desk.wait_for_selector(f'.tile[data-row="{chosen}"]', state="detached")
    log(desk.folder, 1)
    desk.keyboard.press("z")
    desk.wait_for_selector(f'.tile.undone[data-row="{chosen}"]')
    assert "Undone: unsure" in desk.text_content("#hint")


def test_a_filter_is_a_chip_that_can_be_removed_and_enter_applies_it(desk):
    first = row(desk)
    desk.keyboard.press("f")
    desk.fill("#filter-most", "90")
    desk.select_option("#filter-given", "1")
    desk.focus("#filter-most")
    desk.keyboard.press("Enter")
    desk.wait_for_selector("dialog:not([open])", state="hidden")
    chips = desk.locator("#chips .chip")
    assert [re.sub(r"\s+", " ", x) for x in chips.all_text_contents()] == [
        "given light× remove",
        "P(wrong) to 90%× remove",
    ]
    for left in ("P(wrong)", None):
        chips.first.click()
        wanted = f".chip:only-child:has-text('{left}')" if left else "#chips:not(:has(.chip))"
        desk.wait_for_selector(wanted, state="visible" if left else "attached")
    desk.wait_for_selector(f'body[data-row="{first}"]')


def test_progress_has_mine_the_teams_and_what_is_left(browser, photos):
    with (
        serving(photos) as address,
        opened(browser, address) as ann,
        opened(browser, address) as bob,
    ):
        bob.evaluate("localStorage.setItem('who', 'bob')")
        bob.reload()
        bob.wait_for_selector("body[data-row]")
        for _ in range(3):
            press(ann, "k")
        press(bob, "k")
        log(photos, 4)
        bob.reload()
        bob.wait_for_selector("#mine:text-is('1')")
        bob.wait_for_selector("#decided:text-is('4')")
        left = int(bob.text_content("#left"))
        widths = bob.eval_on_selector_all(
            "#bar i", "all => all.map((e) => [e.className, e.style.width])"
        )
        total = 4 + left
        assert [name for name, _ in widths] == ["mine", "team"]
        shares = [float(width.rstrip("%")) for _, width in widths]
        assert shares == pytest.approx([100 / total, 300 / total], rel=1e-3)


def decide_all(page):
    page.keyboard.press("g")
    page.wait_for_selector(".tile")
    page.keyboard.press("x")
    page.keyboard.press("k")
    page.wait_for_selector("#tiles .note")
    page.keyboard.press("g")
    page.wait_for_selector("#single.empty")


def test_the_end_of_fix_says_what_was_done_and_offers_it(desk):
    for key in ("u", "d", "s"):
        press(desk, key)
    log(desk.folder, 3)
    decide_all(desk)
    words = desk.text_content("#stage")
    assert "The end of Fix." in words
    assert "filter" not in words  # none is set
    assert "Other people" not in words  # there are none
    desk.wait_for_selector(".summary div:has-text('labels decided') dd:text-is('58')")
    desk.wait_for_selector(".summary div:has-text('unsure') dd:text-is('1')")
    desk.wait_for_selector(".summary div:has-text('to be dropped') dd:text-is('1')")
    with desk.expect_download() as got:
        desk.click("#stage >> text=Corrected labels")
    table = list(csv.DictReader(io.StringIO(got.value.path().read_text(encoding="utf-8"))))
    assert sum(x["decision"] == "kept" for x in table) == 57
    desk.click("#stage >> text=Look at 1 unsure")
    desk.wait_for_selector("#standing:has-text('unsure')")
    desk.wait_for_selector("#chips .chip:has-text('unsure')")


def test_the_end_of_fix_leads_back_to_what_was_passed_without_a_decision(desk):
    passed = row(desk)
    press(desk, "ArrowRight")
    desk.keyboard.press("g")
    desk.wait_for_selector(".tile")
    desk.keyboard.press("x")
    desk.click(f'.tile[data-row="{passed}"]')
    desk.keyboard.press("k")
    log(desk.folder, 59)
    desk.wait_for_selector(".tile:only-child")
    desk.keyboard.press("g")
    desk.wait_for_selector("#stage:has-text('You went past 1 without deciding')")
    desk.click("#stage >> text=Go back to them")
    desk.wait_for_selector(f'body[data-row="{passed}"]')
    desk.wait_for_selector("#single:not(.empty)")


def test_the_end_for_several_says_what_others_have(browser, photos):
    with serving(photos) as address, opened(browser, address) as ann:
        ann.keyboard.press("g")
        ann.wait_for_selector(".tile")
        context = browser.new_context()
        bob = context.new_page()
        bob.add_init_script("localStorage.setItem('who', 'bob')")
        bob.goto(address)
        bob.wait_for_selector("#stage:has-text('Other people have the last 60 before them')")
        assert "filter" not in bob.text_content("#stage")
        context.close()


def test_export_downloads_what_is_there(desk):
    shown = press(desk, "1")
    log(desk.folder, 1)
    desk.keyboard.press("o")
    for words, ending in (("Cleaned set", "-cleaned.csv"), ("Log", "-log.csv")):
        with desk.expect_download() as got:
            desk.click(f"dialog .downloads >> text={words} >> nth=0")
        assert got.value.suggested_filename.endswith(ending)
    (entry,) = csv.DictReader(io.StringIO(got.value.path().read_text(encoding="utf-8")))
    assert entry["after_label"] == "dark"
    assert entry["given_label"] in ("dark", "light")
    assert float(entry["seconds"]) >= 0
    desk.goto(entry["sample"])  # the way back
    desk.wait_for_selector(f'body[data-row="{shown}"]')
    desk.wait_for_selector("#standing:has-text('Decided: dark')")
    assert desk.url.endswith("/")


def test_the_log_leads_back_to_a_sample(desk):
    shown = press(desk, "k")
    press(desk, "k")
    log(desk.folder, 2)
    desk.keyboard.press("l")
    desk.wait_for_selector("dialog .log li:nth-child(2) img")
    assert "given " in desk.text_content("dialog .log li:nth-child(2)")
    assert "UTC" in desk.text_content("dialog .log li:nth-child(2) .when")
    desk.click("dialog .log li:nth-child(2) a")
    desk.wait_for_selector(f'body[data-row="{shown}"]')
    assert desk.locator("dialog[open]").count() == 0


def test_the_grid_takes_any_class_by_digit_or_name_and_ranges_by_shift(desk):
    desk.keyboard.press("g")
    tiles = desk.locator(".tile")
    tiles.nth(0).wait_for()
    tiles.nth(1).click()
    tiles.nth(4).click(modifiers=["Shift"])
    assert desk.text_content("#chosen") == "4 selected"
    desk.keyboard.press("2")
    assert [x.after.label for x in log(desk.folder, 4)] == ["light"] * 4
    desk.wait_for_selector("#chosen:text-is('0 selected')")
    desk.keyboard.press("Shift+ArrowRight")
    desk.keyboard.press("Shift+ArrowRight")
    assert desk.text_content("#chosen") == "3 selected"
    desk.keyboard.press("/")
    desk.keyboard.type("dar")
    desk.keyboard.press("Enter")
    assert [x.after.label for x in log(desk.folder, 7)[4:]] == ["dark"] * 3
    desk.wait_for_selector("#chosen:text-is('0 selected')")
    desk.keyboard.press("e")
    desk.wait_for_selector("dialog.full .zoom img")
    desk.keyboard.press("Escape")
    desk.evaluate("scrollTo(0, 1e6)")
    box = desk.locator("#grid-bar").bounding_box()
    assert box["y"] + box["height"] <= 860


def test_all_like_the_neighbours_shown(desk):
    desk.wait_for_selector("#near section:nth-child(2) button")
    name = desk.text_content("#near section:nth-child(2) b")
    desk.click("#near section:nth-child(2) button")
    desk.wait_for_selector(".tile")
    assert set(desk.locator(".tile .given").all_text_contents()) == {name}


def test_other_faults_are_in_the_same_queue(browser, photos):
    """Rows marked by hand in the table of issues, as any check may mark them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    issues = pq.read_table(photos / "issues.parquet")
    marked = [k in (20, 41) for k in range(issues.num_rows)]
    scores = [0.1 if k == 41 else 0.2 if k == 20 else 1.0 for k in range(issues.num_rows)]
    for name, values in (("is_dark_issue", marked), ("dark_score", scores)):
        place = issues.column_names.index(name)
        issues = issues.set_column(place, name, [pa.array(values)])
    pq.write_table(issues, photos / "issues.parquet")
    ids = issues.column("id").to_pylist()
    with serving(photos) as address, opened(browser, address) as page:
        page.select_option("#queue", "dark")
        page.wait_for_selector("#chips .chip:has-text('dark pictures')")
        seen = []
        for key in ("d", "k"):
            page.wait_for_selector("#faults:has-text('dark pictures')")
            seen.append(page.text_content("#id"))
            page.keyboard.press(key)
            page.wait_for_selector(f"#id:not(:has-text('{seen[-1]}'))", state="attached")
        assert seen == [ids[41], ids[20]]
        page.wait_for_selector("#stage:has-text('No label that fits the filter is open')")
        assert [x.after.kind for x in log(photos, 2)] == ["drop", "label"]


def test_verify_of_many_classes_has_a_search_box_in_one_order_for_all(browser, animals):
    with serving(animals) as address, opened(browser, address) as page:
        page.click("#mode-verify")
        page.wait_for_selector("#blind-name")
        listed = "#choices [role=option]"
        order = page.locator(listed).all_text_contents()
        counts = [4 + ANIMALS.index(name) % 5 for name in order]
        assert sorted(order) == ANIMALS
        assert counts == sorted(counts, reverse=True)
        before = row(page)
        page.keyboard.press("5")  # no class has a digit here
        page.keyboard.press("/")
        page.keyboard.type("ee")
        shown = page.locator(listed).all_text_contents()
        assert sorted(shown) == ["bee", "deer", "eel"]
        assert shown[0] == "eel"  # it begins so
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        another(page, before)
        assert [(x.mode, x.after.label) for x in log(animals, 1)] == [("verify", shown[1])]
        assert page.locator(listed).all_text_contents() == order
        # The letters are keys again, and the key that leads to the box is not typed into it.
        assert page.evaluate("document.activeElement.id") == "stage"
        press(page, "u")
        assert log(animals, 2)[1].after.kind == "unsure"
        page.keyboard.press("/")
        page.keyboard.press("/")
        assert page.input_value("#blind-name") == ""
        assert page.evaluate("document.activeElement.id") == "blind-name"


def test_verify_says_what_counts_what_is_missing_and_why(browser, photos):
    with serving(photos) as address, opened(browser, address) as page:
        page.click("#mode-verify")
        page.wait_for_selector("#moves >> text=Reveal")
        for key in "12u1d1u2":
            press(page, key)
        log(photos, 8)
        page.wait_for_selector("#unseen:text-is('5 of 30')")
        assert page.text_content("#unseen-words") == "answers count until the rate is measured"
        assert page.text_content("#left") == "25"
        page.wait_for_selector("#uncounted:has-text('2 unsure and 1 dropped: no class was given')")


def test_the_end_of_verify_leads_to_what_was_skipped(browser, photos):
    with serving(photos) as address, opened(browser, address) as page:
        page.click("#mode-verify")
        page.wait_for_selector("#moves >> text=Reveal")
        press(page, "s")
        rows = [row(page)]
        page.wait_for_selector("#uncounted >> text=Look at 1 skipped")
        while not page.locator("#single.empty").count():
            before = row(page)
            page.keyboard.press("1")
            page.wait_for_selector(f'body:not([data-row="{before}"]), #single.empty')
            rows.append(before)
        page.wait_for_selector("#stage:has-text('1 of what was drawn at random was skipped')")
        assert "is answered." not in page.text_content("#stage").partition("skipped")[0]
        page.click("#stage >> text=Look at 1 skipped")
        page.wait_for_selector("#single:not(.empty)")
        assert page.text_content("#id") == "sample 1"
        page.keyboard.press("1")
        page.wait_for_selector("#stage:has-text('Nothing left here')")


def test_a_second_opinion_of_the_sample_shows_and_keeps_nothing_led(browser, photos):
    with serving(photos) as address:
        with opened(browser, address) as page:
            page.click("#mode-verify")
            page.wait_for_selector("#moves >> text=Reveal")
            press(page, "1")
            log(photos, 1)
        with opened(browser, address) as page:
            page.evaluate("localStorage.setItem('who', 'bob')")
            page.reload()
            page.wait_for_selector("body[data-row]")
            page.keyboard.press("f")
            page.select_option("#filter-by", "second")
            page.click("dialog .main")
            page.wait_for_selector("#id:has-text('sample 1')")
            assert not page.locator("#choices .given, #choices .proposed, #near *").count()
            page.keyboard.press("k")  # there is nothing to keep
            page.keyboard.press("2")
            assert [x.mode for x in log(photos, 2)] == ["verify", "verify"]


def test_the_grid_calls_a_label_without_a_proposal_in_doubt(browser, photos):
    with serving(photos) as address, opened(browser, address) as page:
        page.keyboard.press("g")
        page.wait_for_selector(".tile")
        for words in page.locator(".tile p").all_text_contents():
            given, arrow, rest = words.partition(" → ")
            assert not rest.startswith(given) if arrow else " in doubt " in words


def test_a_table_shows_unusual_columns_first_with_points_in_a_line(browser, table):
    with serving(table) as address, opened(browser, address) as page:
        page.wait_for_selector(".row tbody tr.odd")
        odd = page.eval_on_selector_all(
            ".row tbody tr", "all => all.map((e) => e.className === 'odd')"
        )
        assert odd == sorted(odd, reverse=True)
        names = page.locator(".row tbody tr:not(.odd) th").all_text_contents()
        assert names == sorted(names, key=lambda x: int(x.rpartition("_")[2]))
        points = page.eval_on_selector_all(
            ".row tbody td:nth-child(2) .decimals",
            "all => all.map((e) => e.getBoundingClientRect().x)",
        )
        assert len(points) == 14
        assert max(points) - min(points) < 0.5


@pytest.mark.parametrize("ratio", [1, 1.5])
def test_pixels_are_enlarged_whole_brightened_and_turned(browser, photos, ratio):
    with serving(photos) as address, opened(browser, address, device_scale_factor=ratio) as page:
        size = "(e) => [e.getBoundingClientRect().width, e.naturalWidth]"
        wide, natural = page.eval_on_selector(".picture img", size)
        scale = wide * ratio / natural
        assert scale == pytest.approx(round(scale), abs=0.01)  # of 1/64 px in layout
        assert scale > 10
        rendering = "(e) => getComputedStyle(e).imageRendering"
        assert page.eval_on_selector(".picture img", rendering) == "pixelated"
        page.keyboard.press("b")
        page.keyboard.press("t")
        style = "(e) => [getComputedStyle(e).filter, e.style.transform]"
        assert page.eval_on_selector(".picture img", style) == ["brightness(1.6)", "rotate(90deg)"]
        press(page, "k")
        style = "(e) => [getComputedStyle(e).filter, e.style.transform]"
        assert page.eval_on_selector(".picture img", style) == ["brightness(1.6)", ""]


INSTRUCTIONS = """# Two shades
Look at the **whole** picture.

## If *unsure*
- press `u`
- <img src=x onerror=alert(1)> [bad](javascript:alert(1)) [good](https://example.org/a)
1. first
"""


def test_instructions_are_shown_once_as_markdown_and_run_nothing(browser, photos):
    (photos / "instructions.md").write_text(INSTRUCTIONS, encoding="utf-8")
    with serving(photos) as address, opened(browser, address) as page:
        page.wait_for_selector("dialog[open] .prose")
        assert page.text_content(".prose h3") == "Two shades"
        assert page.text_content(".prose h4 em") == "unsure"
        assert page.text_content(".prose strong") == "whole"
        assert page.locator(".prose ul li").count() == 2
        assert page.locator(".prose ol li").count() == 1
        assert page.locator(".prose img").count() == 0
        links = page.eval_on_selector_all(".prose a", "all => all.map((e) => e.href)")
        assert links == ["https://example.org/a"]
        page.keyboard.press("Escape")
        page.reload()
        page.wait_for_selector("body[data-row]")
        page.wait_for_timeout(200)
        assert page.locator("dialog[open]").count() == 0
        page.click("#open-instructions")
        page.wait_for_selector("dialog[open] .prose")
        assert page.messages == []


def test_keys_can_be_changed_and_are_kept(desk):
    desk.keyboard.press("?")
    desk.click("dialog .keys button[aria-label^='drop']")
    desk.keyboard.press("k")  # is taken
    desk.wait_for_selector("dialog [role=status]:has-text('keep the label as given')")
    desk.click("dialog .keys button[aria-label^='drop']")
    desk.keyboard.press("y")
    desk.wait_for_selector("dialog [role=status]:has-text('y: drop')")
    desk.keyboard.press("Escape")
    desk.reload()
    desk.wait_for_selector("body[data-row]")
    desk.wait_for_selector("#actions [data-action=drop] kbd:text-is('y')")
    desk.keyboard.press("d")  # means nothing now
    press(desk, "y")
    assert [x.after.kind for x in log(desk.folder, 1)] == ["drop"]
    desk.keyboard.press("?")
    desk.click("dialog >> text=As they were")
    desk.keyboard.press("Escape")
    press(desk, "d")


def test_the_log_has_the_seconds_of_each_decision(desk):
    desk.wait_for_timeout(400)
    press(desk, "k")
    press(desk, "k")
    first, second = (x.seconds for x in log(desk.folder, 2))
    assert 0.4 <= first < 10
    assert 0 <= second < first


def test_settling_a_dispute_shows_who_said_what(browser, photos):
    with Store(photos / "review.sqlite") as store:
        for who, label in (("ann", "dark"), ("bob", "light")):
            answer = {"dark/0.png": Answer("label", label)}
            store.decide(answer, who=who, mode="fix", request=who)
        store.take_note("dark/0.png", "a shadow", who="bob", request="note")
    with serving(photos) as address, opened(browser, address) as page:
        page.keyboard.press("i")
        page.click("dialog >> text=Settle them")
        page.wait_for_selector("#chips .chip:has-text('in dispute')")
        page.wait_for_selector("#standing .said li:has-text('ann: dark')")
        page.wait_for_selector("#standing .said li:has-text('bob: light – a shadow')")
        page.wait_for_selector(".option:has-text('light') .tag:has-text('bob')")
        page.keyboard.press("1")
        assert log(photos, 4)[3].mode == "settle"


DECIDED_BY = {
    "Enter on a class": ("#choices .option >> nth=1", "Enter"),
    "Space on a class": ("#choices .option >> nth=1", " "),
    "Enter on Drop": ("#actions [data-action=drop]", "Enter"),
}


@pytest.mark.parametrize("way", DECIDED_BY)
def test_the_focus_stays_where_a_decision_was_made(desk, way):
    place, key = DECIDED_BY[way]
    desk.focus(place)
    press(desk, key)
    within = place.split(" ")[0]
    assert desk.evaluate(f"document.querySelector('{within}').contains(document.activeElement)")
    press(desk, key)
    assert len(log(desk.folder, 2)) == 2


def test_enter_that_is_held_down_decides_once(desk):
    desk.focus("#choices .option")
    desk.keyboard.down("Enter")
    for _ in range(5):
        desk.keyboard.down("Enter")
    desk.keyboard.up("Enter")
    log(desk.folder, 1)
    desk.wait_for_timeout(300)
    assert len(log(desk.folder, 1)) == 1


def send(page, event):
    """A key as another keyboard sends it."""
    made = f"new KeyboardEvent('keydown', {{{event}, bubbles: true}})"
    page.evaluate(f"document.body.dispatchEvent({made})")


def test_digits_work_on_a_french_keyboard(desk):
    """There the key of 2 gives é, and 2 with Shift."""
    for pressed in ("key: 'é', code: 'Digit2'", "key: '2', code: 'Digit2', shiftKey: true"):
        before = row(desk)
        send(desk, pressed)
        another(desk, before)
    assert [x.after.label for x in log(desk.folder, 2)] == ["light", "light"]
    send(desk, "key: '/', code: 'Digit7', shiftKey: true")  # on a German one
    assert desk.evaluate("document.activeElement.id") == "name-of-class"


def test_forced_colours_tell_fix_from_verify(browser, photos):
    with serving(photos) as address, opened(browser, address, forced_colors="active") as page:
        colours = "(e) => getComputedStyle(e).borderTopStyle"  # the ground may be still on its way
        fix, verify = (page.eval_on_selector(f"#mode-{x}", colours) for x in ("fix", "verify"))
        assert fix != verify
        page.click("#mode-verify")
        page.wait_for_selector("#moves >> text=Reveal")
        after = [page.eval_on_selector(f"#mode-{x}", colours) for x in ("fix", "verify")]
        assert after == [verify, fix]


SEEN = [
    (kind, way) for kind in ("photos", "texts", "table", "animals") for way in ("light", "dark")
]


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [SEEN[0], *(pytest.param(*one, marks=pytest.mark.slow) for one in SEEN[1:])],
)
def test_axe_finds_nothing_on_any_view(browser, request, kind, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    folder = request.getfixturevalue(kind)
    (folder / "instructions.md").write_text(INSTRUCTIONS, encoding="utf-8")
    found = {}

    def check(page, view):
        page.wait_for_timeout(250)
        for one in axe.run(page).response["violations"]:
            found[view, one["id"]] = [node["html"][:200] for node in one["nodes"]][:2]

    with serving(folder) as address, opened(browser, address, color_scheme=scheme) as page:
        page.wait_for_selector("dialog[open] .prose")
        check(page, "instructions")
        page.keyboard.press("Escape")
        press(page, "k")
        log(folder, 1)
        page.wait_for_selector("#near .strip > *")
        check(page, "fix")
        page.keyboard.press("/")
        page.keyboard.type("a")
        check(page, "search")
        page.keyboard.press("Escape")
        for key, view in (("f", "filter"), ("l", "log"), ("i", "team"), ("o", "export"),
                          ("n", "note"), ("e", "enlarge"), ("?", "keys")):  # fmt: skip
            page.keyboard.press(key)
            page.wait_for_selector("dialog[open]")
            check(page, view)
            page.keyboard.press("Escape")
            page.wait_for_selector("dialog:not([open])", state="hidden")
        page.keyboard.press("g")
        page.wait_for_selector(".tile")
        page.keyboard.press("x")
        check(page, "grid")
        page.keyboard.press("g")
        page.click("#mode-verify")
        page.wait_for_selector("#moves >> text=Reveal")
        check(page, "verify")
        page.click("#mode-fix")
        page.keyboard.press("f")
        page.fill("#filter-least", "100")
        page.keyboard.press("Enter")
        page.wait_for_selector("#single.empty")
        check(page, "end")
        page.set_viewport_size({"width": 390, "height": 844})
        check(page, "end on a phone")
    assert found == {}
