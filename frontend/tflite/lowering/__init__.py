"""What lowerings are written with: values, shapes, quantisation, and the operators written so far."""
