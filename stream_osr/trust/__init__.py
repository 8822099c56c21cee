"""What is promised of the known classes, what guards them, and how sure a decision is."""
