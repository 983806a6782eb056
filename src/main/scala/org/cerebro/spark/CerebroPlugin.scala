package org.cerebro.spark

import java.util.{Collections, Map => JMap}

import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}

/** Plugin of a Spark application: `spark.plugins=org.cerebro.spark.CerebroPlugin`. */
class CerebroPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new CerebroDriver
  override def executorPlugin(): ExecutorPlugin = null
}

/** Checks at the start of an application that both classes are in its settings. */
private[spark] class CerebroDriver extends DriverPlugin {

  override def init(context: SparkContext, plugin: PluginContext): JMap[String, String] = {
    Support.attempt("the check of settings") {
      CerebroDriver.advice(context.getConf.get(CerebroDriver.Extensions, "")).foreach(Support.warn)
    }
    Collections.emptyMap()
  }
}

private[spark] object CerebroDriver {
  val Extensions = "spark.sql.extensions"

  /** Advice on a value of `spark.sql.extensions` that leaves out ours. */
  def advice(extensions: String): Option[String] = {
    val name = classOf[CerebroExtensions].getName
    if (extensions.split(",").map(_.trim).contains(name)) None
    else
      Some(
        s"$Extensions must contain $name for push-down below inference, got '$extensions'. " +
          s"Add --conf $Extensions=$name, or remove org.cerebro.spark.CerebroPlugin from spark.plugins")
  }
}
