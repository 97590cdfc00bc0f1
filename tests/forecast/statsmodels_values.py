#!/usr/bin/env python3
"""What statsmodels gives on the series of comparators_test.cpp: made the expected values there.

    python3 -m venv venv && venv/bin/pip install statsmodels==0.15.0 && venv/bin/python statsmodels_values.py
"""
import warnings

import numpy as np
from statsmodels.tsa.ar_model import AutoReg
from statsmodels.tsa.arima.model import ARIMA
from statsmodels.tsa.holtwinters import SimpleExpSmoothing

warnings.simplefilter("ignore")


def noise(count, state=12345):
    values = []
    for _ in range(count):
        state = (1103515245 * state + 12345) % 2**31
        values.append(state / 2**31 - 0.5)
    return values


def walk(count):
    """Differences are ARMA(1, 1) with 0.6 and 0.3."""
    level, last, before = 100.0, 0.0, 0.0
    values = []
    for e in noise(count):
        d = 0.6 * last + e + 0.3 * before
        last, before = d, e
        level += d
        values.append(level)
    return np.array(values)


def wave(count):
    """A periodic trace with noise."""
    return np.array([200.0 + (50.0 if t % 20 < 15 else -80.0) + 4.0 * e for t, e in enumerate(noise(count, 777))])


def show(name, values):
    print(f"{name}: " + ", ".join(f"{v:.9g}" for v in np.atleast_1d(values)))


series = walk(500)
fit = AutoReg(series, lags=3).fit()
show("AutoReg(3) params", fit.params)
show("AutoReg(3) forecast 1..3, 50", fit.forecast(50)[[0, 1, 2, 49]])
fit = AutoReg(wave(300), lags=20).fit()
show("AutoReg(20) on wave, forecast 1, 10, 40", fit.forecast(40)[[0, 9, 39]])

fit = SimpleExpSmoothing(wave(300), initialization_method="estimated").fit()
show("SES on wave alpha, level 0, forecast, squared errors",
     [fit.params["smoothing_level"], fit.params["initial_level"], fit.forecast(1)[0], fit.sse])
fit = SimpleExpSmoothing(np.array(noise(200, 99)) + 10, initialization_method="estimated").fit()
show("SES on noise alpha, level 0, forecast, squared errors",
     [fit.params["smoothing_level"], fit.params["initial_level"], fit.forecast(1)[0], fit.sse])

fit = ARIMA(series, order=(1, 1, 1)).fit()
show("ARIMA(1,1,1) params", fit.params)
show("ARIMA(1,1,1) forecast 1, 2, 20", fit.forecast(20)[[0, 1, 19]])
fit = ARIMA(series, order=(2, 1, 0)).fit()
show("ARIMA(2,1,0) params", fit.params)
show("ARIMA(2,1,0) forecast 1, 2, 20", fit.forecast(20)[[0, 1, 19]])
