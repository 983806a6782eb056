package org.cerebro.spark

import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.cerebro.ExecutorInternals

/**
 * Tasks that run in an executor, and the admission of those whose workers were ended before.
 *
 * @param longestMillis
 *   longest wait of a task for others
 */
private[spark] class RunningTasks(context: PluginContext, longestMillis: Long) {
  import RunningTasks._

  private val tasks = new ConcurrentHashMap[Long, Running]()
  @volatile private var longLived = Set.empty[Long]
  private val admission = new TaskAdmission(longestMillis, task => longLived(task))

  /** Admits the task of this thread; called before it computes anything. */
  def start(): Unit = {
    val task = TaskContext.get()
    if (task != null)
      try {
        val id = task.taskAttemptId()
        val barrier = ExecutorInternals.isBarrier(task)
        val kills = if (barrier || task.attemptNumber() == 0) 0 else killsOf(task)
        task.addTaskCompletionListener[Unit] { _ =>
          tasks.remove(id)
          admission.end(id)
        }
        admission.start(id, task.stageId(), barrier, kills > 0, backoff(kills), () => task.isInterrupted())
        tasks.put(id, Running(task, System.currentTimeMillis()))
        ()
      } catch {
        // Spark drops the exception and runs the task, which ends at its next look at the flag.
        case _: InterruptedException => Thread.currentThread.interrupt()
        case failure @ (_: LinkageError | NonFatal(_)) => Support.warn(s"a task was not registered: $failure")
      }
  }

  def get(task: Long): Option[Running] = Option(tasks.get(task))

  /** Tells which tasks live as long as their application, by the roles that their workers wrote. */
  def longLived(tasks: Set[Long]): Unit = longLived = tasks

  /** Lets fewer tasks of a stage run at a time. */
  def reduce(stage: Int): Unit = admission.reduce(stage)

  def isAlone(task: Long): Boolean = admission.isAlone(task)

  def isBarrier(task: Long): Boolean = admission.isBarrier(task)

  private def killsOf(task: TaskContext): Int =
    try
      context.ask(MemoryKill.question(task.stageId(), task.partitionId())) match {
        case kills: Integer => kills
        case _ => 0
      }
    catch { case NonFatal(_) => 0 }
}

private[spark] object RunningTasks {
  private val FirstBackoffMillis = 500L
  private val LongestBackoffMillis = 8000L

  /** Task and the milliseconds since 1970 at which it was admitted. */
  final case class Running(context: TaskContext, since: Long)

  /** Milliseconds before a retry, so that the memory of the workers that were ended is free. */
  def backoff(kills: Int): Long =
    if (kills == 0) 0 else math.min(LongestBackoffMillis, FirstBackoffMillis << math.min(kills - 1, 10))
}
