package org.cerebro.spark

import java.nio.file.{Files, Path}
import java.nio.file.attribute.PosixFilePermissions

/** Parsing of `/proc` and of control groups, and the rows of the table function. */
object MemorySuite extends Suite {

  private val status =
    "Name:\tpython3.11\nUmask:\t0022\nPPid:\t4968\nVmPeak:\t   99999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t 112 kB\n"

  /** Files of a folder, by their path in it. */
  private def tree(files: (String, String)*): Path = {
    val root = Files.createTempDirectory("cerebro-memory-suite-")
    files.foreach { case (name, text) =>
      val file = root.resolve(name)
      Files.createDirectories(file.getParent)
      Files.writeString(file, text)
    }
    root
  }

  test("the status of a process has its resident set and its peak") {
    same(ProcessMemory.parseStatus(status), Some(ProcessMemory.Status("python3.11", 1024 * 1024, 2048 * 1024)))
    same(ProcessMemory.parseStatus(status).map(_.isPython), Some(true))
  }

  test("a process that ended and was not waited for has no memory") {
    same(ProcessMemory.parseStatus("Name:\tpython\nState:\tZ (zombie)\n"), Some(ProcessMemory.Status("python", 0, 0)))
    same(ProcessMemory.parseStatus(""), None)
  }

  test("the start of a process is found behind a name with spaces and parentheses") {
    val fields = (4 to 22).mkString(" ")
    same(ProcessMemory.parseStart(s"12 (a) b (c)) S $fields 23 24"), Some(22L))
    same(ProcessMemory.parseStart("12 (a) S 4"), None)
  }

  test("the proportional set is not the part of it that is dirty") {
    same(ProcessMemory.bytes("[rollup]\nRss: 4 kB\nPss_Dirty: 1 kB\nPss:   2 kB\n", "Pss"), Some(2048L))
  }

  test("descendants are found through all threads, and a process that has ended has none") {
    val proc = tree(
      "1/task/1/children" -> "2 ",
      "1/task/9/children" -> "3 4 ",
      "3/task/3/children" -> "5",
      "2/task/2/children" -> "")
    val memory = new ProcessMemory(proc)
    same(memory.withDescendants(memory.children(1)).toSet, Set(2L, 3L, 4L, 5L))
    same(memory.isAvailable, false)
    same(memory.proportional(4), None)
  }

  test("a container of version 2 sees its group at the mount") {
    val mount = tree(
      "memory.max" -> "1000000\n",
      "memory.current" -> "900000\n",
      "memory.stat" -> "anon 5\ninactive_file 100000\nactive_file 200000\n",
      "memory.events" -> "low 0\noom 4\noom_kill 3\n",
      "memory.pressure" -> "some avg10=1.25 avg60=0.00 avg300=0.00 total=1\nfull avg10=9.00 avg60=0 avg300=0 total=1\n")
    val group = ControlGroup.find(Some("0::/kubepods/pod1/abc\n"), mount).get
    same((group.version, group.limit), (2, 1000000L))
    same((group.usage, group.kills, group.pressure), (Some(600000L), Some(3L), Some(1.25)))
  }

  test("the smallest limit of a group and those above it counts") {
    val mount = tree("a/b/memory.max" -> "max\n", "a/memory.max" -> "500\n", "a/b/c/memory.max" -> "700\n")
    same(ControlGroup.find(Some("0::/a/b/c\n"), mount).map(_.limit), Some(500L))
  }

  test("version 1 has its own names") {
    val mount = tree(
      "memory/a/memory.limit_in_bytes" -> "4096\n",
      "memory/a/memory.usage_in_bytes" -> "4000\n",
      "memory/a/memory.stat" -> "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 700\n",
      "memory/a/memory.oom_control" -> "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
      "memory/memory.limit_in_bytes" -> "9223372036854771712\n")
    val group = ControlGroup.find(Some("9:name=systemd:/\n4:cpu,memory:/a\n0::/\n"), mount).get
    same((group.version, group.limit, group.usage, group.kills, group.pressure), (1, 4096L, Some(3000L), Some(2L), None))
  }

  test("without a limit or without control groups there is no container") {
    val mount = tree("memory/memory.limit_in_bytes" -> "9223372036854771712\n", "memory.max" -> "max\n")
    same(ControlGroup.find(Some("4:memory:/\n0::/\n"), mount), None)
    same(ControlGroup.find(None, mount), None)
    same(ControlGroup.find(Some("0::/../../etc\n"), mount), None)
  }

  private val sample = MemorySample(
    executor = "3",
    host = "node",
    time = 1000,
    jvmRss = Some(700),
    heapUsed = 400,
    storage = Some(50),
    execution = Some(60),
    workers = Seq(
      WorkerMemory(11, 300, Some(120), Some(180), 310, 5, Some(7), "inference", Some(250)),
      WorkerMemory(12, 200, None, None, 220, 6, None)),
    groupVersion = 2,
    groupLimit = Some(2000),
    groupUsage = Some(1500),
    groupKills = Some(1),
    groupPressure = Some(2.5),
    peaks = Map("python" -> 900L, "container" -> 1600L),
    samplerCpu = 12)

  test("a sample arrives as it was sent") {
    // The start of a worker matters in its executor alone.
    val workers = sample.workers.map(_.copy(started = 0))
    same(MemorySample.parse(sample.toJson), Some(sample.copy(workers = workers)))
    same(MemorySample.parse("""{"other": 1}"""), None)
  }

  test("shared pages count once in a sum and twice in resident sets") {
    same((sample.pythonRss, sample.python, sample.shared), (500L, 320L, Some(180L)))
    same((sample.totalRss, sample.total), (Some(1200L), Some(1020L)))
  }

  test("rows have the plan beside the measurement") {
    val plan = PlannedMemory.parse("cores=2,heap=600,overhead=100,off_heap=0,storage=70,core=80,user=90,python=200,dl=400")
    val rows = MemoryTable.entries(sample, plan).map(row => row.region -> ((row.predicted, row.measured, row.peak))).toMap
    same(rows("jvm"), (Some(700L), Some(700L), None))
    same(rows("storage"), (Some(70L), Some(50L), None))
    same(rows("user"), (Some(90L), None, None))
    same(rows("python"), (Some(600L), Some(320L), Some(900L)))
    same(rows("task"), (Some(300L), Some(300L), None))
    same(rows("total"), (Some(1300L), Some(1020L), None))
    same(rows("worker 11"), (Some(250L), Some(300L), Some(310L)))
    same(rows.contains("worker 12"), false)
    same(rows("container"), (Some(2000L), Some(1500L), Some(1600L)))
  }

  test("without a plan nothing is predicted, and without processes nothing is measured") {
    val bare = MemorySample("1", "mac", 0, None, 5)
    val rows = MemoryTable.entries(bare, PlannedMemory.parse(""))
    same(rows.flatMap(_.predicted), Nil)
    same(rows.flatMap(row => row.measured.map(row.region -> _)), Seq("heap" -> 5L))
    require(rows.find(_.region == "python").get.measure.startsWith("not available"))
  }

  test("a sample is sent if something changed, and now and then if nothing did") {
    same(MemoryMetrics.differs(sample, sample.copy(time = 2000)), false)
    same(MemoryMetrics.differs(sample, sample.copy(time = 11000)), true)
    same(MemoryMetrics.differs(sample, sample.copy(workers = sample.workers.take(1))), true)
    same(MemoryMetrics.differs(sample, sample.copy(jvmRss = Some(700L + (1 << 21)))), true)
  }

  test("the status of a worker is read, unless an earlier process of its id wrote it") {
    val text = """{"role": "hopper", "planned_bytes": null, "task_attempt_id": 4, "rows": 3, "started_ticks": 77}"""
    same(WorkerStatus.parse(text, Some(77L)), Some(WorkerStatus("hopper", None, Some(4L))))
    same(WorkerStatus.parse(text, Some(78L)), None)
    same(WorkerStatus.parse("{", Some(77L)), None)
  }

  test("the folder of statuses is of this user alone, and loses the files of ended processes") {
    val proc = tree("5/status" -> "")
    val folder = tree().resolve("workers")
    WorkerStatus.ask(folder)
    same(PosixFilePermissions.toString(Files.getPosixFilePermissions(folder)), "rwx------")
    Seq("5.json", "6.json", "6.stack").foreach(name => Files.writeString(folder.resolve(name), "{}"))
    WorkerStatus.clean(folder, proc)
    same(folder.toFile.list().toSeq, Seq("5.json"))
  }

  test("this process is measured, where there is a /proc") {
    val sampler = new MemorySampler("1", "here", None)
    val taken = sampler.sample()
    same(taken.jvmRss.isDefined, sampler.isAvailable)
    require(taken.heapUsed > 0)
    same(taken.storage, None)
  }
}
