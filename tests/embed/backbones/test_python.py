import pytest
import torch

from abstain.embed.backbones.python import from_python
from abstain.errors import AbstainError

CPU = torch.device("cpu")


def test_a_module_of_a_python_file_says_its_own_size(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    size, mean, std = 8, (0, 0, 0), (1, 1, 1)\n"
        "    def forward(self, images): return images.mean((2, 3))\n"
    )
    backbone = from_python(f"{path}:Net", "image")
    images = torch.full((1, 3, 30, 20), 51, dtype=torch.uint8)
    torch.testing.assert_close(backbone.features(images, CPU), torch.full((1, 3), 0.2))


def test_a_python_file_that_makes_no_module_is_refused(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def net(): return 3\n")
    with pytest.raises(AbstainError, match=r"must return a torch\.nn\.Module"):
        from_python(f"{path}:net", "image")


NETS = """
import torch

class Net(torch.nn.Module):
    size = 8
    def forward(self, images): return images.mean((2, 3))

class Other(Net):
    def forward(self, images): return images.amax((2, 3))

class Map(Net):
    def forward(self, images): return images

class Few(Net):
    def forward(self, images): return images[:1].mean((2, 3))

class Several(Net):
    def forward(self, images): return (images.mean((2, 3)),)

class Broken(Net):
    def forward(self, images): raise KeyError("no such layer")

class Large(Net):
    size = "large"

class Grey(Net):
    mean = 0.5
"""


@pytest.fixture
def nets(tmp_path):
    path = tmp_path / "nets.py"
    path.write_text(NETS)
    return path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Map", r"give a tensor \(N, columns\), got .*Map, which gave \(2, 3, 8, 8\) for two"),
        ("Few", r"which gave \(1, 3\) for two"),
        ("Several", "which raised AttributeError for two"),
        ("Broken", "which raised KeyError for two of them: 'no such layer'"),
        ("Large", "must have a whole number of pixels as its size, got 'large'"),
        ("Grey", r"must have three numbers as mean, got 0\.5"),
        ("Nett", r"must name a class or function of its file, .*; did you mean Net\?"),
    ],
)
def test_a_module_that_gives_no_row_for_each_image_is_refused(nets, name, message):
    with pytest.raises(AbstainError, match=f"^backbone .*{message}"):
        from_python(f"{nets}:{name}", "image")


def test_a_module_for_texts_gives_a_row_for_each(tmp_path):
    path = tmp_path / "texts.py"
    path.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, texts): return torch.tensor([[float(len(x))] for x in texts])\n"
        "class Lists(torch.nn.Module):\n"
        "    def forward(self, texts): return [[0.0] for x in texts]\n"
    )
    assert from_python(f"{path}:Net", "text").features(["abc"], CPU).tolist() == [[3.0]]
    with pytest.raises(AbstainError, match="must take a list of N texts and give a tensor"):
        from_python(f"{path}:Lists", "text")


def test_other_code_with_the_same_weights_makes_other_features(nets):
    """Weights alone do not say what a module does with them; these have none."""
    seen = {from_python(f"{nets}:{name}", "image").identity for name in ("Net", "Other")}
    nets.write_text(NETS.replace("images.mean", "images.sum"))
    assert len(seen | {from_python(f"{nets}:Net", "image").identity}) == 3


def test_a_module_that_draws_weights_at_random_has_the_same_ones_the_next_time(tmp_path):
    """A model trained on its features finds it again, and the cache too."""
    path = tmp_path / "drawn.py"
    path.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    size = 8\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.last = torch.nn.Linear(3, 4)\n"
        "    def forward(self, images): return self.last(images.mean((2, 3)))\n"
    )
    before = torch.get_rng_state()
    first, again = (from_python(f"{path}:Net", "image").identity for _ in range(2))
    assert first == again
    assert torch.equal(torch.get_rng_state(), before)


def test_a_python_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(AbstainError, match="backbone must name a Python file that exists"):
        from_python(f"{tmp_path / 'none.py'}:Net", "image")
