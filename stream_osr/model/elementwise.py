"""Logarithms and exponentials of whole arrays, in loops that the compiler turns into vector instructions.

A call of the mathematical library cannot be vectorised. It takes 5 to 10 ns for each number, and these loops take
about 1 ns. Both functions are accurate to a few units in the last place. They give the same bits on all processors of
the same kind.
"""

from __future__ import annotations

import numpy as np

from stream_osr.model.jit import Array, fused_called_kernel, kernel, unrolled_kernel

LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""log 2 in two parts. The first has enough trailing zeros for an exact product with an exponent."""
LOG2_E = 1.4426950408889634
TO_INTEGER = 6755399441055744.0
"""Constant 1.5 * 2^52: adding and subtracting it rounds a double to the nearest whole number."""
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2) as a double."""
SMALLEST_EXPONENT = -708.0
"""Exponent below which the exponential is set to zero, because it is no normal number."""


@kernel
def log_each(values: Array) -> None:
    """Replace positive normal numbers by their natural logarithms in a contiguous array of shape (n,)."""
    log_each_using(np.empty(values.shape[0]), values)


@fused_called_kernel
def log_each_using(exponent: Array, values: Array) -> None:
    """Do the work of :func:`log_each` with given scratch space for n numbers.

    With ``value = 2^k (1 + f)``, ``1 + f`` between sqrt(1/2) and sqrt(2), ``s = f / (2 + f)``:
    ``log(1 + f) = 2 artanh(s)``. A polynomial in s^2 (that of FreeBSD's ``e_log.c``) replaces its series.
    """
    n = values.shape[0]
    bits = values.view(np.int64)
    for i in range(n):
        k = (bits[i] - SQRT_HALF_BITS) >> 52
        exponent[i] = k
        bits[i] -= k << 52
    for i in range(n):
        k = exponent[i]
        f = values[i] - 1.0
        s = f / (2.0 + f)
        z = s * s
        w = z * z
        even = w * (0.3999999999940941908 + w * (0.2222219843214978396 + w * 0.1531383769920937332))
        odd = z * (
            0.6666666666666735130
            + w * (0.2857142874366239149 + w * (0.1818357216161805012 + w * 0.1479819860511658591))
        )
        half = 0.5 * f * f
        values[i] = k * LN2_HIGH - ((half - (s * (half + even + odd) + k * LN2_LOW)) - f)


@kernel
def exp_each(values: Array) -> None:
    """Replace numbers of at most 709 by their exponentials in a contiguous array of shape (n,)."""
    exp_each_using(np.empty(values.shape[0], np.int64), values)


@fused_called_kernel
def exp_each_using(power: Array, values: Array) -> None:
    """Do the work of :func:`exp_each` with given scratch space for n whole numbers.

    With ``value = k log 2 + r``, r at most half of log 2, the exponential of r is its Taylor series to r^13. The next
    term is below 1e-17. 2^k is made from bits. Minus infinity gives 0.
    """
    n = values.shape[0]
    scale = power.view(np.float64)
    for i in range(n):
        x = values[i]
        lost = x < SMALLEST_EXPONENT
        x = SMALLEST_EXPONENT if lost else x
        k = (x * LOG2_E + TO_INTEGER) - TO_INTEGER
        r = (x - k * LN2_HIGH) - k * LN2_LOW
        p = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0)
        p = 1.0 / 39916800.0 + r * p
        p = 1.0 / 3628800.0 + r * p
        p = 1.0 / 362880.0 + r * p
        p = 1.0 / 40320.0 + r * p
        p = 1.0 / 5040.0 + r * p
        p = 1.0 / 720.0 + r * p
        p = 1.0 / 120.0 + r * p
        p = 1.0 / 24.0 + r * p
        p = 1.0 / 6.0 + r * p
        p = 0.5 + r * p
        values[i] = 1.0 + (r + r * r * p)
        power[i] = 0 if lost else (np.int64(k) + 1023) << 52
    for i in range(n):
        values[i] *= scale[i]


@unrolled_kernel
def largest(values: Array) -> float:
    """Return the largest of one or more numbers."""
    n = values.shape[0]
    a = b = c = d = values[0]
    whole = n - n % 4
    for i in range(0, whole, 4):
        a = max(a, values[i])
        b = max(b, values[i + 1])
        c = max(c, values[i + 2])
        d = max(d, values[i + 3])
    for i in range(whole, n):
        a = max(a, values[i])
    return max(max(a, b), max(c, d))


@unrolled_kernel
def total_of(values: Array) -> float:
    """Sum with four running sums. Zeros at the end do not change a single bit."""
    n = values.shape[0]
    a = b = c = d = 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
    if n > whole:
        a += values[whole]
    if n > whole + 1:
        b += values[whole + 1]
    if n > whole + 2:
        c += values[whole + 2]
    return (a + b) + (c + d)
