"""Core in, core out: findings from evidence, and the ONNX nodes that carry baked sizes."""
