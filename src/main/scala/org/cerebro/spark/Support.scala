package org.cerebro.spark

import java.util.concurrent.atomic.AtomicReference

import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

/** Decides whether a feature runs in this build of Spark, and says so once if it does not. */
private[spark] object Support {

  private val log = LoggerFactory.getLogger("org.cerebro.spark")
  private val reason = new AtomicReference[Option[String]](None)

  /** Whether no failure has switched the features off. */
  def isOn: Boolean = reason.get.isEmpty

  /** Message that was logged when the features were switched off. */
  def message: Option[String] = reason.get

  /** Runs a step of the start; any failure of it becomes one warning, and never one of the user's session. */
  def attempt(feature: String)(step: => Unit): Boolean =
    try {
      step
      true
    } catch {
      case failure @ (_: LinkageError | NonFatal(_)) =>
        switchOff(feature, failure)
        false
    }

  /** Result of a feature that others do not depend on; any failure of it becomes a warning. */
  def guard[Result](feature: String)(step: => Result): Option[Result] =
    try Option(step)
    catch {
      case failure @ (_: LinkageError | NonFatal(_)) =>
        log.warn(s"$feature is off: $failure. Everything else works without it")
        None
    }

  /** Result of a step on a plan, or the plan as it was if the step fails. */
  def orUnchanged[Plan](plan: Plan)(step: => Plan): Plan =
    try step
    catch {
      case failure @ (_: LinkageError | NonFatal(_)) =>
        switchOff("push-down below inference", failure)
        plan
    }

  def warn(text: String): Unit = log.warn(text)

  private def switchOff(feature: String, failure: Throwable): Unit = {
    val text = s"$feature is off: cerebro-spark's jar supports Apache Spark 4.0 to 4.3 with Scala 2.13, and this " +
      s"build of Spark ${version()} differs ($failure). Everything else works without it; " +
      "remove spark.sql.extensions=org.cerebro.spark.CerebroExtensions to silence this message"
    if (reason.compareAndSet(None, Some(text))) log.warn(text)
  }

  private def version(): String =
    try org.apache.spark.SPARK_VERSION
    catch { case _: LinkageError | NonFatal(_) => "(of unknown version)" }
}
