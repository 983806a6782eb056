package org.cerebro.spark

import scala.annotation.tailrec

import org.apache.spark.sql.catalyst.expressions.{Alias, And, Attribute, AttributeMap, Expression, Literal, NamedExpression, SortOrder}
import org.apache.spark.sql.catalyst.plans.{LeftAnti, LeftSemi}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LocalLimit, LogicalPlan, Project, Sort}
import org.apache.spark.sql.catalyst.rules.Rule
import org.cerebro.spark.SparkInternals.Inference

/**
 * Moves below an inference operator what reduces the rows that it computes.
 *
 * The operator is deterministic and computes each row on its own, so that these are equivalent:
 *
 *   - a filter on columns that pass through the operator, above or below it;
 *   - a left semi or left anti join on such columns, which is a filter;
 *   - a limit, or the first rows of an order by such columns, if the operator keeps all rows (`errors="null"` or
 *     `"raise"`); the limit also stays above;
 *   - the operator or its input, if no result is read and bad rows have no other effect (`errors="null"`).
 *
 * Filters on results, outer joins and conditions that are not deterministic stay where they are. With `errors="raise"`,
 * a row that a filter removes is not computed and cannot fail.
 */
private[spark] object InferencePushdown extends Rule[LogicalPlan] {

  /** Setting that switches the rule off, also within a session. */
  val Enabled = "spark.cerebro.pushdown"

  /** Rows up to which the first rows of an order are moved: they are computed in a single task. */
  val SortedRows = 1000

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (appliesTo(plan)) Support.orUnchanged(plan)(moved(plan)) else plan

  /** Whether a plan has an operator like ours, and nothing has switched the rules off. */
  private[spark] def appliesTo(plan: LogicalPlan): Boolean =
    Support.isOn && SparkInternals.hasInference(plan) && isEnabled

  private def isEnabled: Boolean = {
    val value = conf.getConfString(Enabled, "true").trim
    value.toBooleanOption.getOrElse(
      throw new IllegalArgumentException(s"$Enabled must be true or false, got '$value'"))
  }

  private[spark] def moved(plan: LogicalPlan): LogicalPlan = plan.transform {
    case filter @ Filter(condition, Inference(_, inference)) if condition.deterministic =>
      belowFilter(filter, condition, inference)

    case project @ Project(columns, Inference(_, inference))
        if inference.errors == "null" && columns.forall(inference.reads) =>
      Project(columns, inference.withoutOperator(project.references.toSeq))

    case join @ Join(left @ Inference(_, inference), right, LeftSemi | LeftAnti, Some(condition), _)
        if condition.deterministic && readsCopies(condition, left, inference)
          && right.outputSet.intersect(inference.child.outputSet).isEmpty =>
      val kind = if (join.joinType == LeftSemi) "semi" else "anti"
      inference.over(
        join.copy(left = inference.child, condition = Some(inference.below(condition))),
        s"left $kind join on ${text(condition)}")

    case limit @ LocalLimit(Literal(rows: Int, _), below) if !limit.isStreaming =>
      limit.withNewChildren(Seq(limited(rows, below)))
  }

  private def belowFilter(filter: Filter, condition: Expression, inference: Inference): LogicalPlan = {
    val (below, above) = conjuncts(condition).partition(inference.reads)
    if (below.isEmpty) filter
    else {
      val rows = Filter(below.map(inference.below(_)).reduce(And(_, _)), inference.child)
      val operator = inference.over(rows, below.map(text).mkString("filter ", " AND ", ""))
      if (above.isEmpty) operator else Filter(above.reduce(And(_, _)), operator)
    }
  }

  /** Moves a limit of rows per partition, or the first rows of an order, through projections to an operator. */
  private def limited(rows: Int, plan: LogicalPlan): LogicalPlan = plan match {
    case project: Project => project.withNewChildren(Seq(limited(rows, project.child)))
    case sort: Sort if sort.global && rows <= SortedRows => sort.withNewChildren(Seq(first(rows, sort.order, sort.child)))
    case Inference(_, inference) if inference.keepsRows && exceeds(inference.child.maxRowsPerPartition, rows) =>
      inference.over(SparkInternals.localLimit(rows, inference.child), s"limit $rows")
    case other => other
  }

  @tailrec
  private def first(rows: Int, order: Seq[SortOrder], plan: LogicalPlan, above: List[Project] = Nil): LogicalPlan =
    plan match {
      case project: Project => first(rows, order.map(inlined(_, project.projectList)), project.child, project :: above)
      case Inference(operator, inference) =>
        val moves = inference.keepsRows && exceeds(inference.child.maxRows, rows) &&
          order.forall(key => key.deterministic && readsCopies(key, operator, inference))
        val changed =
          if (!moves) plan
          else {
            val below = SparkInternals.firstOf(rows, order.map(inference.below(_)), inference.child)
            inference.over(below, order.map(text).mkString(s"first $rows by ", ", ", ""))
          }
        above.foldLeft(changed)((child, project) => project.withNewChildren(Seq(child)))
      case other => above.foldLeft(other)((child, project) => project.withNewChildren(Seq(child)))
    }

  private def inlined(key: SortOrder, columns: Seq[NamedExpression]): SortOrder = {
    val expressions = AttributeMap(columns.collect { case alias: Alias => alias.toAttribute -> alias.child })
    key.transform { case attribute: Attribute => expressions.getOrElse(attribute, attribute) }.asInstanceOf[SortOrder]
  }

  /** Whether all columns of the operator's output that an expression reads are copies. */
  private[spark] def readsCopies(expression: Expression, operator: LogicalPlan, inference: Inference): Boolean = {
    val read = expression.references.filter(operator.outputSet.contains)
    read.nonEmpty && read.forall(attribute => inference.copies.contains(attribute))
  }

  private def exceeds(most: Option[Long], rows: Int): Boolean = most.forall(_ > rows)

  private[spark] def conjuncts(condition: Expression): Seq[Expression] = condition match {
    case And(left, right) => conjuncts(left) ++ conjuncts(right)
    case other => Seq(other)
  }

  /** Text of an expression for `explain()`, without ids: equal operators of a query are to stay equal. */
  private[spark] def text(expression: Expression): String = {
    val plain = expression.toString.replaceAll("#\\d+L?", "")
    if (plain.length <= 80) plain else plain.take(77) + "..."
  }
}
