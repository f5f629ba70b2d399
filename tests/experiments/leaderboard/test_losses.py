"""The losses of the leaderboard's methods beside sums written out in plain numbers."""

from __future__ import annotations

from itertools import product
from math import exp, log

import numpy as np
import pytest
import torch

from experiments.leaderboard.bmsh import Bmsh, mixture_kl_loss
from experiments.leaderboard.cibhash import CibHash, drop_entries
from experiments.leaderboard.cibhash import bernoulli_kl as bernoulli_kl_loss
from experiments.leaderboard.nash import Nash
from experiments.leaderboard.pairrec import KL_WEIGHT, PairRec, nearest
from experiments.leaderboard.smash import Memory, Smash, balance_loss, relevance_loss
from experiments.leaderboard.text_training import (
    TextModel,
    WordCounts,
    draw_bits,
    fit_features_without_stop_words,
    warmup_weight,
    words_loss,
)
from experiments.leaderboard.vdsh import Vdsh
from experiments.leaderboard.wish import Wish
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.training.networks import Shape, TextDecoder
from hummingbit.training.text_features import fit_text_features

TEXTS = ["boat wave wave tide", "boat sail", "eggs flour honey", "flour eggs jam jam jam", "sail"]
ROWS = np.array([0, 3])
SHAPE = Shape(inputs=9, hidden=5, n_bits=3, classes=1, text=True, dropout=0.5, input_scale=2.0)


def documents() -> WordCounts:
    features = fit_text_features(TEXTS, 9, min_documents=1)
    assert features.dimension == 8
    padded = TextFeatures([*features.vocabulary, "none"], weighting="count")
    return WordCounts(padded, TEXTS)


def words_of(row: int) -> dict[int, int]:
    """Return how often the text has each term, by the term's place."""
    vocabulary = fit_text_features(TEXTS, 9, min_documents=1).vocabulary
    words = TEXTS[row].split()
    return {
        position: words.count(term) for position, term in enumerate(vocabulary) if term in words
    }


def minus_log_likelihood(b: list[float], weight: np.ndarray, bias: np.ndarray, row: int) -> float:
    """Return −Σ_i ln softmax(E b + c) over the words of a text, one after the other."""
    scores = [float(np.dot(weight[v], b) + bias[v]) for v in range(len(weight))]
    total = sum(exp(score) for score in scores)
    return -sum(times * log(exp(scores[v]) / total) for v, times in words_of(row).items())


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def bernoulli_kl(p: float, q: float) -> float:
    return p * log(p / q) + (1 - p) * log((1 - p) / (1 - q))


def model_of(method: type[TextModel]) -> TextModel:
    torch.manual_seed(0)
    model = method(SHAPE, documents(), 0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model.requires_grad_(False).eval()


def decoder_of(model: TextModel) -> tuple[np.ndarray, np.ndarray]:
    decoder = model.decoder
    assert isinstance(decoder, TextDecoder)
    return decoder.weight.detach().numpy(), decoder.bias.detach().numpy()


def seeded(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_words_are_counted_with_their_repeats() -> None:
    model = model_of(Vdsh)
    b = torch.tensor([[0.3, -1.0, 2.0], [1.0, 0.0, 0.5]])
    expected = [
        minus_log_likelihood(b[i].tolist(), *decoder_of(model), row) for i, row in enumerate(ROWS)
    ]
    assert isinstance(model.decoder, TextDecoder)
    found = words_loss(model.decoder, b, documents().batch(ROWS))
    assert float(found) == pytest.approx(np.mean(expected), rel=1e-5)


def test_the_kl_term_gains_its_weight_over_half_of_a_run() -> None:
    assert [warmup_weight(x) for x in (0.0, 0.25, 0.5, 0.75)] == [0.0, 0.5, 1.0, 1.0]


def test_drawn_bits_pass_on_the_gradient_of_their_probability() -> None:
    logits = torch.tensor([[0.5, -2.0, 0.0, 30.0, -30.0]], requires_grad=True)
    bits = draw_bits(logits, seeded())
    assert set(bits.flatten().tolist()) <= {0.0, 1.0}
    assert bits[0, 3:].tolist() == [1.0, 0.0]
    (slope,) = torch.autograd.grad(bits.sum(), logits)
    expected = [sigmoid(x) * (1 - sigmoid(x)) for x in (0.5, -2.0, 0.0)]
    assert slope[0, :3].tolist() == pytest.approx(expected)
    many = draw_bits(torch.full((20_000, 1), -1.0), seeded())
    assert float(many.mean()) == pytest.approx(sigmoid(-1.0), abs=0.01)


def test_vdsh_equals_its_sums() -> None:
    model = model_of(Vdsh)
    batch = documents().batch(ROWS)
    found = model.losses(batch, seeded(), 0.1)
    h_NH, mean_NB = model.encoder(batch.x)
    assert isinstance(model, Vdsh)
    log_variance_NB = model.latent.log_variance(h_NH).tolist()
    noise_NB = torch.randn((2, 3), generator=seeded()).tolist()
    words = kl = 0.0
    for i, row in enumerate(ROWS):
        s = []
        for b in range(3):
            mean, log_variance = float(mean_NB[i, b]), log_variance_NB[i][b]
            s.append(mean + exp(log_variance / 2) * noise_NB[i][b])
            kl += 0.5 * (mean**2 + exp(log_variance) - 1 - log_variance) / 2
        words += minus_log_likelihood(s, *decoder_of(model), row) / 2
    assert float(found["reconstruction_loss"]) == pytest.approx(words, rel=1e-4)
    assert float(found["kl_loss"]) == pytest.approx(0.2 * kl, rel=1e-4)


def noisy_bits(model: Nash | Bmsh, logits_NB: torch.Tensor) -> list[list[float]]:
    """Return z' by the same draws, number by number."""
    generator = seeded()
    uniform = torch.rand((2, 3), generator=generator).tolist()
    noise = torch.randn((2, 3), generator=generator).tolist()
    weight, bias = (parameter.detach().numpy() for parameter in model.log_variance.parameters())
    rows = []
    for i in range(2):
        p = [sigmoid(float(logit)) for logit in logits_NB[i]]
        z = [float(uniform[i][b] < p[b]) for b in range(3)]
        log_variance = [float(np.dot(weight[b], p) + bias[b]) for b in range(3)]
        rows.append([z[b] + exp(log_variance[b] / 2) * noise[i][b] for b in range(3)])
    return rows


def test_nash_equals_its_sums() -> None:
    model = model_of(Nash)
    assert isinstance(model, Nash)
    batch = documents().batch(ROWS)
    found = model.losses(batch, seeded(), 1.0)
    _, logits_NB = model.encoder(batch.x)
    z_NB = noisy_bits(model, logits_NB)
    words = [minus_log_likelihood(z_NB[i], *decoder_of(model), row) for i, row in enumerate(ROWS)]
    kl = [bernoulli_kl(sigmoid(float(logit)), 0.5) for logit in logits_NB.flatten()]
    assert float(found["reconstruction_loss"]) == pytest.approx(np.mean(words), rel=1e-4)
    assert float(found["kl_loss"]) == pytest.approx(sum(kl) / 2, rel=1e-4)


def test_bmsh_rebuilds_as_nash_does_and_has_its_own_prior() -> None:
    model = model_of(Bmsh)
    assert isinstance(model, Bmsh)
    batch = documents().batch(ROWS)
    found = model.losses(batch, seeded(), 0.25)
    h_NH, logits_NB = model.encoder(batch.x)
    z_NB = noisy_bits(model, logits_NB)
    words = [minus_log_likelihood(z_NB[i], *decoder_of(model), row) for i, row in enumerate(ROWS)]
    kl = mixture_kl_loss(logits_NB, model.component(h_NH), model.pi_K, model.gamma_KB)
    assert float(found["reconstruction_loss"]) == pytest.approx(np.mean(words), rel=1e-4)
    assert float(found["kl_loss"]) == pytest.approx(0.5 * float(kl), rel=1e-5)


def test_the_divergence_from_a_mixture_is_a_sum_over_all_codes_and_components() -> None:
    draws = seeded()
    logits, component, pi, gamma = (
        torch.randn(shape, generator=draws, dtype=torch.float64)
        for shape in ((4, 3), (4, 2), (2,), (2, 3))
    )
    p_c = np.exp(pi.numpy()) / np.exp(pi.numpy()).sum()
    total = 0.0
    for i in range(4):
        q_c = np.exp(component[i].numpy()) / np.exp(component[i].numpy()).sum()
        for c, z in product(range(2), product((0, 1), repeat=3)):
            q = p = 1.0
            for b in range(3):
                of_q, of_p = sigmoid(float(logits[i, b])), sigmoid(float(gamma[c, b]))
                q *= of_q if z[b] else 1 - of_q
                p *= of_p if z[b] else 1 - of_p
            total += q_c[c] * q * log(q_c[c] * q / (p_c[c] * p))
    assert float(mixture_kl_loss(logits, component, pi, gamma)) == pytest.approx(total / 4)


def test_pairrec_rebuilds_a_text_from_its_own_code_and_its_neighbours() -> None:
    model = model_of(PairRec)
    assert isinstance(model, PairRec)
    everything, progress = documents(), 0.25
    found = model.losses(everything.batch(ROWS), seeded(), progress)
    generator = seeded()
    near = nearest(everything.x, 20, 0)
    rank = torch.randint(4, (2,), generator=generator).tolist()
    others = [int(near[row, rank[i]]) for i, row in enumerate(ROWS)]
    weight, bias = decoder_of(model)
    weight = model.importance_V.detach().numpy()[:, None] * weight
    for name, rows in (("own", ROWS), ("near", np.array(others))):
        _, logits_NB = model.encoder(everything.batch(rows).x)
        uniform = torch.rand((2, 3), generator=generator).tolist()
        noise = torch.randn((2, 3), generator=generator).tolist()
        words = kl = 0.0
        for i, row in enumerate(ROWS):
            p = [sigmoid(float(logit)) for logit in logits_NB[i]]
            z = [float(uniform[i][b] < p[b]) + 0.75 * noise[i][b] for b in range(3)]
            words += minus_log_likelihood(z, weight, bias, row) / 2
            kl += sum(bernoulli_kl(item, 0.5) for item in p) / 2
        assert float(found[f"reconstruction_by_{name}"]) == pytest.approx(words, rel=1e-4)
        assert float(found[f"kl_of_{name}"]) == pytest.approx(KL_WEIGHT * kl, rel=1e-4)


def test_near_documents_are_those_of_the_largest_cosine_and_never_the_same_one() -> None:
    rng = np.random.default_rng(0)
    words = "boat wave tide sail reef eggs flour honey jam bread".split()
    texts = [" ".join(rng.choice(words, size=4)) for _ in range(12)]
    texts.append(texts[0])
    x = fit_text_features(texts, 100).transform(texts)
    found = nearest(x, 3, seed=0)
    # With few terms, latent semantic analysis keeps all directions but the last.
    u, s, _ = np.linalg.svd(x.toarray(), full_matrices=False)
    places = (u * s)[:, : min(x.shape) - 1]
    cosine = places @ places.T
    norms = np.linalg.norm(places, axis=1)
    cosine /= norms[:, None] * norms[None, :]
    np.fill_diagonal(cosine, -2)
    assert found.shape == (13, 3)
    for row in range(13):
        assert row not in found[row]
        best = np.sort(cosine[row])[::-1][:3]
        assert cosine[row, found[row]] == pytest.approx(best, abs=1e-3)


def test_stop_words_are_no_terms_and_frequent_terms_come_first() -> None:
    features = fit_features_without_stop_words(
        ["the boat of the sea", "the boat and a wave", "wave boat"], 2
    )
    assert sorted(features.vocabulary) == ["boat", "wave"]


def test_wish_rebuilds_a_text_from_the_topics_of_its_bits() -> None:
    model = model_of(Wish)
    assert isinstance(model, Wish)
    batch = documents().batch(ROWS)
    found = model.losses(batch, seeded(), 0.25)
    _, logits_NB = model.encoder(batch.x)
    uniform = torch.rand((2, 3), generator=seeded()).tolist()
    topics = model.topics_BT.numpy()
    words = kl = 0.0
    for i, row in enumerate(ROWS):
        p = [sigmoid(float(logit)) for logit in logits_NB[i]]
        sum_of_topics = sum(topics[b] for b in range(3) if uniform[i][b] < p[b])
        assert np.ndim(sum_of_topics), "the draw has a bit"
        words += minus_log_likelihood(sum_of_topics, *decoder_of(model), row) / 2
        kl += sum(bernoulli_kl(item, 0.5) for item in p) / 2
    between = 0.0
    for item, other in product(range(3), repeat=2):
        same = 1.0 if item == other else 0.0
        between += (float(np.dot(topics[item], topics[other])) - same) ** 2
    assert float(found["reconstruction_loss"]) == pytest.approx(words, rel=1e-4)
    assert float(found["kl_loss"]) == pytest.approx(0.5 * 0.01 * kl, rel=1e-4)
    assert float(found["topic_loss"]) == pytest.approx(between, rel=1e-4)


def test_smash_rebuilds_a_text_from_noisy_copies() -> None:
    """Without noise and dropout, the copies are the text, and each has a third of the weight."""
    model = model_of(Smash)
    assert isinstance(model, Smash)
    batch = documents().batch(ROWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.leaderboard.smash.drop_by_noise", lambda x, _: x)
        found = model.eval().losses(batch, seeded(), 0.0)
    long: np.ndarray = np.tanh(model.encoder(batch.x)[1].numpy())
    z: np.ndarray = np.tanh(long @ model.short.weight.numpy().T + model.short.bias.numpy())
    weight, bias = decoder_of(model)
    rows: np.ndarray = documents().x[ROWS].toarray()
    expected = 0.0
    for i in range(2):
        scores = [float(np.dot(weight[v], z[i]) + bias[v]) for v in range(len(weight))]
        total = log(sum(exp(score) for score in scores))
        expected += sum(x * (total - score) for x, score in zip(rows[i], scores, strict=True)) / 2
    assert float(found["reconstruction_loss"]) == pytest.approx(expected, rel=1e-4)
    assert float(found["noisy_reconstruction_loss"]) == pytest.approx(expected / 3, rel=1e-4)
    between = abs(float(z[0] @ z[1]) / 3 - float(long[0] @ long[1]) / 128)
    assert float(relevance_loss(torch.from_numpy(z), torch.from_numpy(long))) == pytest.approx(
        between, rel=1e-4
    )
    # Of the 30 ordered pairs of copies, 12 are of one text.
    own = [abs(float(z[i] @ z[i]) / 3 - float(long[i] @ long[i]) / 128) for i in range(2)]
    copies = (6 * sum(own) + 18 * between) / 30
    assert float(found["relevance_loss"]) == pytest.approx((between + copies) / 2, rel=1e-4)
    assert "balance_loss" not in found
    assert "balance_loss" in model.losses(batch, seeded(), 0.5)


def test_bits_that_are_uneven_in_the_memory_weigh_most() -> None:
    z = [[0.5, -0.5], [0.9, 0.1], [0.7, 0.2]]
    memory = [[1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]]
    sums = [sum(row[b] for row in memory) for b in range(2)]
    weights = [exp(abs(sum_)) / sum(exp(abs(other)) for other in sums) for sum_ in sums]
    balance = sum(weights[b] * abs(sum(row[b] for row in z)) for b in range(2)) / 2
    correlation = 0.0
    for a, b in product(range(2), repeat=2):
        same = 1.0 if a == b else 0.0
        in_row = [
            exp(abs(sum(row[a] * row[c] for row in memory) / 4 - (1.0 if a == c else 0.0)))
            for c in range(2)
        ]
        now = sum(row[a] * row[b] for row in z) / 3 - same
        correlation += (now * in_row[b] / sum(in_row)) ** 2 / 4
    found = balance_loss(torch.tensor(z), torch.tensor(memory))
    assert float(found) == pytest.approx(balance + 0.01 * correlation, rel=1e-5)


def test_the_memory_has_the_codes_of_half_an_epoch_and_more_as_the_loss_falls() -> None:
    memory = Memory(8, 2, batches=4)
    for number in range(4):
        rows = np.array([2 * number, 2 * number + 1])
        memory.store(rows, torch.full((2, 2), 0.1 * (number + 1)), 10.0)
    assert memory.greatest == pytest.approx(10)
    assert len(memory.recent()) == 2 * 2
    memory.last = 5.0
    assert len(memory.recent()) == 2 * 3
    assert bool((memory.recent() == 1).all())
    memory.last = 0.0
    assert len(memory.recent()) == 8


def test_cibhash_contrasts_the_signs_of_two_views() -> None:
    """NT-Xent over the four codes of two vectors, and the mean of both divergences, by hand."""
    torch.manual_seed(0)
    shape = Shape(inputs=6, hidden=5, n_bits=4, classes=1, text=False)
    model = CibHash(shape, temperature=0.25, bottleneck=0.5).requires_grad_(False)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn((2, 6), generator=seeded(1))
    found = model.losses(x, seeded())
    generator = seeded()
    logits = [
        model.encoder(drop_entries(x, generator), generator)[1].detach().numpy() for _ in range(2)
    ]
    codes = [np.where(item > 0, 1.0, -1.0) for item in np.vstack(logits)]
    loss = 0.0
    for i, j in ((0, 2), (1, 3), (2, 0), (3, 1)):
        similar = [exp(float(codes[i] @ codes[k]) / 4 / 0.25) for k in range(4)]
        loss -= log(similar[j] / (sum(similar) - similar[i])) / 4
    kl = 0.0
    for row, b in product(range(2), range(4)):
        p, q = sigmoid(float(logits[0][row, b])), sigmoid(float(logits[1][row, b]))
        kl += (bernoulli_kl(p, q) + bernoulli_kl(q, p)) / 2 / 2
    assert float(found["contrastive_loss"]) == pytest.approx(loss, rel=1e-5)
    assert float(found["bottleneck_loss"]) == pytest.approx(0.5 * kl, rel=1e-4)


def test_the_gradient_of_a_divergence_reaches_its_first_argument_alone() -> None:
    logits, other = (torch.tensor([[x]], requires_grad=True) for x in (0.3, -1.0))
    loss = bernoulli_kl_loss(logits, other)
    of_logits, of_other = torch.autograd.grad(loss, [logits, other], allow_unused=True)
    p, q = sigmoid(0.3), sigmoid(-1.0)
    slope = p * (1 - p) * (log(p / q) - log((1 - p) / (1 - q)))
    assert float(of_logits) == pytest.approx(slope, rel=1e-5)
    assert of_other is None


def test_a_view_lacks_entries_and_has_the_same_mean() -> None:
    x = torch.ones((200, 100))
    view = drop_entries(x, seeded())
    assert float((view == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(view.mean()) == pytest.approx(1.0, abs=0.02)
