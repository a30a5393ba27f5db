"""Many steps ahead: free simulation, and training for it."""

from seqgp.forecasting.multistep import InputsOnly, Multistep, fit_multistep
from seqgp.forecasting.simulation import Simulation, simulate, starts_of

__all__ = ["InputsOnly", "Multistep", "Simulation", "fit_multistep", "simulate", "starts_of"]
