package org.apache.spark.cerebro

import java.lang.reflect.Field

import scala.collection.mutable

import org.apache.spark.{SparkEnv, TaskContext}

/**
 * State of an executor that Spark keeps to itself: memory in use, and which Python worker computes which task.
 *
 * All of it is `private[spark]` or a private field, and differs between builds. Callers treat any failure as "not
 * known".
 */
object ExecutorInternals {
  private val Monitor = "org.apache.spark.api.python.BasePythonRunner$MonitorThread"

  /** Host of this executor, as Spark's UI shows it; `PluginContext.hostname()` fails in executors of a cluster. */
  def host(): String = SparkEnv.get.blockManager.blockManagerId.host

  /** Bytes of cached tables and of joins, sorts and aggregates, as Spark's memory manager counts them. */
  def memoryInUse(): (Long, Long) = {
    val manager = SparkEnv.get.memoryManager
    (manager.storageMemoryUsed, manager.executionMemoryUsed)
  }

  /**
   * Task attempts by the process id of the Python worker that computes them.
   *
   * Spark starts a thread for each pair of worker and task, which has both in its fields. A task may have several
   * workers.
   */
  def tasksOfWorkers(): Map[Long, TaskContext] = {
    val pairs = threads().filter(_.getClass.getName == Monitor).map { thread =>
      (valueOf(thread, "worker"), valueOf(thread, "context").asInstanceOf[TaskContext])
    }
    if (pairs.isEmpty) Map.empty
    else {
      val pids = pidsOfWorkers()
      pairs.filter { case (_, task) => !task.isCompleted() }
        .flatMap { case (worker, task) => pids.get(worker).map(_ -> task) }.toMap
    }
  }

  private def pidsOfWorkers(): Map[AnyRef, Long] = {
    val env = SparkEnv.get
    val factories = env.synchronized {
      valueOf(env, "pythonWorkers").asInstanceOf[mutable.HashMap[AnyRef, AnyRef]].values.toSeq
    }
    factories.flatMap { factory =>
      factory.synchronized {
        Seq("daemonWorkers", "simpleWorkers").flatMap { name =>
          valueOf(factory, name).asInstanceOf[mutable.Map[AnyRef, AnyRef]].toSeq.map {
            case (worker, handle: ProcessHandle) => worker -> handle.pid()
            case (worker, process: Process) => worker -> process.pid()
            case (worker, handle) => worker -> handle.getClass.getMethod("pid").invoke(handle).asInstanceOf[Long]
          }
        }
      }
    }.toMap
  }

  private def threads(): Seq[Thread] = {
    var group = Thread.currentThread.getThreadGroup
    while (group.getParent != null) group = group.getParent
    val found = new Array[Thread](2 * group.activeCount() + 16)
    found.take(group.enumerate(found)).toSeq
  }

  private def valueOf(owner: AnyRef, name: String): AnyRef = {
    val field: Field = owner.getClass.getDeclaredField(name)
    field.setAccessible(true)
    field.get(owner)
  }
}
