"""The rules by which a picture or a set stays: one file per rule, registered in ``filters.protocol``."""
