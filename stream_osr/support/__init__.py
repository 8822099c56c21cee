"""Support: files, states, threads, memory and limits.

Modules here import nothing of instances, models or streams.
"""
