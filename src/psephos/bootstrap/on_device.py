"""Records and gradients as compiled programs see them: nothing about the program may depend on the data.

* Types of arrays follow the loss, not the data; a number beyond single precision becomes an infinity, and nothing is
  said.
* A gradient that is not one of this package's sees one record at a time, whatever its author makes of a batch: a
  record can then move no other record's part of a sum.
* Programs run on the CPU, where a record's numbers do not depend on its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from psephos.bootstrap.losses import SHIPPED, Loss, Records
from psephos.errors import ParameterError

__all__ = ["check_gradient", "cpu", "device_records", "row_gradient"]


def cpu() -> Any:
    """A context in which arrays and programs belong to the CPU."""
    return jax.default_device(jax.devices("cpu")[0])


def device_records(records: Records, loss: Loss, *, padded: bool) -> tuple[jax.Array, ...]:
    """Records in single precision, whole numbers in 32 bits; ``padded`` adds a row of zeros for empty places."""
    whole = loss.whole_columns
    return tuple(_single(column, whole=i in whole, padded=padded) for i, column in enumerate(records))


def _single(column: NDArray[Any], *, whole: bool, padded: bool) -> jax.Array:
    with np.errstate(over="ignore", invalid="ignore"):
        single = column.astype(np.int32 if whole else np.float32)
    return jnp.asarray(np.concatenate([single, np.zeros_like(single[:1])]) if padded else single)


def row_gradient(loss: Loss) -> Callable[[Any, Any, Any], Any]:
    """``gradient(theta, records, level)`` of shape ``(n, d)`` whose rows depend on their own record alone."""
    if type(loss) in SHIPPED:  # rows are tested not to mix
        return loss.gradient

    def one(theta: Any, record: Any, level: Any) -> Any:
        return loss.gradient(theta, tuple(column[None] for column in record), level)[0]

    return jax.vmap(one, in_axes=(None, 0, None))


def check_gradient(loss: Loss, records: Records) -> None:
    """Refuse a loss that cannot be trained with records of these shapes: no number of theirs is looked at.

    Raises
    ------
    ParameterError
        if the gradient is not real of shape ``(n, d)``, or cannot be traced, or the loss cannot be hashed.
    """
    d = len(loss.names)
    try:
        hash(loss)
        whole = loss.whole_columns
        shapes = tuple(
            _shape((3, *column.shape[1:]), jnp.int32 if i in whole else jnp.float32) for i, column in enumerate(records)
        )
        with jax.enable_x64():
            found = jax.eval_shape(row_gradient(loss), _shape((d,), jnp.float32), shapes, _shape((), jnp.float32))
        fits = found.shape == (3, d) and jnp.issubdtype(found.dtype, jnp.floating)
    except Exception as error:
        raise ParameterError(
            f"the loss does not take records of shapes {[column.shape for column in records]}: {error}"
        ) from error
    if not fits:
        raise ParameterError(f"the gradient must be real with one row a record and {d} columns, got {found}")


def _shape(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]
