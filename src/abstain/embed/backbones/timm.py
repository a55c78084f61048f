"""Image models of timm: `timm:NAME`, from the hub, or `timm:FOLDER`."""

from abstain.data import Kind
from abstain.data.identity import weights_digest
from abstain.embed.backbones.base import Backbone, ImageBackbone
from abstain.embed.backbones.opening import check_kind, import_library, opening_error, with_scheme


def from_timm(name: str, model: str, kind: Kind) -> Backbone:
    """An image model of timm, without its last layer."""
    check_kind(name, kind, "image")
    timm = import_library("timm", name)
    with opening_error(name, kind):
        network = timm.create_model(with_scheme(model), pretrained=True, num_classes=0)
    config = timm.data.resolve_model_data_config(network)
    size, mean, std = config["input_size"][-1], tuple(config["mean"]), tuple(config["std"])
    return ImageBackbone(
        name,
        identity=f"{name}-{weights_digest(network)}-{size}-{mean}-{std}",
        network=network,
        size=size,
        mean=mean,
        std=std,
        # Transformers with patches of a fixed number may still lack the first of the two.
        any_size=not network.pretrained_cfg.get("fixed_input_size", False)
        and not hasattr(network, "patch_embed"),
    )
