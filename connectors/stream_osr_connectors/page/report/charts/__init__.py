"""The drawings, as Vega-Lite specifications made with Altair."""
