"""CityHash64 in its first release (Pike and Alakuijala, 2011), by which CatBoost tells categories apart."""

from __future__ import annotations

import struct

__all__ = ["city_hash"]

_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_MULTIPLIER = 0x9DDFEA08EB382D69
_MASK = (1 << 64) - 1


def city_hash(text: bytes) -> int:
    """Hash bytes to 64 bits.

    Parameters
    ----------
    text : bytes

    Returns
    -------
    int
        From 0 to 2^64 - 1.

    Examples
    --------
    >>> hex(city_hash(b""))
    '0x9ae16a3b2f90404f'
    """
    size = len(text)
    if size <= 16:  # the lengths here are the algorithm's
        return _to_16(text, size)
    if size <= 32:
        return _to_32(text, size)
    return _to_64(text, size) if size <= 64 else _beyond(text, size)


def _to_16(text: bytes, size: int) -> int:
    if size > 8:
        first, last = _eight(text, 0), _eight(text, size - 8)
        return _mixed(first, _rotated(last + size, size)) ^ last
    if size >= 4:
        return _mixed(size + (_four(text, 0) << 3), _four(text, size - 4))
    if not size:
        return _K2
    low, high = text[0] + (text[size >> 1] << 8), size + (text[-1] << 2)
    return _shifted(low * _K2 ^ high * _K3) * _K2 & _MASK


def _to_32(text: bytes, size: int) -> int:
    a, b = _eight(text, 0) * _K1, _eight(text, 8)
    c, d = _eight(text, size - 8) * _K2, _eight(text, size - 16) * _K0
    return _mixed(_rotated(a - b, 43) + _rotated(c, 30) + d, a + _rotated(b ^ _K3, 20) - c + size)


def _to_64(text: bytes, size: int) -> int:
    first = _eight(text, 0) + (size + _eight(text, size - 16)) * _K0
    v = _quarter(first, _eight(text, 24), _eight(text, 8), _eight(text, 16))
    second = _eight(text, 16) + _eight(text, size - 32)
    w = _quarter(second, _eight(text, size - 8), _eight(text, size - 24), _eight(text, size - 16))
    r = _shifted((v[0] + w[1]) * _K2 + (w[0] + v[1]) * _K0)
    return _shifted(r * _K0 + v[1]) * _K2 & _MASK


def _quarter(a: int, z: int, second: int, third: int) -> tuple[int, int]:
    b, c = _rotated(a + z, 52), _rotated(a, 37)
    a += second
    c += _rotated(a, 7)
    a += third
    return (a + z) & _MASK, (b + _rotated(a, 31) + c) & _MASK


def _beyond(text: bytes, size: int) -> int:
    x, y, z = _eight(text, 0), _eight(text, size - 16) ^ _K1, _eight(text, size - 56) ^ _K0
    v, w = _weak(text, size - 64, size, y), _weak(text, size - 32, size * _K1, _K0)
    z += _shifted(v[1]) * _K1
    x, y = _rotated(z + x, 39) * _K1, _rotated(y, 33) * _K1
    for at in range(0, (size - 1) & ~63, 64):
        x = _rotated(x + y + v[0] + _eight(text, at + 16), 37) * _K1
        y = _rotated(y + v[1] + _eight(text, at + 48), 42) * _K1
        x, y = (x ^ w[1]) & _MASK, (y ^ v[0]) & _MASK
        z = _rotated(z ^ w[0], 33)
        v, w = _weak(text, at, v[1] * _K1, x + w[0]), _weak(text, at + 32, z + w[1], y)
        x, z = z, x
    return _mixed(_mixed(v[0], w[0]) + _shifted(y) * _K1 + z, _mixed(v[1], w[1]) + x)


def _weak(text: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Hash 32 bytes with two seeds."""
    first, second, third, last = struct.unpack_from("<4Q", text, at)
    a += first
    b = _rotated(b + a + last, 21)
    c = a
    a += second + third
    b += _rotated(a, 44)
    return (a + last) & _MASK, (b + c) & _MASK


def _mixed(low: int, high: int) -> int:
    """Hash two numbers to one."""
    high &= _MASK
    a = _shifted((low ^ high) * _MULTIPLIER)
    return _shifted((high ^ a) * _MULTIPLIER) * _MULTIPLIER & _MASK


def _shifted(value: int) -> int:
    value &= _MASK
    return value ^ (value >> 47)


def _rotated(value: int, by: int) -> int:
    """Rotate to the right."""
    value &= _MASK
    return (value >> by | value << (64 - by)) & _MASK


def _eight(text: bytes, at: int) -> int:
    return int(struct.unpack_from("<Q", text, at)[0])


def _four(text: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", text, at)[0])
