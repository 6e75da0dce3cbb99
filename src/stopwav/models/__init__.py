"""Reference networks in PyTorch: what engines run when no toolkit is asked for."""
