package org.cerebro.spark

import org.apache.spark.sql.catalyst.expressions.{Alias, Ascending, Attribute, AttributeMap, AttributeReference, EqualTo, Expression, Literal, PythonUDF, SortOrder}
import org.apache.spark.sql.catalyst.plans.{Inner, LeftSemi}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, GlobalLimit, Join, JoinHint, LocalLimit, LogicalPlan, MapInArrow, OneRowRelation, Project, RepartitionByExpression, Sort, Union}
import org.apache.spark.sql.types.{Metadata, MetadataBuilder, StructType}

/**
 * Recognition and construction of operators whose classes differ between builds of Spark. [[SparkInternals.probe]] runs
 * the rules over plans that reach all of them once, before the first query does: a build without one is not supported.
 */
private[spark] object SparkInternals {

  /** Key of the metadata that `udfs/driver/_arrow.py` sets on the columns it sends to Python. */
  val Mark = "cerebro_spark.pushdown"

  /** Field of the mark: position of the output column that repeats this input column, -1 if none does. */
  val CopiedTo = "copied_to"

  /** Field of the mark: the policy for bad rows, as `errors=` has it. */
  val Errors = "errors"

  /** `spark.sql.pyspark`'s number of `mapInArrow`, for the plan of the probe only. */
  private val MapInArrowKind = 207

  /**
   * An inference operator of cerebro-spark.
   *
   * @param operator
   *   the operator in the plan, a MapInArrow
   * @param child
   *   the rows that go to Python
   * @param copies
   *   column of the child by the output column that repeats it
   * @param errors
   *   policy for bad rows: "null", "drop" or "raise"
   */
  final case class Inference(
      operator: LogicalPlan,
      child: LogicalPlan,
      copies: AttributeMap[Attribute],
      errors: String) {

    /** Whether the operator returns a row for each row that it reads. */
    def keepsRows: Boolean = errors == "null" || errors == "raise"

    /** Replaces the rows that the operator reads, and adds to its name in `explain()` what was moved. */
    def over(rows: LogicalPlan, moved: String): LogicalPlan =
      described(operator, moved).withNewChildren(Seq(rows))

    /** Expression over the child's columns for one over the copies in the output. */
    def below[E <: Expression](expression: E): E =
      expression.transform { case attribute: Attribute if copies.contains(attribute) => copies(attribute) }
        .asInstanceOf[E]

    /** Whether an expression reads nothing but copies. */
    def reads(expression: Expression): Boolean =
      expression.references.forall(attribute => copies.contains(attribute))

    /** The copies that a plan above reads, under the names and ids of the output, without the operator. */
    def withoutOperator(read: Seq[Attribute]): LogicalPlan = {
      val restored = read.map { attribute =>
        Alias(copies(attribute), attribute.name)(
          exprId = attribute.exprId,
          qualifier = attribute.qualifier,
          explicitMetadata = Some(attribute.metadata))
      }
      Project(restored, child)
    }
  }

  /** Recognises an inference operator by the marks of all columns that it reads; names decide nothing. */
  object Inference {
    def unapply(plan: LogicalPlan): Option[(LogicalPlan, Inference)] = of(plan).map(plan -> _)

    def of(plan: LogicalPlan): Option[Inference] = plan match {
      case map: MapInArrow if !map.isBarrier && map.child.output.nonEmpty =>
        val marks = map.child.output.map(mark)
        if (marks.exists(_.isEmpty)) None
        else {
          val policies = marks.flatten.map(_.getString(Errors)).distinct
          val copies = map.child.output.zip(marks.flatten).flatMap { case (column, mark) =>
            val place = mark.getLong(CopiedTo)
            if (place < 0) Nil
            else map.output.lift(place.toInt).filter(_.dataType == column.dataType).map(_ -> column)
          }
          if (policies.size == 1) Some(Inference(map, map.child, AttributeMap(copies), policies.head)) else None
        }
      case _ => None
    }
  }

  /** What was moved below an operator, as its name in `explain()` lists it. */
  def movedBelow(operator: LogicalPlan): Seq[String] =
    operator.expressions.flatMap(_.collect { case function: PythonUDF => function.name }).flatMap {
      case Moved(_, moved) => moved.split("; ")
      case _ => Nil
    }

  /** Whether a plan runs Python, other than in a scan. */
  def runsPython(plan: LogicalPlan): Boolean = plan.exists { node =>
    node.nodeName.matches(".*(InArrow|InPandas|EvalPython|PythonUDTF).*") ||
    node.expressions.exists(_.exists { case _: PythonUDF => true; case _ => false })
  }

  /** Rows in a new partitioning, so that Spark computes equal plans below it once. */
  def shared(operator: LogicalPlan): LogicalPlan = RepartitionByExpression(Nil, operator, None, None)

  /** Whether a plan gives rows in a new partitioning, as [[shared]] makes it. */
  def isShared(plan: LogicalPlan): Boolean = plan match {
    case exchange: RepartitionByExpression => exchange.partitionExpressions.isEmpty
    case _ => false
  }

  def semiJoin(left: LogicalPlan, right: LogicalPlan, condition: Expression): LogicalPlan =
    Join(left, right, LeftSemi, Some(condition), JoinHint.NONE)

  def hasInference(plan: LogicalPlan): Boolean =
    plan.exists { case _: MapInArrow => true; case _ => false }

  def localLimit(rows: Int, child: LogicalPlan): LogicalPlan = LocalLimit(Literal(rows), child)

  def firstOf(rows: Int, order: Seq[SortOrder], child: LogicalPlan): LogicalPlan =
    GlobalLimit(Literal(rows), LocalLimit(Literal(rows), Sort(order, global = true, child)))

  private def mark(column: Attribute): Option[Metadata] =
    if (column.metadata.contains(Mark)) Some(column.metadata.getMetadata(Mark)) else None

  private def described(operator: LogicalPlan, moved: String): LogicalPlan =
    operator.transformExpressions {
      case function: PythonUDF => function.copy(name = label(function.name, moved))
    }

  private val Moved = """(?s)(.*) \[moved below: (.*)\]""".r

  private[spark] def label(name: String, moved: String): String = name match {
    case Moved(_, before) if before.split("; ").contains(moved) => name
    case Moved(plain, before) => s"$plain [moved below: $before; $moved]"
    case plain => s"$plain [moved below: $moved]"
  }

  /** A marked operator over one row, as the probe and the tests need it. */
  private[spark] def example(errors: String, source: LogicalPlan = OneRowRelation()): LogicalPlan = {
    def marked(place: Long): Metadata = new MetadataBuilder()
      .putMetadata(Mark, new MetadataBuilder().putLong(CopiedTo, place).putString(Errors, errors).build())
      .build()
    val inputs: Seq[Expression] = if (source.output.isEmpty) Seq(Literal(1), Literal(2)) else source.output
    val plain = Project(
      inputs.zipWithIndex.map { case (input, place) =>
        // The last column is read and not repeated.
        val copied = if (place == inputs.size - 1) -1L else place.toLong
        Alias(input, s"c$place")(explicitMetadata = Some(marked(copied)))
      },
      source)
    val schema = inputs.indices.foldLeft(new StructType()) { (fields, place) =>
      fields.add(if (place == inputs.size - 1) "feature" else s"kept$place", inputs(place).dataType)
    }
    val function = PythonUDF("partial", null, schema, plain.output, MapInArrowKind, udfDeterministic = true)
    val output = schema.map { field =>
      AttributeReference(field.name, field.dataType, nullable = true)()
    }
    MapInArrow(function, output, plain, isBarrier = false, profile = None)
  }

  /** Runs the rules over plans that reach all of this file; a build of Spark without one of the classes throws. */
  def probe(rules: (LogicalPlan => LogicalPlan)*): Unit = {
    val operator = example("null")
    val kept = operator.output.head
    val other = Project(Seq(Alias(Literal(1), "key")()), OneRowRelation())
    val equal = EqualTo(kept, other.output.head)
    val filter = Filter(EqualTo(kept, Literal(1)), operator)
    val plans = Seq(
      filter,
      Project(Seq(kept), operator),
      LocalLimit(Literal(1), Project(Seq(kept, operator.output.last), operator)),
      LocalLimit(Literal(1), Sort(Seq(SortOrder(kept, Ascending)), global = true, operator)),
      Join(operator, other, LeftSemi, Some(equal), JoinHint.NONE),
      Join(operator, other, Inner, Some(equal), JoinHint.NONE),
      Union(Seq(operator, operator)))
    for (rule <- rules; plan <- plans) rule(plan)
    require(rules.head(filter) != filter, "the rule does not move a filter in this build of Spark")
  }
}
