"""pdnas finds the graph neural network that fits a graph."""

__version__ = "0.1.0"
