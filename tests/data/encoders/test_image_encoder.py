"""The image encoder."""

import pytest
import torch

from abstain.data import fit_encoder, load, load_encoder
from abstain.data.encoders.image_encoder import ImageEncoder
from abstain.errors import DataError


def test_images_stay_bytes_until_the_device(tmp_path):
    data = load("digits")
    encoder = fit_encoder(data)
    assert encoder.input_shape == (1, 8, 8)
    encoded = encoder.encode(data)
    assert encoded.dtype == torch.uint8
    batch = encoder.to_model(encoded[:5])
    assert batch.dtype == torch.float32
    assert (batch.min(), batch.max()) == (0, 1)
    encoder.save(tmp_path)
    again = load_encoder(tmp_path)
    assert again == encoder
    with pytest.raises(DataError, match=r"1×8×8 .*got 3×8×8"):
        again.encode(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    floats = torch.full((1, 1, 8, 8), 0.25)
    assert torch.equal(again.to_model(again.encode(floats)), floats)
    with pytest.raises(DataError, match=r"trained on \(image\), got table"):
        again.encode(load(([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1])))


def test_grey_images_fit_a_model_of_colour_images_but_not_the_other_way_round(tmp_path):
    grey, colour = ImageEncoder((1, 4, 5)), ImageEncoder((3, 4, 5))
    images = torch.randint(0, 255, (2, 1, 4, 5), dtype=torch.uint8)
    assert torch.equal(colour.encode(images), images.repeat(1, 3, 1, 1))
    assert torch.equal(colour.encode_one(images[0], ()), images[0].repeat(3, 1, 1))
    for encoder, bad in ((grey, images.repeat(1, 3, 1, 1)), (colour, images[..., :4])):
        with pytest.raises(DataError, match="must have the shape that the model was trained on"):
            encoder.encode(bad)
