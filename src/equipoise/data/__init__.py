"""Tables: one format from prompt to report, readers of public datasets, balancing and mixing.

A table is a folder of Parquet shards that Hugging Face ``datasets``, pandas, DuckDB and Ray Data open as they are; one
row is one image, and everything between the packages of Equipoise is a table. Filters and labellers write *layers*
that are joined at reading, so no image is ever copied to add a column. Readers turn public datasets into tables,
exports turn tables into what other tools want.
"""

from typing import TYPE_CHECKING

from equipoise.first_use import on_first_use

if TYPE_CHECKING:
    from equipoise.data.importing import ImportSummary, import_rows, import_table
    from equipoise.data.results import TableDiff, diff, read_results, write_results
    from equipoise.data.schema import DatasetReader, Rejected, Row, TableSchema, schema_for
    from equipoise.data.shards import ShardInfo, write_shard
    from equipoise.data.table import Table
    from equipoise.data.writer import LayerWriter, TableWriter

__all__ = [
    "DatasetReader",
    "ImportSummary",
    "LayerWriter",
    "Rejected",
    "Row",
    "ShardInfo",
    "Table",
    "TableDiff",
    "TableSchema",
    "TableWriter",
    "diff",
    "import_rows",
    "import_table",
    "read_results",
    "schema_for",
    "write_results",
    "write_shard",
]

_BY_HOME = {
    "importing": ("ImportSummary", "import_rows", "import_table"),
    "results": ("TableDiff", "diff", "read_results", "write_results"),
    "schema": ("DatasetReader", "Rejected", "Row", "TableSchema", "schema_for"),
    "shards": ("ShardInfo", "write_shard"),
    "table": ("Table",),
    "writer": ("LayerWriter", "TableWriter"),
}


# Imported on first use: pyarrow alone takes longer to import than `equipoise --help` may take to answer.
__getattr__ = on_first_use(__name__, {name: home for home, names in _BY_HOME.items() for name in names})


def __dir__() -> list[str]:
    return sorted(__all__)
