package org.cerebro.spark

import scala.collection.mutable.ListBuffer
import scala.util.control.NonFatal

/** Suite of tests that is a program; ScalaTest and JUnit are in no jar of pyspark. */
abstract class Suite {
  private val tests = ListBuffer.empty[(String, () => Unit)]

  protected def test(name: String)(body: => Unit): Unit = tests += (name -> (() => body))

  protected def same(got: Any, wanted: Any): Unit = require(got == wanted, s"got $got, wanted $wanted")

  /** Runs the tests of the suite and returns a line per failure. */
  def failures(): Seq[String] = tests.toSeq.flatMap { case (name, body) =>
    try {
      body()
      println(s"ok    ${getClass.getSimpleName.stripSuffix("$")}: $name")
      None
    } catch {
      case failure @ (_: LinkageError | NonFatal(_)) =>
        failure.printStackTrace()
        Some(s"${getClass.getSimpleName.stripSuffix("$")}: $name: $failure")
    }
  }

  def main(arguments: Array[String]): Unit = Suites.finish(failures())
}

/** Runs all suites and exits with 1 if a test fails. */
object Suites {
  def main(arguments: Array[String]): Unit =
    finish((Seq(PushdownSuite, ReuseSuite, SupportSuite, PluginSuite, MemorySuite, GuardSuite) ++ ui.Suites.all).flatMap(_.failures()))

  def finish(failures: Seq[String]): Unit = {
    failures.foreach(line => println(s"FAILED $line"))
    if (failures.nonEmpty) sys.exit(1)
  }
}
