"""The models of the paper that only its experiments use: a tree of labels, from which to sample."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hummingbit.training.generative_models import Examples, Numbers, Triplets
from hummingbit.training.similarities import TreeHierarchy


def check_numbers(examples: Examples, count: int) -> npt.NDArray[np.int64]:
    """Check examples that are numbers of categories, of which there are `count`, and return them.

    Raises:
        ValueError: unless they are integers from 0 to `count` − 1.
    """
    numbers = np.asarray(examples)
    is_integer = np.issubdtype(numbers.dtype, np.integer)
    if not is_integer or not ((numbers >= 0) & (numbers < count)).all():
        raise ValueError(f"examples: must be whole numbers from 0 to {count - 1}")
    return numbers.astype(np.int64)


class TreeModel(TreeHierarchy):
    """A tree of labels as a :class:`GenerativeModel`; examples are numbers of labels."""

    @property
    def prior(self) -> Numbers:
        """The probability that the walk ends at each label, ``float64[C]``."""
        return np.asarray(self.reach_CK[:, -1], dtype=np.float64)

    def printed_table(self) -> Numbers:
        """Return equation 4 as printed, ``float64[C, C]``: K is k*, which depends on the pair.

        It is the mean of Π 1/p_l over the nodes that two leaves have in common, where :meth:`table`
        divides the sum by the number of levels of the tree. The levels at which the walk stays at a
        leaf do not count. So it is not a ratio of densities, and no model generates it. Leaves
        without a common node have 1, whose logarithm is 0; the paper does not define it.
        """
        sums_CC, depth_CC = self.sums(self.is_node_CK)
        means_CC = sums_CC / np.maximum(depth_CC, 1)
        return np.asarray(np.where(depth_CC > 0, means_CC, 1.0), dtype=np.float64)

    def log_similarity(self, first: Examples, second: Examples) -> Numbers:
        """See :class:`GenerativeModel`; examples are numbers of labels."""
        rows, columns = (check_numbers(numbers, len(self.labels)) for numbers in (first, second))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.table())[rows, columns])

    def sample_triplets(self, count: int, rng: np.random.Generator) -> Triplets:
        """See :class:`GenerativeModel`; examples are numbers of labels."""
        level = rng.integers(1, self.levels + 1, size=count)
        anchor, other = rng.choice(len(self.labels), size=(2, count), p=self.prior)
        # A node is drawn as often as the walk visits it. So the first leaf can be drawn first, then
        # its ancestor at the level, and then the second leaf from those below that node.
        same = [
            self._below(self.paths[leaf][:k], rng) for leaf, k in zip(anchor, level, strict=True)
        ]
        return Triplets(anchor, np.array(same, dtype=np.int64), other)

    def _below(self, node: tuple[str, ...], rng: np.random.Generator) -> int:
        below_C = np.array([path[: len(node)] == node for path in self.paths])
        weight_C = np.where(below_C, self.prior, 0)
        return int(rng.choice(len(weight_C), p=weight_C / weight_C.sum()))
