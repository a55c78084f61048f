"""The text encoder."""

import torch

from abstain.data import LabeledData, fit_encoder, load_encoder


def texts(*inputs):
    return LabeledData(
        inputs=list(inputs),
        given=torch.zeros(len(inputs), dtype=torch.int64),
        classes=("a", "b"),
        ids=[str(i) for i in range(len(inputs))],
        kind="text",
    )


def test_words_are_numbered_by_frequency_and_padded_at_the_end(tmp_path):
    encoder = fit_encoder(texts("The film, the FILM<br />the end.", "a film"), length=6)
    words = encoder.tokenizer.get_vocab()
    assert (words["[PAD]"], words["[UNK]"]) == (0, 1)
    assert {"the", "film"} == {word for word, row in words.items() if row in (2, 3)}
    assert "br" not in words
    tokens = encoder.encode(["film the unheard", "", "the " * 20])
    the, film = words["the"], words["film"]
    assert tokens.tolist() == [[film, the, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [the] * 6]
    assert encoder.to_model(tokens).dtype == torch.int64
    assert encoder.input_shape == (6,)
    encoder.save(tmp_path)
    assert torch.equal(
        load_encoder(tmp_path).encode(["the film", "end"]), encoder.encode(["the film", "end"])
    )


def test_vocabulary_keeps_the_most_frequent_words_and_is_the_same_every_time():
    data = texts("b b b a a c d e f g")
    encoders = [fit_encoder(data, vocabulary=5) for _ in range(3)]
    assert all(e.vocabulary == 5 for e in encoders)
    assert len({str(sorted(e.tokenizer.get_vocab().items())) for e in encoders}) == 1
    assert encoders[0].encode(["b a g"])[0, :3].tolist() == [2, 3, 1]
