package org.cerebro.spark.ui

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{DeserializationFeature, ObjectMapper}
import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.spark.scheduler.SparkListenerEvent

/**
 * State of one Python worker. Numbers that are not known are -1; rows and seconds accumulate over its tasks.
 *
 * @param started
 *   start of the process in clock ticks after the boot, which tells it from a later one with the same pid
 * @param stage
 *   stage of its task, or of its last one
 * @param task
 *   attempt that it computes, -1 between tasks
 * @param updated
 *   time of its last sign of progress, in milliseconds since 1970
 * @param stack
 *   Python stack of its main thread, if it made no progress for long
 * @param ended
 *   whether the process has ended
 * @param units
 *   units of a search that began or ended since the last report
 */
final case class WorkerReport(
    pid: Long,
    started: Long,
    role: String,
    stage: Int,
    task: Long,
    rows: Long,
    seconds: PhaseSeconds,
    updated: Long,
    rss: Long,
    planned: Long,
    stack: String = "",
    ended: Boolean = false,
    units: Seq[UnitReport] = Nil)

/** Unit of a search, such as an epoch of a configuration on a shard; times in milliseconds since 1970, 0 while it runs. */
final case class UnitReport(name: String, description: String, begin: Long, end: Long)

/** Seconds of a worker by phase. */
final case class PhaseSeconds(
    start: Double = 0,
    load: Double = 0,
    decode: Double = 0,
    compute: Double = 0,
    convert: Double = 0) {

  def total: Double = start + load + decode + compute + convert

  def +(other: PhaseSeconds): PhaseSeconds = combined(other)(_ + _)

  /** Seconds since an earlier report of the same process, at least 0. */
  def since(earlier: PhaseSeconds): PhaseSeconds = combined(earlier)((now, before) => math.max(0, now - before))

  private def combined(other: PhaseSeconds)(operation: (Double, Double) => Double): PhaseSeconds = PhaseSeconds(
    operation(start, other.start),
    operation(load, other.load),
    operation(decode, other.decode),
    operation(compute, other.compute),
    operation(convert, other.convert))
}

/** Event of the listener bus and of the event log: workers of an executor whose state changed. */
final case class WorkersReported(executorId: String, host: String, time: Long, workers: Seq[WorkerReport])
    extends SparkListenerEvent

/** The same from an executor to the driver, as text: classes of the plugin need not be known to Spark's RPC. */
private[spark] final case class WorkersMessage(
    cerebroWorkers: Int,
    executorId: String,
    host: String,
    time: Long,
    workers: Seq[WorkerReport]) {
  def text: String = WorkersMessage.mapper.writeValueAsString(this)
}

private[spark] object WorkersMessage {
  private[ui] val mapper = new ObjectMapper()
    .registerModule(DefaultScalaModule)
    .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false)

  /** Event of a message; none if the message is of another kind. */
  def event(text: String): Option[WorkersReported] =
    if (!text.startsWith("{\"cerebroWorkers\":")) None
    else
      try {
        val message = mapper.readValue(text, classOf[WorkersMessage])
        Some(WorkersReported(message.executorId, message.host, message.time, message.workers))
      } catch { case NonFatal(_) => None }
}
