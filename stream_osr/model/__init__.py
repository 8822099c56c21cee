"""The model: a hierarchical Dirichlet process over Gaussians, sampled in the Chinese restaurant franchise.

Known classes and the stream are *groups* (restaurants); mixture components are *dishes* = **subclasses**.
The package knows nothing of river, of events or of connectors.
"""
