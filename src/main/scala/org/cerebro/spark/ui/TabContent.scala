package org.cerebro.spark.ui

import scala.xml.{Elem, Node, NodeSeq, Text}

/** HTML of the tab. Texts are escaped by scala-xml; bars are SVG, which needs no styles or scripts. */
private[spark] object TabContent {
  private val Phases: Seq[(String, String, PhaseSeconds => Double)] = Seq(
    ("start of workers", "#8c8c8c", _.start),
    ("opening the network", "#b07aa1", _.load),
    ("decoding", "#f28e2b", _.decode),
    ("network", "#4e79a7", _.compute),
    ("Arrow conversion", "#59a14f", _.convert))
  private val BarWidth = 420
  private val MemoryWidth = 220

  /**
   * Content of the page.
   *
   * @param link
   *   address of the page of a stage
   * @param now
   *   milliseconds since 1970
   */
  def render(board: Board, link: (Int, Int) => String, now: Long): Seq[Node] =
    <div class="cerebro">
      {
        if (board.isEmpty)
          <p>No Python worker of cerebro-spark has reported yet. Stages and functions that run a network report here;
          reload the page to see later reports.</p>
        else
          inference(board.stages, link, now) ++ SearchChart.render(board.units, now) ++ memory(board.memory) ++
            regions(board.regions) ++ stalled(board.stalled, now)
      }
    </div>

  private def inference(stages: Seq[StageProgress], link: (Int, Int) => String, now: Long): NodeSeq =
    if (stages.isEmpty) NodeSeq.Empty
    else
      <h4>Inference ({stages.size.toString})</h4>
      <p>Seconds are sums over all workers. Rows per second are those of the whole stage.</p>
      <p class="cerebro-legend">{Phases.map { case (name, colour, _) => legend(name, colour) }}</p>
      <table class="table table-bordered table-sm table-striped">
        <thead><tr>
          <th>Stage</th><th>Description</th><th>Rows</th><th>Rows per second</th><th>Time of workers by phase</th>
        </tr></thead>
        <tbody>{stages.map(row(_, link, now))}</tbody>
      </table>

  private def row(stage: StageProgress, link: (Int, Int) => String, now: Long): Elem =
    <tr>
      <td><a href={link(stage.id, stage.attempt)}>{stage.id.toString}</a></td>
      <td>{stage.name.take(200)}{if (stage.completed > 0) "" else " (running)"}</td>
      <td>{f"${stage.rows}%,d"}</td>
      <td>{stage.rate(now).fold("-")(rate => f"$rate%.1f")}</td>
      <td>{phases(stage.seconds)}<div class="cerebro-advice">{Advice.of(stage.rows, stage.seconds)}</div></td>
    </tr>

  private def phases(seconds: PhaseSeconds): Elem = {
    val total = seconds.total
    val parts = Phases.map { case (name, colour, value) => (name, colour, value(seconds)) }.filter(_._3 > 0)
    val starts = parts.scanLeft(0.0)(_ + _._3)
    <div>
      <svg width={BarWidth.toString} height="18" role="img">
        {
          parts.zip(starts).map { case ((name, colour, value), start) =>
            <rect x={px(BarWidth * start / total)} y="0" width={px(BarWidth * value / total)} height="18" fill={colour}>
              <title>{s"$name: ${time(value)}"}</title>
            </rect>
          }
        }
      </svg>
      <div><small>{
        parts.map { case (name, _, value) => f"$name ${time(value)} (${100 * value / total}%.0f %%)" }.mkString(", ")
      }</small></div>
    </div>
  }

  private def memory(rows: Seq[RoleMemory]): NodeSeq =
    if (rows.isEmpty) NodeSeq.Empty
    else
      <h4>Memory of Python workers</h4>
      <p>Resident memory as Linux counts it; pages that workers share count in each of them. Peak is the largest
      resident memory of one worker in all reports.</p>
      <table class="table table-bordered table-sm table-striped">
        <thead><tr>
          <th>Executor</th><th>Host</th><th>Role</th><th>Workers</th><th>Resident</th><th>Peak of a worker</th>
          <th>Plan of a worker</th><th>Peak against plan</th>
        </tr></thead>
        <tbody>{
          rows.map { row =>
            <tr>
              <td>{row.executor}</td><td>{row.host}</td><td>{row.role}</td><td>{row.workers.toString}</td>
              <td>{bytes(row.rss)}</td><td>{bytes(row.peak)}</td>
              <td>{if (row.planned > 0) bytes(row.planned) else "no plan"}</td><td>{against(row.peak, row.planned)}</td>
            </tr>
          }
        }</tbody>
      </table>

  private def regions(executors: Seq[MemoryReported]): NodeSeq =
    if (executors.isEmpty) NodeSeq.Empty
    else
      <h4>Memory of executors</h4>
      <p>Measured each second; the table function cerebro_memory() has all regions. The plan of the container is its
      limit.</p>
      <table class="table table-bordered table-sm table-striped">
        <thead><tr>
          <th>Executor</th><th>Host</th><th>Region</th><th>Measured</th><th>Peak</th><th>Plan</th>
          <th>Peak against plan</th>
        </tr></thead>
        <tbody>{
          for (executor <- executors; region <- executor.regions)
            yield <tr>
              <td>{executor.executorId}</td><td>{executor.host}</td><td>{region.region}</td>
              <td>{bytes(region.measured)}</td><td>{bytes(region.peak)}</td>
              <td>{if (region.planned > 0) bytes(region.planned) else "no plan"}</td>
              <td>{against(region.peak, region.planned)}</td>
            </tr>
        }</tbody>
      </table>

  private def against(peak: Long, planned: Long): Node =
    if (planned <= 0 || peak <= 0) Text("-")
    else {
      val share = peak.toDouble / planned
      val scale = MemoryWidth / math.max(1.0, share)
      val colour = if (share > 1) "#c0392b" else "#4e79a7"
      <div>
        <svg width={(MemoryWidth + 2).toString} height="16" role="img">
          <rect x="0" y="0" width={px(scale)} height="16" fill="#dddddd"></rect>
          <rect x="0" y="3" width={px(scale * share)} height="10" fill={colour}></rect>
          <rect x={px(scale)} y="0" width="2" height="16" fill="#333333"></rect>
        </svg> {f"${100 * share}%.0f %%"}
      </div>
    }

  private def stalled(workers: Seq[StalledWorker], now: Long): NodeSeq =
    if (workers.isEmpty) NodeSeq.Empty
    else
      <h4>Workers without progress</h4> ++ workers.map { worker =>
        <div>
          <p>{
            s"Process ${worker.pid} of executor ${worker.executor} on ${worker.host}, stage ${worker.stage}: no batch " +
              s"since ${math.max(0, now - worker.since) / 1000} seconds. Its Python stack:"
          }</p>
          <pre>{worker.stack}</pre>
        </div>
      }

  private def legend(name: String, colour: String): NodeSeq =
    <svg width="12" height="12"><rect width="12" height="12" fill={colour}></rect></svg> ++ Text(s" $name   ")

  private[ui] def px(value: Double): String = String.format(java.util.Locale.ROOT, "%.1f", Double.box(value))

  private[ui] def time(seconds: Double): String =
    if (seconds < 60) f"$seconds%.1f s" else if (seconds < 3600) f"${seconds / 60}%.1f min" else f"${seconds / 3600}%.1f h"

  private def bytes(value: Long): String =
    if (value < 0) "not available"
    else if (value < (1L << 30)) f"${value / 1048576.0}%.0f MiB"
    else f"${value / 1073741824.0}%.2f GiB"
}
