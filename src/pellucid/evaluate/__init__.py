"""How good is it, and how sure is that? A metric is per-sentence statistics and one function of their sums."""
