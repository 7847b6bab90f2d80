"""C++ for the processor at hand, its compilation, and its doors for torch."""
