"""Models as people write them in one file, which take the weights of a library's model."""
