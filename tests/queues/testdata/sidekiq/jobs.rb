# The jobs that Sidekiq's processes run, and where they note it.
require "sidekiq"

NOTES = ENV.fetch("QUEUE_NOTES")
ADDRESS = {url: "redis://127.0.0.1:#{ENV.fetch("QUEUE_PORT")}/0"}

Sidekiq.configure_client { |config| config.redis = ADDRESS }
Sidekiq.configure_server do |config|
  config.redis = ADDRESS
  config.average_scheduled_poll_interval = 0.2
  config.logger.level = Logger::WARN
end

def add_note(what)
  File.open(NOTES, "a") { |notes| notes.write("#{what}\n") }
end

def notes
  File.exist?(NOTES) ? File.readlines(NOTES, chomp: true) : []
end

class Note
  include Sidekiq::Worker

  def perform(what)
    add_note(what)
  end
end

# Third succeeds when it is run the third time.
class Third
  include Sidekiq::Worker
  sidekiq_options retry: 5
  sidekiq_retry_in { 0 }

  def perform
    add_note("third")
    raise "not yet" if notes.count("third") < 3
  end
end

# Broken fails, and is not tried again.
class Broken
  include Sidekiq::Worker
  sidekiq_options retry: 0

  def perform
    add_note("broken")
    raise "broken"
  end
end

# Held takes until somebody notes "release".
class Held
  include Sidekiq::Worker

  def perform
    add_note("held")
    sleep 0.05 until notes.include?("release")
    add_note("let go")
  end
end
