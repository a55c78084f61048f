"""The audit: data in, verdict out; its result, its folder, and the labels that were reviewed."""
