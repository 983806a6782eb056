package org.cerebro.spark

import java.util.{Collections, Map => JMap}

import org.apache.spark.{SparkContext, TaskFailedReason}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.cerebro.spark.ui.{ProgressReports, WorkerReporter}

/** Plugin of a Spark application: `spark.plugins=org.cerebro.spark.CerebroPlugin`. */
class CerebroPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new CerebroDriver
  override def executorPlugin(): ExecutorPlugin = new CerebroExecutor
}

/** Part of the plugin in the driver: checks the settings, and collects what executors report. */
private[spark] class CerebroDriver extends DriverPlugin {
  private var reports = Option.empty[ProgressReports]
  private var kills = Option.empty[(SparkContext, MemoryKills)]

  override def init(context: SparkContext, plugin: PluginContext): JMap[String, String] = {
    val conf = context.getConf
    Support.guard("the check of settings") {
      CerebroDriver.advice(conf.get(CerebroDriver.Extensions, "")).foreach(Support.warn)
    }
    Support.guard("memory metrics") {
      if (MemoryMetrics.isOn(conf.get(MemoryMetrics.Enabled, "true"), MemoryMetrics.Enabled)) {
        val counted = new MemoryKills(conf.getInt(MemoryGuard.Retries, MemoryKills.Budget))
        MemoryMetrics.collect(context, counted)
        kills = Some(context -> counted)
      }
    }
    Support.guard(ProgressReports.Feature) { reports = ProgressReports.driver(context) }
    Collections.emptyMap()
  }

  override def receive(message: Any): AnyRef = message match {
    case text: String =>
      val sample = Support.guard("memory metrics")(MemorySample.parse(text)).flatten
      val answer = Support.guard("memory metrics") {
        sample.foreach(MemoryReports.receive)
        kills.flatMap { case (context, counted) => counted.receive(text, context.cancelStage(_, _)) }
      }
      Support.guard(ProgressReports.Feature)(reports.foreach(_.receive(text, sample)))
      answer.flatten.orNull
    case _ => null
  }

  override def shutdown(): Unit = MemoryReports.end()
}

private[spark] object CerebroDriver {
  val Extensions = "spark.sql.extensions"

  /** Advice on a value of `spark.sql.extensions` that leaves out ours. */
  def advice(extensions: String): Option[String] = {
    val name = classOf[CerebroExtensions].getName
    if (extensions.split(",").map(_.trim).contains(name)) None
    else
      Some(
        s"$Extensions must contain $name for push-down below inference, got '$extensions'. " +
          s"Add --conf $Extensions=$name, or remove org.cerebro.spark.CerebroPlugin from spark.plugins")
  }
}

/** Part of the plugin in each executor. */
private[spark] class CerebroExecutor extends ExecutorPlugin {
  private var metrics = Option.empty[MemoryMetrics]
  private var reporter = Option.empty[WorkerReporter]

  override def init(context: PluginContext, extra: JMap[String, String]): Unit = {
    Support.guard("memory metrics") {
      if (MemoryMetrics.isOn(context.conf().get(MemoryMetrics.Enabled, "true"), MemoryMetrics.Enabled)) {
        val started = new MemoryMetrics(context)
        started.start()
        metrics = Some(started)
      }
    }
    Support.guard(ProgressReports.Feature) { reporter = ProgressReports.executor(context) }
  }

  override def onTaskStart(): Unit = {
    metrics.foreach(_.startTask())
    reporter.foreach(_.taskStarted())
  }

  override def onTaskSucceeded(): Unit = reporter.foreach(_.taskEnded())

  override def onTaskFailed(reason: TaskFailedReason): Unit = reporter.foreach(_.taskEnded())

  override def shutdown(): Unit = {
    // The metrics delete status files at their end, of which the reporter reads the last ones.
    Support.guard(ProgressReports.Feature)(reporter.foreach(_.stop()))
    Support.guard("memory metrics")(metrics.foreach(_.stop()))
  }
}
