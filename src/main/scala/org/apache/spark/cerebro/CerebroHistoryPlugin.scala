package org.apache.spark.cerebro

import scala.annotation.meta.getter

import org.apache.spark.SparkConf
import org.apache.spark.scheduler.SparkListener
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.SparkUI
import org.apache.spark.util.kvstore.KVIndex
import org.cerebro.spark.ui.HistoryTab

/**
 * Tab of the history server, from the events that the tab of the running application was made of.
 *
 * Spark creates one instance to read an event log and another to show the application, which may be much later, so
 * what both share is in the store of the application.
 */
private[spark] class CerebroHistoryPlugin extends AppHistoryServerPlugin {

  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] = {
    var listeners = Seq.empty[SparkListener]
    HistoryTab.guard {
      val recorder = HistoryTab.recorder()
      store.onFlush(HistoryTab.guard {
        recorder.text.foreach(text => store.write(new StoredProgress(StoredProgress.Key, text)))
      })
      listeners = Seq(recorder.listener)
    }
    listeners
  }

  override def setupUI(ui: SparkUI): Unit = HistoryTab.guard {
    // Applications without inference have no record.
    if (ui.store.store.count(classOf[StoredProgress]) > 0) {
      val stored = ui.store.store.read(classOf[StoredProgress], StoredProgress.Key)
      HistoryTab.content(stored.text).foreach(ProgressPages.attach(ui, _))
    }
  }
}

/** Content of the tab in the store of an application. */
private[spark] class StoredProgress(@(KVIndex @getter) val key: String, val text: String)

private[spark] object StoredProgress {
  val Key = "cerebro"
}
