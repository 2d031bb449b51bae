"""Designs: formulas, public bounds, scaled columns and back, columns from CSV."""

import gzip
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from psephos.bootstrap.columns import number_column
from psephos.bootstrap.design import Design, Formula, parse_formula, read_columns_csv
from psephos.errors import DataError, ParameterError

many = settings(max_examples=100, deadline=None, derandomize=True)

CENSUS = {"educ": (5, 20), "exper": (14, 38), "black": (0, 1)}


# --- formulas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "response", "covariates", "intercept"),
    [
        ("log_wage ~ educ + exper + black", "log_wage", ("educ", "exper", "black"), True),
        ("y~a", "y", ("a",), True),
        ("y ~ a - 1", "y", ("a",), False),
        ("y ~ a + 0", "y", ("a",), False),
        ("y ~ 0 + a + b", "y", ("a", "b"), False),
        ("y ~ -1 + a", "y", ("a",), False),
        ("y ~ 1 + a", "y", ("a",), True),
        ("y ~ + a + 1", "y", ("a",), True),
        ("y ~ 1", "y", (), True),
        ("y ~\n\ta", "y", ("a",), True),
        ("log.y ~ x.1 + _z", "log.y", ("x.1", "_z"), True),
        ("`birth weight (g)` ~ `a+b` + größe", "birth weight (g)", ("a+b", "größe"), True),
    ],
)
def test_formulas_that_are_read(text, response, covariates, intercept):
    assert parse_formula(text) == Formula(response=response, covariates=covariates, intercept=intercept)


@pytest.mark.parametrize(
    ("text", "position", "rule"),
    [
        ("y ~ log(a)", 8, "functions and interactions are refused"),
        ("y ~ a:b", 6, "unexpected ':'"),
        ("y ~ a*b", 6, "would read the data"),
        ("y ~ a^2", 6, "unexpected '^'"),
        ("y ~ .", 5, "unexpected '.'"),
        ("y ~ a b", 7, "'+' or '-' is wanted, got 'b'"),
        ("y ~ a +", 8, "a name, 0 or 1 is wanted, got the end"),
        ("y ~", 4, "a name, 0 or 1 is wanted, got the end"),
        ("y", 2, "'~' is wanted, got the end"),
        ("", 1, "a response is wanted, got the end"),
        ("~ a", 1, "a response is wanted, got '~'"),
        ("y + a", 3, "'~' is wanted, got '+'"),
        ("y ~ a ~ b", 7, "'+' or '-' is wanted, got '~'"),
        ("y ~ ~ a", 5, "a name, 0 or 1 is wanted, got '~'"),
        ("y ~ a + + b", 9, "a name, 0 or 1 is wanted, got '+'"),
        ("y ~ a - b", 9, "only 1 can be taken out, got 'b'"),
        ("y ~ a - 0", 9, "a number must be '+ 1', '- 1' or '+ 0', got '0'"),
        ("y ~ 2 + a", 5, "a number must be"),
        ("y ~ 1.0 + a", 5, "a number must be"),
        ("y ~ 1a", 5, "a number must be"),
        ("y ~ a + a", 9, "'a' occurs twice"),
        ("y ~ y", 5, "'y' occurs twice"),
        ("y ~ 1 + a - 1", 13, "the intercept is spoken of twice"),
        ("y ~ 0", 6, "nothing is left to estimate"),
        ("y ~ `a", 5, "a backtick is not closed"),
        ("y ~ ``", 5, "a name is empty"),
        ("1 ~ a", 1, "a response is wanted, got '1'"),
    ],
)
def test_formulas_that_are_refused_show_where(text, position, rule):
    with pytest.raises(ParameterError) as error:
        parse_formula(text)
    message = str(error.value)
    assert f"position {position}: " in message
    assert rule in message
    shown, mark = message.splitlines()[-2:]
    assert shown == f"    {text}"
    assert mark == " " * (4 + position - 1) + "^"


def test_a_formula_is_text():
    with pytest.raises(ParameterError, match="formula must be text like"):
        parse_formula(None)


@many
@given(st.text(alphabet="ya1 0+-~`.:(", max_size=12))
def test_any_text_is_read_or_refused(text):
    try:
        formula = parse_formula(text)
    except ParameterError:
        return
    assert formula.covariates or formula.intercept


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_q7_bounds_are_required():
    with pytest.raises(ValueError, match="bounds are required for 'educ'"):
        Design(response="logwk", covariates=("educ",))
    with pytest.raises(ValueError, match="bounds are required for 'black'"):
        Design.from_formula("logwk ~ educ + black", bounds={"educ": (5, 20)})
    with pytest.raises(TypeError, match="bounds"):
        Design.from_formula("logwk ~ educ")
    unbounded = Design.from_formula("logwk ~ educ", bounds={"educ": (5, 20)})
    for box in (unbounded.coefficient_box, unbounded.scale_box):
        with pytest.raises(ParameterError, match="bounds are required for 'logwk'"):
            box()


def test_q7_values_outside_are_clipped_without_a_word(recwarn, capsys):
    design = Design.from_formula("y ~ a", bounds={"a": (0, 10), "y": (-1, 1)})
    x, y = design.records({"y": [-7, 0, 7], "a": [-7, 5, 70]})
    assert x.tolist() == [[1, 0], [1, 0.5], [1, 1]]
    assert y.tolist() == [-1, 0, 1]
    assert not recwarn.list
    assert capsys.readouterr() == ("", "")
    assert not [name for name in dir(design) if "clip" in name]


@pytest.mark.parametrize(
    "pair", [(10, -1), (5, 5), (math.nan, 1), (1, math.nan), (0, math.inf), (0, 1e-200), "05", 3, (1,)]
)
def test_p18_bounds_inverted_equal_or_nan(pair):
    for name in ("a", "y"):
        with pytest.raises(ParameterError, match=f"bounds of '{name}' must be"):
            Design(response="y", covariates=("a",), bounds={"a": (0, 1), name: pair})


def test_p18_asymmetric_bounds_are_not_made_symmetric():
    """(90, 100) scales to the unit box; only ``none`` pays for the distance from 0."""
    design = Design(response="y", covariates=("a",), bounds={"a": (90, 100)})
    assert math.isclose(design.covariate_bound, math.sqrt(2), rel_tol=1e-14)
    bare = Design(response="y", covariates=("a",), bounds={"a": (90, 100)}, scaling="none")
    assert math.isclose(bare.covariate_bound, math.hypot(1, 100), rel_tol=1e-14)
    lopsided = Design(response="y", covariates=("a",), bounds={"a": (-1, 10)}, scaling="none", intercept=False)
    assert math.isclose(lopsided.covariate_bound, 10, rel_tol=1e-14)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scaling": "standard"}, "scaling must be one of unit, symmetric, auto, none, got 'standard'"),
        ({"response_kind": "count"}, "response_kind must be one of real, binary"),
        ({"response": ""}, "response must be"),
        ({"response": "a"}, "covariates must not hold the response, got 'a'"),
        ({"covariates": ("a", "a")}, "'a' twice"),
        ({"covariates": ("intercept",), "bounds": {"intercept": (0, 1)}}, "'intercept' twice"),
        ({"covariates": (), "bounds": {}, "intercept": False}, "intercept and covariates must be"),
        ({"intercept": 1}, "intercept must be True or False, got 1"),
        ({"bounds": [("a", 0, 1)]}, "bounds must map each column"),
        ({"bounds": {"a": (0, 1), "b": (0, 1)}}, "bounds must be of columns of this design .y, a., got 'b'"),
        ({"response_scale": 0}, "response_scale must be"),
        ({"response_scale": math.nan}, "response_scale must be"),
        ({"response_kind": "binary", "response_scale": 2}, "response_scale must be 1 for a binary response, got 2"),
        ({"response_kind": "binary", "bounds": {"a": (0, 1), "y": (0, 2)}}, "bounds of a binary response must be"),
    ],
)  # fmt: skip
def test_what_a_design_refuses(changed, message):
    with pytest.raises(ParameterError, match=message):
        Design(**{"response": "y", "covariates": ("a",), "bounds": {"a": (0, 1)}} | changed)


def test_a_design_pickles_and_compares():
    design = Design.from_formula("logwk ~ educ + exper + black", bounds=CENSUS)
    assert pickle.loads(pickle.dumps(design)) == design
    assert design.names == ("intercept", "educ", "exper", "black")
    assert math.isclose(design.covariate_bound, 2, rel_tol=1e-14)
    assert design.response_bounds is None


# --- scaling ----------------------------------------------------------------------------------------------------------

ends = st.tuples(st.floats(-1e4, 1e4), st.floats(1e-3, 1e4)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@many
@given(
    bounds=st.lists(ends, min_size=1, max_size=4),
    intercept=st.booleans(),
    scaling=st.sampled_from(["unit", "symmetric", "auto", "none"]),
    values=st.lists(st.floats(-1e5, 1e5), min_size=4, max_size=4),
)
@example(bounds=[(0.1, 0.7), (-0.3, 0.1)], intercept=True, scaling="symmetric", values=[9, 9, 9, 9])
def test_no_scaled_vector_is_longer_than_its_bound(bounds, intercept, scaling, values):
    """Exactly, in rationals, also at the corners of the box and far outside."""
    names = tuple("abcd"[: len(bounds)])
    public = dict(zip(names, bounds, strict=True))
    design = Design(response="y", covariates=names, bounds=public, intercept=intercept, scaling=scaling)
    rows = [values[: len(bounds)], [low for low, _ in bounds], [high for _, high in bounds], [-1e300] * len(bounds)]
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    x, _ = design.records(columns | {"y": np.zeros(len(rows))})
    assert x.shape == (4, len(design.names))
    for row in x:
        assert sum(Fraction(v) ** 2 for v in row) <= Fraction(design.covariate_bound) ** 2
    if scaling != "none":
        slack = 1e-8  # doubles, where the bounds lie far from zero for their distance
        low = 0 if scaling == "unit" and intercept else -1
        assert (x >= low - slack).all()
        assert (x <= 1 + slack).all()
        assert math.isclose(design.covariate_bound, math.sqrt(len(design.names)), rel_tol=slack)


@many
@given(
    seed=st.integers(0, 2**32 - 1),
    intercept=st.booleans(),
    scaling=st.sampled_from(["unit", "symmetric", "auto", "none"]),
    scale=st.sampled_from([1.0, 500.0, 0.01]),
)
def test_predictions_agree_in_original_units(seed, intercept, scaling, scale):
    rng = np.random.default_rng(seed)
    low = rng.uniform(-50, 50, 3)
    bounds = {
        name: (a, a + w) for name, a, w in zip("abc", low.tolist(), rng.uniform(0.1, 60, 3).tolist(), strict=True)
    }
    design = Design(response="y", covariates=tuple("abc"), bounds=bounds, intercept=intercept, scaling=scaling,
                    response_scale=scale)  # fmt: skip
    columns = {name: rng.uniform(*pair, 20) for name, pair in bounds.items()} | {"y": rng.normal(size=20)}
    x, y = design.records(columns)
    np.testing.assert_allclose(y * scale, columns["y"], rtol=1e-15)
    theta = rng.normal(0, 3, (5, 2, len(design.names)))
    original = design.original_units(theta)
    assert original.shape == theta.shape
    raw = np.column_stack(([np.ones(20)] if intercept else []) + [columns[name] for name in "abc"])
    size = np.abs(original) @ np.abs(raw).T
    assert np.all(np.abs(original @ raw.T - scale * (theta @ x.T)) <= 1e-12 * (1 + size))


def test_original_units_of_a_scale_and_wrong_shapes():
    design = Design(response="y", covariates=("a",), bounds={"a": (2, 6)}, response_scale=500)
    assert design.original_units([[1.0, 2.0, 0.5]], with_scale=True).tolist() == [[0.0, 250.0, 250.0]]
    given = np.array([1.0, 2.0])
    design.original_units(given)
    assert given.tolist() == [1.0, 2.0]
    for values in (3.0, [1.0], [1.0, 2.0, 3.0]):
        with pytest.raises(ParameterError, match="values must have 2 numbers along the last axis"):
            design.original_units(values)


def test_boxes_come_from_public_bounds():
    public = CENSUS | {"logwk": (4, 9)}
    unit = Design.from_formula("logwk ~ educ", bounds={k: public[k] for k in ("educ", "logwk")})
    assert unit.coefficient_box() == ((-1, 14), (-5, 5))
    assert unit.coefficient_box(reach=2) == ((-6, 19), (-10, 10))
    symmetric = Design.from_formula("logwk ~ educ - 1", bounds={"educ": (-2, 2), "logwk": (4, 9)}, scaling="symmetric")
    assert symmetric.coefficient_box() == ((-2.5, 2.5),)
    grams = Design.from_formula("g ~ a", bounds={"a": (0, 1), "g": (0, 5000)}, response_scale=500)
    assert grams.response_bounds == (0, 10)
    assert grams.scale_box() == (0.00001, 10)
    binary = Design(response="y", covariates=("a",), bounds={"a": (0, 1)}, response_kind="binary")
    assert binary.response_bounds == (0, 1)
    with pytest.raises(ParameterError, match="reach must be"):
        unit.coefficient_box(reach=0)


# --- records ----------------------------------------------------------------------------------------------------------


def simple(**changed):
    return Design(**{"response": "y", "covariates": ("a",), "bounds": {"a": (0, 1)}} | changed)


def test_records_take_lists_booleans_and_whole_numbers():
    x, y = simple().records({"y": [1, 2], "a": np.array([True, False]), "unused": ["x", None]})
    assert x.tolist() == [[1, 1], [1, 0]]
    assert x.dtype == y.dtype == np.float64
    x, _ = simple(bounds={"a": (0, 2**70)}).records({"y": [0], "a": [2**70]})
    assert x.tolist() == [[1, 1]]
    x, _ = Design(response="y", covariates=()).records({"y": [3, 4, 5]})
    assert x.tolist() == [[1], [1], [1]]


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ([0.5, math.nan], "nan"),
        ([0.5, math.inf], "inf"),
        ([0.5, None], "None"),
        ([0.5, "0.5"], "'0.5'"),
        ([0.5, 10**400], "10000"),
        ([0.5, 1j], "1j"),
        (np.array([0.5, np.nan], dtype=object), "nan"),
        (np.array(["0.5", "x"]), "'0.5'"),
        ([0.5, "x" * 100], "'xxx"),
    ],
)
def test_values_that_are_no_finite_numbers_name_column_and_row(column, shown):
    row = 1 if isinstance(column, np.ndarray) and column.dtype.kind == "U" else 2
    with pytest.raises(DataError, match=f"^row:{row}: column 'a' must be a finite number, got ") as error:
        simple().records({"y": [1, 2], "a": column})
    assert shown in str(error.value)
    assert len(str(error.value)) < 130


@pytest.mark.parametrize("column", [[], [[1.0], [2.0]], 3.0, [[1], [2, 3]]])
def test_columns_have_one_dimension(column):
    with pytest.raises(ParameterError, match="column 'a' must be a one-dimensional column of numbers"):
        number_column(column, "a")


def test_columns_absent_or_of_different_length():
    with pytest.raises(ParameterError, match="columns must hold y, a; 'a' is absent"):
        simple().records({"y": [1]})
    with pytest.raises(ParameterError, match="columns must have one length: 'y' has 1, 'a' 2"):
        simple().records({"y": [1], "a": [0, 1]})


def test_a_binary_response_is_0_or_1_at_ingest():
    design = simple(response_kind="binary")
    assert design.records({"y": [0, 1], "a": [0, 1]})[1].tolist() == [0, 1]
    with pytest.raises(DataError, match=r"row:2: column 'y' must be 0 or 1, got 0\.5"):
        design.records({"y": [0, 0.5], "a": [0, 1]})


def test_records_of_any_finite_value_are_finite():
    x, y = simple(response_scale=1e-100).records({"y": [1e308, -1e308], "a": [1e308, -1e308]})
    assert np.isfinite(x).all()
    assert np.isfinite(y).all()


# --- CSV --------------------------------------------------------------------------------------------------------------

WAGES = "id,logwk,educ\nr1,6.96916,16\nr2,-1e-3, 12 \n"


@pytest.mark.parametrize("zipped", [False, True])
def test_columns_from_csv(put, zipped):
    content = WAGES.encode()
    path = put("wages.csv.gz" if zipped else "wages.csv", gzip.compress(content) if zipped else content)
    got = read_columns_csv(path, ["educ", "logwk"])
    assert list(got) == ["educ", "logwk"]
    assert got["educ"].tolist() == [16, 12]
    assert got["logwk"].tolist() == [6.96916, -0.001]


@pytest.mark.parametrize(
    "text", ["a;b\n1;2\n", "a\tb\n1\t2\n", "\ufeffa,b\r\n1,2\r\n", "a,b\n1,2", "\n\na,b\n\n1,2\n\n"]
)
def test_dialects_of_csv(put, text):
    assert {k: v.tolist() for k, v in read_columns_csv(put("t.csv", text)).items()} == {"a": [1], "b": [2]}


@pytest.mark.parametrize(
    "cell", ["", "NA", "nan", "inf", "-Infinity", "1_000", "1e999", "x", "\u0663", "0x1f", '"1,5"']
)
@pytest.mark.parametrize("zipped", [False, True])
def test_cells_that_are_no_finite_numbers_name_file_line_column_and_value(put, cell, zipped):
    content = f"a,b\n1,2\n3,{cell}\n".encode()
    name = "t.csv.gz" if zipped else "t.csv"
    with pytest.raises(DataError, match="column 'b' must be a finite number, got ") as error:
        read_columns_csv(put(name, gzip.compress(content) if zipped else content))
    assert str(error.value).startswith(f"{name}:3: ")
    assert repr(cell.strip('"')) in str(error.value)
    assert (error.value.source, error.value.line) == (name, 3)


def test_other_columns_may_hold_anything(put):
    path = put("t.csv", 'who,a\n"Ana\nMaria",1\nBo,nan\n')
    with pytest.raises(DataError, match=r"^t.csv:4: column 'a'"):
        read_columns_csv(path, ["a"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n", "no rows below the header; columns found: a, b"),
        ("a,b\n1\n", "t.csv:2: a row must have 2 cells, got 1"),
        ("a,a\n1,2\n", "column 'a' occurs twice"),
        ("c,b\n1,2\n", "t.csv:1: no column 'a'; columns found: c, b; wanted: a, b"),
        (b"a,b\n1,\xff\n", "is not UTF-8"),
        (gzip.compress(b"a,b\n1,\xff\n", mtime=0), "is not UTF-8"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 50, mtime=0)[:-9], "damaged or cut short"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-8] + b"\0" * 8, "damaged or cut short"),
    ],
)
def test_files_that_are_refused(put, content, message):
    with pytest.raises(DataError, match=message):
        read_columns_csv(put("t.csv", content), ["a", "b"])


@pytest.mark.parametrize("names", ["ab", [], ["a", "a"]])
def test_names_wanted_are_different(put, names):
    with pytest.raises(ParameterError, match="names must be a sequence of different column names"):
        read_columns_csv(put("t.csv", "a,b\n1,2\n"), names)


@many
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_csv_loses_no_digit(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("digits") / "t.csv"
    path.write_text("a,b\n" + "".join(f"{number!r},0\n" for number in numbers))
    assert read_columns_csv(path, ["a"])["a"].tolist() == numbers


def test_every_fault_of_a_table_of_records_is_told_at_once(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("wage,educ,name\n1,x,ann\n2,3,bo\n1\n,inf,cy\n")
    with pytest.raises(DataError) as caught:
        read_columns_csv(path, ["wage", "educ"])
    assert [line for line, _ in caught.value.faults] == [2, 4, 5, 5]
