"""Repairs: ways to export operators that are right at every size; one operator per file."""
