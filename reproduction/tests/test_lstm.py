"""The text network: lengths, padding, attention, and word vectors that stay as they were."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from abstain.errors import AbstainError
from reproduction.stacked.lstm import TextLSTM, attend


def tokens_of(*texts, length):
    return torch.tensor([[*text, *[0] * (length - len(text))] for text in texts])


def read_one(model, text):
    """The states of one unpadded text, gate by gate, as the LSTM's equations say."""
    table = model.vectors if model.vectors is not None else model.embedding.weight
    w_in, w_hidden, b_in, b_hidden = model.lstm.parameters()
    hidden = cell = torch.zeros(w_hidden.shape[1], dtype=w_in.dtype)
    states = []
    for token in text:
        gates = w_in @ table[token] + b_in + w_hidden @ hidden + b_hidden
        enter, forget, value, leave = gates.chunk(4)
        cell = forget.sigmoid() * cell + enter.sigmoid() * value.tanh()
        hidden = leave.sigmoid() * cell.tanh()
        states.append(hidden)
    return states


def reference(model, text):
    states = read_one(model, text)
    if not model.attention:
        return model.fc(states[-1])
    powers = [torch.dot(state, states[-1]).exp() for state in states]
    mixed = sum(power * state for power, state in zip(powers, states, strict=True)) / sum(powers)
    return model.fc(mixed)


def small(attention, **settings):
    torch.manual_seed(3)
    model = TextLSTM(3, dimensions=5, hidden=7, attention=attention, **settings).double()
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -1, 1)
    return model


def test_parameter_counts():
    def count(model):
        return sum(parameter.numel() for parameter in model.parameters())

    lstm = 4 * 256 * (300 + 256 + 2)
    assert count(TextLSTM(3, vectors=torch.rand(40, 300))) == lstm + 257 * 3
    assert count(TextLSTM(3, vectors=torch.rand(40, 300), attention=True)) == lstm + 257 * 3
    assert count(TextLSTM(3, vocabulary=40, dimensions=300)) == lstm + 257 * 3 + 40 * 300


@pytest.mark.parametrize("attention", [False, True])
@settings(max_examples=25, deadline=None)
@given(
    texts=st.lists(st.lists(st.integers(1, 19), min_size=1, max_size=6), min_size=1, max_size=4),
    padding=st.integers(0, 5),
)
def test_matches_a_loop_over_the_real_tokens(attention, texts, padding):
    model = small(attention, vocabulary=20)
    got = model(tokens_of(*texts, length=max(map(len, texts)) + padding))
    expected = torch.stack([reference(model, text) for text in texts])
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("attention", [False, True])
def test_padding_changes_nothing(attention):
    model = small(attention, vocabulary=20)
    texts = [[4, 9, 2], [7]]
    short, long = (model(tokens_of(*texts, length=length)) for length in (3, 40))
    torch.testing.assert_close(short, long)
    alone = model(tokens_of([7], length=1))
    torch.testing.assert_close(short[1:], alone)


def test_the_last_state_does_not_attend_to_padding():
    states = torch.randn(1, 4, 3)
    spoilt = states.clone()
    spoilt[:, 2:] = 1e3
    last = torch.tensor([1])
    torch.testing.assert_close(attend(states, last), attend(spoilt, last))


def test_word_order_and_attention_matter():
    model = small(attention=True, vocabulary=20)
    there, back = model(torch.tensor([[1, 2, 3], [3, 2, 1]]))
    assert not torch.allclose(there, back)
    tokens = torch.tensor([[1, 2, 3]])
    with_attention = model(tokens)
    model.attention = False
    assert not torch.allclose(with_attention, model(tokens))


@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_empty_texts_give_finite_logits_and_gradients(attention, length):
    model = small(attention, vocabulary=20)
    logits = model(torch.zeros(2, length, dtype=torch.long))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    # One padding token is read, however many there are.
    torch.testing.assert_close(logits, model(torch.zeros(2, 1, dtype=torch.long)))


def test_an_empty_text_does_not_disturb_its_neighbours():
    model = small(attention=True, vocabulary=20)
    together = model(tokens_of([4, 9], [], length=4))
    torch.testing.assert_close(together[:1], model(torch.tensor([[4, 9]])))


def test_given_vectors_are_copied_and_frozen():
    vectors = torch.rand(20, 5)
    model = TextLSTM(3, vectors=vectors)
    assert all(parameter.shape[0] != 20 for parameter in model.parameters())
    vectors.zero_()
    assert model.vectors.abs().sum() > 0
    assert model.vectors.shape == (20, 5)
    assert "vectors" in model.state_dict()


def test_learnt_embedding_gets_gradients_except_padding():
    model = small(attention=True, vocabulary=20)
    model(tokens_of([4, 9], [3], [], length=2)).square().sum().backward()
    touched = model.embedding.weight.grad.abs().sum(1).nonzero().flatten()
    assert touched.tolist() == [3, 4, 9]


def test_half_precision_vectors_become_the_default_type():
    model = TextLSTM(3, vectors=torch.rand(20, 5).half())
    assert model.vectors.dtype is torch.float32
    assert model(torch.tensor([[1, 2]])).shape == (1, 3)


def test_attention_keeps_its_precision_under_autocast():
    # Scores near 64: in bfloat16 they would be rounded to multiples of 0.25 or worse.
    states = (torch.randn(4, 50, 256) * 0.5).bfloat16()
    last = torch.full((4,), 49)
    expected = attend(states.double(), last)
    with torch.autocast("cpu", torch.bfloat16):
        got = attend(states, last)
    torch.testing.assert_close(got.double(), expected, rtol=2**-8, atol=1e-5)
    assert got.dtype is torch.bfloat16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs vectors, or a vocabulary of at least 2 tokens"),
        ({"vocabulary": 1}, "got 1"),
        ({"vectors": torch.rand(20)}, r"shape \(20,\)"),
        ({"vectors": torch.ones(20, 5, dtype=torch.long)}, "torch.int64"),
        ({"vectors": torch.rand(20, 5), "vocabulary": 21}, "each of the 21 tokens .* 20 rows"),
        ({"vectors": torch.full((20, 5), torch.nan)}, "must be finite"),
    ],
)
def test_says_what_is_wrong_with_the_words(arguments, message):
    with pytest.raises(AbstainError, match=message):
        TextLSTM(3, **arguments)
