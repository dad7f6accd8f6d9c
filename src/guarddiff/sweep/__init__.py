"""Which operators and models are silently wrong on this torch, measured."""
