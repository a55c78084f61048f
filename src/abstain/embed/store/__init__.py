"""Features on disk: made by pipeline.py, kept in shards.py."""
