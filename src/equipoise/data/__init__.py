"""Tables: one format from prompt to report, readers of public datasets, balancing and mixing."""
