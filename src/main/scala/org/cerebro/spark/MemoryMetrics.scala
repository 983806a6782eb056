package org.cerebro.spark

import java.net.InetAddress
import java.util.concurrent.{Executors, RejectedExecutionException, ScheduledExecutorService, TimeUnit}

import scala.util.control.NonFatal

import com.codahale.metrics.{Gauge, MetricRegistry}
import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.cerebro.ExecutorInternals
import org.apache.spark.scheduler.{SparkListener, SparkListenerExecutorRemoved, SparkListenerStageCompleted}

/**
 * Memory of an executor, as Spark metrics and as messages to the driver.
 *
 * A daemon thread samples each second. Nothing here fails a task: a sample that fails is skipped, and the first failure
 * is logged.
 */
private[spark] class MemoryMetrics(context: PluginContext) {
  import MemoryMetrics._

  private val folder = MemorySampler.optional(WorkerStatus.folder)
  private val host = MemorySampler.optional(ExecutorInternals.host()).getOrElse(InetAddress.getLoopbackAddress.getHostName)
  private val sampler = new MemorySampler(context.executorID(), host, folder)
  private val scheduler: ScheduledExecutorService = Executors.newSingleThreadScheduledExecutor { task =>
    val thread = new Thread(task, "cerebro-memory")
    thread.setDaemon(true)
    thread
  }
  @volatile private var latest: Option[MemorySample] = None
  private var sent = Option.empty[MemorySample]
  private var hasFailed = false
  private var isRegistered = false
  private val tasks = new RunningTasks(context, context.conf().getTimeAsMs(MemoryGuard.Wait, MemoryGuard.LongestWait))
  private val guard = Support.guard("the memory guard")(MemoryGuard.of(context, sampler, tasks)).flatten

  def start(): Unit = {
    if (!sampler.isAvailable)
      Support.warn("memory metrics of processes are not available: this machine has no /proc. The heap is measured")
    folder.foreach(folder => MemorySampler.optional(WorkerStatus.ask(folder)))
    isRegistered = isNamed
    if (isRegistered) register(context.metricRegistry())
    next(0)
  }

  /** Registers the task of this thread, and lets it wait for others if its workers were ended before. */
  def startTask(): Unit = if (guard.isDefined) tasks.start()

  def stop(): Unit = {
    scheduler.shutdownNow()
    folder.foreach(WorkerStatus.clean(_))
  }

  private def next(millis: Long): Unit = {
    try scheduler.schedule((() => next(step())): Runnable, millis, TimeUnit.MILLISECONDS)
    catch { case _: RejectedExecutionException => () }
    ()
  }

  /** Takes a sample, and returns the milliseconds until the next. */
  private def step(): Long =
    try {
      val sample = sampler.sample(guard.exists(_.isUrgent))
      latest = Some(sample)
      if (!isRegistered && isNamed) {
        isRegistered = true
        val registry = new MetricRegistry
        register(registry)
        ExecutorInternals.registerMetrics(s"plugin.${classOf[CerebroPlugin].getName}", registry)
      }
      if (sent.forall(before => sample.time - before.time >= PeriodMillis - 100 && differs(before, sample))) {
        context.send(sample.toJson)
        sent = Some(sample)
      }
      guard.fold(PeriodMillis)(_.check(sample))
    } catch {
      case failure @ (_: LinkageError | NonFatal(_)) =>
        if (!hasFailed && !scheduler.isShutdown) Support.warn(s"a memory sample is skipped: $failure")
        hasFailed = true
        PeriodMillis
    }

  /**
   * Whether the application has its id, which begins the names of metrics. In local mode plugins start before, and Spark
   * would warn about names without it.
   */
  private def isNamed: Boolean = context.conf().contains("spark.app.id")

  private def register(registry: MetricRegistry): Unit =
    Gauges.foreach { case (name, value) =>
      val gauge: Gauge[Long] = () => latest.flatMap(value).getOrElse(Missing)
      registry.register(name, gauge)
    }
}

private[spark] object MemoryMetrics {

  /** Setting that switches the metrics off, and with them the guard. */
  val Enabled = "spark.cerebro.memory.metrics"

  /** Value of a gauge that this machine does not have. */
  val Missing = -1L

  /** Time between samples. */
  val PeriodMillis = 1000L

  /** An unchanged sample is sent this often, so that the driver knows how old it is. */
  private val QuietMillis = 10000L
  private val SmallChange = 1L << 20

  /** Name and value of each Spark metric; the name says whether it is an RSS or a PSS. */
  val Gauges: Seq[(String, MemorySample => Option[Long])] = Seq(
    "memory.jvm.rss.bytes" -> (_.jvmRss),
    "memory.jvm.heap.used.bytes" -> (sample => Some(sample.heapUsed)),
    "memory.python.workers" -> (sample => Some(sample.workers.size.toLong)),
    "memory.python.rss.bytes" -> (sample => Some(sample.pythonRss)),
    "memory.python.pss.bytes" -> (_.pythonPss),
    "memory.python.shared.bytes" -> (_.shared),
    "memory.python.largestWorker.rss.bytes" -> (_.workers.map(_.rss).maxOption),
    "memory.task.peak.rss.bytes" -> (_.peaks.get("task")),
    "memory.total.rss.bytes" -> (_.totalRss),
    "memory.cgroup.limit.bytes" -> (_.groupLimit),
    "memory.cgroup.usage.bytes" -> (_.groupUsage),
    "memory.cgroup.oomKills" -> (_.groupKills),
    "memory.cgroup.pressure.percent" -> (_.groupPressure.map(math.round)),
    "memory.sampler.cpu.millis" -> (sample => Some(sample.samplerCpu)))

  /** Whether a boolean setting is on. */
  def isOn(value: String, name: String): Boolean =
    value.trim.toBooleanOption.getOrElse(throw new IllegalArgumentException(s"$name must be true or false, got '$value'"))

  /** Begins to collect samples, and to count kills, in the driver. */
  def collect(context: SparkContext, kills: MemoryKills): Unit = {
    MemoryReports.begin(PlannedMemory.parse(context.getConf.get(PlannedMemory.Setting, "")))
    context.addSparkListener(new SparkListener {
      override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit = MemoryReports.remove(event.executorId)

      override def onStageCompleted(event: SparkListenerStageCompleted): Unit = kills.forget(event.stageInfo.stageId)
    })
  }

  private[spark] def differs(before: MemorySample, after: MemorySample): Boolean = {
    def changed(value: MemorySample => Option[Long]): Boolean =
      math.abs(value(after).getOrElse(0L) - value(before).getOrElse(0L)) >= SmallChange
    after.time - before.time >= QuietMillis || before.workers.map(_.pid) != after.workers.map(_.pid) ||
    before.workers.map(_.task) != after.workers.map(_.task) || changed(_.totalRss) || changed(_.storage) ||
    changed(_.execution) || changed(_.pythonPss) || changed(_.groupUsage)
  }
}
