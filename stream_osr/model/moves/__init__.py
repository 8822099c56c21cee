"""What a sweep does: seat, split, remember densities, redraw concentrations and base measure."""
