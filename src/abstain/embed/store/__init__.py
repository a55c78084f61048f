"""The making and keeping of features.

Goes in: inputs and a backbone. Comes out: shards of 1,024 rows on disk, and `Features`, which reads
them. Begin with `Pipeline` in pipeline.py; shards.py has the files.
"""
