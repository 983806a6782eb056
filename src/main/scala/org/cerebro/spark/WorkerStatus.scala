package org.cerebro.spark

import java.nio.file.{Files, Path}
import java.nio.file.attribute.PosixFilePermissions

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper

/**
 * What a Python worker of this project writes about itself, to `<pid>.json` in a folder of this user.
 *
 * @param role
 *   "inference", "hopper", "serving", ...
 * @param plannedBytes
 *   resident set that a plan gives the worker
 * @param task
 *   attempt that it computes
 */
private[spark] final case class WorkerStatus(role: String, plannedBytes: Option[Long], task: Option[Long])

private[spark] object WorkerStatus {
  private val mapper = new ObjectMapper()

  /** Folder of the status files, as `udfs/node/_worker_status.py` has it; fails on a machine without `/proc`. */
  def folder: Path = {
    val user = Files.getAttribute(Path.of("/proc/self"), "unix:uid")
    Path.of(Option(System.getenv("TMPDIR")).filter(_.nonEmpty).getOrElse("/tmp"), s"cerebro-spark-workers-$user")
  }

  /** Creates the folder, which asks workers to write. Only this user may read it. */
  def ask(folder: Path = folder): Unit = {
    val attributes = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))
    if (!Files.isDirectory(folder)) Files.createDirectories(folder, attributes)
  }

  /** Status of a worker; none if it wrote none, or if an earlier process with its id did. */
  def of(pid: Long, started: => Option[Long], folder: Path): Option[WorkerStatus] =
    ProcessMemory.read(folder.resolve(s"$pid.json")).flatMap(parse(_, started))

  def parse(text: String, started: => Option[Long]): Option[WorkerStatus] =
    try {
      val fields = mapper.readTree(text)
      def number(name: String): Option[Long] = Option(fields.get(name)).filter(_.canConvertToLong).map(_.asLong)
      val written = number("started_ticks")
      if (written.isDefined && started.exists(_ != written.get)) None
      else Some(WorkerStatus(fields.path("role").asText(""), number("planned_bytes"), number("task_attempt_id")))
    } catch { case NonFatal(_) => None }

  /** Process ids of the files, in order. */
  def pids(folder: Path): Seq[Long] = files(folder).map(_._1).distinct.sorted

  /** Deletes the files of processes that have ended. */
  def clean(folder: Path, proc: Path = Path.of("/proc")): Unit =
    for ((pid, file) <- files(folder) if !Files.exists(proc.resolve(pid.toString)))
      try Files.deleteIfExists(file)
      catch { case NonFatal(_) => () }

  private def files(folder: Path): Seq[(Long, Path)] =
    ProcessMemory.list(folder).flatMap { file =>
      file.getFileName.toString.takeWhile(_ != '.').toLongOption.map(_ -> file)
    }
}
