"""What happens inside? Attention recorded beside the fast path, measures of heads and parts, pictures and a page."""
