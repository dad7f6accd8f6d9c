"""Sets of static models: one export for each size that is wanted, with one copy of the weights."""
