"""``python -m vista_spark``: the same as ``vista``."""

from vista_spark.cli import main

if __name__ == "__main__":
    main()
