"""Every Python block of the README runs as written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block(number):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5, 2)), rng.standard_normal(60)
    exec(BLOCKS[number], {"X": X, "y": y, "X_new": X[:3]})


def test_there_are_blocks():
    assert len(BLOCKS) >= 3
