"""What are the equations? The ground floor: those of "Attention Is All You Need", and of what came after them.

Shapes are written with these letters: B batch, T target (or query) length, S source (or key) length, H heads,
D model width, d_k width of a head's queries and keys, d_v that of its values, F feed-forward width, V vocabulary,
N = B·T rows.
"""
