package org.cerebro.spark

import com.fasterxml.jackson.databind.ObjectMapper

/**
 * Report of an executor to the driver that the workers of a task were ended.
 *
 * @param wasAlone
 *   whether the task had the executor for itself, so that a retry would have no more memory
 */
private[spark] final case class MemoryKill(
    executor: String,
    task: Long,
    stage: Int,
    partition: Int,
    measured: Long,
    planned: Long,
    used: Long,
    limit: Long,
    wasAlone: Boolean) {

  /** What a user reads in Spark's UI and in the error of the job. */
  def sentence: String = {
    import MemoryKill.size
    s"${MemoryKill.Name}: the Python workers of a task must take at most ${size(planned)}, their planned share, got " +
      s"${size(measured)}, when executor $executor used ${size(used)} of its limit of ${size(limit)} (task $task, stage " +
      s"$stage, partition $partition). They were ended before the kernel would have killed the executor. Run fewer tasks " +
      "at a time (spark.executor.cores, or spark.task.cpus=2), use smaller batches or partitions, or give the executor " +
      "more memory beside its heap (spark.executor.memoryOverhead, or the container's limit)"
  }

  def toJson: String = MemoryKill.write(this)
}

private[spark] object MemoryKill {

  /** Name of the error, as it begins its sentence. */
  val Name = "PythonWorkerMemoryExceeded"

  private val Kind = "cerebro_kill"
  private val Ask = "cerebro_kills_of"
  private val mapper = new ObjectMapper()

  private def write(kill: MemoryKill): String =
    mapper.writeValueAsString(
      mapper.createObjectNode().put(Kind, 1).put("executor", kill.executor).put("task", kill.task)
        .put("stage", kill.stage).put("partition", kill.partition).put("measured", kill.measured)
        .put("planned", kill.planned).put("used", kill.used).put("limit", kill.limit).put("alone", kill.wasAlone))

  def parse(text: String): Option[MemoryKill] = {
    val node = mapper.readTree(text)
    if (!node.has(Kind)) None
    else
      Some(MemoryKill(
        node.path("executor").asText,
        node.path("task").asLong,
        node.path("stage").asInt,
        node.path("partition").asInt,
        node.path("measured").asLong,
        node.path("planned").asLong,
        node.path("used").asLong,
        node.path("limit").asLong,
        node.path("alone").asBoolean))
  }

  /** Question of an executor: how often the workers of a partition were ended. */
  def question(stage: Int, partition: Int): String =
    mapper.writeValueAsString(mapper.createObjectNode().put(Ask, stage).put("partition", partition))

  def parseQuestion(text: String): Option[(Int, Int)] = {
    val node = mapper.readTree(text)
    if (node.has(Ask)) Some((node.path(Ask).asInt, node.path("partition").asInt)) else None
  }

  private[spark] def size(bytes: Long): String =
    if (bytes >= (1L << 30)) f"${bytes.toDouble / (1L << 30)}%.1f GiB" else s"${bytes >> 20} MiB"
}

/** Number of times that the workers of each partition were ended, in the driver. */
private[spark] class MemoryKills(budget: Int) {
  private var kills = Map.empty[(Int, Int), Int]

  /** Counts a kill; returns why the stage fails, or none if its task is tried again. */
  def record(kill: MemoryKill): Option[String] = synchronized {
    val count = of(kill.stage, kill.partition) + 1
    kills = kills.updated((kill.stage, kill.partition), count)
    if (kill.wasAlone) Some(s"${kill.sentence}. The task ran alone on its executor")
    else if (count > budget) Some(s"${kill.sentence}. It was ended $count times")
    else None
  }

  /** Handles a message about kills; returns the answer to a question. */
  def receive(text: String, cancel: (Int, String) => Unit): Option[Integer] = {
    for (kill <- MemoryKill.parse(text); reason <- record(kill)) cancel(kill.stage, reason)
    MemoryKill.parseQuestion(text).map { case (stage, partition) => of(stage, partition) }
  }

  def of(stage: Int, partition: Int): Int = synchronized(kills.getOrElse((stage, partition), 0))

  def forget(stage: Int): Unit = synchronized { kills = kills.filter { case ((other, _), _) => other != stage } }
}

private[spark] object MemoryKills {

  /** Retries of a partition by default. */
  val Budget = 3
}
