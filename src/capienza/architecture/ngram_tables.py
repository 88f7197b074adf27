"""The sizes of Qwen4-Exp's tables of hashed n-grams: each head of each table has a prime number of rows of its own.

The primes follow one another from a base on, over all tables. Trial of Miller and Rabin with the bases 2, 3, 5 and 7
is exact below 3 215 031 751 (Jaeschke, 1993), which is more than any size that is read here.
"""

from __future__ import annotations

from collections.abc import Iterator

BASES = (2, 3, 5, 7)


def primes_from(start: int) -> Iterator[int]:
    """The primes that are at least `start`, in order."""
    number = start
    while True:
        if is_prime(number):
            yield number
        number += 1


def is_prime(number: int) -> bool:
    """Whether a number below the bound above is prime."""
    if number < 2:
        return False
    for base in BASES:
        if number % base == 0:
            return number == base
    odd = number - 1
    twos = (odd & -odd).bit_length() - 1
    odd >>= twos
    return all(_passes(number, base, odd, twos) for base in BASES)


def _passes(number: int, base: int, odd: int, twos: int) -> bool:
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False
