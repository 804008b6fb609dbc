"""The numeric core: numpy only, no input or output, no clock, no global randomness, no loop over tasks or depths."""
