"""The model: a hierarchical Dirichlet process over Gaussians, sampled in the Chinese restaurant franchise.

Known classes and the stream are *groups* (restaurants). Mixture components are *dishes*, called **subclasses**.
The package does not depend on river, events or connectors.
"""
