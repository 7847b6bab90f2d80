"""Training data that is made, not read: tasks over symbols, and the bundled grammar."""
