package org.apache.spark.cerebro

import scala.util.control.NonFatal
import scala.xml.Node

import jakarta.servlet.http.HttpServletRequest

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}

/** Access to Spark's UI and listener bus, which are `private[spark]`. */
object ProgressPages {

  /**
   * Adds a tab with one page to the UI of a running application.
   *
   * @param content
   *   content of the page, from the address of the page of a stage by its id and attempt
   */
  def attach(context: SparkContext, content: ((Int, Int) => String) => Seq[Node]): Unit =
    context.ui.foreach(attach(_, content))

  private[spark] def attach(ui: SparkUI, content: ((Int, Int) => String) => Seq[Node]): Unit =
    ui.attachTab(new ProgressTab(ui, content))

  def post(context: SparkContext, event: SparkListenerEvent): Unit = context.listenerBus.post(event)

  val Title = "Cerebro"
}

private[spark] class ProgressTab(ui: SparkUI, content: ((Int, Int) => String) => Seq[Node])
    extends SparkUITab(ui, "cerebro") {
  override val name: String = ProgressPages.Title
  attachPage(new ProgressPage(this, content))
}

private[spark] class ProgressPage(tab: SparkUITab, content: ((Int, Int) => String) => Seq[Node]) extends WebUIPage("") {
  override def render(request: HttpServletRequest): Seq[Node] = {
    def stage(id: Int, attempt: Int): String =
      UIUtils.prependBaseUri(request, tab.basePath, s"/stages/stage/?id=$id&attempt=$attempt")
    page(request, orMessage(content(stage)))
  }

  /** A page that cannot be drawn says so; the driver and other pages are not affected in any case. */
  private def orMessage(nodes: => Seq[Node]): Seq[Node] =
    try nodes
    catch { case NonFatal(failure) => <p>{s"This page cannot be drawn: $failure"}</p> }

  /** `UIUtils.headerSparkPage`, which has one more parameter since Spark 4.1; they all have defaults after the fourth. */
  private def page(request: HttpServletRequest, content: => Seq[Node]): Seq[Node] = {
    val name = "headerSparkPage"
    val methods = UIUtils.getClass.getMethods
    val method = methods.find(_.getName == name).getOrElse(throw new NoSuchMethodError(name))
    val body: () => Seq[Node] = () => content
    val first = Seq[AnyRef](request, ProgressPages.Title, body, tab)
    val rest = (first.size + 1 to method.getParameterCount).map { place =>
      UIUtils.getClass.getMethod(s"$name$$default$$$place").invoke(UIUtils)
    }
    method.invoke(UIUtils, first ++ rest: _*).asInstanceOf[Seq[Node]]
  }
}
