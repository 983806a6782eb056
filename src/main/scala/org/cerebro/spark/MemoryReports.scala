package org.cerebro.spark

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/** Latest memory sample of each executor, in the driver. */
private[spark] object MemoryReports {
  private val samples = new ConcurrentHashMap[String, MemorySample]()
  @volatile private var plan: Option[PlannedMemory] = None

  /** Begins an application with the plan of its settings. */
  def begin(planned: PlannedMemory): Unit = {
    samples.clear()
    plan = Some(planned)
  }

  def end(): Unit = {
    samples.clear()
    plan = None
  }

  /** Plan of the running application; none if the plugin does not run in it. */
  def planned: Option[PlannedMemory] = plan

  def receive(sample: MemorySample): Unit = samples.put(sample.executor, sample)

  /** Forgets an executor that was lost. */
  def remove(executor: String): Unit = samples.remove(executor)

  def latest: Seq[MemorySample] = samples.values.asScala.toSeq.sortBy(_.executor)
}
