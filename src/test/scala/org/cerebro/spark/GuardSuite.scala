package org.cerebro.spark

import java.util.concurrent.{CountDownLatch, TimeUnit}

/** Decisions of the memory guard: the limit, the victim, retries, and which tasks wait for which. */
object GuardSuite extends Suite {
  private val none: Long => Boolean = _ => false

  private def worker(pid: Long, task: Long, rss: Long, role: String = "", planned: Option[Long] = None, shared: Long = 0) =
    WorkerMemory(pid, rss, shared = Some(shared), task = Some(task), role = role, planned = planned)

  test("the newest task above its share is chosen, and not the largest") {
    val workers = Seq(worker(1, 10, 900), worker(2, 12, 600), worker(3, 11, 700), worker(4, 13, 400))
    same(MemoryVictim.choose(workers, 3000, 0, Some(500), none).map(_.task), Some(12L))
  }

  test("tasks within their plans are never chosen") {
    val workers = Seq(worker(1, 10, 500), worker(2, 12, 480))
    same(MemoryVictim.choose(workers, 900, 0, Some(500), none), None)
    same(MemoryVictim.choose(Seq(worker(1, 10, 900, planned = Some(1000))), 100, 0, Some(5), none), None)
  }

  test("without a plan the share is equal in what other processes leave") {
    val workers = Seq(worker(1, 10, 400), worker(2, 12, 200))
    same(MemoryVictim.choose(workers, 1000, 400, None, none), Some(MemoryVictim(10, 400, 300, Seq(1))))
    same(MemoryVictim.choose(Seq(worker(1, 10, 700)), 1000, 400, None, none).map(_.planned), Some(600L))
    same(MemoryVictim.choose(Seq(worker(1, 10, 1)), 100, 400, None, none).map(_.planned), Some(0L))
  }

  test("hoppers, serving backends and barrier tasks are never chosen") {
    val workers = Seq(worker(1, 10, 900), worker(2, 12, 900, "hopper"), worker(3, 13, 900, "serving"), worker(4, 14, 900))
    same(MemoryVictim.choose(workers, 100, 0, Some(5), _ == 14).map(_.task), Some(10L))
    same(MemoryVictim.choose(workers.drop(1), 100, 0, Some(5), _ == 14), None)
  }

  test("two processes of a task count together, and both are ended") {
    val workers = Seq(worker(1, 10, 300), worker(2, 10, 300), worker(3, 11, 400))
    same(MemoryVictim.choose(workers, 100, 0, Some(500), none), Some(MemoryVictim(10, 600, 500, Seq(1, 2))))
    val half = worker(1, 10, 300, "hopper")
    same(MemoryVictim.choose(half +: workers.drop(1), 100, 0, Some(500), none), None)
  }

  test("shared pages and idle workers do not count") {
    val idle = WorkerMemory(9, 5000)
    same(MemoryVictim.choose(Seq(worker(1, 10, 900, shared = 500), idle), 100, 0, Some(500), none), None)
  }

  private val gib = 1L << 30

  test("a worker is ended before a container's limit and at one of the setting") {
    same(MemoryLimit(8 * gib, isContainer = true).trigger, 8 * gib - 8 * gib / 20)
    same(MemoryLimit(2 * gib, isContainer = true).trigger, 2 * gib - gib / 8)
    same(MemoryLimit(gib / 2, isContainer = true).trigger, gib / 2 - gib / 16)
    same(MemoryLimit(64 * gib, isContainer = true).trigger, 64 * gib - gib / 2)
    same(MemoryLimit(8 * gib, isContainer = false).trigger, 8 * gib)
  }

  test("the memory is read more often the sooner the limit may be reached") {
    val limit = MemoryLimit(8 * gib, isContainer = false)
    same(limit.untilReached(gib, 0), 1000L)
    same(limit.untilReached(7 * gib, 0), 1000L)
    same(limit.untilReached(7 * gib, 2 * gib), 250L)
    same(limit.untilReached(15 * gib / 2, 0), 100L)
    same(limit.untilReached(9 * gib, 0), 100L)
    same((limit.isNear(7 * gib), limit.isNear(15 * gib / 2)), (false, true))
    same(MemoryLimit(gib, isContainer = false).untilReached(gib / 2, 0), 500L)
  }

  test("the smaller one of both limits counts") {
    same(MemoryLimit.of(None, None), (None, None))
    same(MemoryLimit.of(None, Some(gib)), (Some(MemoryLimit(gib, isContainer = true)), None))
    same(MemoryLimit.of(Some(1), Some(gib)), (Some(MemoryLimit(1, isContainer = false)), None))
    same(MemoryLimit.of(Some(gib), Some(gib)), (Some(MemoryLimit(gib, isContainer = true)), None))
    val (limit, said) = MemoryLimit.of(Some(2 * gib), Some(gib))
    same(limit, Some(MemoryLimit(gib, isContainer = true)))
    require(said.exists(_.contains(s"must be at most the container's limit of $gib bytes, got ${2 * gib}")), said)
  }

  test("a limit without room for one worker is said") {
    val limit = MemoryLimit(gib, isContainer = false)
    same(MemoryLimit.advice(limit, gib / 2, None), None)
    same(MemoryLimit.advice(limit, gib / 2, Some(gib / 4)), None)
    require(MemoryLimit.advice(limit, gib / 2, Some(gib)).exists(_.contains("above the 1536 MiB of its JVM and one planned worker, got 1024 MiB")))
  }

  private def kill(partition: Int, alone: Boolean = false) =
    MemoryKill("1", 7, 3, partition, 900L << 20, 300L << 20, 2 * gib, 2 * gib, alone)

  test("a partition is tried again within its budget, and fails with the sentence") {
    val kills = new MemoryKills(2)
    same(Seq(kill(0), kill(0), kill(1)).map(kills.record), Seq(None, None, None))
    same((kills.of(3, 0), kills.of(3, 1), kills.of(4, 0)), (2, 1, 0))
    val reason = kills.record(kill(0)).get
    require(reason.startsWith("PythonWorkerMemoryExceeded: ") && reason.contains("ended 3 times"), reason)
    require(reason.contains("at most 300 MiB") && reason.contains("got 900 MiB") && reason.contains("2.0 GiB"), reason)
    kills.forget(3)
    same(kills.of(3, 0), 0)
  }

  test("a task that ran alone is not tried again") {
    require(new MemoryKills(5).record(kill(0, alone = true)).exists(_.contains("ran alone")))
  }

  test("messages between executors and the driver are told apart") {
    val kills = new MemoryKills(0)
    var cancelled = Seq.empty[(Int, String)]
    def receive(text: String): Option[Integer] = kills.receive(text, (stage, reason) => cancelled = cancelled :+ (stage -> reason))
    same(receive(kill(5).toJson), None)
    same(cancelled.map(_._1), Seq(3))
    same(receive(MemoryKill.question(3, 5)), Some(1))
    same(receive(MemoryKill.question(3, 6)), Some(0))
    same(receive(MemorySample("1", "h", 0, None, 0).toJson), None)
    same((MemorySample.parse(kill(5).toJson), MemoryKill.parse(kill(5).toJson)), (None, Some(kill(5))))
  }

  test("retries wait longer each time, and not for ever") {
    same(Seq(0, 1, 2, 3, 40).map(RunningTasks.backoff), Seq(0L, 500L, 1000L, 2000L, 8000L))
  }

  /** Starts a task in a thread; the latch opens once it may run. */
  private def begun(admission: TaskAdmission, task: Long, stage: Int = 0, barrier: Boolean = false, alone: Boolean = false): CountDownLatch = {
    val latch = new CountDownLatch(1)
    val thread = new Thread(() => {
      admission.start(task, stage, barrier, alone)
      latch.countDown()
    })
    thread.setDaemon(true)
    thread.start()
    latch
  }

  private def runs(latch: CountDownLatch): Boolean = latch.await(20, TimeUnit.SECONDS)

  private def waits(latch: CountDownLatch): Boolean = !latch.await(300, TimeUnit.MILLISECONDS)

  private val long = 60000L

  test("a task that is to run alone waits for those that run, and new ones wait for it") {
    val admission = new TaskAdmission(long, none)
    Seq(1L, 2L).foreach(task => require(runs(begun(admission, task))))
    val alone = begun(admission, 3, alone = true)
    require(waits(alone))
    val later = begun(admission, 4)
    admission.end(1)
    require(waits(alone) && waits(later))
    admission.end(2)
    require(runs(alone) && waits(later))
    same(admission.isAlone(3), true)
    admission.end(3)
    require(runs(later))
    same(admission.isAlone(4), false)
  }

  test("two tasks that are to run alone take turns") {
    val admission = new TaskAdmission(long, none)
    val first = begun(admission, 1, alone = true)
    require(runs(first))
    val second = begun(admission, 2, alone = true)
    require(waits(second))
    admission.end(1)
    require(runs(second))
  }

  test("tasks of a barrier stage never wait, and nothing waits for them") {
    val admission = new TaskAdmission(long, none)
    require(runs(begun(admission, 1, barrier = true)))
    require(runs(begun(admission, 2, alone = true)))
    require(runs(begun(admission, 3, barrier = true)))
    same((admission.isBarrier(1), admission.isBarrier(2), admission.isAlone(2)), (true, false, false))
  }

  test("nothing waits for jobs that hold their slots for as long as they live") {
    val admission = new TaskAdmission(long, _ == 1)
    require(runs(begun(admission, 1)))
    require(runs(begun(admission, 2, alone = true)))
    same(admission.isAlone(2), true)
  }

  test("fewer tasks of a stage start after one was ended, and those of others as before") {
    val admission = new TaskAdmission(long, none)
    Seq(1L, 2L, 3L).foreach(task => require(runs(begun(admission, task, stage = 7))))
    admission.reduce(7)
    admission.end(3)
    val next = begun(admission, 4, stage = 7)
    require(waits(next))
    require(runs(begun(admission, 5, stage = 8)))
    admission.end(1)
    require(runs(next))
  }

  test("at least one task of a stage runs") {
    val admission = new TaskAdmission(long, none)
    Seq.fill(3)(admission.reduce(7))
    require(runs(begun(admission, 1, stage = 7)))
    require(waits(begun(admission, 2, stage = 7)))
  }

  test("a wait ends after its bound, so that tasks that wait for each other go on") {
    val admission = new TaskAdmission(400, none)
    require(runs(begun(admission, 1)))
    val alone = begun(admission, 2, alone = true)
    val later = begun(admission, 3)
    require(runs(alone) && runs(later))
    same(admission.isAlone(2), false)
  }

  test("a task that is cancelled while it waits leaves the place") {
    val admission = new TaskAdmission(long, none)
    require(runs(begun(admission, 1)))
    admission.start(2, 0, isBarrier = false, wantsAlone = true, isCancelled = () => true)
    val later = begun(admission, 3)
    require(waits(later))
    admission.end(2)
    require(runs(later))
  }

  test("a retry waits for its backoff") {
    var now = 0L
    val admission = new TaskAdmission(long, none, () => now) {
      override protected def pause(): Unit = now += 100
    }
    admission.start(1, 0, isBarrier = false, wantsAlone = true, notBefore = 1000)
    same(now, 1000L)
  }
}
