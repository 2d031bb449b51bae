"""The front doors: a private posterior by each of our three ways, paid for from a ledger."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from psephos._check import Exact, is_unicode
from psephos.bootstrap.accountant import Method, PaperBound
from psephos.bootstrap.field_posterior import FieldPosterior
from psephos.bootstrap.losses import Loss, Records, ShippedLoss
from psephos.bootstrap.normal_posterior import NormalPosterior
from psephos.bootstrap.posterior import Posterior
from psephos.bootstrap.sandwich import SandwichPlan, prepared_sandwich
from psephos.bootstrap.score_bootstrap import FieldPlan, prepared_field
from psephos.bootstrap.train import TrainingPlan, count_records, prepared, promise
from psephos.errors import ParameterError
from psephos.privacy.bits import BitSource, SystemBits
from psephos.privacy.charge import charged, check_payment, warn_if_weak
from psephos.privacy.events import event_from_json, event_to_json
from psephos.privacy.ledger import Ledger
from psephos.privacy.release import Release

__all__ = [
    "private_posterior",
    "private_sandwich",
    "private_score_bootstrap",
    "release_from_json",
    "release_to_json",
]

_SCHEMA = "psephos.posterior-release/1"


def private_posterior(
    records: Records,
    loss: Loss,
    *,
    epsilon: Exact,
    delta: Exact,
    plan: TrainingPlan = TrainingPlan(),  # noqa: B008 - frozen
    accountant: Method = "pld",
    paper: PaperBound | None = None,
    pseudo_records: Records = (),
    assumptions: tuple[str, ...] = (),
    about: str = "",
    bits: BitSource = SystemBits(),  # noqa: B008 - stateless
    progress: Callable[[int, int], None] | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    budget: tuple[Exact, Exact] | None = None,
) -> Release[Posterior]:
    """:func:`psephos.bootstrap.train`, after its (epsilon, delta) was debited.

    Parameters
    ----------
    records, loss, epsilon, delta, plan, accountant, paper, pseudo_records, bits, progress
        As in :func:`psephos.bootstrap.train`.
    assumptions
        What the holder declares beside the usual, in words; part of the guarantee.
    about
        Public facts that shaped the records, such as a design's ``repr``, and which functions a loss of your own has: a
        repeated request must have the same.
    ledger, dataset, request_id, budget
        As in :func:`psephos.private_consensus`: the budget is debited before any noise is drawn, and a repeated request
        id gives the same sampler again.

    Raises
    ------
    BudgetError
        if the budget does not suffice.
    InsecureBitsError
        for a ledger with test bits.

    >>> import numpy as np
    >>> from psephos.bootstrap import MeanLoss, NetworkShape
    >>> loss = MeanLoss(data_bounds=(0.0, 1.0), sd=0.2, clip=25.0)
    >>> plan = TrainingPlan(blocks=5, steps=20, network=NetworkShape(width=4, depth=1))
    >>> release = private_posterior((np.full(100, 0.5),), loss, epsilon=1, delta="1e-3", plan=plan)
    >>> release.value.sample(500).values.shape
    (500, 1)
    """
    guarantee = promise(loss, epsilon, delta, declared=_declared(assumptions))
    people = count_records(records, "records")
    check_payment(bits, ledger, dataset, request_id, budget)
    warn_if_weak(guarantee, people)
    train_now = prepared(
        records,
        loss,
        guarantee=guarantee,
        plan=plan,
        accountant=accountant,
        paper=paper,
        sigma=None,
        pseudo_records=pseudo_records,
        bits=bits,
        public=np.random.default_rng(),
        progress=progress,
    )
    pseudo_digest = None
    if pseudo_records:
        parts = (f"{a.shape} {a.dtype} ".encode() + np.ascontiguousarray(a).tobytes() for a in pseudo_records)
        pseudo_digest = hashlib.sha256(b"".join(parts)).hexdigest()
    request = {
        "release": "posterior",
        "method": "pgbb",
        "records": people,
        "loss": described(loss, about),
        "about": about,
        "assumptions": list(assumptions),
        "plan": repr(plan),
        "accountant": accountant,
        "paper": repr(paper),
        "pseudo_records": pseudo_digest,
    }
    return charged(
        train_now,
        guarantee=guarantee,
        what=json.dumps(request, ensure_ascii=False),
        ledger=ledger,
        dataset=dataset,
        request_id=request_id,
        budget=budget,
        to_json=release_to_json,
        from_json=lambda text: cast("Release[Posterior]", release_from_json(text)),
    )


def private_sandwich(
    records: Records,
    loss: ShippedLoss,
    *,
    epsilon: Exact,
    delta: Exact,
    plan: SandwichPlan = SandwichPlan(),  # noqa: B008 - frozen
    assumptions: tuple[str, ...] = (),
    about: str = "",
    bits: BitSource = SystemBits(),  # noqa: B008 - stateless
    ledger: Ledger | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    budget: tuple[Exact, Exact] | None = None,
) -> Release[NormalPosterior]:
    """A near-normal private posterior of a loss's minimiser: sampling error and the known noise together.

    (epsilon, delta)-differentially private for each record under replace-one adjacency; the number of records, the
    loss with its bounds and the plan are public. A record whose leverage (``x' M^-1 x``) is more than six times the
    mean counts less: a regression that does not hold for such records gives them less of a say than the plain fit does.
    Quantiles need a bandwidth of a fifth of the residuals' spread or less. A loss with L levels is fitted at all of
    them under the one budget, so noise on each grows with L.

    Parameters
    ----------
    records
        Arrays of n rows, as ``loss`` takes them; every number finite.
    loss
        One of this package, but no :class:`CustomLoss`.
    epsilon
        Nats, > 0.
    delta
        0 < delta < 1.
    plan
        Public settings.
    assumptions, about
        As in :func:`psephos.bootstrap.private_posterior`.
    bits
        Operating-system entropy; anything else, such as ``InsecureBits`` in a simulation, stamps the release insecure.
    ledger, dataset, request_id, budget
        As in :func:`psephos.private_consensus`.

    Returns
    -------
    A :class:`Release` whose value is the :class:`NormalPosterior`: any number of draws of it is free.

    Raises
    ------
    ParameterError
        for parameters out of range, a loss that is not of this package, records of other shapes, and a budget so small
        that noise would exceed all that could be released.
    DataError
        for a number that is not finite.
    BudgetError
        if the budget does not suffice.

    Source: :mod:`psephos.bootstrap.sandwich`.

    >>> from psephos.bootstrap import MeanLoss
    >>> loss = MeanLoss(data_bounds=(0.0, 1.0), sd=0.2, clip=25.0)
    >>> records = loss.records(np.linspace(0.2, 0.8, 4000))
    >>> posterior = private_sandwich(records, loss, epsilon=1, delta="1e-5").value
    >>> bool(abs(posterior.estimate()[0] - 0.5) < 0.03), posterior.sample(300).values.shape
    (True, (300, 1))
    """
    return _by_noisy_sums(
        prepared_sandwich,
        "sandwich",
        records,
        loss,
        epsilon=epsilon,
        delta=delta,
        plan=plan,
        assumptions=assumptions,
        about=about,
        bits=bits,
        ledger=ledger,
        dataset=dataset,
        request_id=request_id,
        budget=budget,
    )


def private_score_bootstrap(
    records: Records,
    loss: ShippedLoss,
    *,
    epsilon: Exact,
    delta: Exact,
    plan: FieldPlan = FieldPlan(),  # noqa: B008 - frozen
    assumptions: tuple[str, ...] = (),
    about: str = "",
    bits: BitSource = SystemBits(),  # noqa: B008 - stateless
    ledger: Ledger | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    budget: tuple[Exact, Exact] | None = None,
) -> Release[FieldPosterior]:
    """A private posterior of any shape: minimisers under random tilts of a released gradient field.

    (epsilon, delta)-differentially private for each record under replace-one adjacency; the number of records, the
    loss with its bounds and the plan are public. It takes no normal shape for granted, and no density read off with a
    wide window; where a posterior is near normal it is that of :func:`private_sandwich`. Quantiles at any number of
    levels are one field under the one budget: their scores are taken to vary as the model says, alike for all
    covariates. A record whose leverage is more than six times the mean counts less, as in :func:`private_sandwich`.

    Parameters
    ----------
    records
        Arrays of n rows, as ``loss`` takes them; every number finite.
    loss
        One of this package that is convex, with at most 32 coordinates: neither a :class:`CustomLoss` nor the mean of
        an exponential family.
    epsilon
        Nats, > 0.
    delta
        0 < delta < 1.
    plan
        Public settings.
    assumptions, about
        As in :func:`psephos.bootstrap.private_posterior`.
    bits
        Operating-system entropy; anything else, such as ``InsecureBits`` in a simulation, stamps the release insecure.
    ledger, dataset, request_id, budget
        As in :func:`psephos.private_consensus`.

    Returns
    -------
    A :class:`Release` whose value is the :class:`FieldPosterior`: any number of draws of it is free.

    Raises
    ------
    ParameterError
        for parameters out of range, a loss that is none of these, records of other shapes, and a budget so small that
        noise would exceed all that could be released.
    DataError
        for a number that is not finite.
    BudgetError
        if the budget does not suffice.

    Source: :mod:`psephos.bootstrap.score_bootstrap`.

    >>> from psephos.bootstrap import QuantileLoss
    >>> loss = QuantileLoss(covariates=("intercept",), covariate_bound=1, coefficient_box=(0, 9), levels=(0.5, 0.9))
    >>> records = np.ones((4000, 1)), np.random.default_rng(1).exponential(1.0, 4000)
    >>> posterior = private_score_bootstrap(records, loss, epsilon=1, delta="1e-5").value
    >>> medians = posterior.sample(300, levels=(0.5, 0.7)).mean()[:, 0]
    >>> bool(abs(medians[0] - 0.69) < 0.2), bool(abs(medians[1] - 1.2) < 0.3)
    (True, True)
    """
    return _by_noisy_sums(
        prepared_field,
        "score-bootstrap",
        records,
        loss,
        epsilon=epsilon,
        delta=delta,
        plan=plan,
        assumptions=assumptions,
        about=about,
        bits=bits,
        ledger=ledger,
        dataset=dataset,
        request_id=request_id,
        budget=budget,
    )


Fitted = TypeVar("Fitted", NormalPosterior, FieldPosterior)


def _by_noisy_sums(
    prepare: Callable[..., Callable[[], Release[Fitted]]],
    method: str,
    records: Records,
    loss: Loss,
    *,
    epsilon: Exact,
    delta: Exact,
    plan: object,
    assumptions: tuple[str, ...],
    about: str,
    bits: BitSource,
    ledger: Ledger | None,
    dataset: str | None,
    request_id: str | None,
    budget: tuple[Exact, Exact] | None,
) -> Release[Fitted]:
    """A fit by noisy sums over the people, once its budget is debited."""
    guarantee = promise(loss, epsilon, delta, declared=_declared(assumptions))
    check_payment(bits, ledger, dataset, request_id, budget)
    run = prepare(records, loss, guarantee=guarantee, plan=plan, bits=bits)
    people = len(records[0])
    warn_if_weak(guarantee, people)
    request = {
        "release": "posterior",
        "method": method,
        "records": people,
        "loss": described(loss, about),
        "about": about,
        "assumptions": list(assumptions),
        "plan": repr(plan),
    }
    return charged(
        run,
        guarantee=guarantee,
        what=json.dumps(request, ensure_ascii=False),
        ledger=ledger,
        dataset=dataset,
        request_id=request_id,
        budget=budget,
        to_json=release_to_json,
        from_json=lambda text: cast("Release[Fitted]", release_from_json(text)),
    )


def _declared(assumptions: object) -> tuple[str, ...]:
    """What a holder declares, in words.

    Raises
    ------
    ParameterError
        for anything but texts.
    """
    if not isinstance(assumptions, tuple | list) or not all(isinstance(t, str) and t.strip() for t in assumptions):
        raise ParameterError(f"assumptions must be a tuple of texts, none blank, got {assumptions!r}")
    return tuple(assumptions)


def described(loss: Loss, about: str) -> str:
    """A loss as a request names it: the same for a repetition in another process.

    Raises
    ------
    ParameterError
        for text that cannot be stored.
    """
    if not isinstance(about, str) or not is_unicode(about):
        raise ParameterError(f"about must be text, got {about!r}")
    text = repr(loss)
    if " at 0x" not in text:
        return text
    # Functions have no lasting name: what the loss says of itself, and what its author says in `about`.
    facts = loss.names, loss.bound, loss.lower, loss.upper, loss.start, loss.levels
    return f"{type(loss).__name__}{facts!r}"


_KINDS: dict[str, type[Posterior] | type[NormalPosterior] | type[FieldPosterior]] = {
    "pgbb": Posterior,
    "sandwich": NormalPosterior,
    "score-bootstrap": FieldPosterior,
}


def release_to_json(release: Release[Posterior] | Release[NormalPosterior] | Release[FieldPosterior]) -> str:
    """A release with its sampler as text.

    >>> import numpy as np
    >>> from psephos.bootstrap import MeanLoss, NetworkShape, simulate
    >>> loss = MeanLoss(data_bounds=(0.0, 1.0), sd=0.2, clip=25.0)
    >>> plan = TrainingPlan(blocks=5, steps=2, network=NetworkShape(width=4, depth=1))
    >>> release = simulate((np.full(100, 0.5),), loss, key=1, epsilon=1, delta="1e-3", plan=plan)
    >>> again = release_from_json(release_to_json(release))
    >>> again.event == release.event, again.guarantee == release.guarantee, again.secure
    (True, True, False)
    """
    return json.dumps(
        {
            "schema": _SCHEMA,
            "method": next(name for name, kind in _KINDS.items() if isinstance(release.value, kind)),
            "event": event_to_json(release.event),
            "posterior": base64.b64encode(release.value.to_bytes()).decode(),
        }
    )


def release_from_json(text: str) -> Release[Posterior] | Release[NormalPosterior] | Release[FieldPosterior]:
    """The inverse of :func:`release_to_json`.

    Raises
    ------
    ParameterError
        if the text is none.
    """
    try:
        data = json.loads(text)
        if data["schema"] != _SCHEMA:
            raise ParameterError(f"schema must be {_SCHEMA!r}, got {data['schema']!r}")
        kind = _KINDS[data.get("method", "pgbb")]
        posterior = kind.from_bytes(base64.b64decode(data["posterior"], validate=True))
        event = event_from_json(data["event"])
    except ParameterError:
        raise
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ParameterError(f"not a saved release of a posterior: {error}") from error
    if isinstance(posterior, Posterior) and event != posterior.training.event(posterior.noise.sigma):
        raise ParameterError("not a saved release of a posterior: the event is not that of its training")
    value: Any = posterior  # of one of the three kinds
    return Release(value=value, event=event, guarantee=posterior.guarantee, secure=posterior.secure)
