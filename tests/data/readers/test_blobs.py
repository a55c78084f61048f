import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from abstain.data.identity import digest
from abstain.data.readers.blobs import ReadOnce


class Counted:
    """Encoded images that count how often each is opened."""

    def __init__(self, blobs):
        self.blobs, self.opened = blobs, [0] * len(blobs)
        self.numbers = range(len(blobs))

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        self.opened[self.numbers[index]] += 1
        return self.blobs[self.numbers[index]]

    def subset(self, keep):
        part = Counted.__new__(Counted)
        part.blobs, part.opened = self.blobs, self.opened
        part.numbers = [self.numbers[k] for k in keep]
        return part


@pytest.fixture
def three(make_png):
    return Counted([make_png(k, (4, 5 + k)) for k in range(3)])


def test_each_is_opened_once_by_all_stages(three):
    read = ReadOnce(three, room=10**6)
    assert [read[k] for k in (0, 1, 2, 0)] == [three.blobs[k] for k in (0, 1, 2, 0)]
    assert read.digests(range(3)) == b"".join(map(digest, three.blobs))
    assert [read.size(k) for k in range(3)] == [(4, 5), (4, 6), (4, 7)]
    assert three.opened == [1, 1, 1]


def test_what_does_not_fit_is_opened_again_but_not_for_its_digest_and_size(three):
    read = ReadOnce(three, room=len(three.blobs[0]))
    for k in range(3):
        assert read.size(k) == (4, 5 + k)
    assert read.digests(range(3)) == b"".join(map(digest, three.blobs))
    assert three.opened == [1, 1, 1]
    assert read[0] == three.blobs[0]
    assert read[2] == three.blobs[2]
    assert three.opened == [1, 1, 2]


def test_fewer_of_them_share_what_is_known(three):
    read = ReadOnce(three, room=10**6)
    read.digests(range(3))
    part = read.subset([2, 0]).subset([1])
    assert len(part) == 1
    assert part[0] == three.blobs[0]
    assert part.digests(range(1)) == digest(three.blobs[0])
    assert part.size(0) == (4, 5)
    assert three.opened == [1, 1, 1]


def test_after_they_are_forgotten_files_are_opened_again_and_may_be_others(three, make_png):
    read = ReadOnce(three, room=10**6)
    assert read.digests(range(3)) == b"".join(map(digest, three.blobs))
    read.forget()
    three.blobs[1] = make_png(9)
    assert read[1] == make_png(9)
    assert read.digests(range(1, 2)) == digest(make_png(9))
    assert three.opened == [1, 2, 1]


def test_many_threads_keep_no_more_than_there_is_room(make_png):
    blobs = Counted([make_png(k, (4, 5)) for k in range(200)])
    room = sum(map(len, blobs.blobs[:50]))
    read = ReadOnce(blobs, room)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(read.__getitem__, range(200))) == blobs.blobs
    kept = [k for k in range(200) if read[k] and blobs.opened[k] == 1]
    assert sum(len(blobs.blobs[k]) for k in kept) <= room
    assert len(kept) >= 45


def test_a_copy_travels_without_the_files(three):
    read = ReadOnce(three.subset([1, 2]), room=10**6)
    read.digests(range(2))
    sent = pickle.dumps(read)
    assert len(sent) < len(pickle.dumps(three)) + 200
    assert pickle.loads(sent)[0] == three.blobs[1]
