"""The numbers of tiny fits stay what they were; see tests/golden.py."""

import numpy as np
import pytest
import torch

from golden import numbers, stored


@pytest.fixture(scope="module")
def found() -> dict[str, list[float]]:
    threads = torch.get_num_threads()
    try:
        return {name: [float.fromhex(v) for v in values] for name, values in numbers().items()}
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("name", sorted(stored()))
def test_numbers_are_those_written_down(name, found):
    then = [float.fromhex(v) for v in stored()[name]]
    # Another processor rounds otherwise, and a few steps of training carry that on.
    np.testing.assert_allclose(found[name], then, rtol=1e-5, atol=1e-7)
