"""A recipe is what a user asks for; it becomes the plan of a run."""

from dataclasses import fields, replace

import pytest

from abstain import AbstainError, Recipe
from abstain.training.plan import Plan
from abstain.training.recipe import METHODS, plan_of


@pytest.mark.parametrize("method", METHODS)
def test_a_recipe_without_changes_is_the_plan_of_its_method(method):
    rate = {"rate": 0.2} if method in ("aes", "nll-entropy") else {}
    assert Recipe.of(method, **rate).plan() == plan_of(method, **rate)


def test_every_setting_of_a_recipe_is_one_of_the_plan():
    ours = {field.name for field in fields(Recipe)}
    assert ours - {field.name for field in fields(Plan)} == {"seed"}
    assert len(ours) < 20  # what anybody sets


def test_what_was_asked_for_stands_in_the_plan():
    asked = Recipe.of("auto", epochs=3, batch=9, flip=0.1, learning_rate=0.1, augment=("crop",))
    plan = asked.resolved(num_samples=100, num_classes=3)
    assert (plan.epochs, plan.batch, plan.flip, plan.learning_rate) == (3, 9, 0.1, 0.1)
    assert plan.augment == ("crop",)
    assert plan.optimizer == "adam"  # the method's


def test_one_seed_is_that_of_weights_order_and_noise_unless_that_has_its_own():
    plan = Recipe(seed=4).plan()
    assert (plan.seed_noise, plan.seed_init, plan.seed_order) == (4, 4, 4)
    plan = Recipe(seed=4, seed_noise=0).plan()
    assert (plan.seed_noise, plan.seed_init, plan.seed_order) == (0, 4, 4)


def test_fine_tuning_brings_settings_and_the_users_win():
    plan = Recipe(method="auto", finetune=True, learning_rate=1e-4).plan()
    assert (plan.optimizer, plan.schedule, plan.learning_rate) == ("adamw", "one-cycle", 1e-4)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("shedule", {}, "did you mean schedule"),
        ("auto", {"epoch": 3}, r"only known settings, got epoch; did you mean epochs\?"),
        ("auto", {"hold_out": 0.3}, "recipe must hold only known settings, got hold_out"),
        ("auto", {"rate": 0.2}, "rate must be left out for method 'auto'"),
        ("aes", {}, "rate must be given for the analytical stop"),
        ("auto", {"epochs": 0}, "epochs must be a whole number, at least 1, got 0"),
        ("auto", {"seed": -1}, "seed_noise must be in"),
    ],
)
def test_what_cannot_be_is_refused_when_the_recipe_is_made(method, settings, message):
    with pytest.raises(AbstainError, match=message):
        Recipe.of(method, **settings)


def test_a_changed_recipe_is_checked_again():
    with pytest.raises(AbstainError, match="epochs must be"):
        replace(Recipe(), epochs=-1)
