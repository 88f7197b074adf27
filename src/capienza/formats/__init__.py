"""Number formats: bytes of a shape in a format, and how quantisation methods store a model."""
