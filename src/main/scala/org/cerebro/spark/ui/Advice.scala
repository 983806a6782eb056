package org.cerebro.spark.ui

/** Advice on a stage from the times of its phases. */
private[spark] object Advice {

  /** One sentence. */
  def of(rows: Long, seconds: PhaseSeconds): String = {
    val total = seconds.total
    def share(part: Double): Long = math.round(100 * part / total)
    if (rows <= 0 || !(total > 0)) "No batch has been computed yet."
    else if (seconds.decode >= 0.5 * total)
      s"Decoding takes ${share(seconds.decode)} % of the time: store smaller images, for example resized once " +
        "to the size that the network reads."
    else if (seconds.start >= 0.4 * total)
      s"Starting Python workers takes ${share(seconds.start)} % of the time: run more rows in one session, with " +
        "spark.python.worker.reuse=true, which starts them once."
    else if (seconds.load >= 0.4 * total)
      s"Opening the network takes ${share(seconds.load)} % of the time: run more rows in one job; each worker opens a " +
        "network once and keeps it."
    else if (seconds.convert >= 0.3 * total)
      s"Writing results takes ${share(seconds.convert)} % of the time: pool features, or deliver fewer layers."
    else if (seconds.compute >= 0.6 * total)
      s"The network takes ${share(seconds.compute)} % of the time, which is the useful part: more cores, a GPU, a " +
        "smaller network or a lower layer is faster."
    else "No phase dominates: more cores make the stage faster."
  }
}
