"""Custom operators: MediaPipe, Coral, detection, ragged tensors."""
