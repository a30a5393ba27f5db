"""The real thing, small: a hydraulic actuator, pressure from valve position alone."""

from __future__ import annotations

import numpy as np
from scipy.io import loadmat
from sklearn.linear_model import RidgeCV

from seqgp import LSTM, SequenceGP, Training, WindowSet, split_in_time


def test_gp_lstm_on_actuator_beats_ridge(data_folder):
    recording = loadmat(data_folder / "sysid" / "actuator.mat")
    windows = WindowSet(recording["u"].ravel(), recording["p"].ravel(), lag=32)
    train, test, validation = (windows.subset(rows) for rows in split_in_time(windows))
    training = Training(epochs=40, lr=0.01, batch_size=64)
    model = SequenceGP(LSTM(hidden=32), mean="zero", training=training, random_state=0)
    model.fit(train, validation=validation)
    mean, std = model.predict(test, return_std=True)
    scale = train.y.std()
    rmse = np.sqrt(np.mean((mean - test.y) ** 2)) / scale
    ridge = RidgeCV(np.logspace(-3, 4, 30)).fit(train[:].reshape(len(train), -1), train.y)
    line = ridge.predict(test[:].reshape(len(test), -1))
    assert rmse < 0.50
    assert rmse < np.sqrt(np.mean((line - test.y) ** 2)) / scale - 0.1
    assert np.mean(np.abs(mean - test.y) < 1.96 * std) > 0.8
