package org.cerebro.spark

import scala.collection.mutable

/**
 * Decides when a task of an executor may start, so that one whose worker was ended for its memory runs alone, and fewer
 * tasks of its stage run at a time.
 *
 * A wait is bounded, and a task that waits counts as not running: no two wait for each other. Tasks of barrier stages
 * start at once, because the others of their stage wait for them, and nothing waits for tasks that live as long as
 * their application.
 *
 * @param longestMillis
 *   a task starts after so long whatever else runs
 * @param isLongLived
 *   tasks that a task which is to run alone does not wait for
 * @param clock
 *   milliseconds of a clock
 */
private[spark] class TaskAdmission(
    longestMillis: Long,
    isLongLived: Long => Boolean,
    clock: () => Long = () => System.nanoTime() / 1000000) {
  private val running = mutable.Map.empty[Long, Int]
  private val most = mutable.LinkedHashMap.empty[Int, Int]
  private val barriers = mutable.Set.empty[Long]
  private var alone = Option.empty[Long]

  /**
   * Waits until a task may start, and counts it as running.
   *
   * @param stage
   *   stage of the task
   * @param notBefore
   *   milliseconds from now that the task waits at least, if it is to run alone
   * @param isCancelled
   *   ends the wait
   */
  def start(
      task: Long,
      stage: Int,
      isBarrier: Boolean,
      wantsAlone: Boolean,
      notBefore: Long = 0,
      isCancelled: () => Boolean = () => false): Unit =
    synchronized {
      val begun = clock()
      def mayWait: Boolean = !isCancelled() && clock() - begun < longestMillis
      if (isBarrier) barriers += task
      else {
        while ((alone.isDefined || (!wantsAlone && isFull(stage))) && mayWait) pause()
        if (wantsAlone) {
          // From here on others wait, so that the running ones come to an end.
          if (alone.isEmpty) alone = Some(task)
          while ((clock() - begun < notBefore || hasOthers) && mayWait) pause()
        }
      }
      running(task) = stage
    }

  /** Lets fewer tasks of a stage run at a time than now, because they do not fit. */
  def reduce(stage: Int): Unit = synchronized {
    most.remove(stage)
    most(stage) = math.max(1, ofStage(stage) - 1)
    while (most.size > TaskAdmission.Stages) most -= most.head._1
  }

  private def isFull(stage: Int): Boolean = most.get(stage).exists(ofStage(stage) >= _)

  private def ofStage(stage: Int): Int = running.count { case (task, other) => other == stage && !isLongLived(task) }

  /** Counts a task as ended; others may start. */
  def end(task: Long): Unit = synchronized {
    running -= task
    barriers -= task
    if (alone.contains(task)) alone = None
    notifyAll()
  }

  /** Whether a task is to run alone, and does. */
  def isAlone(task: Long): Boolean = synchronized {
    alone.contains(task) && running.keys.forall(other => other == task || isLongLived(other))
  }

  def isBarrier(task: Long): Boolean = synchronized(barriers(task))

  private def hasOthers: Boolean = running.keys.exists(other => !barriers(other) && !isLongLived(other))

  /** Lets others end; a change that nobody announces, as of a role, is seen at the next look. */
  protected def pause(): Unit = wait(TaskAdmission.LookMillis)
}

private[spark] object TaskAdmission {
  private val LookMillis = 100L

  /** Stages whose reduced number of tasks is remembered. */
  private val Stages = 100
}
