package org.cerebro.spark

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

/**
 * Memory of processes, as `/proc` has it; Linux only.
 *
 * The resident set (RSS) is cheap and counts a page that processes share once for each of them. The proportional set
 * (PSS) counts it once in all, and walks the page tables of the process, so it is read rarely.
 */
private[spark] class ProcessMemory(proc: Path = Path.of("/proc")) {
  import ProcessMemory._

  /** Whether this machine has the files. */
  def isAvailable: Boolean = read(proc.resolve("self/status")).isDefined

  /** State of a process; none once it has ended. */
  def status(pid: Long): Option[Status] = read(folder(pid).resolve("status")).flatMap(parseStatus)

  /** Proportional set of a process in bytes; none if it has ended, or if the kernel has no such file. */
  def proportional(pid: Long): Option[Long] = read(folder(pid).resolve("smaps_rollup")).flatMap(bytes(_, "Pss"))

  /** Start of a process in clock ticks after the boot. */
  def started(pid: Long): Option[Long] = read(folder(pid).resolve("stat")).flatMap(parseStart)

  /** Ids of the processes that a process started, without theirs. */
  def children(pid: Long): Seq[Long] =
    list(folder(pid).resolve("task")).flatMap(thread => read(thread.resolve("children"))).flatMap(parsePids)

  /** Ids of the descendants of some processes, with them. */
  def withDescendants(pids: Seq[Long]): Seq[Long] = if (pids.isEmpty) Nil else pids ++ withDescendants(pids.flatMap(children))

  private def folder(pid: Long): Path = proc.resolve(pid.toString)
}

private[spark] object ProcessMemory {

  /**
   * State of a process.
   *
   * @param name
   *   first 15 characters of its command
   * @param rss
   *   resident set in bytes; 0 for a process that ended and was not waited for
   * @param peak
   *   largest resident set in bytes since it started
   */
  final case class Status(name: String, rss: Long, peak: Long) {
    def isPython: Boolean = name.toLowerCase.startsWith("python")
  }

  def parseStatus(text: String): Option[Status] =
    field(text, "Name").map { name =>
      val rss = bytes(text, "VmRSS").getOrElse(0L)
      Status(name, rss, bytes(text, "VmHWM").getOrElse(rss))
    }

  /** The 22nd field; the second is a name in parentheses, which may contain both spaces and parentheses. */
  def parseStart(stat: String): Option[Long] =
    stat.substring(stat.lastIndexOf(')') + 1).trim.split("\\s+").lift(19).flatMap(_.toLongOption)

  def parsePids(text: String): Seq[Long] = text.trim.split("\\s+").toSeq.flatMap(_.toLongOption)

  /** Value of a line such as `VmRSS:     1672 kB`, in bytes. */
  def bytes(text: String, name: String): Option[Long] =
    field(text, name).flatMap(_.stripSuffix("kB").trim.toLongOption).map(_ * 1024)

  private def field(text: String, name: String): Option[String] =
    text.linesIterator.find(_.startsWith(s"$name:")).map(_.drop(name.length + 1).trim)

  /** Content of a file; none if it is missing, or if its process ends meanwhile. */
  private[spark] def read(path: Path): Option[String] =
    try Some(Files.readString(path))
    catch { case NonFatal(_) => None }

  /** Entries of a folder; none if it is missing. */
  private[spark] def list(path: Path): Seq[Path] =
    try {
      val entries = Files.newDirectoryStream(path)
      try entries.asScala.toList
      finally entries.close()
    } catch { case NonFatal(_) => Nil }
}
