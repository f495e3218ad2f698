"""Papers: each one as a readable module that regenerates its tables; and the training of the embedded miniatures.

Recipes compose the other packages; only the command line imports them.
"""
