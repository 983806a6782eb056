package org.cerebro.spark.ui

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.scheduler._

/**
 * Inference of one stage.
 *
 * @param submitted
 *   time in milliseconds since 1970, 0 if not known
 * @param completed
 *   0 while the stage runs
 */
private[spark] final case class StageProgress(
    id: Int,
    attempt: Int,
    name: String,
    submitted: Long,
    completed: Long,
    rows: Long,
    seconds: PhaseSeconds,
    lastReport: Long) {

  /** Rows per second of wall time; none before the first report. */
  def rate(now: Long): Option[Double] = {
    val until = if (completed > 0) completed else math.max(now, lastReport)
    if (submitted <= 0 || until <= submitted || rows <= 0) None else Some(1000.0 * rows / (until - submitted))
  }
}

/**
 * Memory of the workers of one role in an executor, in bytes.
 *
 * @param peak
 *   largest resident set of one worker in all reports
 * @param planned
 *   planned resident set of one worker, -1 if there is no plan
 */
private[spark] final case class RoleMemory(
    executor: String,
    host: String,
    role: String,
    workers: Int,
    rss: Long,
    peak: Long,
    planned: Long)

/** Worker that made no progress for long, with the Python stack of its main thread. */
private[spark] final case class StalledWorker(
    executor: String,
    host: String,
    pid: Long,
    stage: Int,
    since: Long,
    stack: String)

/** Unit of a search and the worker that trains it; times in milliseconds since 1970, 0 while it runs. */
private[spark] final case class SearchUnit(
    executor: String,
    pid: Long,
    name: String,
    description: String,
    begin: Long,
    end: Long)

/**
 * Content of the tab.
 *
 * @param units
 *   units of the latest search by their begin
 * @param regions
 *   latest memory of each executor
 */
private[spark] final case class Board(
    stages: Seq[StageProgress] = Nil,
    memory: Seq[RoleMemory] = Nil,
    stalled: Seq[StalledWorker] = Nil,
    units: Seq[SearchUnit] = Nil,
    regions: Seq[MemoryReported] = Nil) {
  def isEmpty: Boolean = stages.isEmpty && memory.isEmpty

  def toJson: String = WorkersMessage.mapper.writeValueAsString(this)
}

private[spark] object Board {

  /** Board of [[Board.toJson]]; none if another version wrote it. */
  def parse(json: String): Option[Board] =
    try Some(WorkersMessage.mapper.readValue(json, classOf[Board]))
    catch { case NonFatal(_) => None }
}

/**
 * State of the tab, from the events of an application: in its driver, or in a history server that reads its event log.
 * It forgets the oldest stages and executors beyond a limit.
 */
private[spark] class ProgressBoard(keptStages: Int = 100, keptExecutors: Int = 200, keptUnits: Int = 2000)
    extends SparkListener {
  private type Worker = (String, Long, Long)

  // Stages whether they have inference or not, because they begin before the first report.
  private val begun = mutable.LinkedHashMap.empty[Int, StageProgress]
  private val stages = mutable.LinkedHashMap.empty[Int, StageProgress]
  private val workers = mutable.LinkedHashMap.empty[Worker, WorkerReport]
  private val memory = mutable.LinkedHashMap.empty[(String, String), RoleMemory]
  private val regions = mutable.LinkedHashMap.empty[String, MemoryReported]
  private val units = mutable.LinkedHashMap.empty[(String, Long, Long, String), SearchUnit]

  // The last reports arrive after the end of the application.
  private var isOver = false

  def board: Board = synchronized {
    val stalled = workers.collect { case ((executor, pid, _), worker) if worker.stack.nonEmpty =>
      val host = memory.get((executor, worker.role)).fold("")(_.host)
      StalledWorker(executor, host, pid, worker.stage, worker.updated, worker.stack)
    }
    Board(
      stages.values.toSeq.sortBy(-_.id),
      memory.values.toSeq.sortBy(row => (row.executor, row.role)),
      stalled.toSeq,
      ProgressBoard.latestSearch(units.values.toSeq.sortBy(_.begin)),
      regions.values.toSeq.sortBy(_.executorId))
  }

  override def onStageSubmitted(event: SparkListenerStageSubmitted): Unit = synchronized {
    val info = event.stageInfo
    val described = Option(event.properties).flatMap(all => Option(all.getProperty("spark.job.description")))
    val former = begun.get(info.stageId)
    val stage = StageProgress(
      info.stageId,
      info.attemptNumber(),
      described.getOrElse(info.name),
      former.fold(info.submissionTime.getOrElse(0L))(_.submitted),
      0,
      0,
      PhaseSeconds(),
      0)
    begun(info.stageId) = stage
    stages.get(info.stageId).foreach { known =>
      stages(info.stageId) = known.copy(attempt = stage.attempt, completed = 0)
    }
    trim(begun, 2 * keptStages)
  }

  override def onStageCompleted(event: SparkListenerStageCompleted): Unit = synchronized {
    val info = event.stageInfo
    val at = info.completionTime.getOrElse(0L)
    for (known <- Seq(begun, stages); stage <- known.get(info.stageId))
      known(info.stageId) =
        stage.copy(completed = at, submitted = if (stage.submitted > 0) stage.submitted else info.submissionTime.getOrElse(0L))
  }

  override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit = synchronized {
    workers.filterInPlace((worker, _) => worker._1 != event.executorId)
    endUnits(event.time)(_.executor == event.executorId)
    memory.mapValuesInPlace((row, kept) => if (row._1 == event.executorId) kept.copy(workers = 0, rss = 0) else kept)
  }

  override def onApplicationEnd(event: SparkListenerApplicationEnd): Unit = synchronized {
    isOver = true
    workers.mapValuesInPlace((_, worker) => worker.copy(stack = ""))
    endUnits(event.time)(_ => true)
    memory.mapValuesInPlace((_, row) => row.copy(workers = 0, rss = 0))
  }

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case reported: WorkersReported => synchronized(report(reported))
    case reported: MemoryReported =>
      synchronized {
        regions(reported.executorId) = reported
        trim(regions, keptExecutors)
      }
    case _ => ()
  }

  private def report(event: WorkersReported): Unit = {
    for (worker <- event.workers) {
      val key = (event.executorId, worker.pid, worker.started)
      val before = workers.get(key)
      workers(key) = if (isOver) worker.copy(stack = "") else worker
      for (unit <- worker.units)
        units((event.executorId, worker.pid, unit.begin, unit.name)) =
          SearchUnit(event.executorId, worker.pid, unit.name, unit.description, unit.begin, unit.end)
      if (worker.ended) workers -= key
      if (worker.ended || isOver)
        endUnits(event.time)(unit => unit.executor == event.executorId && unit.pid == worker.pid)
      if (worker.stage >= 0 && worker.role == "inference") addToStage(worker, before, event.time)
    }
    val ours = workers.collect { case ((executor, _, _), worker) if executor == event.executorId => worker }
    // Workers that are reused change their role, so all roles of the executor are counted again.
    val known = memory.keys.collect { case (executor, role) if executor == event.executorId => role }
    for (role <- (known ++ event.workers.map(_.role)).toSeq.distinct) {
      val living = if (isOver) Nil else ours.filter(_.role == role).toSeq
      val reported = event.workers.filter(_.role == role)
      val row = memory.getOrElse((event.executorId, role), RoleMemory(event.executorId, event.host, role, 0, 0, 0, -1))
      memory((event.executorId, role)) = row.copy(
        workers = living.size,
        rss = living.map(worker => math.max(0, worker.rss)).sum,
        peak = (row.peak +: reported.map(_.rss)).max,
        planned = reported.map(_.planned).filter(_ > 0).maxOption.getOrElse(row.planned))
    }
    trim(stages, keptStages)
    trim(workers, WorkersOfExecutor * keptExecutors)
    trim(memory, keptExecutors)
    trim(units, keptUnits)
  }

  private def endUnits(time: Long)(isOver: SearchUnit => Boolean): Unit =
    units.mapValuesInPlace((_, unit) => if (unit.end == 0 && isOver(unit)) unit.copy(end = math.max(time, unit.begin)) else unit)

  private def addToStage(worker: WorkerReport, before: Option[WorkerReport], time: Long): Unit = {
    val rows = math.max(0, worker.rows - before.fold(0L)(_.rows))
    val seconds = worker.seconds.since(before.fold(PhaseSeconds())(_.seconds))
    val id = worker.stage
    val unknown = StageProgress(id, 0, s"Stage $id", 0, 0, 0, PhaseSeconds(), 0)
    val stage = stages.getOrElse(id, begun.getOrElse(id, unknown))
    if (rows > 0 || seconds.total > 0 || stages.contains(id))
      stages(id) = stage.copy(rows = stage.rows + rows, seconds = stage.seconds + seconds, lastReport = time)
  }

  private val WorkersOfExecutor = 64

  /** Forgets the entries that were added first. */
  private def trim[Key, Value](entries: mutable.LinkedHashMap[Key, Value], most: Int): Unit =
    while (entries.size > most) entries -= entries.head._1
}

private[spark] object ProgressBoard {
  private val IdleMillis = 300000L

  /** Units after the last pause of five minutes, from units by their begin: searches of an application follow another. */
  def latestSearch(units: Seq[SearchUnit]): Seq[SearchUnit] = {
    val ends = units.scanLeft(0L)((latest, unit) => math.max(latest, if (unit.end == 0) Long.MaxValue else unit.end))
    val pauses = units.indices.filter(place => ends(place) != Long.MaxValue && units(place).begin - ends(place) > IdleMillis)
    units.drop(pauses.lastOption.getOrElse(0))
  }
}
