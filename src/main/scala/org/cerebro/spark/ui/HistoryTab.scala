package org.cerebro.spark.ui

import scala.xml.Node

import org.apache.spark.scheduler.SparkListener
import org.cerebro.spark.Support

/** Parts of the tab that the history server uses. */
object HistoryTab {

  /** Listener of the events of an application, with the text that [[content]] shows after the last event. */
  final class Recorder private[HistoryTab] (board: ProgressBoard) {
    def listener: SparkListener = board

    /** Text to store; none if no worker has reported. */
    def text: Option[String] = Some(board.board).filterNot(_.isEmpty).map(_.toJson)
  }

  def recorder(): Recorder = new Recorder(new ProgressBoard)

  /** Content of the page from the text of a recorder; none if another version wrote it. */
  def content(text: String): Option[((Int, Int) => String) => Seq[Node]] =
    Board.parse(text).map(board => link => TabContent.render(board, link, System.currentTimeMillis()))

  /** Runs a step; a failure becomes a warning, because it must cost the tab and not the page of the application. */
  def guard(step: => Unit): Unit = Support.guard("the tab of cerebro-spark in the history server")(step)
}
