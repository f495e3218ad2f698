"""Image generators of the diffusers library."""
