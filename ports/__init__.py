"""The suite of ports: two programs that should compute the same, of libraries that do not know this project.

A case is two runs and what is known about them. Healthy ports compute the same; bugs are edits of one place
in the source of a library. The libraries are those of PyPI; models are built from small configurations with
seeded weights, so that no weights are downloaded.

The suite was written from the libraries alone. Its authors did not read how verdicts are made.
"""
