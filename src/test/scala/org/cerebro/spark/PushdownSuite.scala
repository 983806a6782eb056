package org.cerebro.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Add, Alias, And, Ascending, AttributeReference, EqualTo, Expression, GreaterThan, LessThan, Literal, Rand, SortOrder}
import org.apache.spark.sql.catalyst.plans.{FullOuter, JoinType, LeftAnti, LeftOuter, LeftSemi, RightOuter}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, GlobalLimit, Join, JoinHint, LocalLimit, LocalRelation, LogicalPlan, MapInArrow, Project, Sort}
import org.apache.spark.sql.types.{IntegerType, MetadataBuilder}

/** Shapes of plans after the rule. */
object PushdownSuite extends Suite {
  private val source = LocalRelation(
    Seq("id", "place", "image").map(AttributeReference(_, IntegerType)()),
    Seq.tabulate(5)(row => InternalRow(row, -row, 10 * row)))

  private def operator(errors: String = "null"): LogicalPlan = SparkInternals.example(errors, source)

  private def after(plan: LogicalPlan): LogicalPlan = InferencePushdown.moved(plan)

  /** Kinds of the nodes from the top down to the source, for plans of a single branch. */
  private def shape(plan: LogicalPlan): String =
    plan.collect { case node => node.nodeName }.mkString(" ").replaceAll(" ?LocalRelation", "")

  private def same(errors: String)(plan: LogicalPlan => LogicalPlan): Unit = {
    val before = plan(operator(errors))
    same(after(before).fastEquals(before), true)
  }

  private def below(column: Expression): Expression = LessThan(column, Literal(3))

  test("a filter on a copy moves, for each policy") {
    Seq("null", "raise", "drop").foreach { errors =>
      val stage = operator(errors)
      same(shape(after(Filter(below(stage.output.head), stage))), "MapInArrow Filter Project")
    }
  }

  test("a moved filter reads the input column and not the output") {
    val stage = operator()
    val moved = after(Filter(below(stage.output(1)), stage))
    val condition = moved.collectFirst { case filter: Filter => filter.condition }.get
    same(condition.references.toSeq, Seq(stage.children.head.output(1)))
    same(moved.output, stage.output)
    same(moved.resolved && moved.missingInput.isEmpty, true)
  }

  test("a filter on a result stays") {
    same("null")(stage => Filter(below(stage.output.last), stage))
  }

  test("a condition splits") {
    val stage = operator()
    val both = And(below(stage.output.head), GreaterThan(stage.output.last, Literal(0)))
    val moved = after(Filter(both, stage))
    same(shape(moved), "Filter MapInArrow Filter Project")
    same(moved.asInstanceOf[Filter].condition.references.toSeq, Seq(stage.output.last))
  }

  test("a comparison of a copy with a result stays") {
    same("null")(stage => Filter(LessThan(stage.output.head, stage.output.last), stage))
  }

  test("a condition with a random part stays as a whole") {
    same("null")(stage => Filter(And(below(stage.output.head), GreaterThan(Rand(1), Literal(0.5))), stage))
  }

  test("an operator whose results are not read goes, with the policy null alone") {
    def read(stage: LogicalPlan): LogicalPlan =
      Project(Seq(Alias(Add(stage.output.head, stage.output(1)), "sum")(), stage.output.head), stage)
    val stage = operator()
    val pruned = after(read(stage))
    same(shape(pruned), "Project Project Project")
    same(pruned.output.last, stage.output.head)
    same(pruned.output.last.metadata.contains(SparkInternals.Mark), false)
    same("raise")(read)
    same("drop")(read)
  }

  test("rows are counted without the operator") {
    same(shape(after(Project(Nil, operator()))), "Project Project Project")
  }

  test("a limit is repeated below, unless the policy drops rows") {
    val stage = operator()
    val once = after(LocalLimit(Literal(2), Project(stage.output, stage)))
    same(shape(once), "LocalLimit Project MapInArrow LocalLimit Project")
    same(after(once), once)
    same(shape(after(LocalLimit(Literal(2), operator("raise")))), "LocalLimit MapInArrow LocalLimit Project")
    same("drop")(stage => LocalLimit(Literal(2), stage))
  }

  test("a limit above a filter on a result stays") {
    same("null")(stage => LocalLimit(Literal(2), Filter(below(stage.output.last), stage)))
  }

  test("the first rows by a copy are chosen below, under its alias too") {
    val stage = operator()
    val key = Alias(stage.output.head, "key")()
    val ordered = Sort(Seq(SortOrder(key.toAttribute, Ascending)), global = true, Project(Seq(key, stage.output.last), stage))
    val once = after(GlobalLimit(Literal(2), LocalLimit(Literal(2), ordered)))
    same(shape(once), "GlobalLimit LocalLimit Sort Project MapInArrow GlobalLimit LocalLimit Sort Project")
    same(after(once), once)
  }

  test("the first rows by a result, or too many of them, stay") {
    def first(rows: Int, key: Expression, child: LogicalPlan): LogicalPlan =
      LocalLimit(Literal(rows), Sort(Seq(SortOrder(key, Ascending)), global = true, child))
    same("null")(stage => first(2, stage.output.last, stage))
    same("null")(stage => first(InferencePushdown.SortedRows + 1, stage.output.head, stage))
    same("drop")(stage => first(2, stage.output.head, stage))
  }

  test("semi and anti joins on copies move, others stay") {
    val other = LocalRelation(AttributeReference("key", IntegerType)())
    def joined(kind: JoinType, place: Int)(stage: LogicalPlan): LogicalPlan =
      Join(stage, other, kind, Some(EqualTo(stage.output(place), other.output.head)), JoinHint.NONE)
    same(shape(after(joined(LeftSemi, 0)(operator()))), "MapInArrow Join Project")
    same(shape(after(joined(LeftAnti, 0)(operator("drop")))), "MapInArrow Join Project")
    Seq(LeftOuter, RightOuter, FullOuter).foreach(kind => same("null")(joined(kind, 0)))
    same("null")(joined(LeftSemi, 2))
  }

  test("an operator without our marks stays") {
    val stage = operator()
    val users = stage.withNewChildren(Seq(Project(stage.children.head.output.map(column => Alias(column, column.name)(
      explicitMetadata = Some(new MetadataBuilder().build()))), stage.children.head)))
    val filter = Filter(below(users.output.head), users)
    same(after(filter), filter)
  }

  test("an operator of a user over ours, with the same schema, stays") {
    val stage = operator()
    val users = stage.asInstanceOf[MapInArrow].copy(output = stage.output.map(_.newInstance()), child = stage)
    val filter = Filter(below(users.output.head), users)
    same(after(filter), filter)
  }

  test("two operators are passed one after the other") {
    val lower = operator()
    val upper = SparkInternals.example("null", lower)
    val filter = Filter(below(upper.output.head), upper)
    // A filter below a projection is moved on by Spark; here the upper one is enough.
    same(shape(after(filter)), "MapInArrow Filter Project MapInArrow Project")
  }

  test("the name of an operator lists what was moved, once") {
    same(SparkInternals.label("run", "limit 3"), "run [moved below: limit 3]")
    same(SparkInternals.label("run [moved below: limit 3]", "filter (id < 3)"), "run [moved below: limit 3; filter (id < 3)]")
    same(SparkInternals.label("run [moved below: limit 3]", "limit 3"), "run [moved below: limit 3]")
  }

  test("the setting switches the rule off, and is checked") {
    val stage = operator()
    val filter = Filter(below(stage.output.head), stage)
    val conf = org.apache.spark.sql.internal.SQLConf.get
    try {
      same(shape(InferencePushdown(filter)), "MapInArrow Filter Project")
      conf.setConfString(InferencePushdown.Enabled, "false")
      same(InferencePushdown(filter), filter)
      conf.setConfString(InferencePushdown.Enabled, "maybe")
      val error = scala.util.Try(InferencePushdown(filter)).failed.map(_.getMessage)
      same(error.getOrElse(""), "spark.cerebro.pushdown must be true or false, got 'maybe'")
    } finally conf.unsetConf(InferencePushdown.Enabled)
  }

  test("equal moves give equal operators, so that Spark reuses exchanges") {
    val one = operator()
    val other = one.asInstanceOf[MapInArrow].copy(output = one.output.map(_.newInstance()))
    val pair = Seq(one, other).map(stage => after(Filter(below(stage.output.head), stage)))
    same(pair.head.sameResult(pair.last), true)
  }
}
