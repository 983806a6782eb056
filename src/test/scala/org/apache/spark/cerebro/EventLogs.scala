package org.apache.spark.cerebro

import java.io.ByteArrayInputStream

import org.apache.spark.SparkConf
import org.apache.spark.scheduler.{ReplayListenerBus, SparkListener, SparkListenerEvent}
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.util.JsonProtocol
import org.apache.spark.util.kvstore.InMemoryStore

/** Event log and history server, whose classes are `private[spark]`. */
object EventLogs {
  def line(event: SparkListenerEvent): String = JsonProtocol.sparkEventToJsonString(event)

  def event(line: String): SparkListenerEvent = JsonProtocol.sparkEventFromJson(line)

  def replay(lines: Seq[String], listeners: SparkListener*): Unit = {
    val bus = new ReplayListenerBus()
    listeners.foreach(bus.addListener)
    bus.replay(new ByteArrayInputStream(lines.mkString("\n").getBytes("UTF-8")), "log")
  }

  /** Text that the plugin stores after it read the lines of an event log; none if it stores nothing. */
  def stored(lines: Seq[String]): Option[String] = {
    val memory = new InMemoryStore
    val store = new ElementTrackingStore(memory, new SparkConf(false))
    replay(lines, history().createListeners(new SparkConf(false), store): _*)
    store.close(false)
    if (memory.count(classOf[StoredProgress]) == 0) None
    else Some(memory.read(classOf[StoredProgress], StoredProgress.Key).text)
  }

  private def history(): AppHistoryServerPlugin = new CerebroHistoryPlugin
}
