"""Entry point: a private sampler, trained on noisy sums, paid for from a ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from psephos._check import Exact
from psephos._json import json_text
from psephos.bootstrap.generator_posterior import GeneratorPosterior
from psephos.bootstrap.losses import Loss, Records
from psephos.bootstrap.private_posterior import declared, described, release_from_json, release_to_json
from psephos.bootstrap.train import TrainingPlan, assumptions_of_minibatches, count_records, prepared, promise
from psephos.privacy.bits import BitSource, SystemBits
from psephos.privacy.events import Event
from psephos.privacy.release import Account, Codec, PlannedRelease, Release, release

__all__ = ["private_generator"]


def private_generator(
    records: Records,
    loss: Loss,
    *,
    epsilon: Exact,
    delta: Exact,
    plan: TrainingPlan = TrainingPlan(),  # noqa: B008 - frozen
    pseudo_records: Records = (),
    assumptions: tuple[str, ...] = (),
    about: str = "",
    bits: BitSource = SystemBits(),  # noqa: B008 - stateless
    progress: Callable[[int, int], None] | None = None,
    account: Account | None = None,
) -> Release[GeneratorPosterior]:
    """A private sampler of the Bayesian-bootstrap posterior, whose intervals **do not hold the error that noise adds**.

    The spread of its draws is the blocked bootstrap's, as learnt through noise, so an interval need not cover the truth
    as often as its level says: of 40 intervals at 95 % for the mean of 1,000 numbers at epsilon .1, 24 held it, and 39
    of those by :func:`psephos.private_posterior` (``tests/bootstrap/test_private_posterior.py``), which is what to take
    for a loss of this package. This one reproduces the published sampler, and takes a loss of your own.

    (epsilon, delta)-differentially private for each record under replace-one adjacency; the number of records, the
    loss with its bounds and the plan are public. With ``plan.probability`` below 1 the guarantee assumes that the
    compiled program treats all places of a minibatch alike.

    Parameters
    ----------
    records
        Arrays of n rows, as ``loss`` takes them: a tuple made by :meth:`psephos.bootstrap.Design.records`, say.
    loss
        With its gradient bound; a record whose gradient exceeds it is shrunk to it.
    epsilon
        Nats, > 0.
    delta
        0 < delta < 1.
    plan
        Public settings.
    pseudo_records
        Public records from a base distribution, for ``plan.alpha > 0``; they must not come from the private data.
    assumptions, account
        As in :func:`psephos.private_posterior`.
    about
        Public facts that shaped the records, such as a design's ``repr``, and which functions a loss of your own has: a
        repeated request must have the same.
    bits
        Operating-system entropy; anything else stamps the release insecure.
    progress
        Called with (steps done, steps) now and then.

    Returns
    -------
    A :class:`Release` whose value is the :class:`GeneratorPosterior`: any number of draws of it is free.

    Raises
    ------
    ParameterError
        for parameters out of range, and for records whose shapes do not agree.
    BudgetError
        if the budget does not suffice.
    InsecureBitsError
        for an account with test bits.
    MissingExtraError
        without the extra ``bootstrap``.

    Source: "Private Generative Bootstrap via Blocking", algorithms 1 and 2, Proposition 2.2.

    >>> from psephos.bootstrap import MeanLoss, NetworkShape
    >>> loss = MeanLoss(data_bounds=(0.0, 1.0), sd=0.2, clip=25.0)
    >>> plan = TrainingPlan(blocks=5, steps=20, network=NetworkShape(width=4, depth=1))
    >>> release = private_generator((np.full(100, 0.5),), loss, epsilon=1, delta="1e-3", plan=plan)
    >>> release.value.sample(500).values.shape
    (500, 1)
    """
    rests_on = (*assumptions_of_minibatches(plan.probability), *declared(assumptions))
    guarantee = promise(loss, epsilon, delta, declared=rests_on)
    people = count_records(records, "records")
    train = partial(
        prepared,
        loss=loss,
        guarantee=guarantee,
        plan=plan,
        sigma=None,
        pseudo_records=pseudo_records,
        public=np.random.default_rng(),
        progress=progress,
    )
    train(records, bits=bits)  # refuses, by public facts, what it could not run
    pseudo_digest = None
    if pseudo_records:
        parts = (f"{a.shape} {a.dtype} ".encode() + np.ascontiguousarray(a).tobytes() for a in pseudo_records)
        pseudo_digest = hashlib.sha256(b"".join(parts)).hexdigest()
    request = {
        "release": "posterior",
        "method": GeneratorPosterior.method,
        "records": people,
        "loss": described(loss, about),
        "about": about,
        "assumptions": list(assumptions),
        "plan": repr(plan),
        "accountant": "pld",  # these two as older versions wrote them, which had a choice: repetitions must be equal
        "paper": "None",
        "pseudo_records": pseudo_digest,
    }
    planned = _Planned(
        guarantee=guarantee,
        units=people,
        request=json_text(request, indent=None),
        codec=Codec(release_to_json, release_from_json),
        train=train,
    )
    return cast("Release[GeneratorPosterior]", release(planned, records, account=account, bits=bits))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned(PlannedRelease[Records, Any]):
    """A training whose settings are fixed."""

    train: Callable[..., Callable[[], Release[GeneratorPosterior]]]

    def run(self, data: Records, bits: BitSource) -> tuple[GeneratorPosterior, Event]:
        """The trained sampler, and what ran."""
        trained = self.train(data, bits=bits)()
        return trained.value, trained.event
