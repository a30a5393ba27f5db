"""How rough windows are, beside NumPy."""

import numpy as np
import pytest
import torch
from seqgp.roughness import roughness, roughness_width


def test_sizes_are_those_of_second_differences():
    x = np.random.default_rng(0).standard_normal((5, 9, 3))
    bend = np.diff(x, n=2, axis=1)
    expected = [np.sqrt(np.mean(part**2, axis=1)) for part in (bend[:, -4:], bend)]
    found = roughness(torch.as_tensor(x)).exp()
    np.testing.assert_allclose(found, np.concatenate(expected, 1), rtol=1e-5)


def test_a_line_is_not_rough_and_its_log_is_finite():
    steep = torch.arange(8.0)[None, :, None] * 1000.0
    assert torch.isfinite(roughness(steep)).all()
    assert float(roughness(steep).max()) < -9.0


@pytest.mark.parametrize(("lag", "width"), [(1, 0), (2, 0), (3, 4), (9, 4)])
def test_width(lag, width):
    found = roughness(torch.randn(7, lag, 2))
    assert found.shape == (7, width) == (7, roughness_width(lag, 2))
