"""The only room that touches torch's private names."""
