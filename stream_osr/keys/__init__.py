"""Streams by key: the stream of one key, and the recognizers that stay in memory.

What only :class:`stream_osr.keyed.Keyed` and the connectors need belongs in here. The public class is in ``keyed``.
"""
