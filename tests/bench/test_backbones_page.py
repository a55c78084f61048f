import backbones_page


def test_the_page_shows_what_the_results_say():
    assert backbones_page.page() == backbones_page.PAGE.read_text(encoding="utf-8")
