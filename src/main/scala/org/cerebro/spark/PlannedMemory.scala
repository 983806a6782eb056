package org.cerebro.spark

/**
 * Bytes of an executor that a plan of cerebro-spark gives each region, as the setting [[PlannedMemory.Setting]] has
 * them: `cores=2,heap=1073741824,python=...`.
 */
private[spark] final case class PlannedMemory(values: Map[String, Long]) {
  private def sum(names: String*): Option[Long] =
    if (names.forall(values.contains)) Some(names.map(values).sum) else None

  /** Planned bytes of a region of [[MemoryTable]]. */
  def region(name: String): Option[Long] = name match {
    case "jvm" => sum("heap", "overhead", "off_heap")
    case "python" => sum("python", "dl")
    case "task" => share
    case "total" => sum("heap", "overhead", "off_heap", "python", "dl")
    case other => values.get(other)
  }

  /** Equal share of a task slot in the memory of the Python workers. */
  def share: Option[Long] = sum("python", "dl").zip(values.get("cores").filter(_ > 0)).map { case (bytes, cores) => bytes / cores }
}

private[spark] object PlannedMemory {

  /** Setting that the plan writes. */
  val Setting = "spark.cerebro.memory.plan"

  val None: PlannedMemory = PlannedMemory(Map.empty)

  def parse(text: String): PlannedMemory =
    PlannedMemory(text.split(",").toSeq.flatMap { entry =>
      entry.split("=", 2) match {
        case Array(name, value) => value.trim.toLongOption.map(name.trim -> _)
        case _ => Nil
      }
    }.toMap)
}
