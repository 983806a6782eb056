package org.cerebro.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Alias, AttributeReference, EqualTo, LessThan, Rand}
import org.apache.spark.sql.catalyst.plans.{FullOuter, Inner, JoinType, LeftOuter, RightOuter}
import org.apache.spark.sql.catalyst.plans.logical.{Join, JoinHint, LocalRelation, LogicalPlan, MapInArrow, Project, RepartitionByExpression, Union}
import org.apache.spark.sql.types.IntegerType

/** Shapes of plans after the rule for inner joins and equal operators. */
object ReuseSuite extends Suite {
  private def table(names: String*): LocalRelation = LocalRelation(
    names.map(AttributeReference(_, IntegerType)()),
    Seq.tabulate(5)(row => InternalRow.fromSeq(names.map(_ => row))))

  private def operator(): LogicalPlan = SparkInternals.example("null", table("id", "place", "image"))

  private def after(plan: LogicalPlan): LogicalPlan = InferenceReuse.reused(plan)

  private def joined(kind: JoinType, stage: LogicalPlan, other: LogicalPlan): Join =
    Join(stage, other, kind, Some(EqualTo(stage.output.head, other.output.head)), JoinHint.NONE)

  private def joins(plan: LogicalPlan): Int = plan.collect { case join: Join => join }.size

  test("an inner join with a small table has its keys below, once, and stays above") {
    val stage = operator()
    val other = table("key", "value")
    val once = after(joined(Inner, stage, other))
    same(joins(once), 2)
    same(once.output, stage.output ++ other.output)
    same(once.resolved && once.collect { case node => node.missingInput.isEmpty }.forall(identity), true)
    same(after(once), once)
  }

  test("the side does not matter, and projections are passed") {
    val stage = operator()
    val some = Project(stage.output.take(2), stage)
    same(joins(after(joined(Inner, table("key"), some))), 2)
  }

  test("outer joins, and joins on results or without equality, stay") {
    val stage = operator()
    val other = table("key")
    val plans = Seq(LeftOuter, RightOuter, FullOuter).map(joined(_, stage, other)) ++ Seq(
      Join(stage, other, Inner, Some(EqualTo(stage.output.last, other.output.head)), JoinHint.NONE),
      Join(stage, other, Inner, Some(LessThan(stage.output.head, other.output.head)), JoinHint.NONE),
      Join(stage, other, Inner, None, JoinHint.NONE))
    plans.foreach(plan => same(after(plan), plan))
  }

  test("a table that is random, or comes from Python, is not read twice") {
    val random = Project(Seq(Alias(Rand(3), "key")()), table("other"))
    val stage = operator()
    val condition = Some(EqualTo(stage.output.head, random.output.head))
    val plans = Seq(Join(stage, random, Inner, condition, JoinHint.NONE), joined(Inner, stage, operator()))
    plans.foreach(plan => same(joins(after(plan)), 1))
  }

  test("a join above a random column stays as it is") {
    val stage = operator()
    val plan = joined(Inner, Project(stage.output :+ Alias(Rand(3), "draw")(), stage), table("key"))
    same(after(plan), plan)
  }

  test("equal operators below random numbers are not shared") {
    val stage = operator()
    val again = stage.asInstanceOf[MapInArrow].copy(output = stage.output.map(_.newInstance()))
    val plan = Project(Seq(Alias(Rand(3), "draw")()), Union(Seq(stage, again)))
    same(after(plan).exists(_.isInstanceOf[RepartitionByExpression]), false)
  }

  test("a rule that is applied again changes nothing") {
    val stage = operator()
    val again = stage.asInstanceOf[MapInArrow].copy(output = stage.output.map(_.newInstance()))
    val shared = after(Union(Seq(stage, again)))
    same(after(shared), shared)
  }

  test("equal operators are shared, others are not") {
    val stage = operator()
    val again = stage.asInstanceOf[MapInArrow].copy(output = stage.output.map(_.newInstance()))
    val shared = after(Union(Seq(stage, again)))
    same(shared.collect { case exchange: RepartitionByExpression => exchange }.size, 2)
    val other = SparkInternals.example("null", table("id", "place", "more", "image"))
    same(after(Union(Seq(stage, other))).exists(_.isInstanceOf[RepartitionByExpression]), false)
  }
}
