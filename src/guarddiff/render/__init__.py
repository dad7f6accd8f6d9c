"""Reports and warnings as text: one small file per format over the same data."""
