package org.cerebro.spark.ui

import java.nio.file.{Files, Path}
import java.util.concurrent.{Executors, ScheduledExecutorService, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import org.cerebro.spark.{MemorySampler, ProcessMemory, WorkerStatus}
import org.cerebro.spark.ProcessMemory.read

/**
 * Reader of the status files of the Python workers of an executor: each second while tasks run, and each ten seconds
 * after the first minute, so that event logs stay small.
 *
 * @param folder
 *   folder of the status files, which this class creates
 * @param send
 *   sends reports to the driver
 * @param sendLast
 *   sends them and waits until the driver has them
 * @param descendants
 *   process ids of the executor's descendants
 * @param stalledMillis
 *   time without progress after which the stack of an inference worker is read
 * @param signal
 *   asks a worker for its stack
 */
private[spark] class WorkerReporter(
    folder: Path,
    send: Seq[WorkerReport] => Unit,
    sendLast: Seq[WorkerReport] => Unit,
    stalledMillis: Long,
    proc: Path = Path.of("/proc"),
    descendants: () => Set[Long] = WorkerReporter.descendants _,
    signal: Long => Unit = WorkerReporter.signal) {
  import WorkerReporter._

  private val processes = new ProcessMemory(proc)
  private val running = new AtomicInteger(0)
  @volatile private var lastTask = 0L
  private var thread = Option.empty[ScheduledExecutorService]
  @volatile private var activeSeconds = 0
  @volatile private var lastReport = 0L
  private val isReportDue = new AtomicBoolean(false)
  private val sent = mutable.Map.empty[Long, WorkerReport]
  // Time of the last sign of progress for which a stack was asked.
  private val asked = mutable.Map.empty[Long, Long]

  def start(): Unit = {
    WorkerStatus.ask(folder)
    val scheduler = Executors.newSingleThreadScheduledExecutor { (task: Runnable) =>
      val made = new Thread(task, "cerebro-worker-reports")
      made.setDaemon(true)
      made
    }
    scheduler.scheduleWithFixedDelay(() => tick(), 1, 1, TimeUnit.SECONDS)
    thread = Some(scheduler)
  }

  /**
   * Reports for the last time: a short application ends before the next second does. The driver stops its listener bus
   * right after its executors, so this waits for it, but not for a driver that is gone.
   */
  def stop(): Unit = thread.foreach { scheduler =>
    scheduler.execute(() => tryReport(sendLast))
    scheduler.shutdown()
    scheduler.awaitTermination(LastSeconds, TimeUnit.SECONDS)
    for (pid <- sent.keys; suffix <- Seq("json", "stack")) delete(folder.resolve(s"$pid.$suffix"))
  }

  def taskStarted(): Unit = running.incrementAndGet()

  /** Reports soon after the last task, because an application may end then. */
  def taskEnded(): Unit = {
    lastTask = System.nanoTime()
    if (running.decrementAndGet() <= 0 && isReportDue.compareAndSet(false, true)) {
      val gap = if (activeSeconds < FrequentSeconds) ShortGapMillis else LongGapMillis
      val wait = math.max(0, gap - (System.nanoTime() - lastReport) / 1000000)
      val report: Runnable = () => {
        isReportDue.set(false)
        tryReport(send)
      }
      // A scheduler that has been shut down refuses; it reports for the last time itself.
      try thread.foreach(_.schedule(report, wait, TimeUnit.MILLISECONDS))
      catch { case NonFatal(_) => () }
    }
  }

  private def tick(): Unit = {
    val isBusy = running.get > 0
    if (isBusy || System.nanoTime() - lastTask < QuietNanos) {
      if (activeSeconds < FrequentSeconds || activeSeconds % RareSeconds == 0 || !isBusy) tryReport(send)
      activeSeconds += 1
    }
  }

  private def tryReport(report: Seq[WorkerReport] => Unit): Unit =
    // An executor that shuts down or a file that vanishes must not end the thread.
    try {
      lastReport = System.nanoTime()
      val changed = poll(System.currentTimeMillis())
      if (changed.nonEmpty) report(changed)
    } catch { case NonFatal(_) | _: LinkageError => () }

  /** Reads the workers and returns those that changed since the last call. */
  private[ui] def poll(now: Long): Seq[WorkerReport] = {
    val pids = WorkerStatus.pids(folder)
    val own = if (pids.isEmpty && sent.isEmpty) Set.empty[Long] else descendants()
    val current = pids.filter(own).flatMap(pid => report(pid, now))
    val ended = sent.values.toSeq.filter(before => !current.exists(isSame(_, before))).map { before =>
      sent -= before.pid
      asked -= before.pid
      // What it wrote after the last call, if anything.
      val last = read(folder.resolve(s"${before.pid}.json")).flatMap(parse(before.pid, _)).filter(isSame(_, before))
      val units = last.fold(Seq.empty[UnitReport])(_.units).filterNot(before.units.toSet)
      last.getOrElse(before).copy(task = -1, rss = 0, stack = "", ended = true, units = units)
    }
    WorkerStatus.clean(folder, proc)
    val changed = current.filter(worker => !sent.get(worker.pid).exists(isLike(_, worker)))
    val news = changed.map { worker =>
      val known = sent.get(worker.pid).fold(Set.empty[UnitReport])(_.units.toSet)
      worker.copy(units = worker.units.filterNot(known))
    }
    changed.foreach(worker => sent(worker.pid) = worker)
    ended ++ news
  }

  private def report(pid: Long, now: Long): Option[WorkerReport] =
    for {
      text <- read(folder.resolve(s"$pid.json"))
      started <- processes.started(pid)
      worker <- parse(pid, text)
      if worker.started == started
    } yield worker.copy(rss = processes.status(pid).fold(-1L)(_.rss), stack = stackOf(worker, now))

  private def stackOf(worker: WorkerReport, now: Long): String = {
    val file = folder.resolve(s"${worker.pid}.stack")
    val isStalled = worker.role == "inference" && worker.task >= 0 && now - worker.updated >= stalledMillis
    // Without the file the worker has no handler, and the signal would end it.
    if (!isStalled || !Files.exists(file)) ""
    else {
      if (!asked.get(worker.pid).contains(worker.updated)) {
        asked(worker.pid) = worker.updated
        Files.write(file, Array.emptyByteArray)
        signal(worker.pid)
      }
      read(file).getOrElse("").take(StackCharacters)
    }
  }
}

private[spark] object WorkerReporter {
  private val FrequentSeconds = 60
  private val RareSeconds = 10
  private val QuietNanos = 3000000000L
  private val LastSeconds = 3L
  private val ShortGapMillis = 250L
  private val LongGapMillis = 1000L
  private val StackCharacters = 8000
  private val ResidentChange = 0.05

  /** Folder of the status files; none on a machine without `/proc`. */
  def folder(): Option[Path] = MemorySampler.optional(WorkerStatus.folder)

  private[ui] def parse(pid: Long, text: String): Option[WorkerReport] =
    try {
      val fields = WorkersMessage.mapper.readTree(text)
      val seconds = fields.path("seconds")
      Some(WorkerReport(
        pid = pid,
        started = number(fields, "started_ticks"),
        role = fields.path("role").asText("").take(40),
        stage = number(fields, "stage_id").toInt,
        task = number(fields, "task_attempt_id"),
        rows = math.max(0, number(fields, "rows")),
        seconds = PhaseSeconds(
          seconds.path("start").asDouble,
          seconds.path("load").asDouble,
          seconds.path("decode").asDouble,
          seconds.path("compute").asDouble,
          seconds.path("convert").asDouble),
        updated = millis(fields, "updated"),
        rss = -1,
        planned = number(fields, "planned_bytes"),
        units = fields.path("units").elements().asScala.toSeq.map { unit =>
          UnitReport(
            unit.path("name").asText("").take(60),
            unit.path("description").asText("").take(60),
            millis(unit, "begin"),
            millis(unit, "end"))
        }))
    } catch { case NonFatal(_) => None }

  private def number(fields: JsonNode, name: String): Long =
    Option(fields.get(name)).filter(_.canConvertToLong).fold(-1L)(_.asLong)

  private def millis(fields: JsonNode, name: String): Long = (fields.path(name).asDouble * 1000).toLong

  private def isSame(one: WorkerReport, other: WorkerReport): Boolean =
    one.pid == other.pid && one.started == other.started

  private def isLike(before: WorkerReport, now: WorkerReport): Boolean =
    before.copy(rss = now.rss) == now && math.abs(now.rss - before.rss) <= ResidentChange * math.max(1, before.rss)

  private def delete(file: Path): Unit =
    try Files.deleteIfExists(file)
    catch { case NonFatal(_) => () }

  private def descendants(): Set[Long] = {
    val pids = Set.newBuilder[Long]
    ProcessHandle.current().descendants().forEach(handle => pids += handle.pid())
    pids.result()
  }

  private def signal(pid: Long): Unit = {
    new ProcessBuilder("kill", "-USR1", pid.toString).start().waitFor(5, TimeUnit.SECONDS)
    // The worker writes in its handler, at once unless it waits for the disk.
    Thread.sleep(50)
  }
}
