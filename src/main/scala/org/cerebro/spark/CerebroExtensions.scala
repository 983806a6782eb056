package org.cerebro.spark

import org.apache.spark.sql.SparkSessionExtensions

/** Extension of a Spark session: `spark.sql.extensions=org.cerebro.spark.CerebroExtensions`. */
class CerebroExtensions extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    Support.attempt("push-down below inference") {
      SparkInternals.probe(InferencePushdown.moved, InferenceReuse.reused)
      extensions.injectOptimizerRule(_ => InferencePushdown)
      extensions.injectPreCBORule(_ => InferenceReuse)
    }
    Support.guard("the table function cerebro_memory")(MemoryTable.inject(extensions))
    ()
  }
}
