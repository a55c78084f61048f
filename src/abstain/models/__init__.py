"""Networks with one output for each class and one more, the last, for abstention.

Goes in: a name, or any torch classifier, and the shape of inputs. Comes out: a module with m + 1
outputs. Begin with `build_model` in build.py; `default_model` in default.py names one for a kind of
data, and `with_abstention` in abstention.py widens any torch classifier.
"""

from abstain.models.abstention import with_abstention
from abstain.models.build import MODELS, build_model
from abstain.models.default import default_model
from abstain.models.mlp import MLP
from abstain.models.resnet import ResNet18
from abstain.models.text import BagOfWords
from abstain.models.vision import CifarCNN, MnistCNN

__all__ = [
    "MLP",
    "MODELS",
    "BagOfWords",
    "CifarCNN",
    "MnistCNN",
    "ResNet18",
    "build_model",
    "default_model",
    "with_abstention",
]
