"""How is a sequence found, token by token? From a step to whole sequences (section 6.1), whoever computes the step."""
