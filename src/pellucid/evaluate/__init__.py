"""Scores with intervals and significance: a metric is per-sentence statistics and one function of their sums."""
