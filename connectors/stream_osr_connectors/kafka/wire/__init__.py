"""Wire format: encoding and decoding of messages."""
