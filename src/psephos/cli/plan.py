"""``psephos plan local``: how many people a local poll needs, or how sure it will be. Reads no data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from psephos.cli.inputs import read_scores
from psephos.cli.options import FormatOption, OutputOption
from psephos.cli.output import claimed, count_of, note, progress, write_csv, write_result

if TYPE_CHECKING:
    from psephos.local.plan import CurvePoint, PollDesign
    from psephos.local.poll import PlanGroup

__all__ = ["local"]

_SPAN = 20  # the curve goes from a twentieth to twenty times the people of the plan


def local(
    items: Annotated[int, typer.Option("--items", help="Number of items.", show_default=False)],
    epsilon: Annotated[
        str,
        typer.Option(
            "--epsilon",
            help="Privacy loss in nats: 1, or a mix with the shares of people who hold each: 1:0.6,4:0.4.",
            show_default=False,
        ),
    ],
    people: Annotated[int | None, typer.Option("--people", help="How many people: what will be reached?")] = None,
    target_error: Annotated[
        float | None, typer.Option("--target-error", help="How many people for this standard error of a score?")
    ] = None,
    target_top: Annotated[
        float | None,
        typer.Option("--target-top", help="How many people to find the best --top items with this probability?"),
    ] = None,
    target_width: Annotated[
        float | None,
        typer.Option("--target-width", help="How many people for rank intervals this wide on average (0: all sure)?"),
    ] = None,
    top: Annotated[int | None, typer.Option("--top", help="How many items are the best.")] = None,
    unit: Annotated[
        str, typer.Option("--unit", help="What epsilon protects: a person with all answers, or one comparison.")
    ] = "person",
    pairs: Annotated[
        int | None,
        typer.Option("--pairs", help="How many pairs each person answers; by default the number that is best."),
    ] = None,
    mechanism: Annotated[str, typer.Option("--mechanism", help="binary or three-outcome.")] = "binary",
    weights: Annotated[
        str, typer.Option("--weights", help="adaptive (answers of larger epsilon count more) or uniform.")
    ] = "adaptive",
    link: Annotated[str, typer.Option("--link", help="logistic (Bradley-Terry) or normal (Thurstone).")] = "logistic",
    scores_guess: Annotated[
        str | None,
        typer.Option(
            "--scores-guess",
            help="A public guess of the scores: numbers separated by commas, or a file with one a line or a column "
            "'score'. Without it, all items are taken to be equal.",
        ),
    ] = None,
    ties: Annotated[float, typer.Option("--ties", help="A public guess of the share of ties.")] = 0.0,
    answers: Annotated[
        str,
        typer.Option("--answers", help="ranking: a person answers by one ranking of their own; or independent."),
    ] = "ranking",
    level: Annotated[float, typer.Option("--level", help="Of the rank intervals, all at once.")] = 0.95,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            help="Epsilons of the trade-off, separated by commas; by default half, the same and twice.",
            show_default=False,
        ),
    ] = None,
    output_format: FormatOption = "table",
    output: OutputOption = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", help="Draw the trade-off here: .png, .svg or .pdf.", show_default=False),
    ] = None,
) -> None:
    """Plan a poll whose answers are randomised on each device: how many people, or how sure. Reads no data.

    Give --people to see what will be reached, or one target to see how many people it needs. CSV has the trade-off
    between people, epsilon and errors; tables and JSON have it beside the plan.
    """
    from psephos._check import check_choice
    from psephos._json import json_text
    from psephos.errors import ParameterError
    from psephos.local.plan import plan_local

    check_choice(output_format, "format", ("table", "csv", "json"))
    check_choice(link, "link", ("logistic", "normal"))
    goals = {
        "--people": people,
        "--target-error": target_error,
        "--target-top": target_top,
        "--target-width": target_width,
    }
    given = [name for name, value in goals.items() if value is not None]
    if len(given) != 1:
        raise ParameterError(f"give one of {', '.join(goals)}, got {' and '.join(given) or 'none'}")
    _check_picture(picture, output, scores_guess)
    mix = _mix(epsilon, "--epsilon")
    common: dict[str, Any] = {
        "unit": unit,
        "pairs": pairs,
        "mechanism": mechanism,
        "weights": weights,
        "link": link,
        "scores": None if scores_guess is None else read_scores(scores_guess),
        "ties": ties,
        "answers": answers,
    }
    with claimed(output), claimed(picture), progress("planning"):
        plan = plan_local(
            items,
            epsilon=mix,
            people=people,
            target_error=target_error,
            target_top=target_top,
            target_width=target_width,
            level=level,
            top=top,
            **common,
        )
        curve = plan.curve(_compared(mix, compare), people=_grid(plan.people))
        if picture is not None:
            _draw(plan, curve, picture)
    goal = None if given == ["--people"] else (given[0], goals[given[0]])
    if output_format == "json":
        text = json_text(_document(plan, curve, goal))
    elif output_format == "csv":
        header = ("epsilon", "people", "pairs", "score_error", "difference_error")
        rows = [(p.epsilon, p.people, " ".join(map(str, p.pairs)), p.score_error, p.difference_error) for p in curve]
        text = write_csv(header, rows)
        note(_headline(plan, goal))
    else:
        text = _table(plan, curve, goal)
    write_result(text, output)


def _check_picture(picture: Path | None, output: Path | None, guess: str | None) -> None:
    from psephos.errors import ParameterError

    if picture is not None:
        from psephos.report import check_picture

        check_picture(picture)
        if output is not None and output.resolve() == picture.resolve():
            raise ParameterError(f"--output and --picture must be different files, got {str(output)!r} for both")
    for name, path in (("--output", output), ("--picture", picture)):
        if path is not None and guess is not None and path.resolve() == Path(guess).resolve():
            raise ParameterError(f"{name} must not be {str(path)!r}, which is read")


def _mix(text: str, option: str) -> list[tuple[str, str]]:
    """``E[:SHARE],...`` as pairs; a share that is absent is 1."""
    from psephos.errors import ParameterError

    entries = []
    for part in text.split(","):
        epsilon, colon, share = part.partition(":")
        if not epsilon.strip() or (colon and not share.strip()):
            raise ParameterError(f"{option} must be E or E:SHARE, several with commas between, got {text!r}")
        if not colon and "," in text:
            raise ParameterError(f"{option} must give each epsilon of a mix its share (E:SHARE,...), got {text!r}")
        entries.append((epsilon.strip(), share.strip() or "1"))
    return entries


def _compared(mix: list[tuple[str, str]], compare: str | None) -> list[list[tuple[Any, str]]]:
    """The plan's epsilon with others: those asked for, or half and twice, all in order."""
    from fractions import Fraction

    from psephos.errors import ParameterError
    from psephos.local import device_epsilon
    from psephos.local.budget import EPSILON_HIGH, EPSILON_LOW

    exact = [(device_epsilon(epsilon), share) for epsilon, share in mix]
    if compare is None:
        scaled = [[(epsilon * factor, share) for epsilon, share in exact] for factor in (Fraction(1, 2), 1, 2)]
        return [each for each in scaled if all(EPSILON_LOW <= epsilon <= EPSILON_HIGH for epsilon, _ in each)]
    others: list[list[tuple[Any, str]]] = []
    for part in compare.split(","):
        if not part.strip():
            raise ParameterError(f"--compare must be epsilons with commas between, got {compare!r}")
        others.append([(device_epsilon(part.strip(), "--compare"), "1")])
    if exact not in others and len(mix) > 1:
        return [exact, *others]
    if [(exact[0][0], "1")] not in others:
        others.append([(exact[0][0], "1")])
    return sorted(others, key=lambda each: each[0][0])


def _grid(people: int) -> list[int]:
    """1, 2 and 5 times powers of ten around ``people``, and ``people`` itself.

    >>> _grid(700)
    [50, 100, 200, 500, 700, 1000, 2000, 5000, 10000]
    """
    from psephos.local.targets import MOST_PEOPLE

    low, high = max(people // _SPAN, 1), min(people * _SPAN, MOST_PEOPLE)
    numbers = {step * 10**power for power in range(len(str(high)) + 1) for step in (1, 2, 5)}
    return sorted({number for number in numbers if low <= number <= high} | {people})


def _draw(plan: PollDesign, curve: tuple[CurvePoint, ...], picture: Path) -> None:
    from psephos.report import TradeOffLine, plot_tradeoff

    lines = []
    for epsilon in dict.fromkeys(point.epsilon for point in curve):
        points = [point for point in curve if point.epsilon == epsilon]
        each = " and ".join(dict.fromkeys(str(k) for k in points[0].pairs))
        lines.append(
            TradeOffLine(
                label=f"epsilon {_short(epsilon)}; {each} pair{'' if each == '1' else 's'} each",
                people=tuple(point.people for point in points),
                errors=tuple(point.score_error for point in points),
            )
        )
    plot_tradeoff(
        lines,
        picture,
        error=f"standard error of a score ({_scale(plan)})",
        title=f"{plan.items} items, epsilon for each {plan.unit}",
        mark=(plan.people, plan.score_error),
    )


def _scale(plan: PollDesign) -> str:
    return "log-odds" if plan.link == "logistic" else "standard normal units"


def _short(epsilon: str) -> str:
    """A mix for the eye.

    >>> _short("1:0.6,4:0.4"), _short("0.5"), _short("1:1/3,2:2/3")
    ('1 (60%), 4 (40%)', '0.5', '1 (33%), 2 (67%)')
    """
    from fractions import Fraction

    if ":" not in epsilon:
        return epsilon
    parts = [part.partition(":") for part in epsilon.split(",")]
    return ", ".join(f"{value} ({float(100 * Fraction(share)):.2g}%)" for value, _, share in parts)


def _headline(plan: PollDesign, goal: tuple[str, Any] | None) -> str:
    """People, items, epsilon and why so many."""
    from psephos.local.mix import epsilons_text

    epsilon = _short(epsilons_text([(group.epsilon, group.share) for group in plan.groups]))
    text = f"{count_of(plan.people, 'person', 'people')}, {plan.items} items, epsilon {epsilon} for each {plan.unit}"
    if goal is None:
        return text + "."
    name, value = goal
    reason = {
        "--target-error": f"a standard error of a score of at most {value:g}",
        "--target-top": f"the best {plan.top} to be found with probability {value:g}",
        "--target-width": f"rank intervals at most {value:g} wide on average",
    }[name]
    return f"{text}: the fewest for {reason}."


def _table(plan: PollDesign, curve: tuple[CurvePoint, ...], goal: tuple[str, Any] | None) -> str:
    every = plan.items * (plan.items - 1) // 2
    rows = [
        (
            "each person answers" if len(plan.groups) == 1 else f"{float(100 * group.share):.3g}% of people answer",
            _asked(plan, group, every),
        )
        for group in plan.groups
    ]
    rows += [
        ("answers of a pair", f"{plan.answers_per_pair:.3g}"),
        ("standard error of a score", f"{plan.score_error:.3g} ({_scale(plan)}, about the mean of all)"),
        ("of a difference of two", f"{plan.difference_error:.3g}"),
        (
            f"rank intervals ({100 * plan.level:g}%)",
            f"{plan.rank_width:.3g} wide on average (0: rank sure, {plan.items - 1}: nothing known), all at once",
        ),
    ]
    if plan.top is not None:
        chance = (
            f"found with probability {plan.top_chance:.3g}"
            if plan.top_chance is not None
            else "undefined: the scores guessed do not tell them apart from the rest (--scores-guess)"
        )
        rows.append((f"the best {plan.top}", chance))
    rows.append(
        ("cost of privacy", f"{plan.variance_factor:.3g} times the variance of plain answers, on the same pairs")
    )
    if plan.all_pairs_factor is not None and any(group.pairs < every for group in plan.groups):
        rows.append((f"answering all {every} pairs", f"would take {plan.all_pairs_factor:.3g} times as many people"))
    rows.append(("three outcomes or two", _outcomes(plan)))
    width = max(len(name) for name, _ in rows)
    lines = [_headline(plan, goal), "", *(f"{name:<{width}}  {text}" for name, text in rows), ""]
    lines += _curve_lines(curve)
    lines += ["", "Assumed: " + "; ".join(plan.assumptions()) + ". No data was read."]
    if plan.rough:
        lines.append("So few people make the prediction rough: real errors are larger, now and then much larger.")
    return "\n".join(lines)


def _asked(plan: PollDesign, group: PlanGroup, every: int) -> str:
    from psephos.local import epsilon_text

    text = f"{count_of(group.pairs, 'pair')} of {every}, drawn at random"
    if plan.unit == "person":
        text += f"; epsilon {epsilon_text(group.epsilon_answer)} for each, {epsilon_text(group.epsilon)} in all"
    else:
        text += (
            f"; epsilon {epsilon_text(group.epsilon)} for each, which is {epsilon_text(group.epsilon_person)} a person"
        )
    if len(plan.groups) > 1:
        text += f"; an answer counts {group.weight:.3g}"
    return text


def _outcomes(plan: PollDesign) -> str:
    factor = plan.three_outcome_factor
    better, worse = ("three-outcome", "binary") if factor > 1 else ("binary", "three-outcome")
    more = f"{max(factor, 1 / factor):.3g} times as many people"
    return f"{better} is better at {plan.ties:.0%} ties: {worse} would take {more}"


def _curve_lines(curve: tuple[CurvePoint, ...]) -> list[str]:
    """Standard errors of a score, a row a number of people, a column an epsilon."""
    epsilons = list(dict.fromkeys(point.epsilon for point in curve))
    heads = [f"epsilon {_short(epsilon)}" for epsilon in epsilons]
    errors = {(point.epsilon, point.people): f"{point.score_error:.3g}" for point in curve}
    numbers = list(dict.fromkeys(point.people for point in curve))
    first = max(len(str(number)) for number in [*numbers, "people"])
    lines = [
        "standard error of a score by people and epsilon",
        f"{'people':>{first}}  " + "  ".join(heads),
    ]
    for number in numbers:
        cells = [f"{errors[epsilon, number]:>{len(head)}}" for epsilon, head in zip(epsilons, heads, strict=True)]
        lines.append(f"{number:>{first}}  " + "  ".join(cells))
    return lines


def _document(plan: PollDesign, curve: tuple[CurvePoint, ...], goal: tuple[str, Any] | None) -> dict[str, Any]:
    """``psephos.plan/1``: what the plan holds under the names that it has, exact numbers as text."""
    from fractions import Fraction

    from psephos.local import epsilon_text

    def facts(*names: str) -> dict[str, Any]:
        return {name: getattr(plan, name) for name in names}

    def entries(part: Any) -> dict[str, Any]:
        return {k: epsilon_text(v) if isinstance(v, Fraction) else v for k, v in asdict(part).items()}

    return {
        "schema": "psephos.plan/1",
        "kind": "local",
        **facts("items", "people"),
        "target": None if goal is None else {goal[0].removeprefix("--target-"): goal[1]},
        **facts("unit", "mechanism", "weights", "link", "answers", "ties"),
        "scores_guess": None if plan.equal else plan.scores,
        "groups": [entries(group) for group in plan.groups],
        **facts("answers_per_pair", "variance_factor", "score_error"),
        "score_errors": None if plan.equal else plan.score_errors,
        **facts("difference_error", "level", "rank_width", "rank_quantile", "top", "top_chance"),
        **facts("all_pairs_factor", "three_outcome_factor", "rough"),
        "assumptions": plan.assumptions(),
        "curve": [entries(point) for point in curve],
    }
