"""Web pages that show experiments and steer them."""

from cerebro_spark.steering.pages._routes import PAGE

__all__ = ["PAGE"]
