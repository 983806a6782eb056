package org.cerebro.spark

/**
 * Limit of an executor's memory in bytes.
 *
 * @param isContainer
 *   whether it is a container's, whose usage the kernel counts; otherwise the processes of the executor are summed up
 */
private[spark] final case class MemoryLimit(bytes: Long, isContainer: Boolean) {

  /** Bytes at which a worker is ended: before a container's limit, at which the kernel kills, and at any other. */
  def trigger: Long =
    if (!isContainer) bytes
    else bytes - math.min(bytes / 8, math.max(MemoryLimit.SmallestMargin, math.min(bytes / 20, MemoryLimit.LargestMargin)))

  /** Whether the memory is read as often as possible: a tenth of the limit is left. */
  def isNear(used: Long): Boolean = used >= trigger - trigger / 10

  /** Milliseconds in which processes that grow fast may reach the trigger; at most a period of the metrics. */
  def untilReached(used: Long, bytesPerSecond: Long): Long = {
    val fast = math.max(MemoryLimit.FastGrowth, 2 * bytesPerSecond)
    val millis = (trigger - used) / (fast / 1000)
    if (isNear(used)) MemoryLimit.NearMillis
    else math.max(MemoryLimit.NearMillis, math.min(MemoryMetrics.PeriodMillis, millis))
  }

  /** Bytes in use by the meaning of this limit. */
  def used(sample: MemorySample): Long =
    if (isContainer) sample.groupUsage.getOrElse(0L) else sample.total.getOrElse(0L)
}

private[spark] object MemoryLimit {

  /** Setting of a limit for executors without a container, as "8g". */
  val Setting = "spark.cerebro.memory.limit"

  /** Bytes that fast processes allocate within a sample. */
  private val SmallestMargin = 128L << 20
  private val LargestMargin = 512L << 20

  /** Time between samples near the limit. */
  private val NearMillis = 100L

  /** Bytes a second by which the processes of an executor may start to grow at any time. */
  private val FastGrowth = 1L << 30

  /** The smaller one of the setting and the container's limit, and what is to be said about the setting. */
  def of(setting: Option[Long], container: Option[Long]): (Option[MemoryLimit], Option[String]) = (setting, container) match {
    case (Some(bytes), Some(most)) if bytes > most =>
      val text = s"$Setting must be at most the container's limit of $most bytes, got $bytes: the container's limit is used"
      (Some(MemoryLimit(most, isContainer = true)), Some(text))
    // Processes beside the executor, such as a driver in Python, count for the kernel.
    case (Some(bytes), Some(most)) if bytes == most => (Some(MemoryLimit(most, isContainer = true)), None)
    case (Some(bytes), _) => (Some(MemoryLimit(bytes, isContainer = false)), None)
    case (None, most) => (most.map(MemoryLimit(_, isContainer = true)), None)
  }

  /** Advice on a limit that does not have room for the JVM and one worker. */
  def advice(limit: MemoryLimit, jvm: Long, share: Option[Long]): Option[String] = {
    val least = jvm + share.getOrElse(0L)
    if (limit.trigger > least) None
    else
      Some(
        s"the memory limit of an executor must be above the ${least >> 20} MiB of its JVM" +
          share.fold("")(_ => " and one planned worker") + s", got ${limit.bytes >> 20} MiB: Python workers are ended as they " +
          s"start. Raise the container's limit or $Setting")
  }
}
