package org.cerebro.spark.ui

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkConf
import org.apache.spark.cerebro.EventLogs
import org.apache.spark.scheduler.{SparkListenerApplicationEnd, SparkListenerExecutorRemoved}
import org.cerebro.spark.{MemorySample, PlannedMemory, ProcessMemory, Suite}

private[spark] object Suites {
  def all: Seq[Suite] = Seq(AdviceSuite, BoardSuite, ContentSuite, MemoryEventsSuite, ReporterSuite, EventSuite)

  def worker(pid: Long, rows: Long = 0, stage: Int = 3, decode: Double = 0, rss: Long = 100): WorkerReport =
    WorkerReport(pid, 7, "inference", stage, 11, rows, PhaseSeconds(decode = decode), 5000, rss, -1)

  def reported(workers: WorkerReport*): WorkersReported = WorkersReported("1", "host", 9000, workers)
}

object AdviceSuite extends Suite {
  private def advised(word: String, seconds: PhaseSeconds, rows: Long = 1): Unit = {
    val text = Advice.of(rows, seconds)
    require(text.contains(word), text)
    require(text.endsWith(".") && !text.contains("NaN"), text)
  }

  test("the phase that dominates has the advice") {
    advised("Decoding takes 60 % of the time", PhaseSeconds(1, 1, 6, 1, 1))
    advised("Starting Python workers takes 80 %", PhaseSeconds(start = 8, compute = 2))
    advised("Opening the network takes 50 %", PhaseSeconds(load = 5, compute = 5))
    advised("Writing results takes 30 %", PhaseSeconds(compute = 7, convert = 3))
    advised("The network takes 90 %", PhaseSeconds(decode = 1, compute = 9))
    advised("No phase dominates", PhaseSeconds(1, 1, 1, 1, 0.5))
  }

  test("without a measurement there is none") {
    advised("No batch has been computed", PhaseSeconds())
    advised("No batch has been computed", PhaseSeconds(load = 1), rows = 0)
  }
}

object BoardSuite extends Suite {
  import Suites._

  private def board(events: WorkersReported*): ProgressBoard = {
    val made = new ProgressBoard
    events.foreach(made.onOtherEvent)
    made
  }

  test("rows and seconds of a stage are the differences of reports") {
    val stages = board(
      reported(worker(1, 10, decode = 1), worker(2, 5, decode = 0.5)),
      reported(worker(1, 30, decode = 4)),
      reported(worker(1, 30, decode = 4))).board.stages
    same(stages.map(stage => (stage.id, stage.rows, stage.seconds.decode)), Seq((3, 35L, 4.5)))
  }

  test("a later process with the same pid counts from zero") {
    val stages = board(reported(worker(1, 10)), reported(worker(1, 4).copy(started = 99))).board.stages
    same(stages.head.rows, 14L)
  }

  test("a worker that serves a second stage adds only what is new") {
    val stages = board(reported(worker(1, 10)), reported(worker(1, 16, stage = 4))).board.stages
    same(stages.map(stage => stage.id -> stage.rows), Seq(4 -> 6L, 3 -> 10L))
  }

  test("searches and servers are no inference stages, and have memory") {
    val content = board(reported(worker(1, 10).copy(role = "hopper"))).board
    same((content.stages, content.memory.map(_.role)), (Nil, Seq("hopper")))
  }

  test("memory is that of living workers, the peak that of the largest") {
    val made = board(
      reported(worker(1, rss = 100), worker(2, rss = 300).copy(planned = 250)),
      reported(worker(2, rss = 0).copy(ended = true)))
    val row = made.board.memory.head
    same((row.workers, row.rss, row.peak, row.planned), (1, 100L, 300L, 250L))
    made.onExecutorRemoved(SparkListenerExecutorRemoved(1, "1", "lost"))
    same((made.board.memory.head.workers, made.board.memory.head.rss, made.board.memory.head.peak), (0, 0L, 300L))
  }

  test("a worker that changes its role counts in the new one") {
    val rows = board(reported(worker(1, rss = 100)), reported(worker(1, rss = 300).copy(role = "hopper"))).board.memory
    same(rows.map(row => (row.role, row.workers, row.rss, row.peak)), Seq(("hopper", 1, 300L, 300L), ("inference", 0, 0L, 100L)))
  }

  test("a worker that is stalled is listed until it goes on or the application ends") {
    val stalled = worker(1).copy(stack = "File a.py")
    same(board(reported(stalled)).board.stalled.map(_.stack), Seq("File a.py"))
    same(board(reported(stalled), reported(worker(1, 1))).board.stalled, Nil)
    val made = board(reported(stalled))
    made.onApplicationEnd(SparkListenerApplicationEnd(1))
    same(made.board.stalled, Nil)
  }

  private def searching(units: UnitReport*): WorkerReport = worker(1).copy(role = "hopper", units = units)

  test("units of a search are updated, and end with their worker") {
    val made = board(reported(searching(UnitReport("c1", "epoch 1", 100, 0))))
    same(made.board.units.map(_.end), Seq(0L))
    made.onOtherEvent(reported(searching(UnitReport("c1", "epoch 1", 100, 900), UnitReport("c2", "epoch 1", 901, 0))))
    same(made.board.units.map(unit => (unit.name, unit.end)), Seq(("c1", 900L), ("c2", 0L)))
    made.onOtherEvent(reported(searching().copy(ended = true)))
    same(made.board.units.map(_.end), Seq(900L, 9000L))
    val lost = board(reported(searching(UnitReport("c1", "epoch 1", 100, 0))))
    lost.onExecutorRemoved(SparkListenerExecutorRemoved(777, "1", "lost"))
    same(lost.board.units.map(_.end), Seq(777L))
  }

  test("the chart has the units of the latest search") {
    def unit(begin: Long, end: Long) = SearchUnit("1", 1, "c1", "", begin, end)
    val (first, second) = (Seq(unit(0, 100), unit(50, 60)), Seq(unit(400200, 0), unit(800000, 800001)))
    same(ProgressBoard.latestSearch(first ++ second), second)
    same(ProgressBoard.latestSearch(Seq(unit(0, 400000), unit(400200, 0))).size, 2)
    same(ProgressBoard.latestSearch(Nil), Nil)
  }

  test("a report after the end of the application counts its rows and no worker") {
    val made = board(reported(worker(1, 10)))
    made.onApplicationEnd(SparkListenerApplicationEnd(1))
    made.onOtherEvent(reported(worker(1, 25), searching(UnitReport("c1", "", 1, 0)).copy(pid = 2)))
    made.onOtherEvent(reported(worker(1, 26).copy(stack = "File a.py")))
    same((made.board.stages.map(_.rows), made.board.stalled), (Seq(26L), Nil))
    same(made.board.memory.map(row => (row.workers, row.rss)), Seq((0, 0L), (0, 0L)))
    same(made.board.units.map(_.end), Seq(9000L))
  }

  test("the last report is sent so that the driver has it") {
    val folder = Files.createTempDirectory("cerebro-last")
    val last = scala.collection.mutable.ListBuffer.empty[Long]
    val pid = ProcessHandle.current().pid()
    val started = ProcessMemory.parseStart(Files.readString(Path.of("/proc/self/stat"))).get
    Files.writeString(folder.resolve(s"$pid.json"), s"""{"role": "inference", "rows": 3, "started_ticks": $started}""")
    val reporter = new WorkerReporter(
      folder, _ => (), workers => last ++= workers.map(_.rows), 60000, Path.of("/proc"), () => Set(pid))
    reporter.start()
    reporter.stop()
    reporter.taskStarted()
    reporter.taskEnded()
    same(last.toSeq, Seq(3L))
    same(Files.list(folder).count(), 0L)
    Files.delete(folder)
  }

  test("the state is bounded") {
    val made = new ProgressBoard(keptStages = 5, keptExecutors = 4, keptUnits = 3)
    for (id <- 1 to 2000) {
      val units = Seq(UnitReport("c", "", id, id))
      made.onOtherEvent(WorkersReported(s"executor$id", "host", id, Seq(worker(id, 1, stage = id).copy(units = units))))
    }
    same(made.board.units.map(_.begin), Seq(1998L, 1999L, 2000L))
    same(made.board.stages.map(_.id), Seq(2000, 1999, 1998, 1997, 1996))
    same(made.board.memory.size, 4)
  }

  test("a rate needs a stage whose times are known") {
    val stage = StageProgress(1, 0, "s", 1000, 3000, 50, PhaseSeconds(), 0)
    same(stage.rate(99000), Some(25.0))
    same(stage.copy(completed = 0).rate(6000), Some(10.0))
    same(stage.copy(submitted = 0).rate(6000), None)
    same(stage.copy(rows = 0).rate(6000), None)
  }

  test("a board survives its text") {
    val content = board(reported(worker(1, 10, decode = 1.5).copy(stack = "a\n\"b\""))).board
    same(Board.parse(content.toJson), Some(content))
    same(Board.parse("{\"other\""), None)
  }
}

object ContentSuite extends Suite {
  private val hostile = "<script>alert('x')</script>&\"quoted\""
  private val stage = StageProgress(4, 1, hostile, 1000, 0, 20, PhaseSeconds(1, 1, 6, 1, 1), 2000)
  private val memory = RoleMemory(hostile, hostile, hostile, 2, 1L << 30, 3L << 30, 2L << 30)
  private val stalled = StalledWorker("1", hostile, 9, 4, 1000, hostile)

  private val unit = SearchUnit(hostile, 9, hostile, hostile, 1000, 0)

  private val regions = MemoryReported(hostile, hostile, 1, Seq(RegionReport(hostile, 2L << 30, -1, 1L << 30)))

  private def html(board: Board): String = TabContent.render(board, (id, attempt) => s"/p/$id/$attempt", 61000).mkString

  test("texts of users are escaped") {
    val text = html(Board(Seq(stage), Seq(memory), Seq(stalled), Seq(unit), Seq(regions)))
    require(!text.contains("<script"), text)
    same("&lt;script".r.findAllIn(text).size, 13)
  }

  test("stages, memory and stacks are shown") {
    val text = html(Board(Seq(stage), Seq(memory), Seq(stalled)))
    for (part <- Seq("href=\"/p/4/1\"", "Decoding takes 60 %", "(running)", "3.00 GiB", "150 %", "since 60 seconds"))
      require(text.contains(part), s"no $part in $text")
    require(!text.contains("NaN") && !text.contains("Infinity"), text)
  }

  test("a search has a bar per unit and a row per worker") {
    val units = Seq(
      SearchUnit("1", 7, "c1", "epoch 1", 1000, 3000),
      SearchUnit("2", 8, "c2", "epoch 1", 2000, 0),
      SearchUnit("1", 7, "c1", "epoch 2", 3000, 3000))
    val text = html(Board(memory = Seq(memory), units = units))
    same("<rect".r.findAllIn(SearchChart.render(units, 61000).mkString).size, 3)
    for (part <- Seq("2 configurations on 2 workers", "3 units in 1.0 min, 1 running", "c1: epoch 1, 2.0 s", "executor 2, 8"))
      require(text.contains(part), s"no $part in $text")
    require(!text.contains("NaN") && !text.contains("Infinity"), text)
    require(!SearchChart.render(Seq(units.last), 3000).mkString.contains("NaN"))
  }

  test("what is not known is said so") {
    val text = html(Board(Seq(stage.copy(seconds = PhaseSeconds(), rows = 0)), Seq(memory.copy(rss = -1, planned = -1))))
    for (part <- Seq("No batch has been computed", "not available", "no plan"))
      require(text.contains(part), s"no $part in $text")
    require(!text.contains("NaN"), text)
    require(html(Board()).contains("No Python worker"))
  }
}

object MemoryEventsSuite extends Suite {
  private val plan = PlannedMemory.parse("cores=2,heap=1000,overhead=100,off_heap=0,python=400,dl=600")

  private def sample(time: Long, peak: Long = 500, executor: String = "1"): MemorySample =
    MemorySample(executor, "host", time, Some(400), 100, peaks = Map("jvm" -> peak))

  test("regions have their plan, and -1 where something is not known") {
    val regions = new MemoryEvents(plan).event(sample(1000)).get.regions
    same(regions.find(_.region == "jvm"), Some(RegionReport("jvm", 1100, 400, 500)))
    same(regions.find(_.region == "storage"), Some(RegionReport("storage", -1, -1, -1)))
    same(regions.exists(_.region == "user"), false)
  }

  test("an event is posted each ten seconds, and if a peak rises") {
    val events = new MemoryEvents(plan)
    def times(samples: MemorySample*): Seq[Long] = samples.flatMap(events.event(_)).map(_.time)
    same(times(sample(0), sample(1000), sample(9999), sample(10000), sample(11000)), Seq(0L, 10000L))
    same(times(sample(12000, peak = 520), sample(13000, peak = 600), sample(14000, peak = 600)), Seq(13000L))
    same(times(sample(15000, executor = "2")), Seq(15000L))
  }

  test("the board keeps the latest of each executor, and the event survives the log") {
    val board = new ProgressBoard(keptExecutors = 2)
    for (executor <- Seq("1", "2", "3", "3")) {
      val event = new MemoryEvents(plan).event(sample(executor.toLong, executor = executor)).get
      same(EventLogs.event(EventLogs.line(event)), event)
      board.onOtherEvent(event)
    }
    same(board.board.regions.map(_.executorId), Seq("2", "3"))
    same(Board.parse(board.board.toJson), Some(board.board))
  }
}

object ReporterSuite extends Suite {
  private def inFolder(body: (Path, Path) => Unit): Unit = {
    val folder = Files.createTempDirectory("cerebro-reporter")
    val proc = Files.createDirectory(folder.resolve("proc"))
    try body(Files.createDirectory(folder.resolve("status")), proc)
    finally Files.walk(folder).sorted(java.util.Comparator.reverseOrder[Path]()).iterator().asScala.foreach(Files.delete)
  }

  private def process(proc: Path, pid: Long, started: Long, kilobytes: Long = 100): Unit = {
    val of = Files.createDirectories(proc.resolve(pid.toString))
    Files.writeString(of.resolve("stat"), s"$pid (a (b) c) S ${Seq.fill(18)("0").mkString(" ")} $started 0 0")
    Files.writeString(of.resolve("status"), s"Name:\tpython\nVmRSS:\t$kilobytes kB\n")
    ()
  }

  private def status(folder: Path, pid: Long, started: Long, rows: Long = 1, updated: Double = 100): Unit = {
    Files.writeString(
      folder.resolve(s"$pid.json"),
      s"""{"role": "inference", "planned_bytes": null, "task_attempt_id": 5, "stage_id": 2, "rows": $rows,
         "seconds": {"start": 0.5, "decode": 1.5}, "updated": $updated, "started_ticks": $started}""")
    ()
  }

  test("a worker is reported with what it wrote and its memory, and once if nothing changes") {
    inFolder { (folder, proc) =>
      process(proc, 41, 9)
      status(folder, 41, 9)
      val reporter = new WorkerReporter(folder, _ => (), _ => (), 60000, proc, () => Set(41L))
      val expected = WorkerReport(41, 9, "inference", 2, 5, 1, PhaseSeconds(start = 0.5, decode = 1.5), 100000, 102400, -1)
      same(reporter.poll(100500), Seq(expected))
      same(reporter.poll(101500), Nil)
      process(proc, 41, 9, kilobytes = 102)
      same(reporter.poll(101500), Nil)
      process(proc, 41, 9, kilobytes = 200)
      same(reporter.poll(101500).map(_.rss), Seq(204800L))
      status(folder, 41, 9, rows = 2)
      same(reporter.poll(102500).map(_.rows), Seq(2L))
    }
  }

  test("files of other executors and of other processes are left out; those of dead processes are deleted") {
    inFolder { (folder, proc) =>
      process(proc, 41, 9)
      process(proc, 42, 9)
      status(folder, 41, 8)
      status(folder, 42, 9)
      status(folder, 43, 9)
      Files.writeString(folder.resolve("43.stack"), "")
      Files.writeString(folder.resolve("readme.txt"), "")
      val reporter = new WorkerReporter(folder, _ => (), _ => (), 60000, proc, () => Set(41L))
      same(reporter.poll(100500), Nil)
      val left = Files.list(folder).iterator().asScala.map(_.getFileName.toString).toSeq.sorted
      same(left, Seq("41.json", "42.json", "readme.txt"))
    }
  }

  test("a unit is reported when it begins and when it ends, and not between") {
    inFolder { (folder, proc) =>
      process(proc, 41, 9)
      def write(updated: Int, units: String): Unit = {
        Files.writeString(
          folder.resolve("41.json"),
          s"""{"role": "hopper", "updated": $updated, "started_ticks": 9, "units": [$units]}""")
        ()
      }
      val reporter = new WorkerReporter(folder, _ => (), _ => (), 60000, proc, () => Set(41L))
      def polled: Seq[UnitReport] = reporter.poll(100500).flatMap(_.units)
      val (begun, ended) = (
        """{"name": "c1", "description": "epoch 1", "begin": 1.5, "end": null}""",
        """{"name": "c1", "description": "epoch 1", "begin": 1.5, "end": 2.5}""")
      write(1, begun)
      same(polled, Seq(UnitReport("c1", "epoch 1", 1500, 0)))
      write(2, begun)
      same(polled, Nil)
      write(3, ended)
      same(polled, Seq(UnitReport("c1", "epoch 1", 1500, 2500)))
      write(4, ended)
      same(polled, Nil)
    }
  }

  test("a worker that ended is reported once as ended") {
    inFolder { (folder, proc) =>
      process(proc, 41, 9)
      status(folder, 41, 9)
      val living = scala.collection.mutable.Set(41L)
      val reporter = new WorkerReporter(folder, _ => (), _ => (), 60000, proc, () => living.toSet)
      reporter.poll(100500)
      living.clear()
      Files.delete(proc.resolve("41/stat"))
      Files.delete(proc.resolve("41/status"))
      Files.delete(proc.resolve("41"))
      status(folder, 41, 9, rows = 3)
      same(reporter.poll(100500).map(worker => (worker.ended, worker.task, worker.rows)), Seq((true, -1L, 3L)))
      same(Files.exists(folder.resolve("41.json")), false)
      same(reporter.poll(100500), Nil)
    }
  }

  test("the stack of a worker without progress is asked for once, and only if it has a handler") {
    inFolder { (folder, proc) =>
      process(proc, 41, 9)
      status(folder, 41, 9)
      var signals = 0
      val stack = folder.resolve("41.stack")
      def signal(pid: Long): Unit = { signals += 1; Files.writeString(stack, s"stack $pid"); () }
      val reporter = new WorkerReporter(folder, _ => (), _ => (), 60000, proc, () => Set(41L), signal)
      same(reporter.poll(161000).map(_.stack), Seq(""))
      same(signals, 0)
      Files.writeString(stack, "former")
      same(reporter.poll(159000), Nil)
      same(reporter.poll(161000).map(_.stack), Seq("stack 41"))
      same(reporter.poll(163000), Nil)
      same(signals, 1)
      status(folder, 41, 9, rows = 2, updated = 164)
      same(reporter.poll(164500).map(_.stack), Seq(""))
    }
  }

  test("texts that are no status are none") {
    for (text <- Seq("", "{", "[]", "null", "{\"role\": 3")) same(WorkerReporter.parse(1, text).exists(_.rows > 0), false)
    same(ProcessMemory.parseStart("1 (x) S"), None)
  }
}

object EventSuite extends Suite {
  import Suites._

  private val start = """{"Event":"SparkListenerApplicationStart","App Name":"a","App ID":"i","Timestamp":1,"User":"u"}"""
  private val unknown = """{"Event":"org.example.Unknown","field":{"a":1}}"""
  private val event = reported(worker(1, 10, decode = 1.5).copy(stack = "File \"a.py\"\n", units = Seq(UnitReport("c", "e", 1, 2))))

  test("an event is read from the log as it was written") {
    same(EventLogs.event(EventLogs.line(event)), event)
    require(EventLogs.line(event).contains("\"Event\":\"org.cerebro.spark.ui.WorkersReported\""))
  }

  test("a message carries the event; other messages are none") {
    same(WorkersMessage.event(WorkersMessage(1, "1", "host", 9000, event.workers).text), Some(event))
    for (text <- Seq("", "{}", "{\"cerebro_memory\":1}", "{\"cerebroWorkers\":1,")) same(WorkersMessage.event(text), None)
  }

  test("the history server has the board of the log, and none for an application without inference") {
    val board = new ProgressBoard
    EventLogs.replay(Seq(start, EventLogs.line(event)), board)
    same(board.board.stages.map(_.rows), Seq(10L))
    same(EventLogs.stored(Seq(start, EventLogs.line(event))).flatMap(Board.parse), Some(board.board))
    same(EventLogs.stored(Seq(start)), None)
  }

  test("a log with events of unknown classes is read") {
    val board = new ProgressBoard
    EventLogs.replay(Seq(start, unknown, EventLogs.line(event), unknown), board)
    same(board.board.stages.map(_.rows), Seq(10L))
  }

  test("the service file names the class") {
    val name = "META-INF/services/org.apache.spark.status.AppHistoryServerPlugin"
    val text = Files.readString(Path.of("src/main/resources", name)).trim
    require(Class.forName(text).getInterfaces.exists(_.getName.endsWith("AppHistoryServerPlugin")), text)
  }

  test("reports need a tab or an event log that has them") {
    def isOn(settings: (String, String)*): Boolean = ProgressReports.isOn(new SparkConf(false).setAll(settings))
    val noUi = "spark.ui.enabled" -> "false"
    same(isOn(), true)
    same(isOn(noUi), false)
    same(isOn(noUi, "spark.eventLog.enabled" -> "true"), true)
    same(isOn("spark.cerebro.ui" -> "False"), false)
    same(isOn("spark.cerebro.ui" -> "maybe"), true)
    same(ProgressReports.advice("false"), None)
    require(ProgressReports.advice("maybe").exists(_.contains("must be true or false, got 'maybe'")))
  }

  test("a stage has the description of its job") {
    val board = new ProgressBoard
    val submitted = """{"Event":"SparkListenerStageSubmitted","Stage Info":{"Stage ID":3,"Stage Attempt ID":0,
      "Stage Name":"collect","Number of Tasks":1,"RDD Info":[],"Parent IDs":[],"Details":"","Submission Time":1000,
      "Accumulables":[],"Resource Profile Id":0},"Properties":{"spark.job.description":"features"}}""".replace("\n", "")
    EventLogs.replay(Seq(submitted, EventLogs.line(event)), board)
    same(board.board.stages.map(stage => (stage.name, stage.submitted)), Seq(("features", 1000L)))
  }
}
