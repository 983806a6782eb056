"""``python -m cerebro_spark``: the same as ``cerebro``."""

from cerebro_spark.cli import main

if __name__ == "__main__":
    main()
