import time

import pytest
import torch

from abstain.training import step_layout as module
from abstain.training.step_layout import Layout, fastest_layout

IMAGES = torch.zeros(2, 3, 8, 8)
NET = torch.nn.Conv2d(3, 4, 3)


def measured(monkeypatch, seconds):
    monkeypatch.setattr(module, "_seconds", lambda _model, _inputs, layout: seconds[layout])


@pytest.mark.parametrize(
    ("bf16", "chosen"),
    [
        (0.0050, "bf16"),
        (0.0095, "fp32"),  # not worth it: less than a tenth
        (0.0200, "fp32"),
    ],
)
def test_a_coarser_precision_has_to_earn_its_place(monkeypatch, bf16, chosen):
    measured(monkeypatch, {Layout(): 0.0100, Layout(precision="bf16"): bf16})
    assert fastest_layout(torch.nn.Linear(2, 2), torch.zeros(4, 2)).precision == chosen


def test_a_step_too_short_to_measure_stays_plain(monkeypatch):
    # A third of a millisecond is noise: the same training must not choose anew every time.
    measured(monkeypatch, {Layout(): 0.0009, Layout(precision="bf16"): 0.0006})
    assert fastest_layout(torch.nn.Linear(2, 2), torch.zeros(4, 2)) == Layout()


def test_images_try_both_memory_formats_and_others_do_not(monkeypatch):
    seconds = {
        Layout(last, precision): 0.01 - 0.004 * last
        for last in (False, True)
        for precision in ("fp32", "bf16")
    }
    measured(monkeypatch, seconds)
    assert fastest_layout(NET, IMAGES).channels_last
    assert not fastest_layout(torch.nn.Linear(2, 2), torch.zeros(4, 2)).channels_last


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("memory_format", ["contiguous", "channels-last"])
def test_what_a_recipe_says_is_kept_unmeasured(monkeypatch, precision, memory_format):
    monkeypatch.setattr(module, "_seconds", None)  # it would fail
    layout = fastest_layout(NET, IMAGES, precision, memory_format)
    assert layout == Layout(memory_format == "channels-last", precision)


@pytest.mark.parametrize(
    ("divided", "chosen"),
    [
        (0.0090, 2),
        (0.0096, 1),  # not worth it: less than a twentieth
        (0.0200, 1),
    ],
)
def test_parts_have_to_earn_their_place(monkeypatch, divided, chosen):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    measured(monkeypatch, {Layout(): 0.0100, Layout(parts=2): divided})
    layout = fastest_layout(torch.nn.Linear(2, 2), torch.zeros(4, 2), "fp32")
    assert layout == Layout(parts=chosen)


def test_parts_of_a_step_too_short_to_measure_are_left(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    measured(monkeypatch, {Layout(): 0.0009, Layout(parts=2): 0.0005})
    assert fastest_layout(torch.nn.Linear(2, 2), torch.zeros(4, 2), "fp32") == Layout()


@pytest.mark.parametrize("layer", [torch.nn.BatchNorm2d(4), torch.nn.Dropout(0.1)])
def test_models_that_mix_samples_or_draw_numbers_are_left_whole(monkeypatch, layer):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(module, "_seconds", None)  # it would fail
    model = torch.nn.Sequential(NET, layer)
    assert fastest_layout(model, IMAGES, "fp32", "contiguous") == Layout()


def test_what_does_not_fit_into_the_memory_is_not_chosen():
    class Large(torch.nn.Module):
        def __init__(self, **fits):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))
            self.fits = fits

        def forward(self, images):
            if not torch.is_autocast_enabled("cpu") or not self.fits:
                raise torch.OutOfMemoryError
            return (images * self.weight).flatten(1)

    assert fastest_layout(Large(half=True), IMAGES).precision == "bf16"
    with pytest.raises(torch.OutOfMemoryError, match="in any layout"):
        fastest_layout(Large(), IMAGES)


def test_parts_are_measured_for_real():
    model = torch.nn.Sequential(NET, torch.nn.Flatten())
    assert module._seconds(model, IMAGES, Layout(True, "bf16", 2)) > 0


def test_measuring_changes_neither_model_nor_random_numbers():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Dropout(), torch.nn.Flatten())
    before = {name: x.clone() for name, x in model.state_dict().items()}
    state = torch.get_rng_state()
    fastest_layout(model, IMAGES)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_tensors_are_laid_out_as_documented():
    laid = Layout(channels_last=True)
    assert laid.lay(IMAGES).is_contiguous(memory_format=torch.channels_last)
    assert laid.lay(torch.zeros(2, 3)).is_contiguous()
    assert Layout().lay(IMAGES) is IMAGES
    with Layout(precision="bf16").autocast(torch.device("cpu")):
        assert torch.nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == torch.bfloat16
    with Layout().autocast(torch.device("cpu")):
        assert torch.nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == torch.float32


@pytest.mark.parametrize(("pause", "steps"), [(0.0, 7), (0.03, 3)])
def test_long_steps_are_timed_less_often(pause, steps):
    class Slow(torch.nn.Linear):
        seen = 0

        def forward(self, inputs):
            Slow.seen += 1
            time.sleep(pause)
            return super().forward(inputs)

    assert module._seconds(Slow(2, 2), torch.zeros(4, 2), Layout()) >= pause
    assert Slow.seen == steps
