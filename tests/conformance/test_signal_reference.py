"""The reference of tflite-micro's signal library against the numbers that the unit tests of its kernels expect."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from layoutsolve.ir.graph import Array
from tests.conformance import signal_reference as reference

_FRAME = (
    1221, 1920, 9531, 2795, 1826, 371, 8446, 850, 3129, 8218, 4199, 8358, 205, 5268, 3263, 2849, 8398, 1381,
    6305, 668, 8867, 4651, 9121, 6141, 1961, 3750, 8418, 8085, 3308, 1788, 1608, 4761,
)  # fmt: skip
_WINDOW = (
    1323, 764, 9100, 4220, 1745, 9311, 178, 9442, 5676, 1817, 5433, 5837, 7635, 4539, 6548, 9690, 6097, 4275,
    1523, 3694, 7506, 2797, 5153, 172, 2172, 4540, 6643, 7845, 1719, 7564, 1700, 5227,
)  # fmt: skip
_WINDOWED = (
    6310, 5730, 32767, 32767, 12446, 13493, 5872, 31350, 32767, 32767, 32767, 32767, 6113, 32767, 32767, 32767,
    32767, 23061, 32767, 9639, 32767, 32767, 32767, 4125, 16637, 32767, 32767, 32767, 22212, 32767, 10678, 32767,
)  # fmt: skip
_SPECTRUM = (
    645050, 4644, 3653, 24262, 56660, 43260, 50584, 57902, 31702, 5401, 45555, 34852, 8518, 43556, 13358, 19350,
    40221, 18017, 27284, 64491, 60099, 17863, 11001, 29076, 32666, 65268, 50947, 28694, 32377, 30014, 25607,
    22547, 45086, 10654, 46797, 8622, 47348, 43085, 5747, 51544, 50364, 6208, 20696, 59782, 14429, 60125, 37079,
    32673, 63457, 60142, 34042, 11280, 1874, 33734, 62118, 13766, 54398, 47818, 50976, 46930, 25906, 59441,
    25958, 59136, 1756, 18652, 29213, 13379, 51845, 1207, 55626, 27108, 43771, 35236, 3374, 40959, 47707, 41540,
    34282, 27094, 36329, 13593, 65257, 47006, 46857, 1114, 37106, 18738, 25969, 15461, 2842, 36470, 32489,
    61622, 23613, 29624, 32820, 30438, 9543, 6767, 23037, 52896, 12059, 32264, 11575, 42400, 43344, 27511,
    16712, 6877, 4910, 50047, 61569, 57237, 48558, 2310, 22192, 7874, 46141, 64056, 61997, 7298, 31372, 25316,
    683, 58940, 18755, 17898, 19196,
)  # fmt: skip
_WEIGHTS = (
    -2210, 1711, 3237, 1247, 2507, 61, 1019, 899, 206, 146, 2849, 2756, 1260, 1280, 1951, 213, 617, 2047, 211,
    347, 2821, 3747, 150, 1924, 3962, 942, 1430, 2678, 993, 308, 3364, 2491, 954, 1308, 879, 3950, 1, 3556,
    3628, 2104, 78, 1298, 1080, 342, 1337, 1639, 2352, 829, 1358, 2498, 1647, 2507, 3816, 3767, 3735, 1155,
    2221, 2196, 1160,
)  # fmt: skip
_UNWEIGHTS = (
    408, 3574, 1880, 2561, 2011, 3394, 1019, 445, 3901, 343, 1874, 3846, 3566, 1830, 327, 111, 623, 1037, 2803,
    1947, 1518, 661, 3239, 2351, 1257, 269, 1574, 3431, 3972, 2487, 2181, 1458, 552, 717, 679, 1031, 1738, 1782,
    128, 2242, 353, 1460, 3305, 1424, 3813, 2895, 164, 272, 3886, 3135, 141, 747, 3233, 1478, 2612, 3837, 3271,
    73, 1746,
)  # fmt: skip
_STARTS = (
    5, 6, 7, 9, 11, 12, 14, 16, 18, 20, 22, 25, 27, 30, 32, 35, 33,
)  # fmt: skip
_PLACES = (
    0, 1, 2, 4, 6, 7, 9, 11, 13, 15, 17, 20, 22, 25, 27, 30, 33,
)  # fmt: skip
_WIDTHS = (
    1, 1, 2, 2, 1, 2, 2, 2, 2, 2, 3, 2, 3, 2, 3, 3, 3,
)  # fmt: skip
_BANK = (
    104199304, 407748384, 206363744, 200989269, 52144406, 230780884, 174394190, 379684049, 94840835, 57788823,
    531528204, 318265707, 263149795, 188110467, 501443259, 200747781,
)  # fmt: skip
_SQUARES = (
    10528000193, 28362909357, 47577133750, 8466055850, 5842710800, 2350911449, 2989811430, 2646718839,
    515262774, 276394561, 469831522, 55815334, 28232446, 11591835, 40329249, 67658028, 183446654, 323189165,
    117473797, 41339272, 25846050, 12428673, 18670978, 22521722, 78477733, 54207503, 25150296, 43098592,
    28211625, 15736687, 20990296, 17907031,
)  # fmt: skip
_ROOTS = (
    801, 1315, 1704, 718, 597, 378, 427, 401, 177, 129, 169, 58, 41, 26, 49, 64, 105, 140, 84, 50, 39, 27, 33,
    37, 69, 57, 39, 51, 41, 30, 35, 33,
)  # fmt: skip
_NOISY = (
    322, 308, 210, 212, 181, 251, 403, 259, 65, 48, 76, 48, 50, 46, 53, 52, 112, 191, 136, 59, 70, 51, 39, 64,
    33, 44, 41, 49, 74, 107, 262, 479,
)  # fmt: skip
_CLEAN = (
    310, 296, 202, 204, 174, 241, 387, 249, 63, 47, 73, 47, 49, 45, 51, 50, 108, 184, 131, 57, 68, 49, 38, 62,
    32, 43, 40, 48, 72, 103, 252, 460,
)  # fmt: skip
_NOISE = (
    12, 12, 8, 8, 7, 10, 16, 10, 2, 1, 3, 1, 1, 1, 2, 2, 4, 7, 5, 2, 2, 2, 1, 2, 1, 1, 1, 1, 2, 4, 10, 19,
)  # fmt: skip
_ENERGIES = (
    286, 298, 305, 291, 290, 279, 273, 257, 250, 240, 240, 233, 234, 230, 221, 205, 183, 159, 156, 188, 239,
    298, 345, 374, 380, 369, 359, 364, 372, 354, 302, 243, 194, 135, 64, 72, 171, 245, 277, 304,
)  # fmt: skip
_ESTIMATES = (
    7310, 18308, 7796, 17878, 7413, 17141, 6978, 15789, 6390, 14745, 6135, 14314, 5981, 14130, 5649, 12594,
    4677, 9768, 3987, 11550, 6109, 18308, 8819, 22977, 9713, 22670, 9176, 22363, 9509, 21748, 7719, 14929, 4959,
    8294, 1636, 4423, 4371, 15052, 7080, 18677,
)  # fmt: skip
_GAIN = (
    32636, 32633, 32630, -6, 0, -21589, 32624, -12, 0, -21589, 32612, -23, -2, -21589, 32587, -48, 0, -21589,
    32539, -96, 0, -21589, 32443, -190, 0, -21589, 32253, -378, 4, -21589, 31879, -739, 18, -21589, 31158,
    -1409, 62, -21589, 29811, -2567, 202, -21589, 27446, -4301, 562, -21589, 23707, -6265, 1230, -21589, 18672,
    -7458, 1952, -21589, 13166, -7030, 2212, -21589, 8348, -5342, 1868, -21589, 4874, -3459, 1282, -21589, 2697,
    -2025, 774, -21589, 1446, -1120, 436, -21589, 762, -596, 232, -21589, 398, -313, 122, -21589, 207, -164, 64,
    -21589, 107, -85, 34, -21589, 56, -45, 18, -21589, 29, -22, 8, -21589, 15, -13, 6, -21589, 8, -8, 4, -21589,
    4, -2, 0, -21589, 2, -3, 2, -21589, 1, 0, 0, -21589, 1, -3, 2, -21589, 0, 0, 0,
)  # fmt: skip
_GAINED = (
    1301, 836, 1354, 827, 1312, 811, 1263, 779, 1192, 753, 1160, 743, 1140, 738, 1096, 698, 956, 607, 845, 667,
    1157, 836, 1461, 912, 1546, 908, 1496, 904, 1527, 895, 1346, 758, 999, 548, 378, 344, 908, 761, 1274, 843,
)  # fmt: skip
_CHANNELS = (
    29, 21, 29, 40, 19, 11, 13, 23, 13, 11, 25, 17, 5, 4, 46, 14, 17, 14, 20, 14, 10, 10, 15, 11, 17, 12, 15,
    16, 19, 18, 6, 2,
)  # fmt: skip
_LOGARITHMS = (
    8715, 8198, 8715, 9229, 8038, 7164, 7431, 8344, 7431, 7164, 8477, 7860, 5902, 5545, 9453, 7550, 7860, 7550,
    8120, 7550, 7011, 7011, 7660, 7164, 7860, 7303, 7660, 7763, 8038, 7952, 6194, 4436,
)  # fmt: skip
_LOUD_CHANNELS = (
    48, 20, 19, 24, 35, 47, 23, 30, 31, 10, 48, 21, 46, 14, 18, 27,
)  # fmt: skip
_LOUD_LOGARITHMS = (
    32767, 15121, 13440, 21095, 32767, 32767, 19701, 28407, 29482, 32767, 32767, 16720, 32767, 3434, 11669,
    24955,
)  # fmt: skip

_SUBTRACTION = {
    "alternate_one_minus_smoothing": 15729, "alternate_smoothing": 655, "clamping": 0, "min_signal_remaining": 819,
    "one_minus_smoothing": 15729, "smoothing": 655, "smoothing_bits": 0, "spectral_subtraction_bits": 14,
}  # fmt: skip


def short(numbers: Sequence[int]) -> Array:
    return np.array(numbers, np.int16)


def unsigned(numbers: Sequence[int], dtype: str = "uint32") -> Array:
    return np.array(numbers, dtype)


def bank() -> reference.Outputs:
    tables = [short(each) for each in (_WEIGHTS, _UNWEIGHTS, _STARTS, _PLACES, _WIDTHS)]
    return reference.filter_bank(unsigned(_SPECTRUM), *tables, channels=16)


def impulse(dtype: str) -> Array:
    return np.array([16384, *[0] * 63], dtype)


def flat(dtype: str) -> Array:
    return np.array([256, 0] * 33, dtype)


def subtraction() -> reference.Outputs:
    return reference.spectral_subtraction(unsigned(_NOISY), np.zeros(32, np.uint32), _SUBTRACTION)


Golden = tuple[Callable[[], reference.Outputs], Sequence[Sequence[int]]]

GOLDEN: dict[str, Golden] = {
    "window": (lambda: reference.window(short(_FRAME), short(_WINDOW), 8), [_WINDOWED]),
    "scale-1": (
        lambda: reference.auto_scale(short([0, 0x1111, 0x2222, 0x3333, 0x3333, 0x2222, 0x1111, 0])),
        [[0, 0x2222, 0x4444, 0x6666, 0x6666, 0x4444, 0x2222, 0], [1]],
    ),
    "scale-7": (
        lambda: reference.auto_scale(short([238, 113, -88, -243, -5, -130, 159, -70])),
        [[30464, 14464, -11264, -31104, -640, -16640, 20352, -8960], [7]],
    ),
    "rfft-int16": (lambda: reference.rfft(impulse("int16"), 64), [[256, 0] * 33]),
    "rfft-int32": (lambda: reference.rfft(impulse("int32"), 64), [[256, 0] * 33]),
    "irfft-int16": (lambda: reference.irfft(flat("int16"), 64), [[256, *[0] * 63]]),
    "irfft-int32": (lambda: reference.irfft(flat("int32"), 64), [[256, *[0] * 63]]),
    "energy": (
        lambda: reference.energy(short(range(1, 17)), 2, 4, 8),
        [[0, 0, 61, 113, 0, 0, 0, 0]],
    ),
    "bank": (bank, [_BANK]),
    "root": (lambda: reference.square_root(unsigned(_SQUARES, "uint64"), np.array(7)), [_ROOTS]),
    "subtraction": (subtraction, [_CLEAN, _NOISE]),
    "pcan": (
        lambda: reference.pcan(unsigned(_ENERGIES), unsigned(_ESTIMATES), short(_GAIN), 6),
        [_GAINED],
    ),
    "log": (lambda: reference.log(unsigned(_CHANNELS), 3, 1600), [_LOGARITHMS]),
    "log-loud": (lambda: reference.log(unsigned(_LOUD_CHANNELS), 5, 32768), [_LOUD_LOGARITHMS]),
    "stacker": (
        lambda: reference.Stacker(3, 1, 0, 1)(short([0x1234, 0x5678, 0x4321])),
        [[0x1234, 0x5678, 0x4321, 0x1234, 0x5678, 0x4321], [1]],
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    compute, expected = GOLDEN[name]
    found = [each.reshape(-1).tolist() for each in compute()]
    assert found == [list(each) for each in expected]


def test_delay() -> None:
    kernel = reference.Delay(5)
    found = [kernel(short(numbers))[0].tolist() for numbers in ([1, 2, 3], [4, 0, 0], [0, 0, 0])]
    assert found == [[0, 0, 0], [0, 0, 1], [2, 3, 4]]


def test_framer() -> None:
    kernel = reference.Framer(5, 2, prefill=True)
    stream = [0, 0, 0, 0x1010, 0x0202, 0x7070, 0x0606]
    for start in (0, 2):
        frames, valid = kernel(short(stream[start + 3 : start + 5]))
        assert frames.tolist() == [stream[start : start + 5]] and valid


def test_framer_waits() -> None:
    kernel = reference.Framer(3, 1, prefill=False)
    found = [kernel(short([number])) for number in (0x1234, 0x5678, 0x4321, 0x7777)]
    assert [bool(valid) for _, valid in found] == [False, False, True, True]
    assert [frames.tolist() for frames, _ in found[2:]] == [[[0x1234, 0x5678, 0x4321]], [[0x5678, 0x4321, 0x7777]]]


def test_overlap_add() -> None:
    kernel, found = reference.OverlapAdd(3, 1), []
    for frame in ([125, -12, -895], [1000, 65, -212], [63, 71, 52], [1, -17, 32]):
        found += kernel(np.array([frame], np.int16))[0].tolist()
    assert found == [125, 988, -767, -140]
