from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

torch.set_num_threads(1)  # small recurrent nets are fastest so, and results do not depend on load


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def data_folder() -> Path:
    folder = os.environ.get("SEQGP_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SEQGP_DATA does not name a data folder: the real recordings are not at hand")
    return Path(folder)
