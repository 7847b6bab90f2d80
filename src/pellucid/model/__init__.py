"""How do the parts make a Transformer? The first floor: Figure 1, and build.py, where strings become parts."""
