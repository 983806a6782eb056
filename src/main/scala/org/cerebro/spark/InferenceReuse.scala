package org.cerebro.spark

import org.apache.spark.sql.catalyst.expressions.{Alias, And, Attribute, AttributeMap, EqualTo, Expression}
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.cerebro.spark.InferencePushdown.{conjuncts, readsCopies, text}
import org.cerebro.spark.SparkInternals.Inference

/**
 * Decisions about inference operators that need the sizes of tables or the whole plan, once it is pushed down.
 *
 *   - An inner join on columns that pass through an operator, with a table small enough to be broadcast, removes rows
 *     before the network runs: a left semi join with the keys of the table goes below the operator. The join stays.
 *   - Equal operators of one plan, as of a join of features with themselves, go below an exchange, which Spark reuses.
 */
private[spark] object InferenceReuse extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (InferencePushdown.appliesTo(plan)) Support.orUnchanged(plan)(reused(plan)) else plan

  private[spark] def reused(plan: LogicalPlan): LogicalPlan =
    if (plan.isStreaming) plan else shared(plan.transformUp { case join: Join if join.joinType == Inner => reduced(join) })

  private def shared(plan: LogicalPlan): LogicalPlan = {
    val operators = plan.collect { case Inference(operator, _) => operator.canonicalized }
    val repeated = operators.groupBy(identity).collect { case (operator, same) if same.size > 1 => operator }.toSet
    // An operator that has its exchange keeps it: Spark's own tests apply each rule once more.
    def exchanged(plan: LogicalPlan): LogicalPlan = plan match {
      case exchange if SparkInternals.isShared(exchange) => exchange.mapChildren(_.mapChildren(exchanged))
      case Inference(operator, _) if repeated(operator.canonicalized) =>
        SparkInternals.shared(operator.mapChildren(exchanged))
      case other => other.mapChildren(exchanged)
    }
    // An exchange changes the order of rows, and so what random numbers and samples above it pick.
    val readsOrder = plan.exists(node => node.nodeName == "Sample" || node.expressions.exists(!_.deterministic))
    if (repeated.isEmpty || readsOrder) plan else exchanged(plan)
  }

  private def reduced(join: Join): LogicalPlan = join.condition match {
    case Some(condition) =>
      val left = withKeysBelow(join.left, join.right, condition)
      val right = withKeysBelow(join.right, join.left, condition)
      if ((left eq join.left) && (right eq join.right)) join else join.withNewChildren(Seq(left, right))
    case None => join
  }

  /** A side of an inner join, with the keys of the other side below the operator that computes it. */
  private def withKeysBelow(side: LogicalPlan, other: LogicalPlan, condition: Expression): LogicalPlan = side match {
    // Fewer rows below a random column would change its values.
    case project: Project if project.projectList.forall(_.deterministic) =>
      project.withNewChildren(Seq(withKeysBelow(project.child, other, condition)))
    case Inference(operator, inference) =>
      val keys = conjuncts(condition).filter { part =>
        part.deterministic && part.references.exists(other.outputSet.contains) &&
        part.references.forall(column => other.outputSet.contains(column) || operator.outputSet.contains(column)) &&
        readsCopies(part, operator, inference)
      }
      val moved = s"rows of the inner join on ${keys.map(text).mkString(" AND ")}"
      val moves = keys.exists(_.isInstanceOf[EqualTo]) && isSmall(other) &&
        other.outputSet.intersect(inference.child.outputSet).isEmpty &&
        !SparkInternals.movedBelow(operator).contains(moved)
      if (!moves) operator
      else {
        val columns = keys.flatMap(_.references.filter(other.outputSet.contains)).distinct
        val fresh = columns.map(column => Alias(column, column.name)())
        val renamed = AttributeMap(columns.zip(fresh.map(_.toAttribute)))
        val matches = keys.map { key =>
          inference.below(key).transform { case column: Attribute if renamed.contains(column) => renamed(column) }
        }
        inference.over(SparkInternals.semiJoin(inference.child, Project(fresh, other), matches.reduce(And(_, _))), moved)
      }
    case plan => plan
  }

  /** Whether a table costs little to read twice: it fits into a broadcast and needs no Python. */
  private def isSmall(table: LogicalPlan): Boolean =
    table.stats.sizeInBytes <= conf.autoBroadcastJoinThreshold &&
      !table.exists(!_.deterministic) && !SparkInternals.runsPython(table)
}
