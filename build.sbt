// The JVM plugin of cerebro-spark. `make jvm` compiles and tests the same sources without sbt.
ThisBuild / organization := "org.cerebro"
ThisBuild / scalaVersion := "2.13.18"
ThisBuild / version := {
  val line = """__version__ = "(.+)"""".r
  IO.readLines(file("optimizer/_version.py")).collectFirst { case line(number) => number }
    .getOrElse(sys.error("""optimizer/_version.py must have a line __version__ = "...""""))
}

lazy val root = (project in file("."))
  .settings(
    name := "cerebro-spark",
    scalacOptions ++= Seq("-release", "17", "-deprecation", "-feature", "-Xlint", "-Werror"),
    libraryDependencies += "org.apache.spark" %% "spark-sql" % "4.3.0" % Provided,
    // The suites are programs without a test framework, because `make jvm` can download none.
    Test / fork := true,
    Test / test := (Test / runMain).toTask(" org.cerebro.spark.Suites").value
  )
