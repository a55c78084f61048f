import os
import shutil
from importlib.util import find_spec

import pytest
from review_fixtures import made, page, photos, texts

from review_browser import opened, serving

__all__ = ["made", "page", "photos", "texts"]
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None or find_spec("playwright") is None:
        why = "needs Debian's chromium and the package playwright"
        if os.environ.get("ABSTAIN_BROWSER") == "required":
            pytest.fail(why)
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def desk(browser, photos):
    with serving(photos) as address, opened(browser, address) as page:
        page.folder = photos
        yield page
        assert page.messages == []
