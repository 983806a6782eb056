// The JVM plugin of cerebro-spark. It has no source yet: everything runs in Spark's Python workers.
ThisBuild / organization := "org.cerebro"
ThisBuild / scalaVersion := "2.13.18"

lazy val root = (project in file("."))
  .settings(
    name := "cerebro-spark",
    scalacOptions ++= Seq("-release", "17", "-deprecation", "-feature", "-Xlint"),
    libraryDependencies += "org.apache.spark" %% "spark-sql" % "4.3.0" % Provided
  )
