package org.cerebro.spark.ui

import scala.collection.mutable

import org.apache.spark.scheduler.SparkListenerEvent
import org.cerebro.spark.{MemorySample, MemoryTable, PlannedMemory}

/** Memory of a region of an executor in bytes, -1 where it is not known. */
final case class RegionReport(region: String, planned: Long, measured: Long, peak: Long)

/** Event of the listener bus and of the event log: memory of an executor beside its plan. */
final case class MemoryReported(executorId: String, host: String, time: Long, regions: Seq[RegionReport])
    extends SparkListenerEvent

/**
 * Events from memory samples, which come each second: one each ten seconds, and one if a peak has risen by a twentieth,
 * so that event logs stay small.
 */
private[spark] class MemoryEvents(plan: => PlannedMemory) {
  import MemoryEvents._

  private val posted = mutable.Map.empty[String, MemoryReported]

  /** Event of a sample; none if the last one says much the same. */
  def event(sample: MemorySample): Option[MemoryReported] = synchronized {
    val regions = MemoryTable.entries(sample, plan).filter(entry => Shown(entry.region)).map { entry =>
      RegionReport(
        entry.region,
        entry.predicted.getOrElse(-1L),
        entry.measured.getOrElse(-1L),
        entry.peak.getOrElse(-1L))
    }
    val fresh = MemoryReported(sample.executor, sample.host, sample.time, regions)
    val isNews = posted.get(sample.executor).forall { before =>
      val peaks = before.regions.map(region => region.region -> math.max(0L, region.peak)).toMap
      fresh.time - before.time >= PeriodMillis ||
      regions.exists(region => region.peak > Rise * peaks.getOrElse(region.region, 0L))
    }
    if (isNews) posted(sample.executor) = fresh
    if (isNews) Some(fresh) else None
  }
}

private[spark] object MemoryEvents {
  private val PeriodMillis = 10000L
  private val Rise = 1.05
  private val Shown = Set("jvm", "storage", "core", "python", "task", "total", "container")
}
