"""The load test of bench/review_load.py, smaller: nothing acknowledged is lost, whatever fails."""

import os
import sys

import pytest
import review_load

pytestmark = pytest.mark.slow


def complete(found):
    assert found["acknowledged"] > 20
    assert (found["lost"], found["twice_or_unasked"], found["refused"]) == (0, 0, 0)


def test_a_server_that_is_killed_loses_nothing(tmp_path):
    complete(review_load.killed(tmp_path, clients=10, kills=3))


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a tmpfs")
def test_a_disk_that_fills_loses_nothing(tmp_path):
    found = review_load.disk_full(tmp_path, clients=10, seconds=6)
    complete(found)
    assert found["acknowledged_while_full"] == 0
    assert found["acknowledged_afterwards"] > 0
    assert found["says"] == ["the disk is full"]


def test_a_folder_that_is_moved_away_loses_nothing(tmp_path):
    found = review_load.folder_moved(tmp_path, clients=10, seconds=6)
    complete(found)
    assert found["acknowledged_while_away"] == 0
    assert found["acknowledged_but_not_in_the_copy"] == 0
    assert not found["folder_made_anew"]
