"""LSTM, RNN and SVDF operators."""
