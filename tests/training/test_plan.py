import json
import math
from dataclasses import fields

import pytest

from abstain.errors import AbstainError
from abstain.training.plan import Plan
from abstain.training.recipe import METHODS, fine_tuned, plan_of


@pytest.mark.parametrize("method", METHODS)
def test_every_method_resolves_completely_and_survives_json(method):
    bare = Plan(**{"method": method, "rate": 0.2, **METHODS[method]})
    recipe = bare.resolved(num_samples=1000, num_classes=10)
    open_settings = {f.name for f in fields(recipe) if getattr(recipe, f.name) is None}
    none = {"model", "clip", "truncate", "average"}  # of the data, or truly none
    assert open_settings <= (none | {"warm_up"} if method == "auto" else none)
    assert Plan.from_json(json.loads(json.dumps(recipe.as_json()))) == recipe
    assert recipe.resolved(num_samples=1000, num_classes=10) == recipe


def test_an_infinite_payoff_survives_json():
    recipe = Plan(payoff=math.inf)
    assert json.loads(json.dumps(recipe.as_json()))["payoff"] == "inf"
    assert Plan.from_json(recipe.as_json()) == recipe


@pytest.mark.parametrize("samples", [30, 178, 1442, 4000, 50_000, 1_000_000])
def test_any_size_of_data_gets_a_sensible_number_of_steps(samples):
    recipe = Plan().resolved(num_samples=samples, num_classes=10)
    steps = math.ceil(samples / recipe.batch) * recipe.epochs
    assert 16 <= recipe.batch <= 128
    assert 15 <= recipe.epochs <= 30
    assert steps >= 4000 or recipe.epochs == 30
    if samples < 1000:
        assert recipe.warm_up == 1  # more of it would memorise few samples
    else:
        assert 2 <= recipe.warm_up <= recipe.epochs / 5


def test_given_settings_are_kept():
    recipe = Plan(batch=7, epochs=3, warm_up=0, payoff=2.5, augment=False, finetune=False)
    assert recipe.resolved(num_samples=99, num_classes=5) == recipe


def test_fine_tuning_keeps_what_was_given_and_trains_to_the_end():
    asked = plan_of("auto", epochs=5, schedule="cosine", flip=0.1).until_settled()
    assert asked.stop == "settled"
    tuned = fine_tuned(asked)
    assert tuned == plan_of("auto", finetune=True, epochs=5, schedule="cosine", flip=0.1)


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_the_chosen_warm_up_leaves_an_epoch_for_the_loss(epochs):
    assert Plan(epochs=epochs).resolved(num_samples=99, num_classes=5).warm_up < epochs


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "mse"}, "loss must be one of gamblers, nll, lq, small-stake, trusted, got 'mse'"),
        ({"optimizer": "rmsprop"}, "optimizer must be one of"),
        ({"precision": "odd"}, "precision must be one of"),
        ({"epochs": 0}, "epochs must be a whole number, at least 1, got 0"),
        ({"epochs": 2.5}, "epochs must be a whole number, at least 1, got 2.5"),
        ({"batch": -1}, "batch must be a whole number, at least 1, got -1"),
        ({"warm_up": -1}, "warm_up must be a whole number, at least 0, got -1"),
        ({"learning_rate": 0}, "learning_rate must be greater than 0, got 0"),
        ({"learning_rate": math.nan}, "learning_rate must be greater than 0, got nan"),
        ({"learning_rate": "fast"}, "learning_rate must be greater than 0, got 'fast'"),
        ({"clip": math.inf}, "clip must be greater than 0, got inf"),
        ({"payoff": 0.5}, "payoff must be greater than 1, got 0.5"),
        ({"payoff": "ecu"}, "ecu"),
        ({"flip": 1.0}, r"flip must be in \[0, 1\), got 1.0"),
        ({"rate": -0.1}, r"rate must be in \[0, 1\), got -0.1"),
        ({"hold_out": 0}, r"hold_out must be in \(0, 1\), got 0"),
        ({"q": 0}, r"q must be in \(0, 1\], got 0"),
        ({"truncate": 1.0}, r"truncate must be in \(0, 1\), got 1.0"),
        ({"seed_order": -1}, "seed_order must be in"),
        ({"seed_init": 2**32}, "seed_init must be in"),
        ({"stop": "analytical", "payoff": 2.0}, "rate must be given for the analytical stop"),
        ({"stop": "analytical", "rate": 0.2}, "needs loss='gamblers' with a fixed payoff"),
    ],
)
def test_a_wrong_setting_is_named_with_its_rule_and_value(settings, message):
    with pytest.raises(AbstainError, match=message):
        Plan(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"payoff": 9.99}, r"payoff must lie in \(1, 2\] for 2 classes, got 9.99"),
        ({"epochs": 3, "warm_up": 3}, "warm_up must be less than epochs, 3, got 3"),
        ({"flip": 0.1, "flip_kind": "odd"}, "flip_kind must be one of symmetric"),
        ({"method": "aes", "rate": 0.2, "payoff": 1.1}, "to have a plateau to stop at"),
        ({"method": "aes", "rate": 0.6}, "rate|clean"),
        ({"method": "aes", "rate": 0.2, "noise": "odd"}, "must be one of symmetric"),
    ],
)
def test_what_does_not_fit_the_data_is_found_before_training(settings, message):
    recipe = plan_of(settings.pop("method", "schedule"), **settings)
    with pytest.raises(AbstainError, match=message):
        recipe.resolved(num_samples=100, num_classes=2)


def test_unknown_methods_and_settings_are_refused_with_a_hint():
    with pytest.raises(AbstainError, match="did you mean schedule"):
        plan_of("shedule")
    with pytest.raises(AbstainError, match="only known settings, got momentum"):
        Plan.from_json({"momentum": 0.9})
    with pytest.raises(
        AbstainError, match=r"only known settings, got epoch; did you mean epochs\?"
    ):
        plan_of("auto", epoch=3)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("auto", {"rate": 0.2}, "rate must be left out for method 'auto'.*got 0.2; it is for"),
        ("auto", {"payoff": 1.9}, "payoff must be left out for method 'auto'"),
        ("mid", {"guard": 1e-6}, "guard must be left out for method 'mid'.*schedule, schedule-rel"),
        ("auto", {"q": 0.5}, "q must be left out for .* got 0.5; it is for methods lq, lq-trunc"),
        ("nll", {"truncate": 0.5}, "truncate must be left out for method 'nll'"),
        ("nll", {"warm_up": 2}, "warm_up must be left out for method 'nll'"),
        ("ves", {"noise": "pairflip"}, "noise must be left out for method 'ves'"),
        ("auto", {"patience": 3}, "patience must .* it is for method ves$"),
        ("lq", {"hold_out": 0.3}, "hold_out must be left out for method 'lq'"),
        ("gamblers", {"payoff": 1.9, "rate": 0.2}, "rate must be left out for payoff 1.9"),
        ("auto", {"flip_kind": "pairflip"}, "flip_kind must come with flip.*got 'pairflip' alone"),
    ],
)
def test_what_the_method_would_pass_over_is_refused(method, settings, message):
    with pytest.raises(AbstainError, match=message):
        plan_of(method, **settings)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("gamblers", {"rate": 0.2}),  # the payoff is then chosen by it
        ("ves", {"rate": 0.2, "patience": 3, "hold_out": 0.3}),
        ("lq", {"q": 0.5, "truncate": 0.3}),
        ("auto", {"warm_up": 2}),
        ("nll", {"flip": 0.0, "flip_kind": "pairflip"}),  # given, and nothing to flip
    ],
)
def test_what_the_method_looks_at_is_taken(method, settings):
    recipe = plan_of(method, **settings)
    assert {name: getattr(recipe, name) for name in settings} == settings


def test_fine_tuning_has_settings_of_its_own_and_the_users_win():
    recipe = plan_of("auto", finetune=True, learning_rate=1e-4)
    assert (recipe.optimizer, recipe.schedule, recipe.learning_rate) == ("adamw", "one-cycle", 1e-4)
    large, few = (recipe.resolved(num_samples=n, num_classes=10) for n in (20_000, 19_999))
    assert (large.batch, few.batch, few.epochs) == (512, 64, 8)
    assert large.augment is True
    assert (
        plan_of("auto", finetune=True, augment=False, batch=9)
        .resolved(num_samples=50_000, num_classes=10)
        .batch
        == 9
    )
    assert plan_of("auto", finetune=False).learning_rate == 1e-3
    assert recipe.until_settled().stop == "never"
    named = plan_of("auto", finetune=True, augment=("crop",))
    assert Plan.from_json(json.loads(json.dumps(named.as_json()))) == named
    with pytest.raises(AbstainError, match="augment must be True, False, None or a tuple"):
        Plan(augment="crop")
