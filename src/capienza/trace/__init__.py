"""The peak of a PyTorch program, traced on a machine without a GPU."""
