package org.cerebro.spark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode

/**
 * Memory of one Python worker.
 *
 * @param pss
 *   proportional set when it was last read
 * @param shared
 *   its resident set less its proportional set at that time: what a sum of resident sets counts more than once
 * @param planned
 *   resident set that a plan gives this worker
 */
private[spark] final case class WorkerMemory(
    pid: Long,
    rss: Long,
    pss: Option[Long] = None,
    shared: Option[Long] = None,
    peak: Long = 0,
    started: Long = 0,
    task: Option[Long] = None,
    role: String = "",
    planned: Option[Long] = None) {

  /** Resident set without the pages that others are charged for, as far as they were read. */
  def net: Long = math.max(0L, rss - shared.getOrElse(0L))
}

/**
 * Memory of an executor at one time, in bytes.
 *
 * @param time
 *   milliseconds since 1970
 * @param jvmRss
 *   resident set of the JVM; none where there is no `/proc`
 * @param peaks
 *   largest value of a region so far, by its name in [[MemoryTable]]
 * @param samplerCpu
 *   milliseconds of processor time that the sampling has taken
 */
private[spark] final case class MemorySample(
    executor: String,
    host: String,
    time: Long,
    jvmRss: Option[Long],
    heapUsed: Long,
    storage: Option[Long] = None,
    execution: Option[Long] = None,
    workers: Seq[WorkerMemory] = Nil,
    groupVersion: Int = 0,
    groupLimit: Option[Long] = None,
    groupUsage: Option[Long] = None,
    groupKills: Option[Long] = None,
    groupPressure: Option[Double] = None,
    peaks: Map[String, Long] = Map.empty,
    samplerCpu: Long = 0) {

  def pythonRss: Long = workers.map(_.rss).sum

  /** Proportional sets of the Python workers as last read; none before the first reading. */
  def pythonPss: Option[Long] = sumOf(_.pss)

  /** Bytes that the resident sets of the workers count more than once. */
  def shared: Option[Long] = sumOf(_.shared)

  /** Python workers, with shared pages counted once. */
  def python: Long = workers.map(_.net).sum

  def totalRss: Option[Long] = jvmRss.map(_ + pythonRss)

  /** All processes, with shared pages counted once. */
  def total: Option[Long] = jvmRss.map(_ + python)

  /** Resident set of the workers of the running task that has most. */
  def taskRss: Option[Long] = workers.filter(_.task.isDefined).groupBy(_.task).values.map(_.map(_.rss).sum).maxOption

  private def sumOf(value: WorkerMemory => Option[Long]): Option[Long] = workers.flatMap(value(_)).reduceOption(_ + _)

  def toJson: String = MemorySample.write(this)
}

private[spark] object MemorySample {
  private val mapper = new ObjectMapper()

  /** Field of the message that tells the driver its kind. */
  val Kind = "cerebro_memory"

  private def write(sample: MemorySample): String = {
    val node = mapper.createObjectNode()
    node.put(Kind, 1).put("executor", sample.executor).put("host", sample.host).put("time", sample.time)
    put(node, "jvm_rss", sample.jvmRss)
    node.put("heap_used", sample.heapUsed)
    put(node, "storage", sample.storage)
    put(node, "execution", sample.execution)
    node.put("group_version", sample.groupVersion).put("sampler_cpu", sample.samplerCpu)
    put(node, "group_limit", sample.groupLimit)
    put(node, "group_usage", sample.groupUsage)
    put(node, "group_kills", sample.groupKills)
    sample.groupPressure.foreach(node.put("group_pressure", _))
    val workers = node.putArray("workers")
    sample.workers.foreach { worker =>
      val entry = workers.addObject()
      entry.put("pid", worker.pid).put("rss", worker.rss).put("peak", worker.peak).put("role", worker.role)
      put(entry, "pss", worker.pss)
      put(entry, "shared", worker.shared)
      put(entry, "task", worker.task)
      put(entry, "planned", worker.planned)
    }
    val peaks = node.putObject("peaks")
    sample.peaks.toSeq.sorted.foreach { case (region, value) => peaks.put(region, value) }
    mapper.writeValueAsString(node)
  }

  /** Sample of a message; none if the message is of another kind. */
  def parse(text: String): Option[MemorySample] = {
    val node = mapper.readTree(text)
    if (!node.has(Kind)) None
    else
      Some(MemorySample(
        executor = node.path("executor").asText,
        host = node.path("host").asText,
        time = node.path("time").asLong,
        jvmRss = number(node, "jvm_rss"),
        heapUsed = node.path("heap_used").asLong,
        storage = number(node, "storage"),
        execution = number(node, "execution"),
        workers = node.path("workers").elements().asScala.toSeq.map { entry =>
          WorkerMemory(
            pid = entry.path("pid").asLong,
            rss = entry.path("rss").asLong,
            pss = number(entry, "pss"),
            shared = number(entry, "shared"),
            peak = entry.path("peak").asLong,
            task = number(entry, "task"),
            role = entry.path("role").asText(""),
            planned = number(entry, "planned"))
        },
        groupVersion = node.path("group_version").asInt,
        groupLimit = number(node, "group_limit"),
        groupUsage = number(node, "group_usage"),
        groupKills = number(node, "group_kills"),
        groupPressure = Option(node.get("group_pressure")).map(_.asDouble),
        peaks = node.path("peaks").fieldNames().asScala.map(name => name -> node.path("peaks").path(name).asLong).toMap,
        samplerCpu = node.path("sampler_cpu").asLong))
  }

  private def put(node: ObjectNode, name: String, value: Option[Long]): Unit = value.foreach(node.put(name, _))

  private def number(node: JsonNode, name: String): Option[Long] = Option(node.get(name)).map(_.asLong)
}
