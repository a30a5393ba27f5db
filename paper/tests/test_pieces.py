"""What each piece of calibration contributes: a fitted model with one of them left out."""

import warnings

import numpy as np
import pandas as pd
import pytest

from paper import ablations
from paper.models import predictive_of
from paper.pieces import ALL, WITHOUT, without
from seqgp import GP, LSTM, SequenceGP, Training, TrainingWarning, WindowSet


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
        LSTM(hidden=8),
        gp=GP("rbf", inference="grid"),
        training=Training(epochs=4, lr=0.01),
        members=2,
        random_state=0,
        progress=False,
    )
    with pytest.warns(Warning, match="level has moved"):
        model.fit(train, validation=validation)
    return model.fitted_, train, validation, test


def numbers(fitted, test):
    found = predictive_of(fitted, test)
    return np.stack([found.mean, found.std, *found.interval(0.9)])


def test_with_nothing_left_out_it_is_the_same_model(fitted):
    whole, train, validation, test = fitted
    before = numbers(whole, test)
    same = without(whole, "", train, validation)
    np.testing.assert_array_equal(numbers(same, test), before)
    np.testing.assert_array_equal(same.calibration.dof, whole.calibration.dof)
    for piece in WITHOUT:
        without(whole, piece, train, validation).updated(validation, validation.y)
    np.testing.assert_array_equal(numbers(whole, test), before)


def test_each_piece_is_left_out(fitted):
    whole, train, validation, _ = fitted
    left = {piece: without(whole, piece, train, validation) for piece in WITHOUT}
    assert len(whole.members) == len(left["tails"].members) == 2
    assert left["mixing"].members == left[ALL].members == whole.members[:1]
    assert abs(whole.calibration.shift[0]) > 0.5
    assert left["shift"].calibration.shift[0] == 0.0
    assert whole.calibration.noise is not None
    assert left["shape"].calibration.noise is None
    assert np.isfinite(whole.calibration.dof).all()
    assert np.isinf(left["tails"].calibration.dof).all()
    assert left[ALL].calibration.rows == 0
    assert left[ALL].calibration.scale[0] == 1.0
    for piece in ("mixing", "tails"):  # the others are fitted again
        assert left[piece].calibration.noise is not None
    assert left["shape"].calibration.shift == whole.calibration.shift


def test_a_variant_takes_validation_rows_in_as_the_estimator_does(fitted):
    whole, train, validation, test = fitted
    model = SequenceGP(
        LSTM(hidden=8),
        gp=GP("rbf", inference="grid"),
        training=Training(epochs=2, lr=0.01),
        random_state=0,
        progress=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        model.fit(train, validation=validation)
    variant = without(model.fitted_, "", train, validation).updated(validation, validation.y)
    np.testing.assert_array_equal(
        predictive_of(variant, test).mean, model.update(validation).predict(test)
    )


def test_a_piece_that_is_none_is_refused(fitted):
    model, train, validation, _ = fitted
    with pytest.raises(ValueError, match="piece='luck' is not known: use one of mixing, shift"):
        without(model, "luck", train, validation)


def test_the_table_shows_the_pieces_that_change_something(data_folder):
    row = ablations.CALIBRATION.run(("car-lead", "autoregression", 0), quick=True)
    assert {name.split("/")[1] for name in row if "/" in name} == {"", *WITHOUT}
    text = ablations.CALIBRATION.markdown(pd.DataFrame([row]))
    assert "## car-lead, autoregression, 1 seed(s)" in text
    assert f"| all pieces | {row['rmse_z/']:.4f} | {row['nlpd/']:.3f} |" in text
    last = "no calibration, one training"
    assert f"| {last} | {row['rmse_z/all']:.4f} | {row['nlpd/all']:.3f} |" in text
    assert "one training, no ensemble" not in text  # it is one training of one
    assert "earlier version" not in text


def test_rows_of_an_earlier_version_say_so():
    names = [f"{score}/{piece}" for piece in ("", "slope", "tails") for score in ablations.SCORES]
    row = dict(zip(names, np.arange(1.0, len(names) + 1), strict=True))
    row |= {"dataset": "car-lead", "mode": "autoregression", "seed": 0}
    table = pd.DataFrame([row])
    assert list(ablations.pieces_in(table)) == ["", "slope", "tails"]
    text = ablations.CALIBRATION.markdown(table)
    assert "made by an earlier version, whose calibration had further pieces (slope)" in text
    assert "| without the former piece `slope` | 6.0000 | 7.000 |" in text
