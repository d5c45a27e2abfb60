"""Fourier transforms, spectrograms and tflite-micro's signal operators."""
