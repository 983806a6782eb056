"""Server of running searches: database, REST API and pages. Imports neither Spark nor a framework."""

from cerebro_spark.steering.server._app import create_server
from cerebro_spark.steering.server._database import DatabaseRefusedError, database_path, open_database
from cerebro_spark.steering.server._index import IndexedRun, index_store

__all__ = ["DatabaseRefusedError", "IndexedRun", "create_server", "database_path", "index_store", "open_database"]
