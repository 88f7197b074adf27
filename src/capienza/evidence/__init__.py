"""Records: dated, versioned, scoped, content-addressed facts, and what they speak of."""
