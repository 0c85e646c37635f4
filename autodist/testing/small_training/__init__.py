"""A training that shows in a minute whether a cluster trains."""
