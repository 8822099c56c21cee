"""What people ask of the service: labels, names, mutes, undoing."""
