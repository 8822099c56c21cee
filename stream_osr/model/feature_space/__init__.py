"""Feature space: from the features of an instance to the whitened coordinates of the model, and back."""
