"""Work: run a function over the shards of a table, here or on Ray, resumably."""
