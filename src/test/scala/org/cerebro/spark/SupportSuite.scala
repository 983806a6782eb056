package org.cerebro.spark

import java.io.File
import java.net.URLClassLoader

import org.apache.spark.cerebro.ProgressPages
import org.apache.spark.sql.SparkSessionExtensions

/** Builds of Spark that lack a class: one message, no failure. */
object SupportSuite extends Suite {

  /** A class path without some classes, as a vendor's build may be. */
  private class Without(missing: Set[String]) extends URLClassLoader(
        System.getProperty("java.class.path").split(File.pathSeparator).flatMap(entries),
        ClassLoader.getPlatformClassLoader) {
    override def findClass(name: String): Class[_] =
      if (missing(name)) throw new ClassNotFoundException(name) else super.findClass(name)
  }

  private def entries(path: String): Seq[java.net.URL] = {
    val files = if (path.endsWith("*")) new File(path.dropRight(1)).listFiles().toSeq else Seq(new File(path))
    files.map(_.toURI.toURL)
  }

  /** Message and number of rules of the optimizer after the extension was applied in a build without some classes. */
  private def applied(missing: String*): (Option[String], Int) = {
    val loader = new Without(missing.toSet)
    try {
      val kind = loader.loadClass("org.apache.spark.sql.SparkSessionExtensions")
      val extensions = kind.getConstructor().newInstance()
      val ours = loader.loadClass("org.cerebro.spark.CerebroExtensions").getConstructor().newInstance()
      ours.getClass.getMethod("apply", kind).invoke(ours, extensions)
      val rules = kind.getMethods.find(_.getName == "buildOptimizerRules").get.invoke(extensions, null)
      val support = loader.loadClass("org.cerebro.spark.Support$")
      val message = support.getMethod("message").invoke(support.getField("MODULE$").get(null))
      val size = rules.getClass.getMethod("size").invoke(rules).asInstanceOf[Int]
      (Some(message.toString).filter(_ != "None"), size)
    } finally loader.close()
  }

  test("the extension adds its rule in this build") {
    same(applied(), (None, 1))
  }

  private val plans = "org.apache.spark.sql.catalyst.plans.logical"
  private val expressions = "org.apache.spark.sql.catalyst.expressions"

  for (name <- Seq(s"$plans.MapInArrow", s"$plans.Sort", s"$plans.Join", s"$expressions.PythonUDF"))
    test(s"a build without ${name.split('.').last} gets a message and no rule") {
      val (message, rules) = applied(name)
      same(rules, 0)
      val text = message.getOrElse("")
      require(text.contains("supports Apache Spark 4.0 to 4.3"), text)
      require(text.contains(name.split('.').last), text)
    }

  test("a failure in a query leaves its plan and is said once") {
    val loader = new Without(Set.empty)
    try {
      val support = loader.loadClass("org.cerebro.spark.Support$")
      val module = support.getField("MODULE$").get(null)
      val function = loader.loadClass("org.cerebro.spark.SupportSuite$Failing").getConstructor().newInstance()
      val result = support.getMethods.find(_.getName == "orUnchanged").get.invoke(module, "plan", function)
      same(result, "plan")
      same(support.getMethod("isOn").invoke(module), false)
    } finally loader.close()
  }

  test("a build without Spark's UI or its history server has the other features") {
    val missing = Set("org.apache.spark.ui.SparkUITab", "org.apache.spark.ui.WebUIPage", "jakarta.servlet.http.HttpServletRequest")
    val loader = new Without(missing)
    try {
      val plugin = loader.loadClass("org.cerebro.spark.CerebroPlugin").getConstructor().newInstance()
      for (part <- Seq("driverPlugin", "executorPlugin")) require(plugin.getClass.getMethod(part).invoke(plugin) != null)
      val support = loader.loadClass("org.cerebro.spark.Support$")
      val module = support.getField("MODULE$").get(null)
      val step = loader.loadClass("org.cerebro.spark.SupportSuite$Attaching").getConstructor().newInstance()
      support.getMethods.find(_.getName == "guard").get.invoke(module, "the tab", step)
      same(support.getMethod("isOn").invoke(module), true)
    } finally loader.close()
  }

  test("a feature that fails to start is a warning") {
    Support.guard("a feature")(throw new NoClassDefFoundError("org/example/Missing"))
    Support.guard("a feature")(throw new IllegalStateException("broken"))
    same(Support.isOn, true)
  }

  /** The start of the tab, which loads the classes of Spark's UI. */
  class Attaching extends (() => Any) {
    override def apply(): Any = ProgressPages.post(null, null)
  }

  /** A step of the rule in a build where a method has another signature. */
  class Failing extends (() => Any) {
    override def apply(): Any = throw new NoSuchMethodError("copy")
  }
}

/** Advice of the plugin. */
object PluginSuite extends Suite {
  private val ours = classOf[CerebroExtensions].getName

  test("settings with both classes need no advice") {
    same(CerebroDriver.advice(ours), None)
    same(CerebroDriver.advice(s"io.delta.sql.DeltaSparkSessionExtension, $ours"), None)
  }

  test("a plugin without the extension is told the setting") {
    for (extensions <- Seq("", "io.delta.sql.DeltaSparkSessionExtension")) {
      val advice = CerebroDriver.advice(extensions).getOrElse("")
      require(advice.contains(s"must contain $ours") && advice.contains(s"got '$extensions'"), advice)
    }
  }

  test("the plugin has a part in the driver and one in executors") {
    val plugin = new CerebroPlugin
    require(plugin.driverPlugin() != null && plugin.executorPlugin() != null)
  }

  test("extensions can be applied twice") {
    val extensions = new SparkSessionExtensions
    new CerebroExtensions()(extensions)
    new CerebroExtensions()(extensions)
  }
}
