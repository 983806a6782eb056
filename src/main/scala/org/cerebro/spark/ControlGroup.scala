package org.cerebro.spark

import java.nio.file.{Files, Path}

import org.cerebro.spark.ProcessMemory.read

/**
 * Memory of the container of this process: the control group, of version 2 or 1, whose limit is the smallest.
 *
 * @param version
 *   version of the control groups
 * @param folder
 *   folder of the group in the file system
 * @param limit
 *   bytes that the kernel allows the processes of the group
 */
private[spark] final case class ControlGroup(version: Int, folder: Path, limit: Long) {

  /**
   * Bytes in use that the kernel cannot take back. The cache of files does not count, because the kernel drops it
   * before it kills a process.
   */
  def usage: Option[Long] = {
    val (file, prefix) = if (version == 2) ("memory.current", "") else ("memory.usage_in_bytes", "total_")
    number(file).map { used =>
      val stat = read(folder.resolve("memory.stat")).getOrElse("")
      val cache = Seq("inactive_file", "active_file").flatMap(name => ControlGroup.entry(stat, prefix + name)).sum
      math.max(0L, used - cache)
    }
  }

  /** Processes of the group that the kernel has killed for lack of memory. */
  def kills: Option[Long] =
    read(folder.resolve(if (version == 2) "memory.events" else "memory.oom_control")).flatMap(ControlGroup.entry(_, "oom_kill"))

  /** Share of the last ten seconds in percent for which a process of the group waited for memory; version 2 only. */
  def pressure: Option[Double] =
    if (version == 2) read(folder.resolve("memory.pressure")).flatMap(ControlGroup.parsePressure) else None

  private def number(file: String): Option[Long] = read(folder.resolve(file)).flatMap(_.trim.toLongOption)
}

private[spark] object ControlGroup {

  /** Version 1 writes "no limit" as the largest number of whole pages. */
  private val Unlimited = 1L << 60

  /**
   * The group of this process, or the one above it, with the smallest limit; none if there is no limit.
   *
   * @param groups
   *   content of `/proc/self/cgroup`
   * @param mount
   *   where the control groups are mounted
   */
  def find(groups: Option[String] = read(Path.of("/proc/self/cgroup")), mount: Path = Path.of("/sys/fs/cgroup")): Option[ControlGroup] =
    groups.toSeq.flatMap(parseGroups).flatMap { case (version, path) =>
      val roots = if (version == 2) Seq(mount, mount.resolve("unified")) else Seq(mount.resolve("memory"))
      for {
        root <- roots
        folder <- withParents(root, path)
        limit <- limitOf(version, folder)
      } yield ControlGroup(version, folder, limit)
    }.minByOption(_.limit)

  /** Version and path of each group that may control memory. */
  def parseGroups(text: String): Seq[(Int, String)] = text.linesIterator.toSeq.flatMap { line =>
    line.split(":", 3) match {
      case Array("0", "", path) => Some(2 -> path)
      case Array(_, controllers, path) if controllers.split(",").contains("memory") => Some(1 -> path)
      case _ => None
    }
  }

  /** A container sees its group at the mount, with the path that it has on the node. */
  private def withParents(root: Path, path: String): Seq[Path] = {
    val inside = root.resolve(path.stripPrefix("/")).normalize
    if (!inside.startsWith(root) || !Files.isDirectory(inside)) Seq(root)
    else Iterator.iterate(inside)(_.getParent).takeWhile(folder => folder != null && folder.startsWith(root)).toSeq
  }

  private def limitOf(version: Int, folder: Path): Option[Long] =
    read(folder.resolve(if (version == 2) "memory.max" else "memory.limit_in_bytes")).flatMap(parseLimit)

  /** Bytes of a limit, which is `max` or a huge number where there is none. */
  def parseLimit(text: String): Option[Long] = text.trim.toLongOption.filter(limit => limit > 0 && limit < Unlimited)

  /** Value of a line such as `oom_kill 3`. */
  def entry(text: String, name: String): Option[Long] =
    text.linesIterator.map(_.trim.split("\\s+")).collectFirst { case Array(`name`, value) => value }.flatMap(_.toLongOption)

  def parsePressure(text: String): Option[Double] =
    "some avg10=([0-9.]+)".r.findFirstMatchIn(text).flatMap(_.group(1).toDoubleOption)
}
