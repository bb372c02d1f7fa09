# Goes through what Sidekiq offers, with processes of its own.
require "tmpdir"

PATIENCE = 60
HERE = File.expand_path(__dir__)
$stdout.sync = true

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

def wait_until(what)
  deadline = now + PATIENCE
  loop do
    got = yield
    return if got == true
    raise "#{what}: still #{got.inspect}" if now > deadline
    sleep 0.05
  end
end

def same(what, got, want)
  raise "#{what}: #{got.inspect}, want #{want.inspect}" if got != want
end

def await_notes(count)
  wait_until("#{count} notes") { notes.size >= count || notes }
end

# Workers are processes of Sidekiq that run until stop.
class Workers
  def initialize
    @running = []
  end

  def start(*arguments)
    pid = Process.spawn("sidekiq", "-r", File.join(HERE, "jobs.rb"), *arguments, out: :err)
    @running << pid
    pid
  end

  # settle waits until so many processes have said that they are there.
  def settle
    wait_until("processes") { Sidekiq::ProcessSet.new.map { |p| p["pid"] }.sort == @running.sort || Sidekiq::ProcessSet.new.size }
  end

  def stop(signal = "KILL")
    @running.each do |pid|
      Process.kill(signal, pid)
      Process.wait(pid)
    end
    @running = []
  end
end

STEPS = {
  "enqueue" => lambda do |_|
    Note.perform_async("one")
    await_notes(1)
    wait_until("it is counted") { Sidekiq::Stats.new.processed >= 1 || Sidekiq::Stats.new.processed }
  end,
  "concurrent workers" => lambda do |workers|
    workers.start("-c", "5")
    workers.settle
    Sidekiq::Client.push_bulk("class" => Note, "args" => (0...300).map { |i| [i.to_s] })
    await_notes(300)
    same("each once", notes.map(&:to_i).sort, (0...300).to_a)
  end,
  "delay" => lambda do |_|
    begun = now
    Note.perform_in(1.5, "late")
    await_notes(1)
    raise "it came early" if now - begun < 1.5
  end,
  "retry" => lambda do |_|
    Third.perform_async
    # By itself Sidekiq waits at least ten seconds; all that wait are tried at once.
    wait_until("it has run three times") { Sidekiq::RetrySet.new.retry_all; notes.size >= 3 || notes }
    wait_until("none is tried again") { Sidekiq::RetrySet.new.size == 0 || Sidekiq::RetrySet.new.size }
    same("runs", notes.size, 3)
  end,
  "fail" => lambda do |_|
    Broken.perform_async
    wait_until("it is dead") { Sidekiq::DeadSet.new.size == 1 || notes }
    same("the reason", Sidekiq::DeadSet.new.first["error_message"], "broken")
    Sidekiq::DeadSet.new.clear
  end,
  "scan, find and delete" => lambda do |_|
    id = Note.perform_in(3600, "never")
    same("found", Sidekiq::ScheduledSet.new.find_job(id).jid, id)
    same("scanned", Sidekiq::ScheduledSet.new.scan("never").count, 1)
    Sidekiq::ScheduledSet.new.find_job(id).delete
    same("deleted", Sidekiq::ScheduledSet.new.size, 0)
  end,
  "pause and resume" => lambda do |workers|
    # A process that is quiet takes no more jobs.
    Sidekiq::ProcessSet.new.each(&:quiet!)
    wait_until("quiet") { Sidekiq::ProcessSet.new.all?(&:stopping?) || Sidekiq::ProcessSet.new.size }
    sleep 2.5 # as long as one that waits for a job may go on to
    3.times { |i| Note.perform_async(i.to_s) }
    sleep 1
    same("none ran", notes, [])
    same("three wait", Sidekiq::Queue.new.size, 3)
    workers.stop("TERM")
    workers.start("-c", "5")
    await_notes(3)
  end,
  "a worker ends, its job goes on" => lambda do |workers|
    workers.settle
    Held.perform_async
    await_notes(1)
    # What is not done in time goes back to its queue.
    workers.stop("TERM")
    same("one waits", Sidekiq::Queue.new.size, 1)
    workers.start("-c", "5")
    await_notes(2)
    add_note("release")
    wait_until("it is done") { notes.last == "let go" || notes }
    same("runs", notes, ["held", "held", "release", "let go"])
  end,
  "priorities" => lambda do |workers|
    workers.stop("TERM")
    %w[low default high].each { |queue| 2.times { Note.set(queue: queue).perform_async(queue) } }
    workers.start("-c", "1", "-q", "high", "-q", "default", "-q", "low")
    await_notes(6)
    same("the order", notes, %w[high high default default low low])
  end,
}

# In the short flow go those that start no further process.
SHORT = ["enqueue", "delay", "retry", "fail", "scan, find and delete"].freeze

def run
  workers = Workers.new
  workers.start("-c", "5", "-t", "1")
  (ARGV.first == "short" ? STEPS.slice(*SHORT) : STEPS).each do |name, step|
    File.write(NOTES, "")
    begin
      step.call(workers)
    rescue StandardError => e
      puts "failed #{name}: #{e.full_message(highlight: false)}"
      return 1
    end
    puts "ok #{name}"
  end
  0
ensure
  workers&.stop
end

status = Dir.mktmpdir do |dir|
  ENV["QUEUE_PORT"] = ARGV.fetch(1)
  ENV["QUEUE_NOTES"] = File.join(dir, "notes")
  require_relative "jobs"
  require "sidekiq/api"
  run
end
exit status
