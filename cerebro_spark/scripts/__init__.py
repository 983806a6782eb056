"""Scripts that users upload: Python files of a search, imported in a process that can be ended."""

from cerebro_spark.scripts._description import SETTINGS
from cerebro_spark.scripts._import_script import import_script
from cerebro_spark.scripts._limits import ScriptLimits
from cerebro_spark.scripts._module import ScriptFunction
from cerebro_spark.scripts._request import HANDLER, checked_script

__all__ = ["HANDLER", "SETTINGS", "ScriptFunction", "ScriptLimits", "checked_script", "import_script"]
