"""Where may an answer stand? Passages of one's own documents, an index of their terms, the best for a question."""
