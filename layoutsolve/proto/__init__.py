"""ONNX protobuf messages: what is known of operators, scopes and data movement from a file alone."""
