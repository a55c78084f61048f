"""ReadOptions that every reader gets: sizes that can be used, and what a cache entry depends on."""

import pytest

from abstain.data.reading import ReadOptions
from abstain.errors import DataError


@pytest.mark.parametrize("size", [0, -8, 4097, (8, 0), (8, 5000), 8.5])
def test_sizes_that_no_image_has_are_refused(size):
    with pytest.raises(DataError, match="image_size must be whole pixels, 1 to 4096, got"):
        ReadOptions(image_size=size)


@pytest.mark.parametrize(
    "other", [{"split": "test"}, {"label": "stars"}, {"features": ("x",)}, {"ignore": ("id",)},
              {"skip_bad": True}, {"labelled": False}, {"image_size": 8}, {"image_size": (8, 9)}],
    ids=str,
)  # fmt: skip
def test_what_changes_the_decoded_data_changes_their_key(other):
    assert ReadOptions(**other).key() != ReadOptions().key()
    assert ReadOptions(**other).key() == ReadOptions(**other, memory_budget=1).key()
