package org.cerebro.spark

import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.cerebro.ExecutorInternals

/**
 * Ends a Python worker before the kernel kills the executor.
 *
 * Called by the thread that samples. Idle workers that keep memory go first, because that loses no work; then the
 * newest task above its planned share. The task is marked as killed before its workers are ended, so that Spark tries
 * it again without counting a failure.
 */
private[spark] class MemoryGuard(
    context: PluginContext,
    sampler: MemorySampler,
    tasks: RunningTasks,
    limit: MemoryLimit,
    plan: PlannedMemory) {
  import MemoryGuard._

  private var ending = Seq.empty[(WorkerMemory, Long)]
  private var aboveSince = Option.empty[Long]
  private var hasComplained = false
  private var before = 0L -> 0L
  @volatile private var isNear = false

  /** Loads what the first kill needs, while there is time. */
  def prepare(): Unit = {
    MemoryVictim.choose(Seq(WorkerMemory(0, 1, task = Some(0))), 0, 0, None, _ => false)
    MemoryKill("", 0, 0, 0, 0, 0, 0, 0, wasAlone = false).toJson
    ProcessHandle.of(sampler.jvm).ifPresent(process => require(process.isAlive))
    MemorySampler.optional(ExecutorInternals.endIdleWorkers())
    ()
  }

  /** Acts on a sample, and returns the milliseconds until the next. */
  def check(sample: MemorySample): Long = {
    val now = System.currentTimeMillis()
    tasks.longLived(
      sample.workers.filter(worker => MemoryVictim.ProtectedRoles(worker.role)).flatMap(_.task).toSet)
    ending = ending.filter { case (worker, _) => sampler.isRunning(worker) }
    ending.foreach { case (worker, since) => if (now - since > TermMillis) signal(worker, force = true) }
    val isAbove = limit.used(sample) >= limit.trigger
    if (!isAbove) aboveSince = None
    else if (aboveSince.isEmpty) aboveSince = Some(now)
    // The kernel needs a moment to take back the memory of a process that ends.
    if (isAbove && ending.isEmpty) relieve(sample, now)
    val used = limit.used(sample)
    val growth = if (sample.time > before._1) 1000 * (used - before._2) / (sample.time - before._1) else 0L
    before = sample.time -> used
    isNear = limit.isNear(used) || ending.nonEmpty
    limit.untilReached(if (ending.nonEmpty) limit.trigger else used, math.max(0L, growth))
  }

  /** Whether the next sample must not take long. */
  def isUrgent: Boolean = isNear

  private def relieve(before: MemorySample, now: Long): Unit = {
    // What the workers share may have changed since it was read; the usage of a container is exact.
    if (!limit.isContainer) sampler.readProportional(before.workers)
    val sample = before.copy(workers = before.workers.map(sampler.withProportional))
    val used = limit.used(sample)
    if (used >= limit.trigger) {
      val idle = MemorySampler.optional(ExecutorInternals.endIdleWorkers()).getOrElse(0)
      if (idle > 0) {
        Support.warn(s"$idle idle Python workers are ended: the executor uses ${used >> 20} MiB of its limit of " +
          s"${limit.bytes >> 20} MiB. No work is lost")
      } else {
        val others = math.max(0L, used - sample.workers.filter(_.task.isDefined).map(_.net).sum)
        MemoryVictim.choose(sample.workers, limit.trigger, others, plan.share, isProtected) match {
          case Some(victim) => kill(victim, sample, used, now)
          case None if !hasComplained =>
            hasComplained = true
            Support.warn(s"the executor uses ${used >> 20} MiB of its limit of ${limit.bytes >> 20} MiB, and no Python " +
              "worker is above its planned share and may be ended")
          case None => ()
        }
      }
    }
  }

  private def isProtected(task: Long): Boolean =
    tasks.isBarrier(task) || tasks.get(task).forall(running => running.context.isCompleted() || running.context.isInterrupted())

  private def kill(victim: MemoryVictim, sample: MemorySample, used: Long, now: Long): Unit = {
    val running = tasks.get(victim.task).get
    val task = running.context
    val kill = MemoryKill(
      sample.executor, victim.task, task.stageId(), task.partitionId(), victim.measured, victim.planned, used, limit.bytes,
      tasks.isAlone(victim.task))
    tasks.reduce(task.stageId())
    ExecutorInternals.kill(task, kill.sentence)
    sample.workers.filter(worker => victim.pids.contains(worker.pid)).foreach(end(_, now))
    val wait = System.currentTimeMillis() - aboveSince.getOrElse(now)
    context.send(kill.toJson)
    Support.warn(s"${kill.sentence}. Ended $wait ms after the limit was seen to be reached; " +
      f"${(now - running.since) / 1000.0}%.1f s of work are computed again")
  }

  private def end(worker: WorkerMemory, now: Long): Unit =
    if (sampler.isRunning(worker)) {
      signal(worker, force = false)
      ending = ending :+ (worker -> now)
    }

  /** Sends SIGTERM or SIGKILL to a worker and to the processes that it started. */
  private def signal(worker: WorkerMemory, force: Boolean): Unit =
    (worker.pid +: sampler.helpersOf(worker.pid)).foreach { pid =>
      ProcessHandle.of(pid).ifPresent { process =>
        if (force) process.destroyForcibly() else process.destroy()
        ()
      }
    }
}

private[spark] object MemoryGuard {

  /** Setting of whether there is a guard; by default if the session has a plan or a limit of its own. */
  val Enabled = "spark.cerebro.memory.guard"

  /** Setting of the number of times that the workers of a partition are ended before its stage fails. */
  val Retries = "spark.cerebro.memory.retries"

  /** Setting of the longest time that a task waits for others, and its default. */
  val Wait = "spark.cerebro.memory.wait"
  val LongestWait = "10min"

  /** A worker that ignores SIGTERM for so long is killed. */
  private val TermMillis = 300L

  /** A guard of this executor; none if it is off or has no limit. */
  def of(context: PluginContext, sampler: MemorySampler, tasks: RunningTasks): Option[MemoryGuard] = {
    val conf = context.conf()
    // Without a plan, executors that fill their containers and run are told from others by nothing.
    val isExpected = conf.contains(PlannedMemory.Setting) || conf.contains(MemoryLimit.Setting)
    if (!MemoryMetrics.isOn(conf.get(Enabled, isExpected.toString), Enabled)) None
    else {
      val setting = if (conf.contains(MemoryLimit.Setting)) Some(conf.getSizeAsBytes(MemoryLimit.Setting)) else None
      val (limit, said) = MemoryLimit.of(setting, sampler.containerLimit)
      val plan = PlannedMemory.parse(conf.get(PlannedMemory.Setting, ""))
      said.foreach(Support.warn)
      limit.flatMap(MemoryLimit.advice(_, sampler.sample().jvmRss.getOrElse(0L), plan.share)).foreach(Support.warn)
      limit.map { bytes =>
        val guard = new MemoryGuard(context, sampler, tasks, bytes, plan)
        guard.prepare()
        guard
      }
    }
  }
}
