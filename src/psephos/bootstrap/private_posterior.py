"""Entry point: a private posterior whose draws count the noise, paid for from a ledger."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from psephos._check import Exact, check_choice, is_unicode
from psephos._json import json_text
from psephos.bootstrap.best_method import POSTERIOR_METHODS, PosteriorMethod, best_method
from psephos.bootstrap.field_posterior import FieldPosterior
from psephos.bootstrap.generator_posterior import GeneratorPosterior
from psephos.bootstrap.losses import SHIPPED, Loss, QuantileLoss, Records, ShippedLoss
from psephos.bootstrap.normal_posterior import NormalPosterior
from psephos.bootstrap.sandwich import SandwichFit, SandwichPlan
from psephos.bootstrap.score_bootstrap import FieldFit, FieldPlan
from psephos.bootstrap.train import count_records, promise
from psephos.errors import ParameterError
from psephos.privacy.bits import BitSource, SystemBits
from psephos.privacy.events import Event, event_from_json, event_to_json
from psephos.privacy.release import Account, Codec, PlannedRelease, Release, release

__all__ = ["declared", "described", "private_posterior", "release_from_json", "release_to_json"]

_SCHEMA = "psephos.posterior-release/1"


def private_posterior(
    records: Records,
    loss: ShippedLoss,
    *,
    epsilon: Exact,
    delta: Exact,
    method: Literal["auto"] | PosteriorMethod = "auto",
    settings: SandwichPlan | FieldPlan | None = None,
    assumptions: tuple[str, ...] = (),
    about: str = "",
    bits: BitSource = SystemBits(),  # noqa: B008 - stateless
    account: Account | None = None,
) -> Release[NormalPosterior | FieldPosterior]:
    """A private posterior of a loss's minimiser, whose draws hold the sampling error and the error that noise adds.

    (epsilon, delta)-differentially private for each record under replace-one adjacency; the number of records, the
    loss with its bounds and the settings are public. Any number of draws of the posterior is free.

    * ``sandwich``: a few noisy Newton steps and a near-normal posterior, whose width is known from the released noise.
      The fastest. Quantiles need a bandwidth of a fifth of the residuals' spread or less, and noise on each of L levels
      grows with L.
    * ``field``: noisy gradients at many places, and minimisers under random tilts of the field that they leave. It
      takes no normal shape for granted, and no density read off with a wide window; quantiles at any number of levels
      are one field under the one budget. Convex losses of at most 32 coordinates.

    In both, a record whose leverage (``x' M^-1 x``) is more than six times the mean counts less: a regression that does
    not hold for such records gives them less of a say than the plain fit does.

    Parameters
    ----------
    records
        Arrays of n rows, as ``loss`` takes them. Reading refuses what is no number (:func:`read_columns_csv`,
        :meth:`Design.records`); here, where an error would tell of a value, NaN counts as 0 and an infinity as 1e300.
    loss
        One of this package. :func:`psephos.bootstrap.private_generator` trains a sampler of any other.
    epsilon
        Nats, > 0.
    delta
        0 < delta < 1.
    method
        ``"sandwich"``, ``"field"``, or ``"auto"``: the one that public facts favour
        (:func:`psephos.bootstrap.best_method`), and ``value.reason`` says why.
    settings
        Public: a :class:`SandwichPlan` for ``sandwich``, a :class:`FieldPlan` for ``field``; the defaults if absent.
    assumptions
        What the holder declares beside the usual, in words; part of the guarantee.
    about
        Public facts that shaped the records, such as a design's ``repr``: a repeated request must have the same.
    bits
        Operating-system entropy; anything else, such as ``InsecureBits`` in a simulation, stamps the release insecure.
    account
        What pays (:class:`psephos.Account`): its budget is debited before any noise is drawn, and a repeated request id
        gives the same posterior again. ``None``: no record is kept.

    Returns
    -------
    A :class:`Release` whose value is a :class:`NormalPosterior` or a :class:`FieldPosterior`.

    Raises
    ------
    ParameterError
        for parameters out of range, a loss that the method does not take, records of other shapes, and a budget so
        small that noise would exceed all that could be released.
    BudgetError
        if the budget does not suffice.
    InsecureBitsError
        for an account with test bits.

    Source: :mod:`psephos.bootstrap.sandwich`, :mod:`psephos.bootstrap.score_bootstrap`.

    >>> import numpy as np
    >>> from psephos.bootstrap import MeanLoss, QuantileLoss
    >>> loss = MeanLoss(data_bounds=(0.0, 1.0), sd=0.2, clip=25.0)
    >>> posterior = private_posterior(loss.records(np.linspace(0.2, 0.8, 4000)), loss, epsilon=1, delta="1e-5").value
    >>> posterior.method, bool(abs(posterior.estimate()[0] - 0.5) < 0.03), posterior.sample(300).values.shape
    ('sandwich', True, (300, 1))
    >>> loss = QuantileLoss(covariates=("intercept",), covariate_bound=1, coefficient_box=(0, 9), levels=(0.5, 0.9))
    >>> records = np.ones((4000, 1)), np.random.default_rng(1).exponential(1.0, 4000)
    >>> posterior = private_posterior(records, loss, epsilon=1, delta="1e-5").value
    >>> medians = posterior.sample(300, levels=(0.5, 0.7)).mean()[:, 0]
    >>> posterior.method, bool(abs(medians[0] - 0.69) < 0.2), bool(abs(medians[1] - 1.2) < 0.3)
    ('field', True, True)
    """
    check_choice(method, "method", ("auto", *POSTERIOR_METHODS))
    if not isinstance(loss, SHIPPED):
        raise ParameterError(
            f"the loss must be one of this package, whose curvature is known, got {loss!r}: "
            "psephos.bootstrap.private_generator takes others"
        )
    guarantee = promise(loss, epsilon, delta, declared=declared(assumptions))
    people = count_records(records, "records")
    chosen, reason = (
        best_method(loss, people=people, epsilon=epsilon, delta=delta) if method == "auto" else (method, None)
    )
    if method == "auto" and settings is not None:
        raise ParameterError(f"settings are of one method: give method 'sandwich' or 'field' with {settings!r}")
    kind, fit = _BY_NAME[chosen]
    plan = kind() if settings is None else settings
    if not isinstance(plan, kind):
        raise ParameterError(f"settings of method {chosen!r} must be a {kind.__name__}, got {type(plan).__name__}")
    request = {
        "release": "posterior",
        "method": chosen,
        "records": people,
        "loss": described(loss, about),
        "about": about,
        "assumptions": list(assumptions),
        "settings": repr(plan),
    }
    planned = _Planned(
        guarantee=guarantee,
        units=people,
        request=json_text(request, indent=None),
        codec=Codec(release_to_json, release_from_json),
        fit=fit.planned(records, loss, guarantee=guarantee, settings=plan),
        reason=reason,
        covariate_box=loss.covariate_box if isinstance(loss, QuantileLoss) else (),
    )
    return cast("Release[NormalPosterior | FieldPosterior]", release(planned, records, account=account, bits=bits))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned(PlannedRelease[Records, Any]):
    """A fit that is ready to run, and what its posterior says beside."""

    fit: SandwichFit | FieldFit
    reason: str | None
    covariate_box: tuple[tuple[float, float], ...]

    def run(self, data: Records, bits: BitSource) -> tuple[NormalPosterior | FieldPosterior, Event]:
        """The posterior, and what ran."""
        posterior, event = self.fit.run(data, bits)
        return replace(posterior, reason=self.reason, covariate_box=self.covariate_box), event


_BY_NAME: dict[PosteriorMethod, Any] = {"sandwich": (SandwichPlan, SandwichFit), "field": (FieldPlan, FieldFit)}


def declared(assumptions: object) -> tuple[str, ...]:
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


_KINDS = {kind.method: kind for kind in (NormalPosterior, FieldPosterior, GeneratorPosterior)}


def release_to_json(
    release: Release[NormalPosterior | FieldPosterior] | Release[GeneratorPosterior],
) -> str:
    """A release of :func:`private_posterior` or of :func:`private_generator` as text.

    >>> import numpy as np
    >>> from psephos.bootstrap import MeanLoss
    >>> loss = MeanLoss(data_bounds=(0.0, 1.0), sd=0.2, clip=25.0)
    >>> release = private_posterior((np.full(100, 0.5),), loss, epsilon=1, delta="1e-3")
    >>> again = release_from_json(release_to_json(release))
    >>> again.event == release.event, again.guarantee == release.guarantee, again.value.method, again.secure
    (True, True, 'sandwich', True)
    """
    return json_text(
        {
            "schema": _SCHEMA,
            "method": release.value.method,
            "event": event_to_json(release.event),
            "posterior": base64.b64encode(release.value.to_bytes()).decode(),
        },
        indent=None,
    )


def release_from_json(text: str) -> Release[NormalPosterior | FieldPosterior] | Release[GeneratorPosterior]:
    """The inverse of :func:`release_to_json`.

    Raises
    ------
    ParameterError
        if the text is none, or names another method.
    """
    try:
        data = json.loads(text)
        if data["schema"] != _SCHEMA:
            raise ParameterError(f"schema must be {_SCHEMA!r}, got {data['schema']!r}")
        check_choice(data["method"], "the method of a saved release", tuple(_KINDS))
        posterior = _KINDS[data["method"]].from_bytes(base64.b64decode(data["posterior"], validate=True))
        event = event_from_json(data["event"])
    except ParameterError:
        raise
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ParameterError(f"not a saved release of a posterior: {error}") from error
    if isinstance(posterior, GeneratorPosterior) and event != posterior.training.event(posterior.noise.sigma):
        raise ParameterError("not a saved release of a posterior: the event is not that of its training")
    value: Any = posterior  # of one of the three kinds
    return Release(value=value, event=event, guarantee=posterior.guarantee, secure=posterior.secure)
