package org.cerebro.spark.ui

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.cerebro.{ExecutorInternals, ProgressPages}
import org.cerebro.spark.{MemoryReports, MemorySample, PlannedMemory, Support}

/** Settings of the tab, and its parts in the driver and in executors. */
private[spark] object ProgressReports {
  val Feature = "the tab of cerebro-spark in Spark's UI"
  val Enabled = "spark.cerebro.ui"
  val StalledAfter = "spark.cerebro.ui.stalledAfter"

  /** Whether a tab or an event log of the application needs reports. */
  def isOn(conf: SparkConf): Boolean =
    !conf.get(Enabled, "true").trim.equalsIgnoreCase("false") &&
      (conf.getBoolean("spark.ui.enabled", defaultValue = true) ||
        conf.getBoolean("spark.eventLog.enabled", defaultValue = false))

  /** Warning about a value of the setting that is neither true nor false. */
  def advice(value: String): Option[String] =
    if (Seq("true", "false").exists(value.trim.equalsIgnoreCase)) None
    else Some(s"$Enabled must be true or false, got '$value'. The tab is on; set $Enabled=false to switch it off")

  /** Driver's part: posts what executors report as events, and shows them; none where no one would see them. */
  def driver(context: SparkContext): Option[ProgressReports] = {
    val conf = context.getConf
    advice(conf.get(Enabled, "true")).foreach(Support.warn)
    if (isOn(conf)) Some(new ProgressReports(context)) else None
  }

  /** Executor's part; none on a machine without `/proc`. */
  def executor(plugin: PluginContext): Option[WorkerReporter] = {
    val conf = plugin.conf()
    if (!isOn(conf)) None
    else
      WorkerReporter.folder().map { folder =>
        def message(workers: Seq[WorkerReport]): String =
          WorkersMessage(1, plugin.executorID(), ExecutorInternals.host(), System.currentTimeMillis(), workers).text
        val reporter = new WorkerReporter(
          folder,
          workers => plugin.send(message(workers)),
          workers => { plugin.ask(message(workers)); () },
          conf.getTimeAsMs(StalledAfter, "60s"))
        reporter.start()
        reporter
      }
  }
}

private[spark] class ProgressReports private (context: SparkContext) {
  private val board = new ProgressBoard
  context.addSparkListener(board)
  ProgressPages.attach(context, link => TabContent.render(board.board, link, System.currentTimeMillis()))

  private val memory = new MemoryEvents(MemoryReports.planned.getOrElse(PlannedMemory.None))

  /**
   * Posts a message of an executor as an event, which the listener and the event log receive.
   *
   * @param sample
   *   memory sample that the message is, if it is one
   */
  def receive(text: String, sample: Option[MemorySample]): Unit =
    WorkersMessage.event(text).map(withPlan).orElse(sample.flatMap(memory.event)).foreach(ProgressPages.post(context, _))

  /** Plan of workers that have none of their own: an equal share of the plan of the executor. */
  private def withPlan(event: WorkersReported): WorkersReported =
    MemoryReports.planned.flatMap(_.share).fold(event) { share =>
      event.copy(workers = event.workers.map(worker => if (worker.planned > 0) worker else worker.copy(planned = share)))
    }
}
