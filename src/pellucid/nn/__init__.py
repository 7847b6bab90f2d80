"""The ground floor: the equations of "Attention Is All You Need", and what came after them.

Shapes are written with these letters: B batch, T target (or query) length, S source (or key) length, H heads,
D model width, F feed-forward width, V vocabulary, N = B·T rows.
"""
