"""The ONNX program and the eager module, run against each other at other sizes."""
