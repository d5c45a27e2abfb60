"""What lowerings are written with: values, shapes, quantization, and the operators written so far."""
