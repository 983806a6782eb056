package org.cerebro.spark.ui

import scala.xml.{Elem, NodeSeq}

/** Gantt chart of a search: a row per worker, a bar per unit, a colour per configuration. */
private[spark] object SearchChart {
  private val Colours = Seq(
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f", "#ff9da7", "#8c8c8c")
  private val Left = 150
  private val Width = 1000
  private val RowHeight = 24
  private val DigitWidth = 7

  def render(units: Seq[SearchUnit], now: Long): NodeSeq =
    if (units.isEmpty) NodeSeq.Empty
    else {
      val begin = units.map(_.begin).min
      val end = math.max(begin + 1, units.map(endOf(_, now)).max)
      val workers = units.map(unit => (unit.executor, unit.pid)).distinct.sorted
      val colours = units.map(_.name).distinct.zipWithIndex.toMap
      def x(time: Long): Double = Left + (Width - Left).toDouble * (time - begin) / (end - begin)
      val bars = units.map { unit =>
        val y = RowHeight * workers.indexOf((unit.executor, unit.pid))
        bar(unit, x(unit.begin), x(endOf(unit, now)), y, Colours(colours(unit.name) % Colours.size))
      }
      val labels = workers.zipWithIndex.map { case ((executor, pid), row) =>
        <text x="0" y={(RowHeight * row + 16).toString} font-size="12" fill="currentColor">{
          s"executor $executor, $pid"
        }</text>
      }
      val bottom = RowHeight * workers.size
      val running = units.count(_.end == 0)
      <h4>Search</h4>
      <p>{
        s"${colours.size} configurations on ${workers.size} workers, " +
          s"${units.size} units in ${TabContent.time((end - begin) / 1000.0)}" +
          (if (running > 0) s", $running running." else ".")
      }</p>
      <svg width="100%" viewBox={s"0 0 $Width ${bottom + 20}"} role="img">
        {labels}{bars}
        <text x={Left.toString} y={(bottom + 16).toString} font-size="12" fill="currentColor">0 s</text>
        <text x={Width.toString} y={(bottom + 16).toString} font-size="12" text-anchor="end" fill="currentColor">{
          TabContent.time((end - begin) / 1000.0)
        }</text>
      </svg>
    }

  private def endOf(unit: SearchUnit, now: Long): Long = math.max(unit.begin, if (unit.end == 0) now else unit.end)

  private def bar(unit: SearchUnit, from: Double, to: Double, y: Int, colour: String): Elem = {
    val seconds = if (unit.end == 0) "running" else TabContent.time((unit.end - unit.begin) / 1000.0)
    val isWide = to - from > DigitWidth * unit.name.length + 6
    <g>
      <title>{s"${unit.name}: ${unit.description}, $seconds"}</title>
      <rect x={TabContent.px(from)} y={(y + 2).toString} width={TabContent.px(math.max(1, to - from - 1))}
        height={(RowHeight - 4).toString} fill={colour}></rect>
      {
        if (isWide)
          <text x={TabContent.px(from + 4)} y={(y + 16).toString} font-size="11" fill="#ffffff">{unit.name}</text>
        else NodeSeq.Empty
      }
    </g>
  }
}
