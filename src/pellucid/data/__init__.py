"""Where sentences come from: sources, tokenizers, synthetic tasks, the bundled grammar, batches."""
