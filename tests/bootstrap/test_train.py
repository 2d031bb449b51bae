"""Noisy training: what it reads, what it keeps, and that it aims at the blocked bootstrap."""

import inspect
import io
import json
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from rivals import blocks
from rivals.accountants import epsilon_upper
from rivals.dp_sgld import SgldPlan, sample_dp_sgld

from psephos.bootstrap.draws import PosteriorDraws
from psephos.bootstrap.generator import NetworkShape, evaluate, initial_layers
from psephos.bootstrap.generator_posterior import GeneratorPosterior
from psephos.bootstrap.losses import CustomLoss, HuberLoss, MeanLoss, QuantileLoss
from psephos.bootstrap.private_generator import private_generator
from psephos.bootstrap.statistic import Grid, integer_contributions
from psephos.bootstrap.train import TrainingPlan, _Draw, simulate
from psephos.errors import ParameterError
from psephos.privacy import InsecureBits, SystemBits
from psephos.privacy.events import epsilon_of

pytest.importorskip("jax")

MEAN = MeanLoss(data_bounds=(-5.0, 5.0), sd=1.0, clip=4.0)
SMALL = TrainingPlan(blocks=5, steps=30, probability="0.2", network=NetworkShape(width=8, depth=1))


def numbers(n=400, seed=1):
    return MEAN.records(np.random.default_rng(seed).normal(1.0, 1.0, n))


def fit(records=None, loss=MEAN, *, key=7, plan=SMALL, **settings):
    records = numbers() if records is None else records
    return simulate(records, loss, key=key, epsilon=1, delta="1e-3", plan=plan, **settings)


def test_same_key_same_sampler():
    assert fit().value.to_bytes() == fit().value.to_bytes()
    assert fit().value.to_bytes() != fit(key=8).value.to_bytes()


def test_a_release_has_no_key_and_never_repeats():
    assert "key" not in inspect.signature(private_generator).parameters
    one, two = (private_generator(numbers(), MEAN, epsilon=1, delta="1e-3", plan=SMALL) for _ in range(2))
    assert one.secure
    assert one.value.secure
    assert one.value.to_bytes() != two.value.to_bytes()


def test_the_artefact_holds_layers_and_public_facts_alone():
    posterior = private_generator(numbers(), MEAN, epsilon=1, delta="1e-3", plan=SMALL).value
    with np.load(io.BytesIO(posterior.to_bytes()), allow_pickle=False) as archive:
        assert set(archive.files) == {"header", "weights0", "biases0", "weights1", "biases1"}
        header = json.loads(archive["header"].tobytes())
    assert set(header) == {
        "schema", "names", "lower", "upper", "levels", "pseudo_blocks", "training", "noise", "guarantee", "secure",
        "covariate_box",
    }  # fmt: skip
    assert set(header["training"]) == {
        "records", "blocks", "gamma", "alpha", "probability", "steps", "draws", "gradient_bound",
    }  # fmt: skip
    assert set(GeneratorPosterior.__slots__) == {
        "layers", "names", "lower", "upper", "levels", "pseudo_blocks", "training", "noise", "guarantee", "secure",
        "covariate_box",
    }  # fmt: skip


def test_gathered_minibatches_are_an_assumption_of_the_guarantee():
    """Places of records there follow from secret coins: that these change no bit is tested, and not proved."""
    said = "alike at every place of it (tested, not proved)"
    for plan, assumed in ((SMALL, True), (replace(SMALL, probability=1), False)):
        trained = private_generator(numbers(), MEAN, epsilon=1, delta="1e-3", plan=plan)
        for guarantee in (trained.guarantee, trained.value.guarantee, fit(plan=plan).guarantee):
            assert (said in guarantee.sentence()) == assumed
    chain = SgldPlan(steps=4, probability="0.2", step=1)
    for plan, assumed in ((chain, True), (replace(chain, probability=1), False)):
        release = sample_dp_sgld(numbers(), MEAN, epsilon=1, delta="1e-3", plan=plan)
        assert (said in release.guarantee.sentence()) == assumed


def test_simulation_is_stamped_insecure_for_good():
    release = fit()
    assert not release.secure
    assert not GeneratorPosterior.from_bytes(release.value.to_bytes()).secure
    assert not private_generator(numbers(), MEAN, epsilon=1, delta="1e-3", plan=SMALL, bits=InsecureBits(seed=1)).secure


def test_event_says_what_ran_and_keeps_the_promise():
    release = fit()
    assert release.event.compositions == 30
    assert release.event.contribution == Fraction(4) / 80
    assert release.event.probability == Fraction(int(0.2 * 2**32), 2**32)
    assert epsilon_of(release.event, "1e-3") <= 1
    assert 0.999 < release.value.noise.epsilon_upper <= 1


def test_round_trip(tmp_path):
    posterior = fit().value
    posterior.save(tmp_path / "sampler.npz")
    again = GeneratorPosterior.load(tmp_path / "sampler.npz")
    assert again.to_bytes() == posterior.to_bytes()
    assert again.guarantee == posterior.guarantee
    assert again.training == posterior.training
    one = posterior.sample(50, rng=np.random.default_rng(2))
    two = again.sample(50, rng=np.random.default_rng(2))
    assert (one.values == two.values).all()


def test_a_file_that_is_no_sampler_is_named(tmp_path):
    path = tmp_path / "bad.npz"
    for content in (b"", b"PK\x03\x04", b"hello"):
        path.write_bytes(content)
        with pytest.raises(ParameterError, match=r"bad\.npz.*not a saved posterior"):
            GeneratorPosterior.load(path)
    np.savez(path, header=np.array([{"a": 1}], dtype=object))  # would need a pickle
    with pytest.raises(ParameterError, match=r"bad\.npz"):
        GeneratorPosterior.load(path)


def plain_adam_loop(layers, segments, records, loss, grid, plan):
    """The loop once more, in numpy and by hand: one sample at a time, gradients by the chain rule; the layers' path."""
    path = []
    layers = [[weights.astype(float), biases.astype(float)] for weights, biases in layers]
    moments = [[np.zeros_like(part) for part in layer for _ in range(2)] for layer in layers]
    step = 0
    lower, upper = np.array(loss.lower), np.array(loss.upper)
    for segment in segments:
        for t in range(len(segment.noise)):
            total = [[np.zeros_like(part) for part in layer] for layer in layers]
            for k in range(plan.draws):
                inputs = segment.inputs[t, k].astype(float)
                activations, hidden = [inputs], inputs
                for weights, biases in layers[:-1]:
                    hidden = np.concatenate([np.maximum(weights @ hidden + biases, 0), inputs])
                    activations.append(hidden)
                theta = np.clip(layers[-1][0] @ hidden + layers[-1][1], lower, upper).astype(np.float32)
                batch = tuple(column[segment.positions[t, k]] for column in records)
                level = segment.levels[t, k] if loss.levels else None
                gradients = np.asarray(loss.gradient(theta, batch, level), np.float32)
                steps = integer_contributions(gradients, segment.caps[t, k], loss.bound)
                statistic = (steps.sum(axis=0, dtype=np.int64) + segment.noise[t, k]) * float(grid.spacing)
                back = statistic
                for index in range(len(layers) - 1, -1, -1):
                    total[index][0] += np.outer(back, activations[index])
                    total[index][1] += back
                    if index:
                        width = len(activations[index]) - len(inputs)
                        back = (layers[index][0].T @ back)[:width] * (activations[index][:width] > 0)
            rate = plan.learning_rate * (
                plan.final_rate + (1 - plan.final_rate) * (1 + np.cos(np.pi * min(step / plan.steps, 1))) / 2
            )
            step += 1
            for layer, gradient, moment in zip(layers, total, moments, strict=True):
                for part in range(2):
                    g = gradient[part] / plan.draws
                    moment[2 * part] = 0.9 * moment[2 * part] + 0.1 * g
                    moment[2 * part + 1] = 0.999 * moment[2 * part + 1] + 0.001 * g * g
                    mean, square = moment[2 * part] / (1 - 0.9**step), moment[2 * part + 1] / (1 - 0.999**step)
                    layer[part] = layer[part] - rate * mean / (np.sqrt(square) + 1e-8)
            path.append([tuple(layer) for layer in layers])
    return path


def drawing(loss, records, plan, *, sigma=0.01, seed=3):
    people = len(records[0])
    return _Draw(
        people=people,
        pseudo=0,
        plan=plan,
        loss=loss,
        grid=Grid.for_bound(loss.bound, divisor=people // plan.blocks),
        sigma=sigma,
        bits=InsecureBits(seed=seed),
        public=np.random.default_rng(seed),
    )


@pytest.mark.parametrize(("draws", "depth", "averaged"), [(1, 0, 1), (3, 2, 1), (1, 0, 5)])
def test_compiled_loop_agrees_with_the_plain_one(draws, depth, averaged):
    from psephos.bootstrap.training_loop import Schedule, trained_layers

    rng = np.random.default_rng(4)
    loss = QuantileLoss(covariates=("a", "b"), covariate_bound=np.sqrt(2), coefficient_box=(-3.0, 3.0))
    records = (rng.uniform(-1, 1, (200, 2)), rng.normal(size=200))
    padded = tuple(np.concatenate([column, np.zeros_like(column[:1])]) for column in records)
    plan = TrainingPlan(
        blocks=4,
        steps=12,
        draws=draws,
        probability="0.3",
        learning_rate=1e-2,
        network=NetworkShape(width=6, depth=depth),
    )
    layers = initial_layers(plan.network, inputs=5, start=loss.start, rng=rng)
    draw = drawing(loss, records, plan)
    compiled = trained_layers(
        layers, draw.segments(), records=padded, pseudo_records=(), loss=loss, grid=draw.grid,
        schedule=Schedule(first=1e-2, floor=0.01, steps=12, averaged=averaged), progress=None,
    )  # fmt: skip
    again = drawing(loss, records, plan)
    path = plain_adam_loop(layers, again.segments(), padded, loss, again.grid, plan)[-averaged:]
    plain = [tuple(np.mean(parts, axis=0) for parts in zip(*same, strict=True)) for same in zip(*path, strict=True)]
    for (weights, biases), (plain_weights, plain_biases) in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(weights, plain_weights, atol=2e-4)
        np.testing.assert_allclose(biases, plain_biases, atol=2e-4)
    assert np.abs(compiled[-1][1] - layers[-1][1]).max() > 0.02  # it moved


def test_averaging_is_asked_for_as_a_part_of_the_steps():
    last, mean = (fit(plan=replace(SMALL, averaged=part)).value.layers[-1][1] for part in (0.0, 0.5))
    assert np.abs(last - mean).max() > 1e-4
    with pytest.raises(ParameterError, match="averaged"):
        TrainingPlan(averaged=1.5)


def test_every_draw_of_a_step_has_its_own_minibatch_and_weights():
    plan = replace(SMALL, draws=4)
    segment = next(drawing(MEAN, numbers(), plan).segments())
    first = [frozenset(row.tolist()) for row in segment.positions[0]]
    assert len(set(first)) == 4
    assert len({row.tobytes() for row in segment.inputs[0]}) == 4
    assert np.unique(segment.noise[0]).size == 4
    sizes = (segment.positions < 400).sum(axis=-1).ravel()
    assert abs(sizes.mean() - 80) < 6 * 8 / np.sqrt(sizes.size)


@pytest.mark.parametrize("people", [400, 403])
def test_caps_are_those_of_each_record_s_block(people):
    draw = drawing(MEAN, numbers(people), SMALL)
    segment = next(draw.segments())
    present = segment.positions < people
    assert (segment.caps[~present] == 0).all()
    largest = float(4 / Fraction(80) / draw.grid.spacing)
    block_of = np.full(people, -1)
    for step in range(len(segment.noise)):
        of_block = draw.grid.caps(segment.inputs[step, 0].astype(np.float64))
        chosen = present[step, 0]
        cap = segment.caps[step, 0][chosen]
        assert (cap <= largest).all()
        nearest = np.abs(of_block[None, :] - cap[:, None]).argmin(axis=1)
        where = segment.positions[step, 0][chosen]
        known = block_of[where] >= 0
        differ = block_of[where][known] != nearest[known]
        assert differ.sum() <= 1 + 0.01 * known.sum()  # caps of two blocks may nearly tie
        block_of[where] = nearest
    assert (np.bincount(block_of[block_of >= 0], minlength=5) <= -(-people // 5)).all()


def test_reshuffling_draws_a_partition_a_step():
    plan = replace(SMALL, reshuffle=True, probability=1)
    segment = next(drawing(MEAN, numbers(), plan).segments())
    rows = segment.caps[:, 0]
    groups = {tuple(np.unique(row, return_inverse=True)[1].tolist()) for row in rows}
    assert len(groups) == len(rows)
    still = next(drawing(MEAN, numbers(), replace(plan, reshuffle=False)).segments()).caps[:, 0]
    same_block = (still[:, :1] == still).all(axis=0)
    assert same_block.sum() == 80
    assert fit(plan=plan).value.sample(3).values.shape == (3, 1)


@pytest.fixture(scope="module")
def noiseless():
    """Trained without noise and long enough to reach its target."""
    plan = TrainingPlan(
        blocks=8, steps=2000, draws=4, probability="0.5", learning_rate=1e-2, network=NetworkShape(width=16, depth=1)
    )
    records = numbers(800, seed=5)
    return records, plan, simulate(records, MEAN, key=5, epsilon=1, delta="1e-3", plan=plan, sigma=0).value


def test_without_noise_it_learns_the_blocked_bootstrap(noiseless):
    records, plan, posterior = noiseless
    draws = posterior.sample(4000, rng=np.random.default_rng(6))
    # The partition is not kept; over partitions the blocked bootstrap's variance is this, give or take sqrt(2 / 7).
    sd = np.sqrt(records[0].var() * blocks.dispersion_ratio(800, 8, plan.concentration(800)) / 801)
    assert abs(draws.mean()[0] - records[0].mean()) < 0.02
    assert 0.4 * sd < draws.sd()[0] < 1.7 * sd


@pytest.mark.slow
def test_noise_costs_accuracy(noiseless):
    records, plan, _ = noiseless
    noisy = [simulate(records, MEAN, key=key, epsilon=1, delta="1e-3", plan=plan, sigma=5.0).value for key in range(8)]
    means = [posterior.sample(500, rng=np.random.default_rng(6)).mean()[0] for posterior in noisy]
    assert np.std(means, ddof=1) > 0.05  # 0.01 without noise


@pytest.mark.slow
def test_pseudo_samples_pull_towards_themselves():
    plan = replace(SMALL, steps=2000, alpha=50.0, pseudo_blocks=3, learning_rate=1e-2)
    pseudo = MEAN.records(np.full(30, -2.0))
    pulled = fit(plan=plan, pseudo_records=pseudo, sigma=0.0).value
    # Private mass 5 gamma* = 3, pseudo mass 50.
    private = 5 * pulled.training.gamma
    expected = (private * numbers()[0].mean() - 2 * 50) / (private + 50)
    assert pulled.sample(2000).mean()[0] == pytest.approx(expected, abs=0.15)
    assert pulled.training.alpha == 50
    assert pulled.noise.sigma == 0
    less, more = (
        fit(plan=replace(SMALL, alpha=a, pseudo_blocks=p), pseudo_records=pseudo if a else ()).value.noise.sigma
        for a, p in ((50.0, 3), (0.0, 0))
    )
    assert less < more / 3
    with pytest.raises(ParameterError, match="pseudo_records must be"):
        fit(plan=plan)
    with pytest.raises(ParameterError, match="go together"):
        replace(SMALL, alpha=1.0)


@pytest.mark.slow
def test_a_family_shares_one_map():
    rng = np.random.default_rng(8)
    loss = QuantileLoss(covariates=("one",), covariate_bound=1.0, coefficient_box=(-5.0, 5.0))
    records = (np.ones((2000, 1)), rng.normal(size=2000))
    plan = TrainingPlan(
        blocks=5, steps=1500, draws=5, probability="0.2", learning_rate=1e-2, network=NetworkShape(width=32, depth=2)
    )
    posterior = simulate(records, loss, key=9, epsilon=1, delta="1e-3", plan=plan, sigma=0).value
    draws = posterior.sample(500, rng=rng)
    assert draws.levels == (0.1, 0.3, 0.5, 0.7, 0.9)
    assert draws.values.shape == (5, 500, 1)
    quantiles = np.quantile(records[1], draws.levels)
    assert np.abs(draws.mean()[:, 0] - quantiles).max() < 0.25
    assert np.all(np.diff(draws.mean()[:, 0]) > 0)
    between = posterior.sample(100, levels=[0.4, 0.45], rng=rng)
    assert np.all(np.diff(between.mean()[:, 0]) > 0)
    with pytest.raises(ParameterError, match=r"within \[0\.1, 0\.9\]"):
        posterior.sample(1, levels=[0.05])


def test_hostile_records_cannot_break_the_map():
    """NaN, infinities and huge values count for no more than their cap, and nothing is raised."""
    loss = HuberLoss(covariates=("x",), covariate_bound=1.0, coefficient_box=(-5.0, 5.0), scale_box=(0.05, 10.0))
    x, y = np.ones((100, 1)), np.zeros(100)
    x[:5] = np.array([[np.nan], [np.inf], [-np.inf], [1e300], [-1e300]])
    y[5:10] = [np.nan, np.inf, -np.inf, 1e300, -1e300]
    assert np.isfinite(fit((x, y), loss).value.sample(20).values).all()  # and no warning: it would tell


@pytest.mark.parametrize("y", [np.full(50, 2.0), np.linspace(-1, 1, 50), np.full(50, 1e6)])
@pytest.mark.slow
def test_degenerate_responses_q2(y):
    """Faults Q2: an exact fit, one value for all, everything at a bound."""
    loss = HuberLoss(covariates=("x",), covariate_bound=1.0, coefficient_box=(-5.0, 5.0), scale_box=(0.05, 10.0))
    assert np.isfinite(fit((np.linspace(-1, 1, 50)[:, None], y), loss).value.sample(20).values).all()


def test_a_loss_that_claims_too_small_a_bound_is_cut():
    """What a record adds never exceeds what is accounted, whatever a user's gradient says."""
    liar = CustomLoss(
        value=lambda theta, records, _=None: (records[0] - theta[0]) ** 2 * 500,
        gradient=lambda theta, records, _=None: (1000 * (theta[0] - records[0]))[:, None],
        bound=1.0, names=("m",), lower=(-5.0,), upper=(5.0,), start=(0.0,),
    )  # fmt: skip
    gradients = np.asarray(liar.gradient(np.zeros(1), numbers()), np.float32)
    assert np.abs(gradients).max() > 100
    assert np.abs(integer_contributions(gradients, np.full(400, 1000, np.int32), 1.0)).max() <= 1000
    assert np.isfinite(fit(loss=liar).value.sample(5).values).all()


def test_a_user_s_gradient_sees_one_record_at_a_time():
    """One that mixes the records of a batch would move others when a record is replaced; in training it cannot."""
    settings = {"bound": 9.0, "names": ("m",), "lower": (-5.0,), "upper": (5.0,), "start": (0.0,)}

    def value(theta, records, level=None):  # noqa: ARG001
        return (records[0] - theta[0]) ** 2

    def mixing(theta, records, level=None):  # noqa: ARG001
        return (theta[0] - records[0].mean() - 0 * records[0])[:, None]

    def alone(theta, records, level=None):  # noqa: ARG001
        return (theta[0] - records[0])[:, None]

    one, two = (fit(loss=CustomLoss(value=value, gradient=g, **settings)).value.layers for g in (mixing, alone))
    assert all((a == b).all() for left, right in zip(one, two, strict=True) for a, b in zip(left, right, strict=True))


def test_whole_numbers_and_fractions_run_the_same_program():
    """The type of an array that holds numbers does not follow the data."""
    whole = np.random.default_rng(1).integers(-3, 4, 400)
    assert fit((whole,)).value.to_bytes() == fit((whole.astype(float),)).value.to_bytes()


@pytest.mark.parametrize("sigma", [0.0, 0.001, 10.0])
@pytest.mark.slow
def test_a_simulation_promises_what_its_noise_gives(sigma):
    guarantee = fit(sigma=sigma).guarantee
    if sigma == 0:
        assert guarantee.delta == 1
    else:
        facts = fit(sigma=sigma).value.training
        assert (
            epsilon_upper(facts, sigma=sigma, delta=max(guarantee.delta, Fraction(1, 10**12))) <= 1.02
        )  # both are bounds
    assert (guarantee.delta > Fraction(1, 1000)) == (sigma < 1)


def test_progress_counts_up_to_all_steps():
    seen = []
    fit(progress=lambda done, steps: seen.append((done, steps)))
    assert seen[-1] == (30, 30)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert len(seen) >= 10


def test_precision_setting_of_jax_is_left_alone():
    import jax

    before = jax.config.jax_enable_x64
    fit()
    assert jax.config.jax_enable_x64 == before


@pytest.mark.parametrize("epsilon", [0, -0.0, -1, float("nan"), float("inf"), True, None])
def test_epsilon_p1(epsilon):
    """Faults P1: no such budget."""
    with pytest.raises(ParameterError, match="epsilon must be"):
        private_generator(numbers(), MEAN, epsilon=epsilon, delta="1e-3", plan=SMALL)


@pytest.mark.parametrize("epsilon", [1e-17, 1e-300, 800])
@pytest.mark.slow
def test_extreme_epsilon_p1(epsilon):
    """Faults P1: tiny either works or says that the noise does not fit, huge works; no raw errors."""
    try:
        release = simulate(numbers(), MEAN, key=1, epsilon=epsilon, delta="1e-3", plan=SMALL)
    except ParameterError as error:
        message = str(error)
        finite = "noise" in message or "sigma" in message
    else:
        finite = bool(np.isfinite(release.value.sample(5).values).all())
    assert finite


@pytest.mark.parametrize("delta", [-0.1, 0, 1, 1.5, float("nan")])
def test_delta_p2(delta):
    """Faults P2: Gaussian noise is never pure, and delta is below 1."""
    with pytest.raises(ParameterError, match="delta must be"):
        private_generator(numbers(), MEAN, epsilon=1, delta=delta, plan=SMALL)


@pytest.mark.parametrize("sigma", [float("nan"), -1.0, float("inf")])
def test_sigma_p3(sigma):
    """Faults P3: refused by name; without noise nothing private is claimed."""
    with pytest.raises(ParameterError, match="sigma must be"):
        fit(sigma=sigma)
    assert epsilon_upper(fit(sigma=0.0).value.training, sigma=0, delta="1e-3") == float("inf")


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ((), "tuple of arrays"),
        ([np.zeros(9)], "tuple of arrays"),
        ((np.zeros((9, 1)), np.zeros(8)), "one row a record"),
        ((np.zeros(0),), "one row a record"),
        ((np.array(3.0),), "one row a record"),
        ((np.zeros(4),), "records must be >= blocks"),
    ],
)
def test_records_that_do_not_fit(records, message):
    with pytest.raises(ParameterError, match=message):
        private_generator(records, MEAN, epsilon=1, delta="1e-3", plan=SMALL)


@pytest.mark.parametrize("draws", [0, -1, 1.5, True])
def test_draws_out_of_range(draws):
    with pytest.raises(ParameterError, match="draws must be"):
        fit().value.sample(draws)


def test_levels_of_a_single_rule_are_refused():
    with pytest.raises(ParameterError, match="not indexed"):
        fit().value.sample(1, levels=[0.5])


def test_network_has_the_documented_shape():
    layers = initial_layers(NetworkShape(), inputs=20, start=(0.0,) * 4, rng=np.random.default_rng(1))
    assert [weights.shape for weights, _ in layers] == [(256, 20), (256, 276), (256, 276), (4, 276)]
    u = np.random.default_rng(2).dirichlet(np.ones(20), 3)
    hidden = u.astype(np.float32)
    for weights, biases in layers[:-1]:
        hidden = np.concatenate([np.maximum(hidden @ weights.T + biases, 0), u.astype(np.float32)], axis=1)
    raw = hidden @ layers[-1][0].T + layers[-1][1]
    wide, narrow = (evaluate(layers, u, lower=(-b,) * 4, upper=(b,) * 4) for b in (1e6, 0.01))
    np.testing.assert_allclose(wide, raw, rtol=1e-5)
    np.testing.assert_allclose(narrow, np.clip(raw, -0.01, 0.01), rtol=1e-5)


@dataclass(frozen=True)
class Counting:
    """A bit source that counts, to show that secrets come from it alone."""

    inner: InsecureBits
    calls: list

    def bits(self, n):
        return self.inner.bits(n)

    def words(self, n):
        self.calls.append(n)
        return self.inner.words(n)


def test_secrets_come_from_the_bits_and_nothing_else():
    counting = Counting(InsecureBits(seed=2), [])
    private_generator(numbers(), MEAN, epsilon=1, delta="1e-3", plan=SMALL, bits=counting)
    # In each segment: gaps for its minibatches, and its noise.
    assert sum(counting.calls) >= 30 * 400 * 0.15 + 30
    assert len(counting.calls) >= 2


def test_draws_must_fit_their_names():
    with pytest.raises(ParameterError, match="one column a name"):
        PosteriorDraws(values=np.zeros((3, 2)), names=("a",))
    with pytest.raises(ParameterError, match="levels must be increasing"):
        PosteriorDraws(values=np.zeros((2, 3, 1)), names=("a",), levels=(0.5, 0.5))


def test_arviz_keeps_names_levels_and_draws():
    pytest.importorskip("arviz")
    values = np.arange(12.0).reshape(2, 3, 2)
    data = PosteriorDraws(values=values, names=("a", "b"), levels=(0.1, 0.9)).to_arviz()
    assert data.posterior["a"].dims == ("chain", "draw", "level")
    assert data.posterior["b"].sel(level=0.9).values.ravel().tolist() == [7.0, 9.0, 11.0]
    plain = PosteriorDraws(values=values[0], names=("a", "b")).to_arviz()
    assert plain.posterior["a"].shape == (1, 3)


def test_system_bits_train_too():
    assert private_generator(numbers(), MEAN, epsilon=1, delta="1e-3", plan=SMALL, bits=SystemBits()).secure


class Mixing(type(MEAN)):
    """A loss of someone else's, after the protocol, whose rows look at the whole batch."""

    __slots__ = ()

    def gradient(self, theta, records, level=None):  # noqa: ARG002
        return (theta[0] - records[0].mean() - 0 * records[0])[:, None]


class Alone(type(MEAN)):
    __slots__ = ()

    def gradient(self, theta, records, level=None):  # noqa: ARG002
        return (theta[0] - records[0])[:, None]


@pytest.mark.slow
def test_any_loss_that_is_not_ours_sees_one_record_at_a_time():
    settings = {"data_bounds": (-5.0, 5.0), "sd": 1.0, "clip": 9.0}
    one, two = (fit(loss=kind(**settings)).value.layers for kind in (Mixing, Alone))
    assert all((a == b).all() for left, right in zip(one, two, strict=True) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize(
    ("records", "loss", "message"),
    [
        ((np.array(["x", "y"] * 50),), MEAN, "arrays of numbers"),
        ((np.array([1, "x"] * 50, dtype=object),), MEAN, "arrays of numbers"),
        ((np.zeros((100, 2)),), MEAN, "the gradient must be|does not take"),
        ((np.zeros((100, 3)), np.zeros(100)), "huber", "the gradient must be"),
        ((np.zeros((100, 1)),), "huber", "does not take records of shapes"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_it_is_paid(tmp_path, records, loss, message):
    from psephos import Account, Ledger

    if loss == "huber":
        loss = HuberLoss(covariates=("x",), covariate_bound=1.0, coefficient_box=(-5.0, 5.0), scale_box=(0.05, 10.0))
    ledger = Ledger(tmp_path / "l.db")
    ledger.set_budget("d", epsilon=1, delta="1e-3")
    with pytest.raises(ParameterError, match=message) as caught:
        private_generator(records, loss, epsilon=1, delta="1e-3", plan=SMALL, account=Account(ledger, "d"))
    assert "'x'" not in str(caught.value)
    assert ledger.remaining("d")[0] == 1


def test_losses_that_fail_are_refused_before_they_are_paid(tmp_path):
    from psephos import Account, Ledger

    settings = {"bound": 1.0, "names": ("m",), "lower": (-5.0,), "upper": (5.0,), "start": (0.0,)}

    def value(theta, records, level=None):  # noqa: ARG001
        return records[0]

    def flat(theta, records, level=None):  # noqa: ARG001
        return theta[0] - records[0]

    def failing(theta, records, level=None):  # noqa: ARG001
        return 1 / 0

    ledger = Ledger(tmp_path / "l.db")
    ledger.set_budget("d", epsilon=1, delta="1e-3")
    for gradient in (flat, failing):
        loss = CustomLoss(value=value, gradient=gradient, **settings)
        with pytest.raises(ParameterError, match=r"gradient must be|does not take"):
            private_generator(numbers(), loss, epsilon=1, delta="1e-3", plan=SMALL, account=Account(ledger, "d"))
    wide = MeanLoss(data_bounds=(1e50, 2e50), sd=1e49, clip=1e-20)
    with pytest.raises(ParameterError, match="box of 'mean'"):
        private_generator(numbers(), wide, epsilon=1, delta="1e-3", plan=SMALL, account=Account(ledger, "d"))
    assert ledger.remaining("d")[0] == 1


def test_numpy_numbers_in_a_plan_are_plain_in_the_artefact(tmp_path):
    from psephos import Account, Ledger

    plan = replace(SMALL, blocks=np.int64(5), steps=np.int32(20), gamma=np.float64(0.7))
    settings = {"epsilon": 1, "delta": "1e-3", "plan": plan}
    account = Account(Ledger(tmp_path / "l.db"), "d", budget=(1, "1e-3"), request_id="r")
    one = private_generator(numbers(), MEAN, **settings, account=account)
    two = private_generator(numbers(), MEAN, **settings, account=account)
    assert one.value.to_bytes() == two.value.to_bytes()
    assert one.guarantee == two.guarantee
    assert "each person has one record" in one.guarantee.sentence()


def test_a_repetition_names_a_user_s_loss_by_what_does_not_change():
    from psephos.bootstrap.private_posterior import described

    def loss():
        return CustomLoss(
            value=lambda theta, records, _=None: records[0] - theta,
            gradient=lambda theta, records, _=None: (theta - records[0])[:, None],
            bound=1.0, names=("m",), lower=(-5.0,), upper=(5.0,), start=(0.0,),
        )  # fmt: skip

    assert described(loss(), "mine") == described(loss(), "mine")
    assert "0x" not in described(loss(), "mine")
    with pytest.raises(ParameterError, match="about must be text"):
        described(MEAN, "\udc80")


@pytest.mark.parametrize("bad", ["abc", ("",), (1,), None])
def test_assumptions_are_texts(bad):
    with pytest.raises(ParameterError, match="assumptions must be a tuple of texts"):
        private_generator(numbers(), MEAN, epsilon=1, delta="1e-3", plan=SMALL, assumptions=bad)


def tampered(change):
    """A saved sampler with another header or other layers."""
    with np.load(io.BytesIO(fit().value.to_bytes()), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays["header"].tobytes())
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        lambda header, _: header["guarantee"].update(epsilon="-1"),
        lambda header, _: header["guarantee"].update(delta="7"),
        lambda header, _: header["guarantee"].update(epsilon="1e3000000"),
        lambda header, _: header["guarantee"].update(unit="galaxy"),
        lambda header, _: header["guarantee"].update(adjacency="none"),
        lambda header, _: header["guarantee"].update(assumptions=[1]),
        lambda header, _: header.update(secure="no"),
        lambda header, _: header.update(lower=[5], upper=[-5]),
        lambda header, _: header.update(names=["a", "a"]),
        lambda header, _: header.update(levels=[0.5, 0.1]),
        lambda header, _: header.update(pseudo_blocks=-1),
        lambda header, _: header["training"].update(blocks=7),
        lambda header, _: header.update(schema="other"),
        lambda header, _: header["noise"].update(method="none"),
        lambda _, arrays: arrays["weights0"].fill(np.nan),
        lambda _, arrays: arrays.update(weights1=np.zeros((2, 3), np.float32)),
        lambda _, arrays: arrays.update(biases1=np.zeros(1)),
        lambda _, arrays: [arrays.pop(name) for name in ("weights0", "biases0", "weights1", "biases1")],
    ],
)
def test_a_file_that_lies_is_refused(change):
    with pytest.raises(ParameterError):
        GeneratorPosterior.from_bytes(tampered(change))


def test_an_untouched_file_loads():
    assert GeneratorPosterior.from_bytes(tampered(lambda header, arrays: None)).to_bytes() == fit().value.to_bytes()  # noqa: ARG005
    nothing = fit(sigma=0.0).value
    assert GeneratorPosterior.from_bytes(nothing.to_bytes()).noise.epsilon_upper == float("inf")


@pytest.mark.parametrize("text", ["{}", "[", '{"event": []}', "[" * 100_000, '{"schema": "x"}'])
def test_a_text_that_is_no_release_is_refused(text):
    from psephos.bootstrap import release_from_json

    with pytest.raises(ParameterError):
        release_from_json(text)


def test_names_that_arviz_keeps_for_itself_are_refused():
    with pytest.raises(ParameterError, match="ArviZ"):
        PosteriorDraws(values=np.zeros((2, 1)), names=("chain",)).to_arviz()
