package org.apache.spark.cerebro

import java.lang.reflect.Field

import scala.collection.mutable

import com.codahale.metrics.MetricRegistry

import org.apache.spark.{BarrierTaskContext, SparkEnv, TaskContext, TaskContextImpl}
import org.apache.spark.metrics.source.Source

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

  /** Adds metrics to those of this executor, under a name behind that of the executor. */
  def registerMetrics(name: String, registry: MetricRegistry): Unit =
    SparkEnv.get.metricsSystem.registerSource(new Source {
      override val sourceName: String = name
      override val metricRegistry: MetricRegistry = registry
    })

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

  /** Marks a task as killed: whatever fails in it afterwards is reported as this, and not as a failure that counts. */
  def kill(task: TaskContext, reason: String): Unit = task match {
    case context: TaskContextImpl => context.markInterrupted(reason)
    case other => throw new UnsupportedOperationException(s"a task of ${other.getClass.getName} cannot be killed")
  }

  def isBarrier(task: TaskContext): Boolean = task.isInstanceOf[BarrierTaskContext]

  /**
   * Ends the Python workers that wait for a task and keep the memory of earlier ones, as Spark does after a minute.
   *
   * @return
   *   their number
   */
  def endIdleWorkers(): Int = factories().map { factory =>
    factory.synchronized {
      val idle = valueOf(factory, "idleWorkers").asInstanceOf[mutable.Queue[AnyRef]].size
      if (idle > 0) factory.getClass.getMethods.find(_.getName.endsWith("cleanupIdleWorkers")).get.invoke(factory)
      idle
    }
  }.sum

  private def factories(): Seq[AnyRef] = {
    val env = SparkEnv.get
    env.synchronized(valueOf(env, "pythonWorkers").asInstanceOf[mutable.HashMap[AnyRef, AnyRef]].values.toSeq)
  }

  private def pidsOfWorkers(): Map[AnyRef, Long] =
    factories().flatMap { factory =>
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
