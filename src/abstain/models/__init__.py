"""Networks with one output for each class and one more, the last, for abstention.

`build_model` makes one by name, `default_model` names one for a kind of data, and
`with_abstention` widens any torch classifier.
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
