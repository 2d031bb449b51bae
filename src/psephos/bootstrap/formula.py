"""Regression formulas: a response and the names of covariates, nothing that would read the data.

    formula   = name "~" ["+" | "-"] term {("+" | "-") term}
    term      = name | "0" | "1"        "- 1" and "+ 0" leave the intercept out; "-" goes with 1 alone
    name      = letters, digits, "_", "." (first a letter or "_")  |  "`" anything else "`"

Functions and interactions are refused on purpose. Formula libraries look at a column to find its levels, knots or
centre, and what they find shapes the design: a private fact, outside any budget. A column computed beforehand by a
public rule, with public bounds, can be named here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from psephos.errors import ParameterError

__all__ = ["Formula", "parse_formula"]

_TOKEN = re.compile(r"`(?P<quoted>[^`]*)`|(?P<name>[^\W\d][\w.]*)|(?P<number>\d[\w.]*)|(?P<sign>[+\-~])")
_ALLOWED = "a formula is 'response ~ name + name', with '- 1' or '+ 0' for no intercept"
_WHY = (
    "functions and interactions are refused, for working out levels, knots or centres would read the data: "
    "compute such a column by a public rule first, and name it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """What a formula says: the response, the covariates in their order, and whether there is an intercept."""

    response: str
    covariates: tuple[str, ...]
    intercept: bool


def parse_formula(text: str) -> Formula:
    """Read ``"response ~ name + name"``.

    Raises
    ------
    ParameterError
        showing the formula, the 1-based position and the rule.

    >>> parse_formula("log_wage ~ educ + exper + black")
    Formula(response='log_wage', covariates=('educ', 'exper', 'black'), intercept=True)
    >>> parse_formula("y ~ `birth weight (g)` - 1")
    Formula(response='y', covariates=('birth weight (g)',), intercept=False)
    """
    if not isinstance(text, str):
        raise ParameterError(f"formula must be text like 'y ~ a + b', got {text!r}")
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = re.sub(r"\s", " ", text)
        self.tokens = self._tokens()
        self.next = 0

    def fail(self, rule: str, at: int) -> ParameterError:
        return ParameterError(f"formula, position {at + 1}: {rule}\n    {self.text}\n    {' ' * at}^")

    def _tokens(self) -> list[tuple[str, str, int]]:
        found, at = [], 0
        while at < len(self.text):
            if self.text[at] == " ":
                at += 1
                continue
            match = _TOKEN.match(self.text, at)
            if match is None:
                mark = self.text[at]
                raise self.fail("a backtick is not closed" if mark == "`" else f"unexpected {mark!r}; {_WHY}", at)
            kind = str(match.lastgroup)
            found.append((kind, match[kind], at))
            at = match.end()
        return found

    def _peek(self) -> tuple[str, str, int]:
        return self.tokens[self.next] if self.next < len(self.tokens) else ("end", "", len(self.text))

    def _take(self, what: str, *kinds: str) -> tuple[str, str, int]:
        kind, value, at = self._peek()
        if kind not in kinds:
            raise self.fail(f"{what} is wanted, got {repr(value) if kind != 'end' else 'the end'}; {_ALLOWED}", at)
        if kind == "quoted" and not value.strip():
            raise self.fail("a name is empty", at)
        self.next += 1
        return kind, value, at

    def read(self) -> Formula:
        _, response, _ = self._take("a response", "name", "quoted")
        covariates: list[str] = []
        intercept: bool | None = None
        sign = "~"
        self._sign("'~'", "~")
        if self._peek()[0] == "sign" and self._peek()[1] != "~":
            sign = self._sign("a name", "+-")
        while True:
            kind, value, at = self._take("a name, 0 or 1", "name", "quoted", "number")
            if kind == "number":
                if value not in ("0", "1") or (sign == "-" and value == "0"):
                    raise self.fail(f"a number must be '+ 1', '- 1' or '+ 0', got {value!r}; {_ALLOWED}", at)
                wanted = value == "1" and sign != "-"
                if intercept is not None:
                    raise self.fail("the intercept is spoken of twice", at)
                intercept = wanted
            elif sign == "-":
                raise self.fail(f"only 1 can be taken out, got {value!r}; {_ALLOWED}", at)
            elif value == response or value in covariates:
                raise self.fail(f"{value!r} occurs twice", at)
            else:
                covariates.append(value)
            if self._peek()[0] == "end":
                break
            sign = self._sign("'+' or '-'", "+-")
        if not covariates and intercept is False:
            raise self.fail("nothing is left to estimate", len(self.text))
        return Formula(response=response, covariates=tuple(covariates), intercept=intercept is not False)

    def _sign(self, what: str, allowed: str) -> str:
        _, value, at = self._take(what, "sign")
        if value not in allowed:
            raise self.fail(f"{what} is wanted, got {value!r}; {_ALLOWED}", at)
        return value
