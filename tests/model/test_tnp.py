"""TNP-D: the plain masked transformer's numbers at a fraction of its matrix, and no query that sees another."""

import math
from dataclasses import replace

import pytest
import torch

from levyscreen.config import ModelConfig, TrainingConfig
from levyscreen.errors import ModelError
from levyscreen.estimators.dropout import dropout_spread
from levyscreen.learn.data import prepare
from levyscreen.learn.fit import fit
from levyscreen.learn.losses import summed_loss
from levyscreen.model.dropout import drawing_from
from levyscreen.model.network import build
from levyscreen.model.tnp import context_and_self_attention
from levyscreen.store import load_model, save_model
from levyscreen.training import train
from tests.learn.tiny import MODEL, PROTOCOL, TRAINING, tiny_cohort
from tests.model.test_network import SMALL, batch, rows, seeded, size

TNP = replace(SMALL, decode="tnp-d", head="nll")
CPU = torch.device("cpu")


def plainly(network, asked):
    """The features of one masked transformer over the concatenation, its (n + m) x (n + m) mask written out."""
    n, m = asked.time.shape[1], asked.query_time.shape[1]
    x = torch.cat(
        [
            network.embed.token(asked.time, asked.variable, asked.value),
            network.embed.query(asked.query_time, asked.query_variable),
        ],
        dim=1,
    )
    sees = torch.zeros(len(x), n + m, n + m, dtype=torch.bool)
    sees[:, :, :n] = asked.mask[:, None, :]
    sees[:, range(n, n + m), range(n, n + m)] = True
    width, heads = network.config.width, network.config.heads
    for block in network.decode.blocks:
        parts = block.qkv(block.attention_norm(x)).split(width, dim=-1)
        query, key, value = (part.view(len(x), n + m, heads, -1).transpose(1, 2) for part in parts)
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // heads)
        weights = torch.softmax(scores.masked_fill(~sees[:, None], -torch.inf), dim=-1)
        x = x + block.out((weights @ value).transpose(1, 2).flatten(2))
        x = x + block.feed_forward(x)
    return network.decode.out(x[:, n:])


def doubled(asked):
    return replace(asked, **{k: v.double() for k, v in vars(asked).items() if v.is_floating_point()})


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("lengths", [(9, 4, 1), (9, 9)], ids=["padded", "not padded"])
def test_the_features_and_every_gradient_are_those_of_the_plain_masked_transformer(blocks, lengths):
    network = build(replace(TNP, blocks=blocks, dropout=0.0), 1).double()
    asked = doubled(batch(lengths))
    fast, slow = network.features(asked), plainly(network, asked)
    torch.testing.assert_close(fast, slow)
    towards = torch.randn(fast.shape, dtype=torch.float64, generator=seeded(0))
    parameters = [p for name, p in network.named_parameters() if not name.startswith("head.")]
    fast_slopes, slow_slopes = (
        torch.autograd.grad((features * towards).sum(), parameters) for features in (fast, slow)
    )
    for one, other in zip(fast_slopes, slow_slopes, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("loud", [-60.0, 0.0, 60.0])
def test_the_own_key_has_its_share_however_far_its_logit_lies_from_the_others(loud):
    generator = seeded(2)
    query, own_key, own_value = (torch.randn(2, 3, 5, 8, generator=generator) for _ in range(3))
    key, value = (torch.randn(2, 3, 7, 8, generator=generator) for _ in range(2))
    own_key = own_key + loud * query / query.square().sum(-1, keepdim=True)
    got = context_and_self_attention(query, own_key, own_value, key, value, None)
    for r, h, j in ((r, h, j) for r in range(2) for h in range(3) for j in range(5)):
        keys, values = torch.cat([key[r, h], own_key[r, h, j : j + 1]]), torch.cat([value[r, h], own_value[r, h, [j]]])
        weights = torch.softmax((keys @ query[r, h, j]).double() / math.sqrt(8), dim=0)
        torch.testing.assert_close(got[r, h, j].double(), weights @ values.double(), rtol=1e-4, atol=1e-5)


def asking(asked, chosen):
    names = ("query_time", "query_variable", "query_mask", "target")
    return replace(asked, **{name: getattr(asked, name)[:, chosen] for name in names})


@torch.no_grad()
def test_an_answer_does_not_change_when_other_queries_change_go_or_come():
    network = build(TNP, 1).eval()
    asked = batch()
    expected = network(asked)
    changed = replace(asked, query_time=asked.query_time.clone(), query_variable=asked.query_variable.clone())
    changed.query_time[:, 1:] = 0.77
    changed.query_variable[:, 1:] = 0
    for others in (changed, asking(asked, [0]), asking(asked, [0, 1, 2, 3, 4, 5, 5, 5, 0])):
        torch.testing.assert_close(network(others)[:, 0], expected[:, 0], rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize(("pad", "garbage"), [(1, 0.0), (7, 3.0), (600, 1e4)])
def test_padding_changes_nothing(pad, garbage):
    network = build(TNP, 1).eval()
    torch.testing.assert_close(network(batch(pad=pad, garbage=garbage)), network(batch()), rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_a_record_is_answered_alike_alone_and_in_a_batch():
    network = build(TNP, 1).eval()
    together = batch()
    for row, length in enumerate((9, 4, 1)):
        alone = rows(together, slice(row, row + 1))
        context = {k: getattr(alone, k)[:, :length] for k in ("time", "variable", "value", "mask")}
        torch.testing.assert_close(network(replace(alone, **context))[0], network(together)[row], rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_a_reading_moves_the_answers_and_a_reading_of_0_is_not_a_query():
    network = build(TNP, 1).eval()
    asked = batch((9, 9))
    other = replace(asked, value=asked.value + torch.eye(9)[:2] * 3)
    assert not torch.allclose(network(asked), network(other))
    time, variable = asked.time[:1, :1], asked.variable[:1, :1]
    assert not torch.allclose(
        network.embed.token(time, variable, torch.zeros(1, 1)), network.embed.query(time, variable)
    )


@pytest.mark.parametrize("head", ["point", "nll", "beta-nll"])
def test_every_head_gives_a_loss_and_gradients_to_every_parameter(head):
    network = build(replace(TNP, head=head), 1)
    loss = summed_loss(network, batch(), TrainingConfig())
    loss.backward()
    assert bool(torch.isfinite(loss))
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name


def test_it_has_the_blocks_of_the_other_networks_and_no_cross_attention():
    config = ModelConfig(variables=36, head="nll")
    cross_attention = 4 * (128 * 128 + 128)
    tnp, softmax = (size(build(replace(config, decode=decode), 0)) for decode in ("tnp-d", "softmax"))
    assert (tnp, softmax - tnp) == (620_930, cross_attention)


@torch.no_grad()
def test_its_dropout_spread_is_the_standard_deviation_of_whole_passes():
    network, asked = build(TNP, 0).eval(), batch()
    with drawing_from(seeded(4)):
        passes = torch.stack([network(asked) for _ in range(20)])
    got = dropout_spread(network, asked, 20, seeded(4))
    torch.testing.assert_close(got, passes.std(0), rtol=1e-4, atol=1e-6)


def test_it_learns_and_saved_and_loaded_it_answers_the_same(tmp_path):
    data, model = prepare(tiny_cohort(), PROTOCOL, TRAINING.seed), replace(MODEL, decode="tnp-d", head="nll")
    fitted = fit(data, model, replace(TRAINING, epochs=12, peak_rate=1e-2), tmp_path / "training", CPU)
    history = fitted.progress.history
    assert history[-1].train_loss < history[0].train_loss - 0.3  # nats a target
    assert fitted.progress.best_loss < history[0].validation_loss - 0.2
    save_model(tmp_path, fitted.network, data.preprocessor, {})
    loaded, asked = load_model(tmp_path).network, batch()
    asked = replace(asked, variable=asked.variable % 4, query_variable=asked.query_variable % 4)
    with torch.no_grad():
        answers = [network.head.mean_and_scale(network.features(asked)) for network in (fitted.network, loaded)]
    assert all(map(torch.equal, *answers))
    assert loaded.config == model


def test_a_training_of_it_ends_without_a_calibration_for_there_is_no_signal_to_calibrate(tmp_path):
    model = replace(MODEL, decode="tnp-d", head="nll")
    trained = train(tiny_cohort(), tmp_path, PROTOCOL, model, replace(TRAINING, epochs=1), CPU)
    assert trained.calibrations == {}


@pytest.mark.parametrize(
    "asking_for",
    [
        lambda network: network.levy(),
        lambda network: network.predict(batch()),
        lambda network: network.record_side(batch()),
        lambda network: network.fused_head(),
        lambda network: network.lattice(torch.tensor([0]), torch.tensor([0.5])),
    ],
    ids=["levy", "predict", "record_side", "fused_head", "lattice"],
)
def test_it_says_that_it_has_no_signals(asking_for):
    with pytest.raises(ModelError, match="decodes by tnp-d, which emits no evidence"):
        asking_for(build(TNP, 0))
