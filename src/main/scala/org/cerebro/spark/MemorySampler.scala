package org.cerebro.spark

import java.lang.management.ManagementFactory
import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.cerebro.ExecutorInternals

/**
 * Reader of the memory of an executor, called by one thread.
 *
 * Costs by how often they are paid: resident sets of Python workers at each call; the threads of the JVM, which may
 * have started a Python daemon, every two seconds; proportional sets after half a minute, or after five seconds if
 * the memory of the workers has changed by a tenth.
 */
private[spark] class MemorySampler(executor: String, host: String, statusFolder: Option[Path]) {
  import MemorySampler._

  private val memory = new ProcessMemory
  /** Process id of the executor. */
  val jvm: Long = ProcessHandle.current().pid()
  private val hasProcesses = memory.isAvailable
  private val listsChildren = Files.exists(Path.of(s"/proc/$jvm/task/$jvm/children"))
  private val heap = ManagementFactory.getMemoryMXBean
  private val cpu = ManagementFactory.getThreadMXBean
  private val group = ControlGroup.find()

  private var daemons = Seq.empty[Long]
  private var daemonsRead = 0L
  private var proportional = Map.empty[Long, (Long, Long)]
  private var proportionalRead = 0L
  private var proportionalBytes = 0L
  private val started = mutable.Map.empty[Long, Long]
  private var peaks = Map.empty[String, Long]
  private var mapsTasks = true

  /** Limit of the container; none without one. */
  def containerLimit: Option[Long] = group.map(_.limit)

  /** Whether this machine has `/proc`. */
  def isAvailable: Boolean = hasProcesses

  /**
   * Reads everything that is due.
   *
   * @param isUrgent
   *   leaves out proportional sets, which may take a tenth of a second
   */
  def sample(isUrgent: Boolean = false): MemorySample = {
    val now = System.currentTimeMillis()
    val jvmRss = if (hasProcesses) memory.status(jvm).map(_.rss) else None
    val workers = if (hasProcesses) readWorkers() else Nil
    if (!isUrgent && isDue(now, workers)) readProportional(workers)
    val inUse = optional(ExecutorInternals.memoryInUse())
    val fresh = MemorySample(
      executor = executor,
      host = host,
      time = now,
      jvmRss = jvmRss,
      heapUsed = heap.getHeapMemoryUsage.getUsed,
      storage = inUse.map(_._1),
      execution = inUse.map(_._2),
      workers = workers.map(withProportional),
      groupVersion = group.fold(0)(_.version),
      groupLimit = group.map(_.limit),
      groupUsage = group.flatMap(_.usage),
      groupKills = group.flatMap(_.kills),
      groupPressure = group.flatMap(_.pressure),
      samplerCpu = cpu.getCurrentThreadCpuTime / 1000000)
    peaks = MemoryTable.measured(fresh).foldLeft(peaks) { case (so, (region, bytes)) =>
      so.updated(region, math.max(bytes, so.getOrElse(region, 0L)))
    }
    fresh.copy(peaks = peaks)
  }

  private def readWorkers(): Seq[WorkerMemory] = {
    val now = System.nanoTime()
    if (!listsChildren) daemons = Nil
    else if (daemons.isEmpty || now - daemonsRead > DaemonNanos) {
      daemons = memory.children(jvm)
      daemonsRead = now
    }
    val pids = if (listsChildren) memory.withDescendants(daemons) else allDescendants()
    started.filterInPlace((pid, _) => pids.contains(pid))
    val tasks = if (pids.isEmpty) Map.empty[Long, Long] else tasksOfWorkers()
    val helpers = tasks.flatMap { case (pid, task) => helpersOf(pid).map(_ -> task) }
    pids.flatMap { pid =>
      // A JVM that has forked and not yet run a command looks like a second JVM; ended processes have no memory.
      memory.status(pid).filter(status => (status.isPython || helpers.contains(pid)) && status.rss > 0).map { status =>
        val start = started.getOrElseUpdate(pid, memory.started(pid).getOrElse(0L))
        val written = statusFolder.flatMap(WorkerStatus.of(pid, Some(start), _))
        WorkerMemory(
          pid = pid,
          rss = status.rss,
          peak = status.peak,
          started = start,
          task = tasks.get(pid).orElse(helpers.get(pid)).orElse(written.flatMap(_.task)),
          role = written.fold("")(_.role),
          planned = written.flatMap(_.plannedBytes))
      }
    }
  }

  /** Processes that a worker started, whose memory is that of its task. */
  def helpersOf(pid: Long): Seq[Long] =
    if (listsChildren) memory.withDescendants(memory.children(pid)) else Nil

  /** Whether a process is still the one that was sampled, and not a later one with its id. */
  def isRunning(worker: WorkerMemory): Boolean =
    memory.started(worker.pid).contains(worker.started) && memory.status(worker.pid).exists(_.rss > 0)

  private def isDue(now: Long, workers: Seq[WorkerMemory]): Boolean = {
    val bytes = workers.map(_.rss).sum
    val changed = math.abs(bytes - proportionalBytes) > proportionalBytes / 10
    workers.nonEmpty &&
    (now - proportionalRead > ProportionalMillis || (changed && now - proportionalRead > ChangedMillis))
  }

  /** Reads the proportional sets of workers now, whatever is due. */
  def readProportional(workers: Seq[WorkerMemory]): Unit = {
    proportional = workers.flatMap { worker =>
      memory.proportional(worker.pid).map(pss => worker.pid -> (worker.rss -> pss))
    }.toMap
    proportionalRead = System.currentTimeMillis()
    proportionalBytes = workers.map(_.rss).sum
  }

  /** A worker with what was read of its proportional set. */
  def withProportional(worker: WorkerMemory): WorkerMemory = proportional.get(worker.pid) match {
    case Some((rss, pss)) => worker.copy(pss = Some(pss), shared = Some(math.max(0L, rss - pss)))
    case None => worker
  }

  private def tasksOfWorkers(): Map[Long, Long] =
    if (!mapsTasks) Map.empty
    else
      optional(ExecutorInternals.tasksOfWorkers()) match {
        case Some(tasks) => tasks.map { case (pid, task) => pid -> task.taskAttemptId() }
        case None =>
          mapsTasks = false
          Map.empty
      }

  private def allDescendants(): Seq[Long] = {
    val pids = Seq.newBuilder[Long]
    ProcessHandle.current().descendants().forEach(handle => pids += handle.pid())
    pids.result()
  }
}

private[spark] object MemorySampler {
  private val DaemonNanos = 2000000000L
  private val ProportionalMillis = 30000L
  private val ChangedMillis = 5000L

  /** Value that this build of Spark may not have. */
  private[spark] def optional[Value](value: => Value): Option[Value] =
    try Option(value)
    catch { case _: LinkageError | NonFatal(_) => None }
}
