"""Group-balanced data by inpainting (Hirota et al., EMNLP 2024): from photographs to the tables of the paper."""
