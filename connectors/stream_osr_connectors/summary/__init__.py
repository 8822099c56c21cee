"""Summary of a stream for people: one fold over decisions and events, and the view that every page shows."""
