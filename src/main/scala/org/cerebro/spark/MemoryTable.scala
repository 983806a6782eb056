package org.cerebro.spark

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.types.{DataType, LongType, StringType, TimestampType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Table function `cerebro_memory()`: planned and measured bytes by executor and region, when the query is analysed.
 *
 * A query that is analysed in a session whose application runs without the plugin fails with the setting.
 */
private[spark] object MemoryTable {
  val Name = "cerebro_memory"

  /** Columns and types; the last tells how a value was measured. */
  private val Columns: Seq[(String, DataType)] = Seq(
    "executor" -> StringType,
    "host" -> StringType,
    "region" -> StringType,
    "predicted_bytes" -> LongType,
    "measured_bytes" -> LongType,
    "peak_bytes" -> LongType,
    "measure" -> StringType,
    "sampled_at" -> TimestampType)

  /** Row of the table. */
  final case class Entry(region: String, predicted: Option[Long], measured: Option[Long], peak: Option[Long], measure: String)

  def inject(extensions: SparkSessionExtensions): Unit =
    extensions.injectTableFunction((
      new FunctionIdentifier(Name),
      new ExpressionInfo(classOf[CerebroExtensions].getName, Name),
      (arguments: Seq[Expression]) => relation(arguments)))

  private def relation(arguments: Seq[Expression]): LogicalPlan = {
    require(arguments.isEmpty, s"$Name() must have no arguments, got ${arguments.size}")
    val plan = MemoryReports.planned.getOrElse(
      throw new IllegalArgumentException(
        s"spark.plugins must contain ${classOf[CerebroPlugin].getName} at the start of Spark for $Name(), and " +
          s"${MemoryMetrics.Enabled} must not be false"))
    val rows = MemoryReports.latest.flatMap { sample =>
      entries(sample, plan).map { entry =>
        InternalRow(
          UTF8String.fromString(sample.executor),
          UTF8String.fromString(sample.host),
          UTF8String.fromString(entry.region),
          boxed(entry.predicted),
          boxed(entry.measured),
          boxed(entry.peak),
          UTF8String.fromString(entry.measure),
          sample.time * 1000)
      }
    }
    LocalRelation(Columns.map { case (name, kind) => AttributeReference(name, kind, nullable = true)() }, rows)
  }

  /** Bytes of each region that has been measured, by its name. */
  def measured(sample: MemorySample): Seq[(String, Long)] =
    entries(sample, PlannedMemory.None).flatMap(entry => entry.measured.map(entry.region -> _))

  /** Rows of an executor. */
  def entries(sample: MemorySample, plan: PlannedMemory): Seq[Entry] = {
    def entry(region: String, measured: Option[Long], measure: String): Entry =
      Entry(region, plan.region(region), measured, sample.peaks.get(region), measure)
    val none = "not available: this machine has no /proc"
    val processes = sample.jvmRss.isDefined
    def of(measure: String): String = if (processes) measure else none
    val regions = Seq(
      entry("jvm", sample.jvmRss, of("RSS of the JVM")),
      entry("heap", Some(sample.heapUsed), "heap in use, garbage included"),
      entry("storage", sample.storage, "cached tables, by Spark's memory manager"),
      entry("core", sample.execution, "joins, sorts and aggregates, by Spark's memory manager"),
      entry("user", None, "not measured apart from the heap"),
      entry("python", if (processes) Some(sample.python) else None, of("RSS of the Python workers less shared")),
      entry("shared", sample.shared, of("RSS less PSS of the Python workers when last read")),
      entry("task", sample.taskRss, of("RSS of the Python workers of the largest running task")),
      entry("total", sample.total, of("jvm and python")))
    val workers = sample.workers.filter(_.task.isDefined).map { worker =>
      val role = if (worker.role.isEmpty) "" else s", role ${worker.role}"
      Entry(s"worker ${worker.pid}", worker.planned.orElse(plan.share), Some(worker.rss), Some(worker.peak),
        s"RSS, task ${worker.task.get}$role")
    }
    val container = sample.groupLimit.map { limit =>
      val kills = sample.groupKills.fold("")(kills => s", $kills processes killed by the kernel")
      val pressure = sample.groupPressure.fold("")(percent => s", waiting $percent % of the time")
      Entry("container", Some(limit), sample.groupUsage, sample.peaks.get("container"),
        s"usage without file cache; predicted is the limit of cgroup v${sample.groupVersion}$kills$pressure")
    }
    regions ++ workers ++ container
  }

  private def boxed(value: Option[Long]): Any = value.map(Long.box).orNull
}
