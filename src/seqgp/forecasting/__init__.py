"""Many steps ahead: free simulation, and training for it."""

from seqgp.forecasting.multistep import Multistep, fit_multistep
from seqgp.forecasting.simulation import Simulation, simulate, starts_of

__all__ = ["Multistep", "Simulation", "fit_multistep", "simulate", "starts_of"]
