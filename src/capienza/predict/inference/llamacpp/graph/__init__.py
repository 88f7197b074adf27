"""llama.cpp's compute graph as far as its buffers go: shapes of nodes, their devices, and where they are put."""
