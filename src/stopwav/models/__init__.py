"""Reference networks in PyTorch: the models of our own engines."""
