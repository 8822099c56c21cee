"""Support: files, states, threads, memory and limits.

Modules here would be useful in any library. They know nothing of instances, models or streams.
"""
