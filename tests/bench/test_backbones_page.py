import backbones_page

from abstain.embed import choice

TEXT = backbones_page.PAGE.read_text(encoding="utf-8")


def test_the_page_shows_what_the_results_say():
    assert backbones_page.page() == TEXT


def test_the_page_names_the_size_up_to_which_images_are_learnt_from_scratch():
    assert f"grey images up to {choice._DRAWING} pixels" in TEXT
