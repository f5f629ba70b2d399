"""The figures printed in SSB-VAE's paper: p@100 of three methods.

Source: Ñanculef et al., "Self-Supervised Bernoulli Autoencoders for Semi-Supervised Hashing"
(2020), Table I.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

METHODS = ("psh-gs", "ssb-vae", "vdsh-s")
"""The methods of the table."""

# p@100 by data set and bits; a column for each share of labels, from 0.1 to 1.
_TABLE_1: Mapping[tuple[str, int], str] = {
    ("20news", 32): """
        psh-gs  .589 .606 .630 .682 .762 .784 .815 .831 .867 .866
        ssb-vae .734 .765 .787 .791 .824 .843 .841 .864 .880 .878
        vdsh-s  .648 .697 .738 .771 .788 .818 .831 .851 .866 .876
    """,
    ("cifar10", 32): """
        psh-gs  .687 .708 .737 .781 .818 .857 .889 .901 .903 .906
        ssb-vae .825 .840 .847 .873 .879 .881 .880 .898 .901 .910
        vdsh-s  .805 .816 .820 .838 .844 .849 .852 .854 .863 .867
    """,
    ("snippets", 32): """
        psh-gs  .501 .490 .542 .551 .564 .550 .553 .598 .644 .696
        ssb-vae .565 .599 .620 .620 .641 .634 .644 .637 .648 .657
        vdsh-s  .540 .558 .576 .595 .634 .633 .648 .647 .656 .661
    """,
    ("tmc", 32): """
        psh-gs  .738 .749 .757 .765 .772 .782 .790 .798 .806 .806
        ssb-vae .750 .754 .759 .775 .778 .788 .795 .802 .813 .818
        vdsh-s  .730 .725 .736 .740 .743 .758 .768 .769 .781 .788
    """,
    ("20news", 16): """
        psh-gs  .595 .618 .678 .731 .752 .789 .802 .837 .826 .872
        ssb-vae .711 .758 .762 .799 .770 .833 .829 .848 .870 .873
        vdsh-s  .582 .635 .705 .733 .744 .789 .794 .815 .831 .846
    """,
    ("cifar10", 16): """
        psh-gs  .635 .684 .718 .765 .820 .851 .877 .894 .904 .906
        ssb-vae .816 .834 .849 .866 .870 .879 .884 .893 .906 .909
        vdsh-s  .781 .782 .789 .796 .811 .817 .818 .821 .832 .836
    """,
    ("snippets", 16): """
        psh-gs  .482 .472 .569 .589 .598 .588 .551 .596 .635 .666
        ssb-vae .621 .576 .612 .627 .614 .629 .634 .629 .647 .641
        vdsh-s  .522 .553 .580 .591 .623 .613 .627 .636 .647 .649
    """,
    ("tmc", 16): """
        psh-gs  .723 .731 .740 .743 .750 .756 .764 .768 .768 .759
        ssb-vae .725 .742 .751 .759 .763 .775 .782 .790 .803 .808
        vdsh-s  .705 .694 .719 .721 .715 .739 .753 .744 .770 .777
    """,
}


def printed_table(dataset: str, n_bits: int) -> dict[str, npt.NDArray[np.float64]]:
    """Return the printed p@100 of each method, ``float64[10]``, for shares of labels of 0.1 to 1.

    Raises:
        KeyError: if the paper has no such data set or number of bits.
    """
    lines = [line.split() for line in _TABLE_1[dataset, n_bits].strip().splitlines()]
    return {method: np.array([float(value) for value in values]) for method, *values in lines}


def printed_p100(dataset: str, n_bits: int, supervision: float) -> dict[str, float]:
    """Return the printed p@100 of each method, or nothing if the paper lacks the setting."""
    column = round(10 * supervision) - 1
    if (dataset, n_bits) not in _TABLE_1 or abs(10 * supervision - column - 1) > 1e-9 or column < 0:
        return {}
    table = printed_table(dataset, n_bits)
    return {method: float(values[column]) for method, values in table.items()}
