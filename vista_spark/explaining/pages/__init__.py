"""Page of explanations: drop an image, and see which parts of it a network's prediction depends on."""

from vista_spark.explaining.pages._routes import PAGE

__all__ = ["PAGE"]
