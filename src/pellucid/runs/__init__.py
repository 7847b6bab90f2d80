"""Runs: a trained model ready for use, its folder, its checkpoints, and how it decodes."""
