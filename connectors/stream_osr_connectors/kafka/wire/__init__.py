"""What goes over the wire: bytes in and out, and what they mean."""
