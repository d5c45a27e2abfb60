"""Targets: what a runtime has in place of the operators of ONNX, and what they cost there."""
