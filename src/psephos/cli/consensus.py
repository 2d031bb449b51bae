"""``psephos consensus``: a private consensus ranking of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from psephos.cli.inputs import check_output, read_data
from psephos.cli.options import (
    BallotOptions,
    DeltaOption,
    EpsilonOption,
    FileArgument,
    FormatOption,
    ItemsOption,
    ItemsPublicOption,
    LedgerOptions,
    OutputOption,
    PairsOption,
    StrictOption,
    UnitOption,
)
from psephos.cli.output import (
    claimed,
    count_of,
    note,
    progress,
    quiet_stdout,
    release_sentence,
    shown,
    units_of,
    write_csv,
    write_result,
)

if TYPE_CHECKING:
    from psephos.central import Certificate, Consensus
    from psephos.privacy import Release

__all__ = ["consensus"]


def consensus(
    file: FileArgument,
    *,
    epsilon: EpsilonOption,
    delta: DeltaOption = "0",
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            help="auto, laplace, gaussian, nuclear, borda, shaped, probe, exponential, kwiksort, footrule, two-stage "
            "(README).",
        ),
    ] = "auto",
    unranked: Annotated[
        str | None,
        typer.Option(
            "--unranked",
            help="Unranked items of ballots come last (the default), or are missing: compared with nothing.",
            show_default=False,
        ),
    ] = None,
    unit: UnitOption = "person",
    pairs: PairsOption = None,
    post_processing: Annotated[
        str,
        typer.Option(
            "--post-processing", help="adaptive (shrinks cyclic noise), raw, or certified (with a worst-case bound)."
        ),
    ] = "adaptive",
    xi: Annotated[
        str, typer.Option("--xi", help="certified, two-stage: cost at most 1 + xi times the least on the noisy table.")
    ] = "0.1",
    constants: Annotated[
        str | None,
        typer.Option(
            "--constants",
            help="two-stage: exact (the default: noise that spends all of the budget), or published (of the proof).",
            show_default=False,
        ),
    ] = None,
    bounded_time: Annotated[
        bool, typer.Option("--bounded-time", help="two-stage: every random draw takes a fixed number of bits.")
    ] = False,
    level: Annotated[
        float | None,
        typer.Option("--level", help="Ballots: rank intervals that hold at once with this probability, such as .95."),
    ] = None,
    output_format: FormatOption = "table",
    output: OutputOption = None,
    payment: LedgerOptions,
    items: ItemsOption = None,
    items_public_as_seen: ItemsPublicOption = False,
    ballots: BallotOptions,
    strict: StrictOption = False,
    effort: Annotated[
        float, typer.Option("--effort", help="Work for the solver, in units of about a second: the same everywhere.")
    ] = 60.0,
    time_limit: Annotated[
        float, typer.Option("--time-limit", help="Seconds for the solver, an outer guard: what it cut says so.")
    ] = 3600.0,
) -> None:
    """Release a consensus (Kemeny) ranking of a file under differential privacy, best first."""
    from psephos._check import check_choice
    from psephos.central import TwoStage, private_consensus, release_to_json
    from psephos.errors import ParameterError
    from psephos.profile import Comparisons

    check_choice(output_format, "format", ("table", "csv", "json"))
    options = None
    if constants is not None or bounded_time:
        if mechanism != "two-stage":
            raise ParameterError(f"--constants and --bounded-time are for --mechanism two-stage, got {mechanism}")
        check_choice(constants or "exact", "--constants", ("exact", "published"))
        options = TwoStage(constants=constants or "exact", bounded_time=bounded_time)  # type: ignore[arg-type]
    payment.check()
    check_output(output, "--output", read=(file, payment.ledger, items))
    with claimed(output), quiet_stdout():
        data = read_data(file, items=items, strict=strict, ballots=ballots, items_public=items_public_as_seen)
        if isinstance(data, Comparisons) and unranked == "last":
            raise ParameterError("--unranked last is for ballots: pairs that were not compared are missing")
        with progress("computing the consensus"):
            release = private_consensus(
                data,
                epsilon=epsilon,
                delta=delta,
                mechanism=mechanism,  # type: ignore[arg-type]
                unranked=unranked or "last",  # type: ignore[arg-type]
                unit=unit,  # type: ignore[arg-type]
                pairs=pairs,
                post_processing=post_processing,  # type: ignore[arg-type]
                xi=xi,
                two_stage=options,
                level=level,
                effort=effort,
                time_limit=time_limit,
                account=payment.account(),
            )
        if output_format == "json":
            text = release_to_json(release)
        elif output_format == "csv":
            text = _csv(release.value)
            note(_sentence(release))
        else:
            text = _table(release)
    write_result(text, output)


def _spans(value: Consensus) -> dict[str, tuple[int, int]]:
    """The best and the worst rank that each item may have, if intervals were asked for."""
    if value.ranks is None or value.estimate is None:
        return {}
    return dict(zip(value.estimate.items, zip(value.ranks.low, value.ranks.high, strict=True), strict=True))


def _free(value: Consensus) -> dict[str, tuple[int, int]]:
    """The ranks that orders of least cost give to items that have no place of their own."""
    return {item: (best, worst) for item, best, worst in value.undecided or ()}


def _csv(value: Consensus) -> str:
    spans, free = _spans(value), _free(value)
    header = ["rank", "item"]
    if free:
        header += ["from_rank", "to_rank"]
    if spans:
        header += ["best_rank", "worst_rank"]
    rows: list[list[object]] = []
    for rank, names in value.ranking():
        for name in names:
            ends = free.get(name, (rank, rank + len(names) - 1)) if free else ()
            rows.append([rank, name, *ends, *spans.get(name, ())])
    return write_csv(header, rows)


def _table(release: Release[Consensus]) -> str:
    spans, free = _spans(release.value), _free(release.value)
    lines = [("rank", f"{'by score  ' if spans else ''}item")]
    for rank, names in release.value.ranking():
        for name in names:
            by_score = f"{_range(*spans[name]):<8}  " if spans else ""
            lines.append((_range(*free.get(name, (rank, rank))), f"{by_score}{shown(name)}"))
    width = max(len(rank) for rank, _ in lines)
    return "\n".join([*(f"{rank:>{width}}  {rest}" for rank, rest in lines), "", _sentence(release)])


def _range(best: int, worst: int) -> str:
    return str(best) if best == worst else f"{best}-{worst}"


def _ended(value: Consensus) -> str:
    """What stopped the solver."""
    return "the time of --time-limit ran out" if value.limit == "time_limit" else "the work of --effort ran out"


def _certified(value: Consensus, certificate: Certificate, unit: str) -> str:
    """What the certificate says, in one clause."""
    from fractions import Fraction

    if certificate.closed_by == "none":
        return "noise drove the second table out of its bounds, and the ranking is a random one"
    if certificate.factor is None:
        return f"{_ended(value)} before anything was proved of the ranking"
    open_end = f"{_ended(value)}, but " if certificate.closed_by == "open" else ""
    if certificate.excess is None or certificate.level is None:
        if certificate.factor == 1:
            return "no ranking costs less on the noisy table"
        return f"{open_end}it costs at most {float(certificate.factor):.6g} times the least on the noisy table"
    more = f"{float(min(certificate.excess, Fraction(10**300))):.4g} votes"
    pairs = value.m * (value.m - 1) // 2
    if certificate.excess >= value.units * pairs:
        more += " (no bound: there are no more)"
    elif unit == "person":
        more += f" ({float(certificate.excess / value.units):.3g} of the {pairs} pairs of each person)"
    start = f"{open_end}with probability {100 * certificate.level:g}% over the noise it costs at most"
    if certificate.factor == 1:
        return f"{start} {more} more than the best ranking, whatever the people said"
    half = "" if value.estimate is None or value.estimate.answers is not None else ", with half a vote for no answer"
    return (
        f"{start} {float(certificate.factor):.6g} times the best ranking{half}, plus {more}, whatever the people said"
    )


def _sentence(release: Release[Consensus]) -> str:
    from psephos.privacy import decimal_text

    value = release.value
    units, items = units_of(release, value.units), count_of(value.m, "item")
    if value.estimate is None:
        noise = f"one ranking of {units}"
    else:
        noise = f"noise of standard deviation {value.estimate.noise.sd:.4g} votes on each margin of {units}"
    said = [f"mechanism {value.mechanism}, {noise} (their number and the list of {items}: public)"]
    if value.pairs is not None:
        said.append(f"each person counts on {count_of(value.pairs, 'pair')} at most")
    if value.ranks is not None:
        said.append(f"all ranks by mean score lie in their intervals with probability {100 * value.ranks.level:g}%")
    if value.undecided:
        said.append("where a range of ranks stands, rankings that cost as little put the item elsewhere")
    elif value.undecided is None and value.post_processing not in (None, "certified"):
        others = (
            "other rankings cost as little, and which ones"
            if value.unique is False
            else "whether others cost as little"
        )
        said.append(f"{others} was not settled")
    if value.certificate is not None:
        said.append(_certified(value, value.certificate, release.guarantee.unit))
    elif value.gap:
        table = "released table" if value.post_processing == "raw" else "post-processed release"
        end = f"within {decimal_text(value.gap)} votes of the best of the {table}"
        said.append(f"{_ended(value)}, and the ranking is {end}")
    if value.limit == "time_limit":
        said.append("--time-limit cut the solver, so the same table may be ranked otherwise another time")
    return release_sentence(release, said)
