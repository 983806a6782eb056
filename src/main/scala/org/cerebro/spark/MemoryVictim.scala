package org.cerebro.spark

/**
 * Task whose Python workers are to be ended.
 *
 * @param measured
 *   bytes of its workers, with shared pages counted once
 * @param planned
 *   bytes that it may take: what its workers or the session planned, or an equal share of what the limit leaves
 */
private[spark] final case class MemoryVictim(task: Long, measured: Long, planned: Long, pids: Seq[Long])

private[spark] object MemoryVictim {

  /** Roles of workers that other processes wait for: a retry of one loses more than its own work. */
  val ProtectedRoles: Set[String] = Set("hopper", "serving")

  /**
   * The newest task above its planned share, whose work can be repeated; none if all are within their plans.
   *
   * @param workers
   *   Python workers of an executor; those of one task count together
   * @param limit
   *   bytes of the executor at which a worker is ended
   * @param others
   *   bytes of its other processes
   * @param share
   *   planned bytes of a task; none without a plan
   * @param isProtected
   *   tasks that must not be ended, as those of barrier stages
   */
  def choose(
      workers: Seq[WorkerMemory],
      limit: Long,
      others: Long,
      share: Option[Long],
      isProtected: Long => Boolean): Option[MemoryVictim] = {
    val tasks = workers.filter(_.task.isDefined).groupBy(_.task.get)
    val equal = math.max(0L, limit - others) / math.max(1, tasks.size)
    tasks.toSeq
      .filter { case (task, its) => !isProtected(task) && !its.exists(worker => ProtectedRoles(worker.role)) }
      .map { case (task, its) =>
        val own = its.flatMap(_.planned)
        val planned = if (own.nonEmpty) own.sum else share.getOrElse(equal)
        MemoryVictim(task, its.map(_.net).sum, planned, its.map(_.pid))
      }
      .filter(victim => victim.measured > victim.planned)
      .maxByOption(_.task)
  }
}
