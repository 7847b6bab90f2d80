"""Search: from a step that scores the next token to the best whole sequences (section 6.1 of the paper)."""
