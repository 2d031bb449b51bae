"""What a docstring must say: first whether a result is private, then what goes in and out and what is refused."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import psephos
from psephos import bootstrap, kemeny, pairwise, scores

EXACT = [
    psephos.solve,
    psephos.pairwise_margins,
    psephos.fit_scores,
    psephos.rank_intervals,
    psephos.Profile,
    psephos.Comparisons,
    psephos.PairwiseEstimate.from_data,
    pairwise.pair_counts,
    pairwise.counted_pairs,
    kemeny.kemeny_cost,
    scores.fit_wins,
    scores.rank_intervals_from_errors,
    bootstrap.simulate,
]


@pytest.mark.parametrize("public", EXACT, ids=lambda public: public.__qualname__)
def test_results_without_noise_say_in_the_first_lines_that_they_are_not_private(public):
    first = "\n".join((inspect.getdoc(public) or "").splitlines()[:4])
    assert "Not private" in first, first


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("docs/proofs/central_worst_case.md", ("Alabi", "Hillebrand")),
        ("src/psephos/central/footrule.py", ("Hillebrand",)),
        ("src/psephos/central/two_stage.py", ("Hillebrand",)),
        ("src/psephos/central/kwiksort.py", ("Alabi",)),
        ("src/psephos/central/win_vector.py", ("Cai",)),
        ("experiments/edge_dp_ranking/run.py", ("Cai",)),
    ],
)
def test_results_of_others_bear_their_names(file, names):
    text = (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
    assert all(name in text for name in names)


#: Packages whose public functions are not all written so yet; the list only shrinks.
UNFINISHED = {"psephos.bootstrap", "psephos.central", "psephos.privacy"}
#: What refuses nothing: every argument of the type gives a result.
NEVER_RAISES = {"counted_pairs", "is_secure", "margins_plain", "pair_counts", "said_counts", "write_reports"}
PACKAGES = sorted(f"psephos.{name}" for name in ("kemeny", "local", "pairwise", "profile", "report", "scores"))
PLAIN = {"bool", "float", "int", "str", "Fraction", "None"}


def public_functions():
    for package in ("psephos", *PACKAGES):
        module = importlib.import_module(package)
        for name in dict.fromkeys([*module.__all__, *getattr(module, "_SERVER", {})]):
            function = getattr(module, name)
            home = ".".join((getattr(function, "__module__", None) or "").split(".")[:2])
            if inspect.isfunction(function) and home not in UNFINISHED:
                yield pytest.param(function, id=f"{package}.{name}")


@pytest.mark.parametrize("function", list(public_functions()))
def test_public_functions_say_what_goes_in_and_out_and_what_is_refused(function):
    text = inspect.getdoc(function) or ""
    prose = text.partition(">>>")[0]
    signature = inspect.signature(function)
    assert ">>> " in text, "an example that runs"
    assert re.search(r"\w+Error\b", prose) or function.__name__ in NEVER_RAISES, "the errors, and when"
    if len(signature.parameters) > 3:
        assert "Parameters\n----------\n" in prose, "a section on parameters"
    silent = [name for name in signature.parameters if not re.search(rf"\b{name}\b", prose)]
    assert not silent, "what each parameter is, with its shape, unit and range"
    if str(signature.return_annotation) not in PLAIN:
        assert re.search(r"(Returns|Yields)\n-------?\n", prose), "a section on what is returned"
