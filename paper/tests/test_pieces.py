"""What each piece of calibration contributes: a fitted model with one of them left out."""

import numpy as np
import pandas as pd
import pytest
import torch

from paper import ablations
from paper.pieces import ALL, WITHOUT, without
from seqgp import SequenceGP, WindowSet


def series(n):
    """An input and a wave that follows it, with noise of two sizes and heavy tails; its level moves."""
    rng = np.random.default_rng(0)
    t = np.arange(n)
    u = np.sin(t / 9.0) + 0.1 * rng.standard_normal(n)
    size = np.where(t // 150 % 2, 0.4, 0.1)
    return u, u**2 + size * rng.standard_t(4, n) + np.where(t < 1550, 0.0, 0.8)


@pytest.fixture(scope="module")
def fitted():
    windows = WindowSet(*series(4000), lag=8)
    train, validation, test = (
        windows.subset(slice(*rows)) for rows in ((0, 1500), (1600, 2600), (2600, None))
    )
    model = SequenceGP(
        hidden=8, epochs=4, lr=0.01, restarts=2, inference="grid", random_state=0, progress=False
    )
    with pytest.warns(Warning, match="level has moved"):
        model.fit(train, validation=validation)
    return model, train, validation, test


def said(model, test):
    return np.stack([*model.predict(test, return_std=True), *model.interval(test, 0.9)])


def test_with_nothing_left_out_it_is_the_same_model(fitted):
    model, train, validation, test = fitted
    before = said(model, test)
    np.testing.assert_array_equal(said(without(model, "", train, validation), test), before)
    np.testing.assert_array_equal(model.dof_, without(model, "", train, validation).dof_)
    for piece in WITHOUT:
        without(model, piece, train, validation).update(validation)
    np.testing.assert_array_equal(said(model, test), before)


def test_each_piece_is_left_out(fitted):
    model, train, validation, _ = fitted
    left = {piece: without(model, piece, train, validation) for piece in WITHOUT}
    assert len(model.others_) == len(left["tails"].others_) == 1
    assert (left["mixing"].others_, left["mixing"].mixture_) == ((), None)
    assert abs(model.calibration_.shift[0]) > 0.5
    assert left["shift"].calibration_.shift[0] == 0.0
    assert model.noise_shape_ is not None
    assert left["shape"].noise_shape_ is None
    assert np.isfinite(model.calibration_.dof).all()
    assert np.isinf(left["tails"].calibration_.dof).all()
    assert left["slope"].calibration_.slope[0] == 1.0
    assert left[ALL].said_.rows == 0


def test_signal_variances_are_again_as_they_were_trained(fitted):
    model, train, validation, _ = fitted
    twin = without(model, "", train, validation)
    twin.calibration_ = type(twin.calibration_)(
        **{**vars(twin.calibration_), "quieter": np.array([10.0])}
    )
    loud = without(twin, "quieter", train, validation)
    H = torch.zeros(1, 2, dtype=torch.float64)
    ratio = loud.gp_.kernel(H, H).to_dense() / twin.gp_.kernel(H, H).to_dense()
    assert float(ratio.detach()) == pytest.approx(10.0)
    assert loud.calibration_.quieter is None


def test_a_piece_that_is_none_is_refused(fitted):
    model, train, validation, _ = fitted
    with pytest.raises(ValueError, match="piece='luck' is not known: use one of mixing, quieter"):
        without(model, "luck", train, validation)


def test_the_table_shows_the_pieces_that_change_something(data_folder):
    row = ablations.CALIBRATION.run(("car-lead", "autoregression", 0), quick=True)
    assert {name.split("/")[1] for name in row if "/" in name} == {"", *WITHOUT}
    row |= {
        f"{name}/slope": row[f"{name}/"] for name in ("rmse_z", "nlpd", "crps", "cov50", "cov95")
    }
    text = ablations.CALIBRATION.markdown(pd.DataFrame([row]))
    assert "## car-lead, autoregression, 1 seed(s)" in text
    assert f"| all pieces | {row['rmse_z/']:.4f} | {row['nlpd/']:.3f} |" in text
    assert (
        f"| no calibration, one training | {row['rmse_z/all']:.4f} | {row['nlpd/all']:.3f} |"
        in text
    )
    assert "linear mean" not in text
