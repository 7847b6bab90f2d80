"""What is a trained run, and how does it decode? Its folder, its checkpoints, Run, and the choice of a decoder."""
